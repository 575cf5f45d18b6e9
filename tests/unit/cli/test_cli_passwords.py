"""Where passwords come from."""

import io
from pathlib import Path

import pytest

from windsprite.cli.errors import CommandError, UsageError
from windsprite.cli.passwords import read_password


def pipe(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch, *typed: str) -> list[str]:
    """What is typed, one line for each question; returns the questions."""
    lines = list(typed)
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        if not lines:
            raise EOFError
        return lines.pop(0)

    monkeypatch.setattr("sys.stdin", Terminal(io.BytesIO()))
    monkeypatch.setattr("getpass.getpass", answer)
    return asked


@pytest.mark.parametrize(
    ("data", "password"),
    [
        (b"secret\n", "secret"),
        (b"secret", "secret"),
        (b"secret\r\n", "secret"),
        (b" two words \nand more\n", " two words "),
        ("gehe\u00edm\n".encode(), "gehe\u00edm"),
    ],
)
def test_a_password_is_the_first_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, password: str
) -> None:
    file = tmp_path / "password"
    file.write_bytes(data)
    assert read_password(file, "password") == password
    for place in (None, Path("-")):
        pipe(monkeypatch, data)
        assert read_password(place, "password") == password


def test_two_passwords_are_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, b"one\ntwo\n")
    assert [read_password(None, "x"), read_password(Path("-"), "x")] == ["one", "two"]
    with pytest.raises(UsageError, match="there is no new password"):
        read_password(None, "new password")


@pytest.mark.parametrize("data", [b"", b"\n", b"\xff\n"])
def test_what_is_no_password_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    file = tmp_path / "password"
    file.write_bytes(data)
    pipe(monkeypatch, data)
    for place in (file, None):
        with pytest.raises(UsageError, match="password"):
            read_password(place, "password")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="missing"):
        read_password(tmp_path / "missing", "password")


def test_on_a_terminal_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = terminal(monkeypatch, "secret", "new", "new")
    assert read_password(None, "current password") == "secret"
    assert read_password(None, "new password", is_new=True) == "new"
    assert asked == ["current password: ", "new password: ", "new password, again: "]


def test_what_was_typed_in_two_ways_is_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch, "secret", "sceret")
    with pytest.raises(UsageError, match="two ways") as caught:
        read_password(None, "password", is_new=True)
    assert "sceret" not in str(caught.value)
    terminal(monkeypatch)
    with pytest.raises(UsageError, match="there is no password"):
        read_password(None, "password")
