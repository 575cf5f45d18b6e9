"""Groups, offsets and clients on the command line, with a real server."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from support.command_line import CommandLine, start_program
from support.server_process import server_process

_numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server_process(tmp_path_factory.mktemp("server")) as process:
        yield f"iggy://iggy:iggy@{process.wait_ready()['tcp']}"


@pytest.fixture
def cli(server: str, capsysbinary: pytest.CaptureFixture[bytes]) -> CommandLine:
    return CommandLine(server, capsysbinary)


@pytest.fixture
def stream(cli: CommandLine) -> str:
    """A stream with a topic `t` of three partitions."""
    name = f"stream-{next(_numbers)}"
    cli.ok("stream", "create", name)
    cli.ok("topic", "create", name, "t", "--partitions", "3")
    return name


Fill = Callable[[str, int], None]


@pytest.fixture
def fill(cli: CommandLine, tmp_path: Path) -> Fill:
    """Give each partition of a stream's topic so many more messages."""
    batches = count()

    def fill(stream: str, number: int) -> None:
        batch = next(batches)
        for partition in range(3):
            lines = tmp_path / "lines"
            lines.write_text("".join(f"{partition}-{batch}-{n}\n" for n in range(number)))
            cli.ok("send", stream, "t", "--partition", str(partition), "--file", str(lines))

    return fill


def everything(batch: int, number: int) -> list[str]:
    return [f"{partition}-{batch}-{n}" for partition in range(3) for n in range(number)]


def members(cli: CommandLine, stream: str, group: str) -> list[list[int]]:
    """The partitions of each member; none if there is no such group."""
    result = cli("--output", "json", "group", "get", stream, "t", group)
    return [member["partitions"] for member in result.json["members"]] if result.out else []


def wait_for(get: Callable[[], Any], wanted: Any) -> None:
    deadline = time.monotonic() + 20
    while (found := get()) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


# --- group -----------------------------------------------------------------------------------


def test_the_life_of_a_group(cli: CommandLine, stream: str) -> None:
    created = cli.ok("--output", "json", "group", "create", stream, "t", "billing").json
    assert created == {
        "id": 0,
        "partitions_count": 3,
        "members_count": 0,
        "name": "billing",
        "members": [],
    }
    cli.ok("group", "create", stream, "t", "audit")
    assert cli.ok("group", "list", stream, "t").text.splitlines() == [
        "id\tname\tmembers\tpartitions",
        "0\tbilling\t0\t3",
        "1\taudit\t0\t3",
    ]
    assert cli.ok("group", "get", stream, "t", "billing").text.splitlines() == [
        "id\t0",
        "name\tbilling",
        "partitions of the topic\t3",
        "members\t0",
    ]
    again = cli("group", "create", stream, "t", "audit")
    assert again.code == 1
    assert "exists" in again.err
    cli.ok("group", "delete", stream, "t", "0")
    gone = cli("group", "get", stream, "t", "billing")
    assert (gone.code, gone.out) == (1, b"")
    assert "there is no group 'billing'" in gone.err
    assert f"windsprite group list {stream} t" in gone.err
    assert [row["name"] for row in cli.ok("--output", "json", "group", "list", stream, "t").json]


# --- poll --group ----------------------------------------------------------------------------


def test_a_group_goes_on_where_it_was(cli: CommandLine, stream: str, fill: Fill) -> None:
    poll = ("poll", stream, "t", "--group", "g", "--raw")
    fill(stream, 5)
    first = cli.ok(*poll, "--count", "7").text.splitlines()
    rest = cli.ok(*poll, "--all").text.splitlines()
    assert len(first) == 7
    assert sorted(first + rest) == everything(0, 5)
    assert cli.ok(*poll, "--all").out == b""
    fill(stream, 2)
    assert sorted(cli.ok(*poll).text.splitlines()) == everything(1, 2)
    assert members(cli, stream, "g") == []


