"""The command line without any server."""

import inspect
import json
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from support.command_line import CommandLine, program
from support.terminal import run_in_terminal
from windsprite.cli import main
from windsprite.cli.application import application


@pytest.fixture(autouse=True)
def no_server_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WINDSPRITE_SERVER", raising=False)


@pytest.fixture
def nowhere() -> str:
    """Where nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    return f"iggy://iggy:secret-word@127.0.0.1:{port}"


@pytest.fixture
def nobody(nowhere: str, capsysbinary: pytest.CaptureFixture[bytes]) -> CommandLine:
    return CommandLine(nowhere, capsysbinary)


def documented() -> dict[str, list[str]]:
    """All commands, and the paragraphs of their help."""
    texts = {}
    for name in application:
        if not name.startswith("-"):
            command = application[name]
            groups = {f"{name} {each}": command[each] for each in command if each[0] != "-"}
            for path, each in (groups or {name: command}).items():
                text = inspect.getdoc(each.default_command)
                assert text, path
                texts[path] = text.split("\n\n")
    return texts


COMMANDS = documented()


def test_help_names_commands_options_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for word in {path.split()[0] for path in COMMANDS}:
        assert f"│ {word} " in text
    for word in ("--server", "--output", "--debug", "WINDSPRITE_SERVER", "Exit codes", "130"):
        assert word in text
    assert "windsprite poll greetings all --from first --all --raw" in text


@pytest.mark.parametrize(
    ("columns", "said"), [(0, "0"), (1, None), (2, None), (80, "1"), (1, "00")]
)
def test_help_comes_to_an_end_in_any_terminal(columns: int, said: str | None) -> None:
    arguments = ("topic", "create", "--help")
    assert run_in_terminal("windsprite.cli", *arguments, columns=columns, said=said) == 0


def test_the_commands_are_those_that_scripts_rely_on() -> None:
    assert list(COMMANDS) == [
        *("ping", "send", "poll"),
        *(f"stream {verb}" for verb in ("list", "get", "create", "rename", "purge", "delete")),
        *(f"topic {verb}" for verb in ("list", "get", "create", "update")),
        *(f"topic {verb}" for verb in ("trim", "purge", "delete")),
        *(f"group {verb}" for verb in ("list", "get", "create", "delete")),
        *(f"offset {verb}" for verb in ("get", "set", "delete")),
        *(f"user {verb}" for verb in ("list", "get", "create", "rename", "status")),
        *(f"user {verb}" for verb in ("password", "permissions", "delete")),
        *(f"token {verb}" for verb in ("list", "create", "delete")),
        *(f"client {verb}" for verb in ("list", "get")),
        *("cluster", "me", "stats", "options", "snapshot"),
        *("bench produce", "bench consume", "completion"),
    ]


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_tells_all_about_itself(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main([*path.split(), "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for paragraph in COMMANDS[path]:
        assert " ".join(paragraph.split()) in text


def test_commands_are_listed_with_the_first_line_of_their_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = subprocess.run(program("--help"), capture_output=True, text=True, check=True, timeout=60)
    listed = " ".join(done.stdout.replace("│", " ").split())
    for path, paragraphs in COMMANDS.items():
        if " " not in path:
            assert f"{path} {' '.join(paragraphs[0].split())}" in listed


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("send", ["STREAM", "TOPIC", "file", "key", "partition", "batch", "create", "64,000,000"]),
        ("poll", ["from", "count", "all", "follow", "partition", "consumer", "raw", "offset:N"]),
        ("poll", ["--group", "member"]),
        ("stream", ["list", "get", "create", "rename", "purge", "delete"]),
        ("topic create", ["partitions", "durability", "segment-size", "message-expiry", "NAME"]),
        ("group get", ["STREAM", "TOPIC", "GROUP"]),
        ("offset set", ["OFFSET", "--partition", "--consumer", "--group"]),
        ("options", ["SCOPE", "topic", "stream", "user"]),
        ("snapshot", ["FILE"]),
    ],
)
def test_help_of_commands(
    command: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert [word for word in words if word not in text] == []


def test_help_fits_on_a_terminal_of_80_columns() -> None:
    """Lines of paragraphs and of examples are shown as they are; only the first line is wrapped."""
    too_long = [
        f"{path}: {line}"
        for path, (_, *paragraphs) in COMMANDS.items()
        for paragraph in paragraphs
        for line in paragraph.splitlines()
        if len(line) > 80
    ]
    assert too_long == []


def test_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == version("windsprite")


@pytest.mark.parametrize(
    "arguments",
    [
        "fly",
        "ping --bogus",
        "--output xml ping",
        "--server",
        "--server http://a:b@c ping",
        "--server iggy://a:b@host:99999 ping",
        "--server 127.0.0.1 me",
        "stream get",
        "stream get 4294967296",
        "topic create s t --partitions 1001",
        "topic create s t --partitions x",
        "topic create s t --message-expiry soon",
        "topic create s t --segment-size 5",
        "topic create s t --durability maybe",
        "topic update s t",
        "send s",
        "send s t --key a --partition 1",
        "send s t --key=",
        "send s t --partition -1",
        "send s t --file",
        "send s t --file --create",
        "send s t --batch 0",
        "send s t --partitions 3",
        "poll s t --from middle",
        "poll s t --count 0",
        "poll s t --all --follow",
        "poll s t --all --count 3",
        "poll s t --group g --consumer c",
        "poll s t --group g --partition 0",
        "group get s t",
        "group create s t",
        "offset get s t",
        "offset get s t --consumer c --group g",
        "offset set s t 5 --consumer c",
        "offset set s t -5 --partition 0 --consumer c",
        "offset set s t 18446744073709551616 --partition 0 --consumer c",
        "offset delete s t",
        "client get",
        "client get x",
        "client get 4294967296",
        "options everything",
        "poll s t --raw --output json",
    ],
)
def test_a_bad_command_line_ends_with_2(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err != ""
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    "command",
    [
        *("ping", "cluster", "stream list", "poll s t --follow", "send s t --file {file}"),
        *("poll s t --group g", "group list s t", "offset get s t --group g", "client list"),
    ],
)
def test_without_a_server_commands_fail_at_once(
    command: str, nobody: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    file.write_text("line\n")
    result = nobody(*command.format(file=file).split())
    assert (result.code, result.out) == (1, b"")
    assert "cannot connect to 127.0.0.1:" in result.err
    assert "Connection refused" in result.err
    assert "hint: " in result.err
    assert "secret-word" not in result.err
    assert "Traceback" not in result.err


def test_debug_shows_where_an_error_comes_from_and_no_secret(nobody: CommandLine) -> None:
    result = nobody("--debug", "stream", "list")
    assert result.code == 1
    assert "Traceback" in result.err
    assert "secret-word" not in result.err


def test_options_may_stand_behind_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ping", "--server", "http://a:b@c"]) == 2
    assert "invalid connection string" in capsys.readouterr().err


def test_the_environment_names_the_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WINDSPRITE_SERVER", "http://a:b@c")
    assert main(["ping"]) == 2
    assert "invalid connection string" in capsys.readouterr().err


def test_a_file_that_cannot_be_read(nobody: CommandLine, tmp_path: Path) -> None:
    result = nobody("send", "s", "t", "--file", str(tmp_path / "missing"))
    assert result.code == 1
    assert "cannot read" in result.err
    assert "No such file" in result.err


def without_modules(*names: str) -> str:
    return (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({names!r}))\n"
        "from windsprite.cli import main\n"
        "sys.exit(main(['ping']))\n"
    )


def test_a_missing_extra_says_how_to_install_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", without_modules("cyclopts")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'windsprite[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_loads_only_what_it_needs() -> None:
    code = (
        "import json, sys\n"
        "from windsprite.cli import main\n"
        "main(['--server', 'iggy://a:b@127.0.0.1:1', 'ping'])\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    loaded = set(json.loads(done.stdout))
    heavy = {"rich", "pydantic", "structlog", "uvloop", "windsprite_server", "markdown_it"}
    assert loaded & heavy == set()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_does_not_wait_for_the_client(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from windsprite.cli import main\n"
        f"main({arguments!r})\n"
        "heavy = {'asyncio', 'ssl', 'construct', 'windsprite.client', 'windsprite.cli.views'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_the_module_can_be_run() -> None:
    done = subprocess.run(
        program("--version"), capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout.strip()) == (0, version("windsprite"))
