"""A look at SQLite's write-ahead log before SQLite takes it for the truth.

After a crash SQLite reads the log up to the first frame that does not fit and forgets the rest, as
it must: the end of a log may be torn. But a flipped bit in the middle looks the same to it, and
would silently take back every commit from there on. The difference can be seen: commits are synced
one by one, so once a second commit stands behind a frame, that frame was whole on the disk.

The layout is that of https://www.sqlite.org/fileformat2.html#the_write_ahead_log: a header of 32
bytes, then frames of 24 bytes and a page. Checksums run on from frame to frame.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

_HEADER: Final = struct.Struct(">IIIIIIII")
_FRAME: Final = struct.Struct(">IIIIII")
_MAGIC: Final = 0x377F0682
_VERSION: Final = 3_007_000
_PAGE_SIZES: Final = frozenset(1 << power for power in range(9, 17))
_MASK: Final = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame: whether it ends a commit, and whether it goes on from the one before it."""

    commits: bool
    fits: bool


def find_damage(path: Path) -> str | None:
    """What is wrong with a write-ahead log that belongs to no running process.

    Returns:
        A sentence if commits would be lost that were complete once; `None` if the log is whole,
        ends in a torn write, or is not there.

    Raises:
        OSError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return _inspect(file)
    except FileNotFoundError:
        return None


def _inspect(file: BinaryIO) -> str | None:
    raw = file.read(_HEADER.size)
    rest = file.seek(0, 2) - len(raw)
    if len(raw) < _HEADER.size or rest < _FRAME.size:
        return None
    magic, version, page_size, _, *salts, first, second = _HEADER.unpack(raw)
    words = "<" if magic == _MAGIC else ">"
    is_header = magic | 1 == _MAGIC | 1 and version == _VERSION and page_size in _PAGE_SIZES
    if not is_header or _checksum(words, raw[:24], (0, 0)) != (first, second):
        return "its header is damaged"
    file.seek(_HEADER.size)
    bad: _Frame | None = None
    bad_number = commits_after = 0
    for number, frame in enumerate(
        _frames(file, page_size, words, (salts[0], salts[1]), (first, second)), start=1
    ):
        if bad is not None:
            commits_after += frame.fits and frame.commits
        elif not frame.fits:
            bad, bad_number = frame, number
    if bad is None:
        return None
    # The first commit behind a bad frame may be the unfinished write that it belongs to.
    needed = 1 if bad.commits else 2
    if commits_after < needed:
        return None
    return f"its frame {bad_number} is damaged, and {commits_after} later commits are not"


def _frames(
    file: BinaryIO,
    page_size: int,
    words: str,
    salts: tuple[int, int],
    seed: tuple[int, int],
) -> Iterator[_Frame]:
    seeds = [seed]
    while True:
        header = file.read(_FRAME.size)
        page = file.read(page_size)
        if len(page) < page_size:
            return
        _, size_after_commit, salt_1, salt_2, *stored = _FRAME.unpack(header)
        own = (stored[0], stored[1])
        computed = []
        if (salt_1, salt_2) == salts:
            computed = [
                _checksum(words, page, _checksum(words, header[:8], seed)) for seed in seeds
            ]
        fits = own in computed
        yield _Frame(size_after_commit != 0, fits)
        # One bad frame must not make all that follow look bad: the next one may go on from what
        # this one says of itself, or from what it holds.
        seeds = [own] if fits else [own, *computed[:1]]


def _checksum(words: str, data: bytes, seed: tuple[int, int]) -> tuple[int, int]:
    first, second = seed
    values = struct.unpack(f"{words}{len(data) // 4}I", data)
    for even, odd in zip(values[::2], values[1::2], strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second