def test_a_group_may_begin_elsewhere(cli: CommandLine, stream: str, fill: Fill) -> None:
    fill(stream, 5)
    poll = ("poll", stream, "t", "--group", "g", "--raw", "--from")
    assert cli.ok(*poll, "offset:4", "--all").text.split() == ["0-0-4", "1-0-4", "2-0-4"]
    assert cli.ok(*poll, "last", "--all").text.split() == ["0-0-4", "1-0-4", "2-0-4"]
    assert sorted(cli.ok(*poll, "first", "--all").text.split()) == everything(0, 5)
    assert cli.ok(*poll, "next", "--all").out == b""


def test_a_group_by_its_number(cli: CommandLine, stream: str, fill: Fill) -> None:
    fill(stream, 1)
    result = cli("poll", stream, "t", "--group", "0")
    assert result.code == 1
    assert "there is no group 0" in result.err
    cli.ok("group", "create", stream, "t", "g")
    assert sorted(cli.ok("poll", stream, "t", "--group", "0", "--raw").text.split()) == everything(
        0, 1
    )


def test_what_is_not_there(cli: CommandLine, stream: str) -> None:
    result = cli("poll", stream, "none", "--group", "g")
    assert (result.code, result.out) == (1, b"")
    assert "there is no topic 'none'" in result.err


def test_a_closed_pipe_ends_the_membership(
    server: str, cli: CommandLine, stream: str, fill: Fill
) -> None:
    fill(stream, 2000)
    with start_program(server, "poll", stream, "t", "--group", "g", "--all") as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        reader.stdout.readline()
        reader.stdout.close()
        assert reader.wait(20) == 0
        assert reader.stderr.read() == b""
    assert members(cli, stream, "g") == []


