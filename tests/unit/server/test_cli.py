import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from support.ids import SeededIds
from support.terminal import run_in_terminal
from windsprite_server.cli import main
from windsprite_server.core.data_directory import open_data_directory


@pytest.fixture(autouse=True)
def no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("WINDSPRITE_", "IGGY_")):
            monkeypatch.delenv(name)


def test_help_names_the_commands_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for word in ("run", "config", "check", "Exit codes"):
        assert word in text


def test_help_of_run_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    text = capsys.readouterr().out
    for option in ("config", "data-dir", "tcp-address", "ready-file", "log-format", "log-level"):
        assert f"--{option}" in text


@pytest.mark.parametrize(
    ("columns", "said"), [(0, "0"), (1, None), (2, None), (80, "1"), (1, "00")]
)
def test_help_comes_to_an_end_in_any_terminal(columns: int, said: str | None) -> None:
    arguments = ("run", "--help")
    assert run_in_terminal("windsprite_server", *arguments, columns=columns, said=said) == 0


def test_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == version("windsprite")


def without_module(name: str, code: str) -> "subprocess.CompletedProcess[str]":
    """Runs code where a package is not installed."""
    program = f"import sys\nsys.modules[{name!r}] = None\n{code}"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )


CONFIG = (
    "from importlib.metadata import entry_points\n"
    "(script,) = entry_points(group='console_scripts', name='windsprite-server')\n"
    "sys.exit(script.load()(['config']))"
)
EMBEDDED = "import windsprite_server\nwindsprite_server.embedded"


@pytest.mark.parametrize("name", ["cyclopts", "pydantic", "pydantic_settings"])
def test_a_missing_extra_says_how_to_install_it(name: str) -> None:
    done = without_module(name, CONFIG)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"windsprite-server: the server needs the package {name}\n"
        "  hint: pip install 'windsprite[server]'\n"
    )


@pytest.mark.parametrize("name", ["argon2", "psutil", "pydantic", "pydantic_settings", "structlog"])
def test_a_missing_extra_is_named_to_programs(name: str) -> None:
    done = without_module(name, EMBEDDED)
    assert done.stderr.endswith(
        f"ModuleNotFoundError: the server needs the package {name}: "
        "pip install 'windsprite[server]'\n"
    )


@pytest.mark.parametrize("code", [CONFIG, EMBEDDED])
@pytest.mark.parametrize("name", ["windsprite_server.settings", "tomllib"])
def test_a_module_that_no_extra_has_is_not_taken_for_one(name: str, code: str) -> None:
    done = without_module(name, code)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert f"'{name}'" in done.stderr or f"import of {name} halted" in done.stderr
    assert "windsprite[server]" not in done.stderr


def test_help_does_not_load_the_server() -> None:
    program = (
        "import sys\n"
        "from windsprite_server.cli import main\n"
        "main(['run', '--help'])\n"
        "heavy = {'pydantic', 'structlog', 'argon2', 'psutil', 'uvloop', 'asyncio', 'construct'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_the_module_can_be_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "windsprite_server", "--version"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip()) == (0, version("windsprite"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["run", "--bogus"],
        ["run", "--log-level", "loud"],
        ["run", "positional"],
        ["config", "--format", "xml"],
        ["check"],
        ["check", "a", "b"],
    ],
)
def test_a_bad_command_line_ends_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err != ""


def test_config_shows_settings_with_their_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "windsprite.toml"
    file.write_text("[node]\nid = 3\n")
    monkeypatch.setenv("WINDSPRITE_NODE__ZONE", "eu-1")
    assert main(["config", "--config", str(file)]) == 0
    text = capsys.readouterr().out
    assert tomllib.loads(text)["node"]["id"] == 3
    assert "id = 3  # file" in text
    assert 'zone = "eu-1"  # environment' in text

    assert main(["config", "--config", str(file), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["node.id"]["origin"] == "file"


def test_config_hides_secrets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IGGY_ROOT_USERNAME", "admin")
    monkeypatch.setenv("IGGY_ROOT_PASSWORD", "correct-horse")
    assert main(["config"]) == 0
    text = capsys.readouterr().out
    assert "password is set" in text
    assert "horse" not in text


@pytest.mark.parametrize("command", ["run", "config"])
def test_bad_settings_end_with_2_and_a_line_each(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WINDSPRITE_TCP__ADRESS", "127.0.0.1:1")
    monkeypatch.setenv("WINDSPRITE_LOG__LEVEL", "loud")
    assert main([command]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("windsprite-server: environment variable WINDSPRITE_TCP__ADRESS is")
    assert lines[1].startswith("windsprite-server: environment variable WINDSPRITE_LOG__LEVEL: ")


def test_options_of_run_are_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--tcp-address", "nowhere"]) == 2
    assert "tcp.address: 'nowhere' needs a port" in capsys.readouterr().err


def test_check_of_an_unusable_directory_ends_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(tmp_path / "missing")]) == 3
    (tmp_path / "identity.json").write_text('{"format": 99}')
    assert main(["check", str(tmp_path)]) == 3
    errors = capsys.readouterr().err
    assert "No such file or directory" in errors
    assert "format 99" in errors


def test_check_of_a_first_start_that_was_cut_short(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(tmp_path)]) == 0
    assert "no server has used it yet" in capsys.readouterr().out
    assert main(["check", str(tmp_path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) is None
    with open_data_directory(tmp_path, ids=SeededIds()) as data:
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert main(["check", str(tmp_path)]) == 3
        assert "stop it first" in capsys.readouterr().err
    assert main(["check", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert str(data.identity.cluster_id) in text
    assert "journal     not made yet" in text
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("arguments", [["config"], ["config", "--format", "json"], ["check", "."]])
def test_output_that_nobody_takes(tmp_path: Path, arguments: list[str]) -> None:
    program = [sys.executable, "-m", "windsprite_server", *arguments]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe, Path("/dev/full").open("wb") as full:
        left, failed = (
            subprocess.run(
                program,
                cwd=tmp_path,
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                timeout=60,
            )
            for stdout in (pipe, full)
        )
    assert (left.returncode, left.stderr) == (0, "")
    assert (failed.returncode, failed.stderr) == (
        1,
        "windsprite-server: cannot write to standard output: No space left on device\n",
    )
