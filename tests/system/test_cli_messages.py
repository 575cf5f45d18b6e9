"""send and poll on a real server."""

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import windsprite
from support.command_line import CommandLine, program, run_program, start_program
from support.server_process import server_process

_numbers = count(1)

EVENTS = b"first\n\nthird \xff\xfe\x00\r\n" + "vierte Zeile: ü\n".encode() + b"\tlast\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server_process(tmp_path_factory.mktemp("server")) as process:
        yield f"iggy://iggy:iggy@{process.wait_ready()['tcp']}"


@pytest.fixture
def cli(server: str, capsysbinary: pytest.CaptureFixture[bytes]) -> CommandLine:
    return CommandLine(server, capsysbinary)


@pytest.fixture
def stream() -> str:
    """The name of a stream that nobody else uses."""
    return f"stream-{next(_numbers)}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lines"


def random_lines(seed: int) -> bytes:
    """Lines of all kinds of bytes and of very different lengths."""
    generator = random.Random(seed)
    lengths = [generator.choice([0, 1, 40, 1000, 100_000]) for _ in range(300)]
    lines = [generator.randbytes(length).replace(b"\n", b"\r") for length in lengths]
    return b"".join(line + b"\n" for line in lines)


def wait_for(cli: CommandLine, stream: str, data: bytes) -> None:
    """Wait until the topic `t` of the stream holds just this."""
    deadline = time.monotonic() + 20
    while cli("poll", stream, "t", "--all", "--raw").out != data:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    "data",
    {
        "nothing": b"",
        "text": b"one\ntwo\nthree\n",
        "empty lines": b"\n" * 5000,
        "windows": b"one\r\n\r\ntwo\r\n",
        "all bytes": bytes(byte for byte in range(256) if byte != 10) + b"\n",
        "lines of 1 MiB": b"".join(bytes([65 + n]) * (1 << 20) + b"\n" for n in range(5)),
        "random": random_lines(1),
    }.items(),
    ids=lambda item: item[0],
)
def test_what_goes_in_comes_out(
    data: tuple[str, bytes], cli: CommandLine, stream: str, file: Path
) -> None:
    file.write_bytes(data[1])
    sent = cli.ok("send", stream, "t", "--create", "--file", str(file))
    assert sent.out == b""
    assert f"sent {data[1].count(10):,} message" in sent.err
    assert cli.ok("poll", stream, "t", "--from", "first", "--all", "--raw").out == data[1]


def test_a_last_line_without_a_newline_is_a_message(
    cli: CommandLine, stream: str, file: Path
) -> None:
    file.write_bytes(b"one\ntwo")
    assert "sent 2 messages" in cli.ok("send", stream, "t", "--create", "--file", str(file)).err
    assert cli.ok("poll", stream, "t", "--all", "--raw").out == b"one\ntwo\n"


def test_batches_are_bounded_by_count_and_bytes(cli: CommandLine, stream: str, file: Path) -> None:
    file.write_bytes(b"x\n" * 100 + b"y" * 700_000 + b"\n" + b"z" * 700_000 + b"\n")
    cli.ok("send", stream, "t", "--create", "--batch", "30", "--file", str(file))
    messages = [
        json.loads(line)
        for line in cli.ok("--output", "json", "poll", stream, "t", "--all").out.splitlines()
    ]
    batches: dict[int, int] = {}
    for message in messages:
        batches[message["timestamp"]] = batches.get(message["timestamp"], 0) + 1
    assert list(batches.values()) == [30, 30, 30, 11, 1]


def test_a_line_that_is_too_long_is_named(cli: CommandLine, stream: str, file: Path) -> None:
    with file.open("wb") as out:
        out.write(b"short\n\n")
        out.write(b"x" * 64_000_001)
    result = cli("send", stream, "t", "--create", "--file", str(file))
    assert result.code == 1
    assert "line 3 has more than the 64,000,000 bytes" in result.err


