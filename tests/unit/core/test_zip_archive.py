"""ZIP archives, read with the standard library where it can, else by hand."""

import io
import lzma
import struct
import zipfile
from datetime import UTC, datetime

import pytest

from windsprite_server.core import zip_archive
from windsprite_server.core.zip_archive import Entry, Method

MOMENT = datetime(2024, 2, 29, 23, 59, 58, tzinfo=UTC)
ENTRIES = [
    Entry("empty.txt", b""),
    Entry("line.txt", b"test\n"),
    Entry("lines.txt", b"the same line again\n" * 20_000),
    Entry("numbers.bin", bytes(n * n % 251 for n in range(131_073))),
]
METHODS = {
    "stored": (zip_archive.STORED, 0),
    "deflated": (zip_archive.DEFLATED, 8),
    "bzip2": (zip_archive.BZIP2, 12),
    "lzma": (zip_archive.LZMA, 14),
    "zstd": (zip_archive.ZSTD, 93),
    "xz": (zip_archive.XZ, 95),
}


def opened(archive: bytes) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(archive))


def stored_bytes(archive: bytes, entry: zipfile.ZipInfo) -> bytes:
    """What stands in the archive for an entry."""
    name_length, extra_length = struct.unpack_from("<HH", archive, entry.header_offset + 26)
    start = entry.header_offset + 30 + name_length + extra_length
    return archive[start : start + entry.compress_size]


def zstd_content(frame: bytes) -> bytes:
    """The content of a frame of plain blocks (RFC 8878, 3.1)."""
    magic, descriptor, size = struct.unpack_from("<IBQ", frame)
    assert (magic, descriptor) == (0xFD2FB528, 0b1110_0000)
    at, content, is_last = 13, b"", False
    while not is_last:
        header = int.from_bytes(frame[at : at + 3], "little")
        is_last, kind, length = bool(header & 1), header >> 1 & 3, header >> 3
        assert kind == 0
        assert length <= min(size, 128 * 1024)
        content += frame[at + 3 : at + 3 + length]
        at += 3 + length
    assert at == len(frame)
    assert len(content) == size
    return content


@pytest.mark.parametrize(("method", "number"), METHODS.values(), ids=METHODS)
def test_names_sizes_and_times(method: Method, number: int) -> None:
    listed = opened(zip_archive.zip_archive(ENTRIES, method, MOMENT)).infolist()
    assert [entry.filename for entry in listed] == [name for name, _ in ENTRIES]
    assert [entry.file_size for entry in listed] == [len(content) for _, content in ENTRIES]
    assert {entry.compress_type for entry in listed} == {number}
    assert {entry.date_time for entry in listed} == {(2024, 2, 29, 23, 59, 58)}
    assert {entry.external_attr >> 16 for entry in listed} == {0o100644}


@pytest.mark.parametrize("name", ["stored", "deflated", "bzip2", "lzma"])
def test_the_standard_library_reads_what_it_knows(name: str) -> None:
    archive = opened(zip_archive.zip_archive(ENTRIES, METHODS[name][0], MOMENT))
    assert archive.testzip() is None
    assert [(entry, archive.read(entry)) for entry in archive.namelist()] == ENTRIES


@pytest.mark.parametrize("name", ["zstd", "xz"])
def test_entries_of_the_other_methods_are_what_they_should_be(name: str) -> None:
    read = {"zstd": zstd_content, "xz": lzma.decompress}[name]
    archive = zip_archive.zip_archive(ENTRIES, METHODS[name][0], MOMENT)
    contents = [read(stored_bytes(archive, entry)) for entry in opened(archive).infolist()]
    assert contents == [content for _, content in ENTRIES]


def test_an_archive_may_be_empty() -> None:
    archive = zip_archive.zip_archive([], zip_archive.DEFLATED, MOMENT)
    assert archive == b"PK\x05\x06" + bytes(18)
    assert opened(archive).namelist() == []


@pytest.mark.parametrize(("year", "told"), [(1970, 1980), (2107, 2107), (3000, 2107)])
def test_years_that_the_format_does_not_know(year: int, told: int) -> None:
    moment = datetime(year, 1, 2, tzinfo=UTC)
    archive = zip_archive.zip_archive(ENTRIES[:1], zip_archive.STORED, moment)
    assert opened(archive).infolist()[0].date_time == (told, 1, 2, 0, 0, 0)
