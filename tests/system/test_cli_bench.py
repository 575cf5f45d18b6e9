"""bench on a real server: what it does, and that it says so. How fast is no matter here."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import pytest

from support.command_line import CommandLine, program, start_program
from support.server_process import server_process

_numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server_process(tmp_path_factory.mktemp("server")) as process:
        yield f"iggy://iggy:iggy@{process.wait_ready()['tcp']}"


@pytest.fixture
def cli(server: str, capsysbinary: pytest.CaptureFixture[bytes]) -> CommandLine:
    return CommandLine(server, capsysbinary)


def streams(cli: CommandLine) -> list[str]:
    return [stream["name"] for stream in cli.ok("stream", "list", "--output", "json").json]


def test_produce_in_a_stream_of_its_own(cli: CommandLine) -> None:
    before = streams(cli)
    options = ("--messages", "1050", "--size", "10", "--batch", "100", "--connections", "3")
    result = cli.ok("bench", "produce", *options).json
    assert (result["messages"], result["payload_bytes"], result["requests"]) == (1050, 10_500, 11)
    assert (result["size"], result["batch"], result["connections"]) == (10, 100, 3)
    latencies = [result["latency_us"][name] for name in ("p50", "p90", "p99", "p99.9", "max")]
    assert 0 < latencies[0] <= latencies[-1]
    assert latencies == sorted(latencies)
    assert result["messages_per_second"] == pytest.approx(1050 / result["seconds"], rel=0.01)
    assert streams(cli) == before


def test_produce_at_a_rate_for_a_time_in_a_stream_that_is_kept(cli: CommandLine) -> None:
    place = ("--stream", f"kept-{next(_numbers)}", "--topic", "t")
    options = ("--rate", "500", "--batch", "5", "--duration", "0.2", "--size", "3")
    missing = cli("bench", "produce", *options, *place)
    assert missing.code == 1
    assert "there is no" in missing.err
    result = cli.ok("bench", "produce", *options, *place, "--create", "--partitions", "2").json
    assert (result["messages"], result["requests"], result["rate"]) == (100, 20, 500)
    polled = cli.ok("poll", place[1], "t", "--all", "--output", "json").text.splitlines()
    assert len(polled) == 100


def test_consume_what_there_is(cli: CommandLine) -> None:
    place = ("--stream", f"kept-{next(_numbers)}", "--topic", "t")
    cli.ok("bench", "produce", "--messages", "300", "--create", "--partitions", "3", *place)
    result = cli.ok("bench", "consume", "--connections", "2", "--batch", "7", *place).json
    assert (result["messages"], result["payload_bytes"]) == (300, 300 * 256)
    some = cli.ok("bench", "consume", "--messages", "10", *place).json
    assert some["messages"] == 10


def test_consume_from_a_stream_of_its_own(cli: CommandLine) -> None:
    before = streams(cli)
    result = cli.ok("bench", "consume", "--messages", "500", "--size", "20").json
    assert (result["messages"], result["payload_bytes"]) == (500, 10_000)
    assert streams(cli) == before


@pytest.mark.parametrize("command", ["produce", "consume"])
def test_a_topic_without_partitions(cli: CommandLine, command: str) -> None:
    stream = f"empty-{command}"
    cli.ok("stream", "create", stream)
    cli.ok("topic", "create", stream, "t", "--partitions", "0")
    result = cli("bench", command, "--stream", stream, "--topic", "t")
    assert (result.code, result.out) == (1, b"")
    assert "the topic 't' has no partitions" in result.err


def test_ctrl_c_removes_the_stream_as_well(server: str, cli: CommandLine) -> None:
    before = streams(cli)
    process = start_program(server, "bench", "produce", "--duration", "60", "--batch", "1")
    deadline = time.monotonic() + 30
    while streams(cli) == before:
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert streams(cli) == before


def test_on_a_terminal_there_is_a_bar_and_then_a_table(server: str) -> None:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        program("bench", "produce", "--messages", "2000", "--batch", "10"),
        env=os.environ | {"WINDSPRITE_SERVER": server, "COLUMNS": "120", "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # which is how a terminal ends
        while block := os.read(ours, 1 << 16):
            shown += block
    os.close(ours)
    assert process.wait(30) == 0
    text = shown.decode()
    assert "2,000 messages" in text
    assert [name for name in ("p50", "messages/s", "latency p99.9") if name not in text] == []


@pytest.mark.parametrize(
    "options",
    [("--stream", "s"), ("--topic", "t"), ("--create",), ("--batch", "0"), ("--rate", "0")],
)
def test_options_that_make_no_sense(cli: CommandLine, options: tuple[str, ...]) -> None:
    assert cli("bench", "produce", *options).code == 2
