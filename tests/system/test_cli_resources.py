"""System, stream and topic commands on a real server."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import windsprite
from support.command_line import CommandLine
from support.server_process import server_process

_numbers = count(1)

DEAD = "127.0.0.1:1"
ZONE = "eu-1"


@dataclass(frozen=True, slots=True)
class Server:
    address: str
    ready: dict[str, Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    environment = {
        "WINDSPRITE_CLUSTER__NAME": "hounds",
        "WINDSPRITE_NODE__NAME": "fast one",
        "WINDSPRITE_NODE__ID": "3",
        "WINDSPRITE_NODE__ZONE": ZONE,
    }
    with server_process(tmp_path_factory.mktemp("server"), environment=environment) as process:
        ready = process.wait_ready()
        yield Server(ready["tcp"], ready)


@pytest.fixture
def cli(server: Server, capsysbinary: pytest.CaptureFixture[bytes]) -> CommandLine:
    return CommandLine(f"iggy://iggy:iggy@{server.address}", capsysbinary)


@pytest.fixture
def stream(cli: CommandLine) -> str:
    """The name of a new stream."""
    name = f"stream-{next(_numbers)}"
    cli.ok("stream", "create", name)
    return name


def facts(text: str) -> dict[str, str]:
    """The names and values of a plain result."""
    lines = text.partition("\n\n")[0].splitlines()
    return dict(line.split("\t") for line in lines)


def test_ping_needs_no_login(server: Server, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    for credentials in ("iggy:iggy@", "somebody:else@", ""):
        prefix = "iggy://" if credentials else ""
        cli = CommandLine(f"{prefix}{credentials}{server.address}", capsysbinary)
        assert facts(cli.ok("ping").text)["server"] == server.address
    answer = cli.ok("ping", "--output", "json").json
    assert answer["server"] == server.address
    assert 0 < answer["milliseconds"] < 10_000


def test_cluster_skips_a_dead_server(
    server: Server, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    cli = CommandLine(f"iggy://iggy:iggy@{DEAD},{server.address}", capsysbinary)
    shown = facts(cli.ok("cluster").text)
    assert shown == {
        "name": "hounds",
        "id": server.ready["cluster_id"],
        "leader": f"fast one at {server.address}",
        "epoch": "1",
    }


def test_cluster_as_json(cli: CommandLine, server: Server) -> None:
    host, _, port = server.address.rpartition(":")
    metadata = cli.ok("--output", "json", "cluster").json
    node = metadata["nodes"][0]
    assert UUID(node["identity"]["instance_id"]).int != 0
    assert metadata == {
        "name": "hounds",
        "nodes": [node],
        "cluster_id": server.ready["cluster_id"],
        "leader_epoch": 1,
        "followers_serve_reads": metadata["followers_serve_reads"],
        "trailer_error": None,
        "leader": node,
    }
    assert (node["name"], node["host"], node["tcp_port"]) == ("fast one", host, int(port))
    assert (node["role"], node["status"]) == ("leader", "healthy")
    identity = node["identity"]
    assert (identity["node_id"], identity["generation"], identity["zone"]) == (3, 1, ZONE)


def test_me(cli: CommandLine) -> None:
    me = cli.ok("--output", "json", "me").json
    assert (me["user_id"], me["transport"], me["memberships"]) == (0, "tcp", [])
    assert me["address"].startswith("127.0.0.1:")
    assert facts(cli.ok("me").text)["transport"] == "tcp"


def test_stats(cli: CommandLine, stream: str) -> None:
    cli.ok("topic", "create", stream, "t", "--partitions", "3")
    stats = cli.ok("--output", "json", "stats").json
    assert stats["process_id"] > 0
    assert stats["partitions_count"] >= 3
    assert all(isinstance(stats[name], int) for name in stats if name.endswith("_count"))
    assert facts(cli.ok("stats").text)["partitions"] == str(stats["partitions_count"])


def test_a_wrong_password(server: Server, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    cli = CommandLine(f"iggy://iggy:guess-what@{server.address}", capsysbinary)
    for command in (["me"], ["poll", "s", "t"], ["send", "s", "t", "--file", __file__]):
        result = cli(*command)
        assert (result.code, result.out) == (1, b"")
        assert "password" in result.err
        assert "guess-what" not in result.err
        assert "Traceback" not in result.err


def test_the_life_of_a_stream(cli: CommandLine) -> None:
    created = cli.ok("--output", "json", "stream", "create", "life of a stream").json
    assert (created["name"], created["topics"], created["options"]) == ("life of a stream", [], {})
    number = str(created["id"])
    listed = {item["id"]: item for item in cli.ok("--output", "json", "stream", "list").json}
    assert listed[created["id"]]["name"] == "life of a stream"
    assert cli.ok("stream", "rename", number, "7").out == b""
    assert cli.ok("--output", "json", "stream", "get", "name:7").json["id"] == created["id"]
    assert facts(cli.ok("stream", "get", number).text)["name"] == "7"

    result = cli("stream", "create", "7")
    assert result.code == 1
    assert "exists" in result.err
    cli.ok("stream", "delete", "name:7")
    result = cli("stream", "get", number)
    assert (result.code, result.out) == (1, b"")
    assert "there is no stream" in result.err
    for command in ("delete", "purge"):
        assert cli("stream", command, number).code == 1


def test_the_life_of_a_topic(cli: CommandLine, stream: str) -> None:
    created = cli.ok(
        *("--output", "json", "topic", "create", stream, "t", "--partitions", "2"),
        *("--segment-size", "128 MiB", "--message-expiry", "7d", "--max-topic-size", "10 GiB"),
        *("--compression", "gzip", "--durability", "persisted"),
        *("--consumer-offset-durability", "persisted", "--messages-required-to-save", "10"),
        *("--size-of-messages-required-to-save", "1 MiB", "--preallocate-segments"),
    ).json
    assert created["partitions_count"] == 2
    assert created["message_expiry"] == 7 * 24 * 3600 * 1_000_000
    assert created["max_topic_size"] == 10 << 30
    assert created["compression"] == "gzip"
    assert created["options"] == {
        "compression_algorithm": "gzip",
        "consumer_offset_durability": "persisted",
        "durability": "persisted",
        "max_topic_size": 10 << 30,
        "message_expiry": 604_800_000_000,
        "messages_required_to_save": 10,
        "preallocate_segments": True,
        "segment_size": 128 << 20,
        "size_of_messages_required_to_save": 1 << 20,
    }
    assert created["derived_options"] == {}
    assert [partition["id"] for partition in created["partitions"]] == [0, 1]

    shown = facts(cli.ok("topic", "get", stream, "t").text)
    assert shown["message expiry"] == "7d"
    assert shown["segment size"] == str(128 << 20)
    assert shown["durability"] == "persisted"

    cli.ok("topic", "update", stream, "0", "--message-expiry", "never_expire")
    changed = cli.ok("--output", "json", "topic", "get", stream, "t").json
    assert changed["message_expiry"] == 2**64 - 1
    assert changed["compression"] == "gzip"
    cli.ok("topic", "update", stream, "t", "--name", "u")
    (listed,) = cli.ok("--output", "json", "topic", "list", stream).json
    assert (listed["name"], listed["message_expiry"]) == ("u", 2**64 - 1)
    cli.ok("topic", "delete", stream, "u")
    assert cli.ok("--output", "json", "topic", "list", stream).json == []
    assert cli("topic", "delete", stream, "u").code == 1


def test_defaults_of_a_topic(cli: CommandLine, stream: str) -> None:
    created = cli.ok("--output", "json", "topic", "create", stream, "t").json
    assert (created["partitions_count"], created["options"]) == (1, {})
    assert created["derived_options"]["durability"] == "replicated"
    shown = facts(cli.ok("topic", "get", stream, "t").text)
    assert (shown["message expiry"], shown["max topic size"]) == ("never", "unlimited")


def test_purge_keeps_the_topic(cli: CommandLine, stream: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"x\ny\n")
    send = ("send", stream, "t", "--create", "--file", str(file))
    for purge in (("topic", "purge", stream, "t"), ("stream", "purge", stream)):
        cli.ok(*send)
        assert cli.ok("poll", stream, "t", "--raw").out == b"x\ny\n"
        cli.ok(*purge)
        assert cli.ok("poll", stream, "t", "--raw").out == b""


def test_what_is_missing_is_named(cli: CommandLine, stream: str) -> None:
    result = cli("topic", "list", "no-such-stream")
    assert (result.code, result.out) == (1, b"")
    assert "there is no stream 'no-such-stream'" in result.err
    assert "stream list" in result.err
    result = cli("topic", "get", stream, "no-such-topic")
    assert (result.code, result.out) == (1, b"")
    assert "no topic 'no-such-topic'" in result.err
    assert cli("topic", "update", stream, "no-such-topic", "--compression", "gzip").code == 1


@pytest.mark.parametrize(
    "command",
    [
        "stream create STREAM",
        "stream rename 4242 x",
        "stream purge 4242",
        "stream delete 4242",
        "topic create 4242 t",
        "topic trim 4242 t --partition 0 --segments 1",
        "topic purge 4242 t",
        "topic delete 4242 t",
        "group create 4242 t g",
        "group delete 4242 t g",
        "offset set 4242 t 1 --partition 0 --consumer 1",
        "offset set 4242 t 1 --partition 0 --group g",
        "offset delete 4242 t --partition 0 --consumer 1",
        "user rename 4242 x-man",
        "user status 4242 inactive",
        "user delete 4242",
        "token delete 4242",
    ],
)
def test_errors_are_told_in_words_of_the_command_line(
    cli: CommandLine, stream: str, command: str
) -> None:
    """Those of methods say nothing to somebody who has typed a command."""
    noun, verb, *arguments = command.replace("STREAM", stream).split()
    result = cli(noun, verb, *arguments)
    assert result.code == 1
    assert result.err.startswith(f"windsprite: {noun} {verb} ")
    methods = [name for name in dir(windsprite.Client) if "_" in name.strip("_")]
    assert [name for name in methods if name in result.err] == []


def test_tables_are_plain_in_a_pipe_and_aligned_on_a_terminal(
    cli: CommandLine, server: Server, stream: str
) -> None:
    header, *rows = cli.ok("stream", "list").text.splitlines()
    assert header.split("\t") == ["id", "name", "topics", "messages", "size", "created"]
    assert stream in [row.split("\t")[1] for row in rows]

    program = (
        "import os, pty, sys\n"
        "sys.exit(os.waitstatus_to_exitcode(pty.spawn(["
        f"sys.executable, '-m', 'windsprite.cli', '--server', 'iggy://iggy:iggy@{server.address}',"
        " 'stream', 'list'])))\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ | {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "120"},
    ).stdout
    assert stream in shown
    assert "\t" not in shown
    assert " 0 B " in shown