def test_the_longest_line_fits(cli: CommandLine, stream: str, file: Path) -> None:
    file.write_bytes(b"x" * 64_000_000 + b"\n")
    cli.ok("send", stream, "t", "--create", "--file", str(file))
    out = cli.ok("poll", stream, "t", "--all", "--raw").out
    assert out == file.read_bytes()


def test_a_pipe_through_both_ways(server: str, stream: str) -> None:
    data = random_lines(2)
    sent = run_program(
        server, "send", stream, "t", "--create", "--file", "-", "--output", "json", data=data
    )
    assert sent.code == 0, sent.err
    lines = data.splitlines(keepends=True)
    assert sent.json["messages"] == data.count(b"\n") == 300 <= len(lines)
    assert sent.json["payload_bytes"] == len(data) - 300
    assert sent.json["partitions"] == [{"partition": 0, "first_offset": 0, "last_offset": 299}]
    assert run_program(server, "poll", stream, "t", "--all", "--raw").out == data


def test_a_slow_pipe_is_sent_while_it_is_open(server: str, cli: CommandLine, stream: str) -> None:
    cli.ok("stream", "create", stream)
    cli.ok("topic", "create", stream, "t")
    with start_program(server, "send", stream, "t", stdin=subprocess.PIPE) as sender:
        assert sender.stdin is not None
        try:
            sender.stdin.write(b"one\ntw")
            sender.stdin.flush()
            wait_for(cli, stream, b"one\n")
            sender.stdin.write(b"o\n")
            _, err = sender.communicate(timeout=20)
        finally:
            sender.kill()
    assert sender.returncode == 0
    assert b"sent 2 messages" in err
    assert cli.ok("poll", stream, "t", "--all", "--raw").out == b"one\ntwo\n"


def test_send_says_what_is_missing(cli: CommandLine, stream: str, file: Path) -> None:
    file.write_bytes(b"x\n")
    result = cli("send", stream, "t", "--file", str(file))
    assert result.code == 1
    assert f"there is no stream '{stream}'" in result.err
    assert "--create" in result.err
    result = cli("send", "4000000000", "t", "--create", "--file", str(file))
    assert result.code == 1
    assert "numbers cannot be chosen" in result.err
    assert "name:4000000000" in result.err


def test_send_to_a_partition_that_is_missing(cli: CommandLine, stream: str, file: Path) -> None:
    file.write_bytes(b"one\n")
    cli.ok("stream", "create", stream)
    for topic, partitions, options in (("some", "2", ("--partition", "2")), ("none", "0", ())):
        cli.ok("topic", "create", stream, topic, "--partitions", partitions)
        result = cli("send", stream, topic, "--file", str(file), *options)
        assert result.code == 1
        assert f"the topic '{topic}' has no such partition" in result.err
        assert f"`windsprite topic get {stream} {topic}` shows its partitions" in result.err


def test_create_takes_what_is_there(cli: CommandLine, stream: str, file: Path) -> None:
    file.write_bytes(b"x\n")
    for _ in range(2):
        cli.ok("send", stream, "t", "--create", "--partitions", "2", "--file", str(file))
    topic = cli.ok("--output", "json", "topic", "get", stream, "t").json
    assert (topic["partitions_count"], topic["messages_count"]) == (2, 2)


def test_keys_and_partitions(cli: CommandLine, stream: str, file: Path) -> None:
    file.write_bytes(b"1\n2\n3\n")
    send = ("send", stream, "t", "--file", str(file))
    cli.ok(*send, "--create", "--partitions", "3", "--key", "user-42")
    cli.ok(*send, "--partition", "1")
    result = cli(*send, "--partition", "3")
    assert result.code == 1
    assert "sent 0 messages" in result.err
    assert cli.ok("poll", stream, "t", "--raw", "--partition", "2").out == b"1\n2\n3\n"
    assert cli.ok("poll", stream, "t", "--raw", "--partition", "1").out == b"1\n2\n3\n"
    assert cli.ok("poll", stream, "t", "--raw", "--partition", "0").out == b""
    assert cli("poll", stream, "t", "--partition", "3").code == 1


