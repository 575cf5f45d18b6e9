"""Looking through a stopped directory."""

from pathlib import Path

from support.log import DIRECTORY, KEY, NOW, Harness, append, trim
from windsprite_server.log.files import Files
from windsprite_server.log.inspection import inspect, log_size, partitions_in
from windsprite_server.log.keys import PartitionOptions


async def test_a_sound_log_is_read_whole_and_not_changed(tmp_path: Path) -> None:
    harness = Harness(Files(), str(tmp_path / "log"), PartitionOptions(segment_size=1500))
    log = harness.open()
    for number in range(12):
        append(log, b"x" * 100, b"y", now=NOW + number)
    await trim(log, 1)
    first, size = log.first_offset, log.size_bytes
    await harness.store.close()
    (tmp_path / "log" / "something else").mkdir()
    before = {path: path.read_bytes() for path in (tmp_path / "log").rglob("*.*") if path.is_file()}

    keys, others = partitions_in(tmp_path / "log")
    assert keys == [KEY]
    assert [path.name for path in others] == ["something else"]
    read = []
    found = inspect(tmp_path / "log", KEY, read.append)
    assert found.is_sound
    assert (found.first_offset, found.next_offset, found.messages_count) == (first, 24, 24 - first)
    assert found.size_bytes == size == sum(read) == log_size(tmp_path / "log", KEY)
    assert found.torn_bytes == 0
    after = {path: path.read_bytes() for path in (tmp_path / "log").rglob("*.*") if path.is_file()}
    assert after == before


async def test_damage_and_a_torn_end_are_named() -> None:
    harness = Harness(options=PartitionOptions(segment_size=1500))
    log = harness.open()
    for number in range(12):
        append(log, b"x" * 100, b"y", now=NOW + number)
    await harness.store.close()
    segments = [name for name in harness.names() if name.endswith(".log")]
    harness.files.content(harness.path(segments[0]))[600] ^= 1
    del harness.files.content(harness.path(segments[1]))[-10:]
    harness.files.content(harness.path(segments[-1])).extend(b"torn")
    before = {name: bytes(harness.files.content(harness.path(name))) for name in harness.names()}

    found = inspect(Path(DIRECTORY), KEY, files=harness.files)
    assert not found.is_sound
    assert [(damage.first_offset, damage.next_offset) for damage in found.damages] == [
        (2, 4),
        (int(segments[2][:20]) - 2, int(segments[2][:20])),
    ]
    assert found.messages_count == 20
    assert found.torn_bytes == 4
    assert found.torn_reason
    assert before == {
        name: bytes(harness.files.content(harness.path(name))) for name in harness.names()
    }
