"""What pages and help tell people to type is understood."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.pages import ROOT, blocks, name_of, pages
from windsprite.cli import main
from windsprite_server.cli import application as server_application

# In a block; also behind a pipe.
COMMAND = re.compile(r"^(?:[^`\n]*\| )?(?:\.venv/bin/)?(windsprite(?:-server)? .+)$", re.MULTILINE)
IN_DOCSTRING = re.compile(r"^ {4}(.+)$", re.MULTILINE)


def told() -> Iterator[tuple[str, str]]:
    """Commands that stand in pages or in help, and where."""
    for page in pages():
        for block in blocks(page):
            if block.language == "sh":
                yield from ((block.page, command) for command in COMMAND.findall(block.text))
    for module in ROOT.glob("sdk/windsprite/cli/*.py"):
        lines = "\n".join(IN_DOCSTRING.findall(module.read_text(encoding="utf-8")))
        yield from ((name_of(module), command) for command in COMMAND.findall(lines))


TOLD = list(dict.fromkeys(told()))


def words_of(command: str) -> list[str]:
    """The words of a command, without what is for the shell."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|>;")
    lexer.whitespace_split = True
    words = list(lexer)
    ends = (at for at, word in enumerate(words) if word in {"|", ">", ";"})
    return words[: next(ends, len(words))]


def test_there_are_some() -> None:
    places = {place for place, _ in TOLD}
    assert places >= {
        "README.md",
        "docs/groups.md",
        "docs/users.md",
        "sdk/windsprite/cli/polling.py",
    }
    assert len(TOLD) > 20


@pytest.mark.parametrize(("place", "command"), TOLD)
def test_commands_in_pages_are_understood(
    place: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program, *words = words_of(command)
    if program == "windsprite-server":
        server_application.parse_args(words, exit_on_error=False)
        return
    monkeypatch.chdir(tmp_path)
    for file in ("events.txt", "shop.txt"):
        (tmp_path / file).write_text("a secret\n")
    (tmp_path / "typed").write_text("a secret\na secret\n")
    nowhere = "127.0.0.1:1"
    words = [re.sub(r"@[^?]+", f"@{nowhere}", word) if "://" in word else word for word in words]
    monkeypatch.setenv("WINDSPRITE_SERVER", f"iggy://iggy:iggy@{nowhere}")
    with (tmp_path / "typed").open() as typed:
        monkeypatch.setattr("sys.stdin", typed)
        code = main(words)
    error = capsys.readouterr().err
    if words[0] == "completion":  # needs no server
        assert code == 0, error
        return
    assert code == 1, error
    # So it got as far as to look for the server.
    assert "Connection refused" in error or "cannot read ca.pem" in error