def test_all_partitions_are_read_one_after_the_other(
    cli: CommandLine, stream: str, file: Path
) -> None:
    for partition in (2, 0, 1):
        file.write_bytes(b"".join(b"%d-%d\n" % (partition, number) for number in range(150)))
        cli.ok(
            *("send", stream, "t", "--create", "--partitions", "3"),
            *("--partition", str(partition), "--file", str(file)),
        )

    def payloads(*options: str) -> list[str]:
        return cli.ok("poll", stream, "t", "--raw", *options).text.split()

    everything = [f"{partition}-{number}" for partition in range(3) for number in range(150)]
    assert payloads("--all") == everything
    assert len(payloads()) == 300
    assert payloads("--count", "2") == ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]
    assert payloads("--from", "last", "--count", "1") == ["0-149", "1-149", "2-149"]
    assert payloads("--from", "offset:148", "--all", "--partition", "1") == ["1-148", "1-149"]
    assert payloads("--from", "offset:150", "--all") == []


def test_poll_from_a_time(cli: CommandLine, stream: str, file: Path) -> None:
    for line in (b"old\n", b"new\n"):
        file.write_bytes(line)
        cli.ok("send", stream, "t", "--create", "--file", str(file))
    lines = cli.ok("--output", "json", "poll", stream, "t").out.splitlines()
    timestamp = json.loads(lines[1])["timestamp"]
    poll = ("poll", stream, "t", "--all", "--raw", "--from")
    assert cli.ok(*poll, f"time:{timestamp}").out == b"new\n"
    assert cli.ok(*poll, f"time:{timestamp + 1}").out == b""
    assert cli.ok(*poll, "time:2001-01-01T00:00Z").out == b"old\nnew\n"


def test_a_consumer_goes_on_where_it_was(cli: CommandLine, stream: str, file: Path) -> None:
    file.write_bytes(b"1\n2\n3\n")
    cli.ok("send", stream, "t", "--create", "--file", str(file))
    poll = ("poll", stream, "t", "--raw", "--consumer", "reader")
    assert cli.ok(*poll, "--count", "2").out == b"1\n2\n"
    assert cli.ok(*poll, "--all").out == b"3\n"
    assert cli.ok(*poll, "--all").out == b""
    assert cli.ok(*poll, "--from", "first", "--count", "1").out == b"1\n"
    assert cli.ok(*poll).out == b"2\n3\n"
    assert cli.ok("poll", stream, "t", "--raw").out == b"1\n2\n3\n"


def test_messages_as_lines_and_as_json(cli: CommandLine, stream: str, file: Path) -> None:
    file.write_bytes(EVENTS)
    cli.ok("send", stream, "t", "--create", "--file", str(file))
    header, *lines = cli.ok("poll", stream, "t").text.splitlines()
    assert header.split("\t") == ["partition", "offset", "timestamp", "headers", "payload"]
    assert [line.split("\t")[1] for line in lines] == ["0", "1", "2", "3", "4"]
    assert lines[2].endswith("third \ufffd\ufffd\\x00\\r")
    assert lines[4].endswith("\\tlast")
    messages = [
        json.loads(line)
        for line in cli.ok("poll", stream, "t", "--output", "json").out.splitlines()
    ]
    assert [message["offset"] for message in messages] == [0, 1, 2, 3, 4]
    assert [message["payload"] for message in messages] == [
        "first",
        "",
        {"base64": "dGhpcmQg//4ADQ=="},
        "vierte Zeile: ü",
        "\tlast",
    ]
    now = time.time_ns() // 1000
    assert all(now - 60_000_000 < message["timestamp"] <= now + 1000 for message in messages)


