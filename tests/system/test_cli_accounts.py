"""User and token commands on a real server."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from support.command_line import CommandLine, Result, program, run_program
from support.server_process import server_process

_numbers = count(1)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server_process(tmp_path_factory.mktemp("server")) as process:
        yield process.wait_ready()["tcp"]


@pytest.fixture
def cli(address: str, capsysbinary: pytest.CaptureFixture[bytes]) -> CommandLine:
    return CommandLine(f"iggy://iggy:iggy@{address}", capsysbinary)


@pytest.fixture
def secret(tmp_path: Path) -> str:
    """A file that holds the password `secret`."""
    file = tmp_path / "password"
    file.write_text("secret\n")
    return str(file)


@pytest.fixture
def user(cli: CommandLine, secret: str) -> str:
    """The name of a new user whose password is `secret`."""
    name = f"user-{next(_numbers)}"
    cli.ok("user", "create", name, "--password-file", secret)
    return name


def logs_in(address: str, user: str, password: str) -> bool:
    result = run_program(f"iggy://{user}:{password}@{address}", "me")
    assert result.code in (0, 1)
    return result.code == 0


def as_json(cli: CommandLine, *arguments: str) -> object:
    return cli.ok("--output", "json", *arguments).json


def test_the_life_of_a_user(cli: CommandLine, address: str, secret: str) -> None:
    created = cli.ok(
        *("--output", "json", "user", "create", "ada", "--password-file", secret),
        *("--grant", "read_servers,read_users", "--grant", "7/3:send_messages"),
    ).json
    assert (created["username"], created["status"]) == ("ada", "active")
    assert created["permissions"] == {
        "global": ["read_servers", "read_users"],
        "streams": [
            {
                "stream_id": 7,
                "granted": [],
                "topics": [{"topic_id": 3, "granted": ["send_messages"]}],
            }
        ],
    }
    assert as_json(cli, "user", "get", str(created["id"])) == created
    facts, table = cli.ok("user", "get", "ada").text.split("\n\n")
    assert "status\tactive\n" in facts
    assert table.splitlines() == [
        "stream\ttopic\tmay",
        "*\t*\tread_servers, read_users",
        "7\t3\tsend_messages",
    ]
    assert logs_in(address, "ada", "secret")

    assert cli.ok("user", "rename", "ada", "lovelace").out == b""
    cli.ok("user", "status", "lovelace", "inactive")
    rows = [line.split("\t")[:3] for line in cli.ok("user", "list").text.splitlines()]
    assert rows[:2] == [["id", "name", "status"], ["0", "iggy", "active"]]
    assert [str(created["id"]), "lovelace", "inactive"] in rows
    assert not logs_in(address, "lovelace", "secret")
    cli.ok("user", "status", "lovelace", "active")
    assert logs_in(address, "lovelace", "secret")

    cli.ok("user", "delete", "lovelace")
    result = cli("user", "get", "lovelace")
    assert (result.code, result.out) == (1, b"")
    assert "there is no user 'lovelace'" in result.err
    assert "user list" in result.err
    assert cli("user", "delete", "lovelace").code == 1
    assert cli("user", "delete", "iggy").code == 1


def test_permissions_by_names(cli: CommandLine, user: str) -> None:
    streams = [f"{user}-{number}" for number in range(2)]
    ids = []
    for stream in streams:
        ids.append(cli.ok("--output", "json", "stream", "create", stream).json["id"])
        for topic in ("events", "logs"):
            cli.ok("topic", "create", stream, topic)
    cli.ok(
        *("user", "permissions", user, "--grant", "poll_messages"),
        *("--grant", f"{streams[1]}/logs:all", "--grant", f"{streams[0]}:read_stream"),
    )
    user_now = cli.ok("--output", "json", "user", "get", user).json
    assert user_now["permissions"] == {
        "global": ["poll_messages"],
        "streams": [
            {"stream_id": ids[0], "granted": ["read_stream"], "topics": []},
            {
                "stream_id": ids[1],
                "granted": [],
                "topics": [
                    {
                        "topic_id": 1,
                        "granted": ["manage_topic", "read_topic", "poll_messages", "send_messages"],
                    }
                ],
            },
        ],
    }
    for grant, complaint in (
        ("missing:read_stream", "there is no stream 'missing'"),
        (f"{streams[0]}/missing:all", "there is no topic 'missing'"),
    ):
        result = cli("user", "permissions", user, "--grant", grant)
        assert result.code == 1
        assert complaint in result.err
    assert as_json(cli, "user", "get", user) == user_now
    cli.ok("user", "permissions", user, "--none")
    assert cli.ok("--output", "json", "user", "get", user).json["permissions"] is None


@pytest.mark.parametrize(
    "arguments",
    [
        ["user", "permissions", "iggy"],
        ["user", "permissions", "iggy", "--none", "--grant", "all"],
        ["user", "permissions", "iggy", "--grant", "fly"],
        ["user", "status", "iggy", "asleep"],
        ["user", "create", "ada", "secret"],
        ["user", "password", "iggy", "old", "new"],
        ["token", "create", "t", "--expiry", "soon"],
    ],
)
def test_bad_usage(cli: CommandLine, arguments: list[str]) -> None:
    result = cli(*arguments)
    assert (result.code, result.out) == (2, b"")
    assert result.err


def test_passwords_from_a_pipe(address: str, user: str) -> None:
    def as_root(*arguments: str, data: bytes) -> Result:
        return run_program(f"iggy://iggy:iggy@{address}", *arguments, data=data)

    assert as_root("user", "create", f"{user}-2", data=b"second\n").code == 0
    assert logs_in(address, f"{user}-2", "second")
    words = ("user", "create", f"{user}-3", "--password-file", "-")
    assert as_root(*words, data=b"another\n").code == 0
    assert logs_in(address, f"{user}-3", "another")
    assert as_root("user", "password", user, data=b"secret\nthird\n").code == 0
    assert logs_in(address, user, "third")
    assert not logs_in(address, user, "secret")
    wrong = as_root("user", "password", user, data=b"wrong-one\nfourth-one\n")
    assert wrong.code == 1
    assert "wrong-one" not in wrong.err
    assert as_root("user", "password", user, data=b"third\n").code == 2
    short = as_root("user", "password", user, data=b"third\nxy\n")
    assert short.code == 1
    assert "3 to 100 bytes" in short.err
    assert logs_in(address, user, "third")


def test_passwords_are_asked_for_on_a_terminal(address: str, user: str) -> None:
    typing = (
        "import os, pty, sys\n"
        "answers = sys.argv[1].split(',')\n"
        "child, terminal = pty.fork()\n"
        "if child == 0:\n"
        "    os.execv(sys.argv[2], sys.argv[2:])\n"
        "seen = b''\n"
        "while True:\n"
        "    try:\n"
        "        seen += os.read(terminal, 1024)\n"
        "    except OSError:\n"
        "        break\n"
        "    if answers and seen.endswith(b'word: ') or seen.endswith(b'again: '):\n"
        "        os.write(terminal, answers.pop(0).encode() + b'\\n')\n"
        "        seen += b'|'\n"
        "sys.stdout.buffer.write(seen)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    command = program("--server", f"iggy://iggy:iggy@{address}", "user", "password", user)
    done = subprocess.run(
        [sys.executable, "-c", typing, "secret,fourth,fourth", *command],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for question in (b"current password: |", b"new password: |", b"new password, again: |"):
        assert question in done.stdout
    assert b"secret" not in done.stdout
    assert b"fourth" not in done.stdout
    assert b"has its new password" in done.stdout
    assert logs_in(address, user, "fourth")


def test_the_life_of_a_token(
    address: str, user: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    cli = CommandLine(f"iggy://{user}:secret@{address}", capsysbinary)
    token = cli.ok("token", "create", "ci", "--raw").text
    assert (len(token), token[-1]) == (69, "\n")
    quoted = token.strip().replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    assert run_program(f"iggy://{quoted}@{address}", "user", "get", user).code == 0
    created = cli.ok("--output", "json", "token", "create", "brief", "--expiry", "1h").json
    assert created["name"] == "brief"
    assert cli.ok("token", "create", "x").text.splitlines()[0] == "name\tx"
    listed = cli.ok("--output", "json", "token", "list").json
    assert [(item["name"], item["expiry"] > 0) for item in listed] == [
        ("brief", True),
        ("ci", False),
        ("x", False),
    ]
    text = cli.ok("token", "list").text
    assert "ci\tnever\n" in text
    assert token.strip() not in text
    result = cli("token", "create", "ci")
    assert (result.code, result.out) == (1, b"")
    assert "exists" in result.err
    cli.ok("token", "delete", "ci")
    assert cli("token", "delete", "ci").code == 1
    refused = run_program(f"iggy://{quoted}@{address}", "me")
    assert refused.code == 1
    assert quoted not in refused.err
