"""Telling a torn write-ahead log from a damaged one."""

import struct
from pathlib import Path

import pytest

from support.journal import write_and_kill
from windsprite_server.journal.wal import find_damage

HEADER, FRAME_HEADER = 32, 24


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The log of ten commits by a process that was killed."""
    path = tmp_path_factory.mktemp("killed") / "journal.db"
    write_and_kill(path, limit=10)
    return path.with_name("journal.db-wal").read_bytes()


def frames(log: bytes) -> list[int]:
    (page_size,) = struct.unpack_from(">I", log, 8)
    return list(range(HEADER, len(log), FRAME_HEADER + page_size))


def commits(log: bytes) -> list[int]:
    return [start for start in frames(log) if struct.unpack_from(">I", log, start + 4) != (0,)]


def damage(tmp_path: Path, log: bytes) -> str | None:
    (tmp_path / "log").write_bytes(log)
    return find_damage(tmp_path / "log")


def flipped(log: bytes, position: int) -> bytes:
    changed = bytearray(log)
    changed[position] ^= 0x10
    return bytes(changed)


def test_a_whole_log_and_none_at_all_are_fine(tmp_path: Path, log: bytes) -> None:
    assert len(commits(log)) == 10
    assert damage(tmp_path, log) is None
    assert damage(tmp_path, b"") is None
    assert find_damage(tmp_path / "missing") is None


def test_a_log_cut_anywhere_is_torn_and_not_damaged(tmp_path: Path, log: bytes) -> None:
    for length in range(0, len(log), 509):
        assert damage(tmp_path, log[:length]) is None


@pytest.mark.parametrize("offset", [0, 4, 8, 12, 16, 20, FRAME_HEADER, FRAME_HEADER + 4000])
def test_damage_before_the_newest_commit_is_found(tmp_path: Path, log: bytes, offset: int) -> None:
    newest = commits(log)[-2]
    for number, start in enumerate(frames(log), start=1):
        found = damage(tmp_path, flipped(log, start + offset))
        if start <= newest:
            assert found is not None, number
            assert f"frame {number} " in found
        elif offset != 4:  # that bit makes the frame say that it ends a commit, which is seen
            assert found is None, number


@pytest.mark.parametrize("position", [0, 4, 8, 16, 20, 24, 28])
def test_a_damaged_header_hides_no_commits(tmp_path: Path, log: bytes, position: int) -> None:
    found = damage(tmp_path, flipped(log, position))
    assert found == "its header is damaged"


def test_a_page_that_was_not_written_in_an_unfinished_commit_is_no_damage(
    tmp_path: Path, log: bytes
) -> None:
    """A loss of power may keep the last page of a commit and lose an earlier one."""
    last = commits(log)[-1]
    first_of_last = commits(log)[-2] + (frames(log)[1] - frames(log)[0])
    assert first_of_last <= last
    lost = bytearray(log)
    size = frames(log)[1] - frames(log)[0]
    lost[first_of_last : first_of_last + size] = bytes(size)
    assert damage(tmp_path, bytes(lost)) is None


def test_what_an_earlier_round_left_behind_is_no_damage(tmp_path: Path, log: bytes) -> None:
    """A log is written again from the start; the frames beyond are those of the round before."""
    size = frames(log)[1] - frames(log)[0]
    later = bytearray(log)
    for start in frames(log)[6:]:
        later[start + 8 : start + 16] = b"oldround"
    assert damage(tmp_path, bytes(later)) is None
    long_ago = bytes(later) + bytes(later[-size:]) * 500
    assert damage(tmp_path, long_ago) is None


@pytest.mark.parametrize("content", [b"x" * 5000, bytes(5000), b"\x37\x7f\x06\x82" * 1500])
def test_a_log_that_is_none_is_damaged(tmp_path: Path, content: bytes) -> None:
    assert damage(tmp_path, content) == "its header is damaged"