async def send_with_headers(server: str, stream: str) -> None:
    async with windsprite.connect(server) as client:
        await client.create_stream(stream)
        await client.create_topic(stream, "t")
        message = windsprite.Message("hello", {"trace": "abc", "try": 2}, id=2**127)
        await client.send(stream, "t", [message])


async def test_headers_and_ids_are_shown(server: str, stream: str) -> None:
    await send_with_headers(server, stream)
    message = run_program(server, "poll", stream, "t", "--output", "json").json
    assert message["headers"] == {"trace": "abc", "try": 2}
    assert message["id"] == 2**127
    assert "trace=abc,try=2\thello" in run_program(server, "poll", stream, "t").text


def test_poll_of_what_is_not_there(cli: CommandLine, stream: str) -> None:
    result = cli("poll", stream, "t", "--all", "--raw")
    assert (result.code, result.out) == (1, b"")
    assert f"there is no stream '{stream}'" in result.err
    cli.ok("stream", "create", stream)
    result = cli("poll", stream, "t")
    assert (result.code, result.out) == (1, b"")
    assert f"there is no topic 't' in the stream '{stream}'" in result.err
    result = cli("poll", stream, "t", "--partition", "0")
    assert (result.code, result.out) == (1, b"")


def test_follow_goes_on_until_ctrl_c(
    server: str, cli: CommandLine, stream: str, file: Path
) -> None:
    file.write_bytes(b"before\nlast\n")
    send = ("send", stream, "t", "--create", "--partitions", "2", "--file", str(file))
    cli.ok(*send, "--partition", "0")
    poll = ("poll", stream, "t", "--from", "last", "--follow", "--raw")
    with start_program(server, *poll) as reader:
        assert reader.stdout is not None
        try:
            assert reader.stdout.readline() == b"last\n"
            for partition in ("1", "0"):
                file.write_bytes(f"later in {partition}\n".encode())
                cli.ok(*send, "--partition", partition)
                assert reader.stdout.readline() == f"later in {partition}\n".encode()
            reader.send_signal(signal.SIGINT)
            out, err = reader.communicate(timeout=20)
        finally:
            reader.kill()
    assert (reader.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize("owner", [(), ("--consumer", "reader"), ("--group", "readers")])
def test_follow_begins_again_in_a_topic_that_was_purged(
    server: str, cli: CommandLine, stream: str, file: Path, owner: tuple[str, ...]
) -> None:
    send = ("send", stream, "t", "--create", "--file", str(file))
    file.write_bytes(b"one\ntwo\nthree\nfour\n")
    cli.ok(*send)
    with start_program(server, "poll", stream, "t", *owner, "--follow", "--raw") as reader:
        assert reader.stdout is not None
        try:
            assert [reader.stdout.readline() for _ in range(4)][-1] == b"four\n"
            cli.ok("topic", "purge", stream, "t")
            file.write_bytes(b"new\nnewer\n")
            cli.ok(*send)
            assert [reader.stdout.readline() for _ in range(2)] == [b"new\n", b"newer\n"]
        finally:
            reader.kill()


def test_ctrl_c_while_the_input_is_silent(server: str, cli: CommandLine, stream: str) -> None:
    with start_program(server, "send", stream, "t", "--create", stdin=subprocess.PIPE) as sender:
        assert sender.stdin is not None
        try:
            sender.stdin.write(b"one\nrest")
            sender.stdin.flush()
            wait_for(cli, stream, b"one\n")
            sender.send_signal(signal.SIGINT)
            assert sender.wait(20) == 130
            assert sender.stderr is not None
            assert sender.stderr.read().startswith(b"sent 1 message, 3 B, ")
        finally:
            sender.kill()


def test_a_closed_pipe_ends_quietly(server: str, cli: CommandLine, stream: str, file: Path) -> None:
    file.write_bytes(b"some line\n" * 100_000)
    cli.ok("send", stream, "t", "--create", "--file", str(file))
    for options in (["--raw"], ["--output", "json"], []):
        with start_program(server, "poll", stream, "t", "--all", *options) as reader:
            assert reader.stdout is not None
            assert reader.stderr is not None
            assert b"\n" in reader.stdout.readline()
            reader.stdout.close()
            assert reader.wait(20) == 0
            assert reader.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_no_room_for_the_output_is_no_mistake_of_ours(
    server: str, cli: CommandLine, stream: str, file: Path
) -> None:
    file.write_bytes(b"some line\n")
    cli.ok("send", stream, "t", "--create", "--file", str(file))
    for command in (("ping",), ("poll", stream, "t", "--all", "--raw"), ("completion", "bash")):
        with (
            Path("/dev/full").open("wb") as full,
            start_program(server, *command, stdout=full) as process,
        ):
            _, error = process.communicate(timeout=60)
        assert process.returncode == 1
        assert error == b"windsprite: cannot go on: No space left on device\n"


@pytest.mark.parametrize("closed", ["<", ">", "2>"])
def test_a_program_that_was_started_without_its_standard_files(
    server: str, stream: str, closed: str
) -> None:
    for command in (("ping",), ("send", stream, "t", "--create"), ("poll", stream, "t")):
        words = shlex.join(program(*command))
        done = subprocess.run(
            ["sh", "-c", f"exec {words} {closed}&-"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=os.environ | {"WINDSPRITE_SERVER": server},
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert b"unexpected" not in done.stderr


def test_a_pipe_that_was_never_open(server: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    environment = os.environ | {"WINDSPRITE_SERVER": server}
    done = subprocess.run(
        program("stream", "list"),
        stdout=write_end,
        stderr=subprocess.PIPE,
        env=environment,
        check=False,
        timeout=60,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_was_sent_survives_a_kill(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    data = random_lines(3) * 3
    lines = tmp_path / "lines"
    lines.write_bytes(data)
    with server_process(tmp_path) as process:
        address = process.wait_ready()["tcp"]
        cli = CommandLine(f"iggy://iggy:iggy@{address}", capsysbinary)
        cli.ok("send", "s", "t", "--create", "--file", str(lines))
        process.send(signal.SIGKILL)
        process.wait_end()
    with server_process(tmp_path, "--tcp-address", address) as process:
        process.wait_ready()
        assert cli.ok("poll", "s", "t", "--from", "first", "--all", "--raw").out == data


def test_send_goes_on_after_a_restart_of_the_server(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    with server_process(tmp_path) as process:
        address = process.wait_ready()["tcp"]
        url = f"iggy://iggy:iggy@{address}"
        options = "?reconnection_interval=100ms&reestablish_after=0"
        cli = CommandLine(url, capsysbinary)
        cli.ok("stream", "create", "s")
        cli.ok("topic", "create", "s", "t")
        with start_program(url + options, "send", "s", "t", stdin=subprocess.PIPE) as sender:
            try:
                assert sender.stdin is not None
                sender.stdin.write(b"before\n")
                sender.stdin.flush()
                wait_for(cli, "s", b"before\n")
                process.send(signal.SIGKILL)
                process.wait_end()
                with server_process(tmp_path, "--tcp-address", address) as again:
                    again.wait_ready()
                    _, err = sender.communicate(b"after\n", timeout=30)
                    assert (sender.returncode, err[:15]) == (0, b"sent 2 messages")
                    wait_for(cli, "s", b"before\nafter\n")
            finally:
                sender.kill()


def test_progress_is_shown_on_a_terminal(server: str, stream: str, file: Path) -> None:
    file.write_bytes(b"x\n" * 20_000)
    command = [*program("send", stream, "t", "--create", "--file", str(file))]
    spawn = f"import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn({command!r})))"
    environment = os.environ | {"WINDSPRITE_SERVER": server, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-c", spawn],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        timeout=60,
    )
    assert "100%" in done.stdout
    assert "20,000 messages" in done.stdout
    assert done.stdout.rstrip().splitlines()[-1].find("sent 20,000 messages, 19.5 KiB, in ") >= 0
