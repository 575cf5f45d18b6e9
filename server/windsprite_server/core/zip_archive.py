"""ZIP archives of small entries, in all six methods of the protocol (spec 06, 6.3).

The module of the standard library writes four of them. An archive of entries that are in memory
needs so little of the format that all six are written here.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, NamedTuple

_LOCAL_HEADER: Final = struct.Struct("<IHHHHHIIIHH")
_CENTRAL_HEADER: Final = struct.Struct("<IHHHHHHIIIHHHHHII")
_END: Final = struct.Struct("<IHHHHIIH")
_LOCAL_SIGNATURE: Final = 0x04034B50
_CENTRAL_SIGNATURE: Final = 0x02014B50
_END_SIGNATURE: Final = 0x06054B50

_UNIX: Final = 3 << 8
_READABLE_FILE: Final = 0o100644 << 16
_UTF8_NAME: Final = 1 << 11
_LZMA_HAS_END_MARK: Final = 1 << 1

_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SINGLE_SEGMENT_U64: Final = 0xE0
_ZSTD_BLOCK: Final = 128 * 1024


class Method(NamedTuple):
    """A way to compress entries.

    Attributes:
        number: What the format calls it.
        version: Ten times the version of the format that a reader has to know.
        compress: Does it.
        flags: Of each entry.
    """

    number: int
    version: int
    compress: Callable[[bytes], bytes]
    flags: int = 0


class Entry(NamedTuple):
    """A file of an archive; its name is ASCII."""

    name: str
    content: bytes


def zip_archive(entries: Iterable[Entry], method: Method, moment: datetime) -> bytes:
    """An archive of these files, in their order.

    Args:
        entries: Together well below 4 GiB and 65,536 in number, the bounds of the plain format.
        method: How all of them are compressed.
        moment: When they were written; seconds are rounded down to even ones, and the format knows
            no year before 1980 or after 2107.
    """
    year = min(max(moment.year, 1980), 2107)
    date = (year - 1980) << 9 | moment.month << 5 | moment.day
    time = moment.hour << 11 | moment.minute << 5 | moment.second // 2
    files = bytearray()
    directory = bytearray()
    count = 0
    for name, content in entries:
        compressed = method.compress(content)
        encoded_name = name.encode("ascii")
        described = (
            *(method.version, _UTF8_NAME | method.flags, method.number, time, date),
            *(zlib.crc32(content), len(compressed), len(content), len(encoded_name), 0),
        )
        directory += _CENTRAL_HEADER.pack(
            *(_CENTRAL_SIGNATURE, _UNIX | method.version, *described),
            *(0, 0, 0, _READABLE_FILE, len(files)),
        )
        directory += encoded_name
        files += _LOCAL_HEADER.pack(_LOCAL_SIGNATURE, *described)
        files += encoded_name + compressed
        count += 1
    end = _END.pack(_END_SIGNATURE, 0, 0, count, count, len(directory), len(files), 0)
    return bytes(files + directory + end)


def _as_it_is(content: bytes) -> bytes:
    return content


def _deflate(content: bytes) -> bytes:
    return zlib.compress(content, wbits=-zlib.MAX_WBITS)


def _lzma(content: bytes) -> bytes:
    # The old file format has its properties in 5 bytes and a size in 8; ZIP wants a version and the
    # properties with their length.
    alone = lzma.compress(content, format=lzma.FORMAT_ALONE)
    return b"\x09\x04\x05\x00" + alone[:5] + alone[13:]


def _zstd_frame(content: bytes) -> bytes:
    """A frame that any Zstandard decoder reads, of blocks that are not compressed.

    Python can compress with Zstandard only since 3.14.
    """
    frame = bytearray(struct.pack("<IBQ", _ZSTD_MAGIC, _ZSTD_SINGLE_SEGMENT_U64, len(content)))
    for start in range(0, len(content) or 1, _ZSTD_BLOCK):
        block = content[start : start + _ZSTD_BLOCK]
        is_last = start + _ZSTD_BLOCK >= len(content)
        frame += (len(block) << 3 | is_last).to_bytes(3, "little") + block
    return bytes(frame)


STORED: Final = Method(0, 10, _as_it_is)
DEFLATED: Final = Method(8, 20, _deflate)
BZIP2: Final = Method(12, 46, bz2.compress)
LZMA: Final = Method(14, 63, _lzma, _LZMA_HAS_END_MARK)
ZSTD: Final = Method(93, 63, _zstd_frame)
XZ: Final = Method(95, 63, lzma.compress)
