"""Options of topics, old segments and snapshots on the command line, and in the client."""

import io
import zipfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import windsprite
from support.command_line import CommandLine
from support.real_server import real_server
from support.server_process import server_process
from windsprite import InvalidRequest, NotFound, PermissionDenied

_numbers = count(1)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server_process(tmp_path_factory.mktemp("server")) as process:
        yield process.wait_ready()["tcp"]


@pytest.fixture
def cli(address: str, capsysbinary: pytest.CaptureFixture[bytes]) -> CommandLine:
    return CommandLine(f"iggy://iggy:iggy@{address}", capsysbinary)


@pytest.fixture
def stream(cli: CommandLine) -> str:
    """A stream with a topic `t`, which has one partition with 3 full segments."""
    name = f"stream-{next(_numbers)}"
    cli.ok("stream", "create", name)
    cli.ok("topic", "create", name, "t", "--segment-size", "1 MiB")
    return name


def segments(cli: CommandLine, stream: str) -> int:
    (partition,) = cli.ok("topic", "get", stream, "t", "--output", "json").json["partitions"]
    return int(partition["segments_count"])


def test_the_options_of_topics(cli: CommandLine) -> None:
    options = cli.ok("options", "--output", "json").json
    assert len(options) == 9
    by_key = {option["key"]: option for option in options}
    assert by_key["segment_size"]["default"] == 1 << 30
    assert by_key["durability"]["default"] == "replicated"
    assert by_key["preallocate_segments"]["default"] is False
    assert all(option["description"] for option in options)
    assert cli.ok("options", "user", "--output", "json").json == []
    text = cli.ok("options").text
    assert "segment_size\t1073741824\t" in text or "segment_size\t1.0 GiB\t" in text
    assert "message_expiry\tnever\t" in text
    assert "max_topic_size\tunlimited\t" in text


def test_trimming_a_partition(cli: CommandLine, stream: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("x" * 350_000 + "\n")
    for _ in range(7):
        cli.ok("send", stream, "t", "--file", str(lines))
    assert segments(cli, stream) == 3
    cli.ok("topic", "trim", stream, "t", "--partition", "0", "--segments", "1")
    assert segments(cli, stream) == 2
    cli.ok("topic", "trim", stream, "t", "--partition", "0", "--segments", "100")
    assert segments(cli, stream) == 1


def test_trimming_what_is_not_there(cli: CommandLine, stream: str) -> None:
    result = cli("topic", "trim", stream, "t", "--partition", "7", "--segments", "1")
    assert result.code == 1
    assert result.err
    result = cli("topic", "trim", stream, "t", "--partition", "0", "--segments", "0")
    assert result.code == 2


def test_saving_a_snapshot(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "snapshot.zip"
    cli.ok("snapshot", str(file))
    with zipfile.ZipFile(file) as archive:
        assert archive.namelist() == [
            "filesystem_overview.txt",
            "process_list.txt",
            "resource_usage.txt",
            "server_logs.txt",
            "server_config.txt",
        ]
        assert b'"listening"' in archive.read("server_logs.txt")
        assert b"tail_memory" in archive.read("server_config.txt")
    before = file.read_bytes()
    result = cli("snapshot", str(file))
    assert result.code == 1
    assert "cannot be written" in result.err
    assert file.read_bytes() == before


async def test_the_client(tmp_path: Path) -> None:
    async with (
        real_server(tmp_path) as server,
        windsprite.connect(f"iggy://iggy:iggy@{server.address}") as client,
    ):
        specs = await client.describe_options()
        assert len(specs) == 9
        assert await client.describe_options("stream") == ()
        archive = await client.snapshot("server_config", "test", compression="stored")
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            assert opened.namelist() == ["server_config.txt", "test.txt"]
        await client.create_stream("s")
        await client.create_topic("s", "t", segment_size="1 MiB")
        for _ in range(4):
            await client.send("s", "t", [bytes(600_000)], partition=0)
        await client.delete_segments("s", "t", 0, 1)
        details = await client.get_topic("s", "t")
        assert details is not None
        assert details.partitions[0].segments_count == 2
        batch = await client.poll("s", "t", partition=0, start=windsprite.From.first())
        assert [message.offset for message in batch] == [2, 3]
        with pytest.raises(NotFound):
            await client.delete_segments("s", "t", 1, 1)
        with pytest.raises(InvalidRequest):
            await client.create_topic("s", "u", max_topic_size="1 MiB")
        await client.create_user("alice", "secret")
        await client.login("alice", "secret")
        with pytest.raises(PermissionDenied):
            await client.snapshot()
        with pytest.raises(PermissionDenied):
            await client.delete_segments("s", "t", 0, 1)
