"""The scripts that let shells complete commands."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from windsprite.cli import main

ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_windsprite
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("completion")
    with pytest.MonkeyPatch.context() as patch:
        written = {}
        for shell in ("bash", "zsh", "fish"):
            path = folder / shell
            with path.open("w") as file:
                patch.setattr("sys.stdout", file)
                assert main(["completion", shell]) == 0
            written[shell] = path
    return written


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_of_its_shell(scripts: dict[str, Path], shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n", scripts[shell]], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_knows_commands_and_options(scripts: dict[str, Path], shell: str) -> None:
    text = scripts[shell].read_text()
    words = ("snapshot", "bench", "message-expiry", "durability", "persisted", "server")
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["pi"], {"ping"}),
        (["st"], {"stats", "stream"}),
        (["stream", "cr"], {"create"}),
        (["topic", "create", "orders", "events", "--message-e"], {"--message-expiry"}),
        (["topic", "create", "orders", "events", "--durability", "p"], {"persisted"}),
        (["bench", ""], {"produce", "consume"}),
        (["--output", "j"], {"json"}),
        (["completion", "z"], {"zsh"}),
    ],
)
def test_bash_completes(scripts: dict[str, Path], words: list[str], expected: set[str]) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    done = subprocess.run(
        ["bash", "-c", ASK, "bash", scripts["bash"], "windsprite", *words],
        capture_output=True,
        check=True,
        text=True,
    )
    assert set(done.stdout.split()) == expected
    assert done.stderr == ""


ASK_ZSH = """
_arguments() { state=cmds }
_describe() { print -l -- ${(P)2} }
compdef() { print -- compdef "$@" }
fpath=("$1")
autoload -Uz _windsprite
"""


@pytest.fixture
def zsh(scripts: dict[str, Path], tmp_path: Path) -> Callable[[str], str]:
    """Runs zsh with the script as `_windsprite`; gives what it writes."""
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    shutil.copy(scripts["zsh"], tmp_path / "_windsprite")

    def run(code: str) -> str:
        command = ["zsh", "-f", "-c", ASK_ZSH + code, "zsh", tmp_path]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout

    return run


def test_zsh_completes_with_the_script_in_its_path(zsh: Callable[[str], str]) -> None:
    completing = "typeset -A compstate; words=(windsprite ''); CURRENT=2;"
    first, second = (zsh(completing + "_windsprite;" * times) for times in (1, 2))
    assert "ping:See that a server answers, without logging in." in first.splitlines()
    assert second == first * 2


def test_zsh_completes_with_the_script_sourced(zsh: Callable[[str], str]) -> None:
    assert zsh('source "$1/_windsprite"') == "compdef _cyclopts_windsprite windsprite\n"


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "tcsh" in capsys.readouterr().err