@contextmanager
def following(server: str, stream: str, file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A member that goes on until it is ended; what it reads is in the file."""
    with file.open("wb") as out:
        process = start_program(
            server, "poll", stream, "t", "--group", "g", "--raw", "--follow", stdout=out
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_members_come_and_go(
    server: str, cli: CommandLine, stream: str, fill: Fill, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("a", "b")]

    def read() -> list[str]:
        return sorted(line for file in files for line in file.read_text().splitlines())

    with ExitStack() as stack:
        first = stack.enter_context(following(server, stream, files[0]))
        wait_for(lambda: members(cli, stream, "g"), [[0, 1, 2]])
        fill(stream, 10)
        wait_for(lambda: files[0].read_text().count("\n"), 30)

        stack.enter_context(following(server, stream, files[1]))
        wait_for(lambda: sorted(map(len, members(cli, stream, "g"))), [1, 2])
        fill(stream, 10)
        wait_for(lambda: len(read()), 60)
        assert files[1].read_text() != ""

        first.send_signal(signal.SIGINT)
        assert first.wait(20) == 130
        assert members(cli, stream, "g") == [[0, 1, 2]]
        fill(stream, 10)
        wait_for(lambda: len(read()), 90)
        assert read() == sorted(line for batch in range(3) for line in everything(batch, 10))
    assert cli.ok("poll", stream, "t", "--group", "g", "--all").out == b""


def test_a_member_whose_group_is_deleted_ends(
    server: str, cli: CommandLine, stream: str, tmp_path: Path
) -> None:
    with following(server, stream, tmp_path / "out") as process:
        wait_for(lambda: members(cli, stream, "g"), [[0, 1, 2]])
        cli.ok("group", "delete", stream, "t", "g")
        assert process.wait(20) == 1
        assert process.stderr is not None
        assert b"group" in process.stderr.read()


# --- offset ----------------------------------------------------------------------------------


def offsets(cli: CommandLine, stream: str, *owner: str) -> list[int | None]:
    rows = cli.ok("--output", "json", "offset", "get", stream, "t", *owner).json
    return [row["stored_offset"] for row in rows]


@pytest.mark.parametrize("owner", [("--consumer", "reader"), ("--group", "g")])
def test_the_life_of_an_offset(
    cli: CommandLine, stream: str, fill: Fill, owner: tuple[str, str]
) -> None:
    fill(stream, 10)
    if owner[0] == "--group":
        cli.ok("group", "create", stream, "t", "g")
    assert offsets(cli, stream, *owner) == [None, None, None]
    cli.ok("offset", "set", stream, "t", "6", "--partition", "1", *owner)
    assert cli.ok("offset", "get", stream, "t", *owner).text.splitlines() == [
        "partition\tstored\tnewest\tbehind",
        "0\t\t9\t",
        "1\t6\t9\t3",
        "2\t\t9\t",
    ]
    assert cli.ok("--output", "json", "offset", "get", stream, "t", "--partition", "1", *owner).json
    read = cli.ok("poll", stream, "t", "--raw", "--all", *owner).text.split()
    assert [line for line in read if line[0] == "1"] == ["1-0-7", "1-0-8", "1-0-9"]
    assert offsets(cli, stream, *owner) == [9, 9, 9]

    cli.ok("offset", "set", stream, "t", "0", "--partition", "2", *owner)
    cli.ok("offset", "delete", stream, "t", "--partition", "0", *owner)
    assert offsets(cli, stream, *owner) == [None, 9, 0]
    cli.ok("offset", "delete", stream, "t", *owner)
    assert offsets(cli, stream, *owner) == [None, None, None]
    for arguments in (["delete", stream, "t"], ["set", stream, "t", "10", "--partition", "0"]):
        result = cli("offset", *arguments, *owner)
        assert result.code == 1
        assert "offset" in result.err
    assert members(cli, stream, "g") == []


def test_offsets_of_what_is_not_there(cli: CommandLine, stream: str) -> None:
    for arguments in (
        ["get", stream, "t", "--group", "g"],
        ["set", stream, "t", "0", "--partition", "0", "--group", "g"],
        ["delete", stream, "t", "--group", "g"],
    ):
        result = cli("offset", *arguments)
        assert (result.code, result.out) == (1, b"")
        assert "there is no group 'g'" in result.err
    result = cli("offset", "get", stream, "none", "--consumer", "c")
    assert "there is no topic 'none'" in result.err
    assert cli("offset", "get", stream, "t", "--partition", "3", "--consumer", "c").code == 1


def test_offsets_of_a_group_at_work_are_left_to_its_members(
    server: str, cli: CommandLine, stream: str, fill: Fill, tmp_path: Path
) -> None:
    fill(stream, 3)
    with following(server, stream, tmp_path / "out"):
        wait_for(lambda: members(cli, stream, "g"), [[0, 1, 2]])
        wait_for(lambda: offsets(cli, stream, "--group", "g"), [2, 2, 2])
        result = cli("offset", "set", stream, "t", "0", "--partition", "0", "--group", "g")
        assert result.code == 1
        assert "has members" in result.err
        assert members(cli, stream, "g") == [[0, 1, 2]]
    assert offsets(cli, stream, "--group", "g") == [2, 2, 2]


# --- client ----------------------------------------------------------------------------------


def test_clients(server: str, cli: CommandLine, stream: str, tmp_path: Path) -> None:
    with following(server, stream, tmp_path / "out"):
        wait_for(lambda: members(cli, stream, "g"), [[0, 1, 2]])
        clients = cli.ok("--output", "json", "client", "list").json
        (number,) = [each["client_id"] for each in clients if each["consumer_groups_count"]]
        header, *rows = [line.split("\t") for line in cli.ok("client", "list").text.splitlines()]
        assert header == ["client", "user", "transport", "address", "groups"]
        assert [row[4] for row in rows if row[0] == str(number)] == ["1"]
        facts, memberships = cli.ok("client", "get", str(number)).text.split("\n\n")
        assert f"client\t{number}\n" in facts
        assert memberships.startswith("stream\ttopic\tgroup\n")
        details = cli.ok("--output", "json", "client", "get", str(number)).json
        assert [each["group_id"] for each in details["memberships"]] == [0]
    missing = cli("client", "get", "4294967295")
    assert missing.code == 1
    assert "there is no client 4294967295" in missing.err
