"""A bounded number of open files."""

import errno
import os

import pytest

from support.log import MemoryFiles
from windsprite_server.log.descriptors import CLOSED, Descriptors


def opened(count: int, limit: int):
    files = MemoryFiles()
    descriptors = Descriptors(files, limit)
    made = [descriptors.open(f"/log/{number}", os.O_RDWR | os.O_CREAT) for number in range(count)]
    return files, descriptors, made


def test_no_more_than_the_limit_stay_open() -> None:
    files, descriptors, made = opened(10, 3)
    assert files.open_count == len(descriptors) == 3
    assert [file.descriptor == CLOSED for file in made] == [True] * 7 + [False] * 3


def test_what_is_used_stays_open_longer() -> None:
    _, descriptors, made = opened(3, 3)
    descriptors.open("/log/3", os.O_RDWR | os.O_CREAT)
    assert made[0].descriptor == CLOSED
    made[1].used = True
    descriptors.open("/log/4", os.O_RDWR | os.O_CREAT)
    assert made[1].descriptor != CLOSED
    assert made[2].descriptor == CLOSED


def test_pinned_files_stay_open_until_they_are_released() -> None:
    files, descriptors, made = opened(2, 2)
    for file in made:
        file.pins += 1
    third = descriptors.open("/log/3", os.O_RDWR | os.O_CREAT)
    third.pins += 1
    assert files.open_count == 3
    descriptors.close(made[0])
    assert made[0].descriptor != CLOSED
    descriptors.release(made[0])
    assert made[0].descriptor == CLOSED
    descriptors.close_all()
    assert files.open_count == 0


class FewFiles(MemoryFiles):
    """The system allows fewer open files than the limit asks for."""

    allowed = 10

    def open(self, path: str, flags: int) -> int:
        if self.open_count >= self.allowed:
            raise OSError(errno.EMFILE, "too many open files", path)
        return super().open(path, flags)


def test_a_system_that_allows_fewer_gets_some_back() -> None:
    files = FewFiles()
    descriptors = Descriptors(files, 1000)
    for number in range(100):
        descriptors.open(f"/log/{number}", os.O_RDWR | os.O_CREAT)
    # Sockets and other files need some as well.
    assert 5 <= files.open_count == len(descriptors) < files.allowed
    for allowed in range(files.open_count, 0, -1):
        files.allowed = max(allowed, files.open_count)  # somebody else opens all that are left
        for number in range(10):
            file = descriptors.open(f"/log/{number}", os.O_RDWR | os.O_CREAT)
            assert file.descriptor != CLOSED
        assert files.open_count <= files.allowed


def test_what_all_others_are_needed_for_is_refused() -> None:
    files = FewFiles()
    descriptors = Descriptors(files, 1000)
    made = [descriptors.open(f"/log/{n}", os.O_RDWR | os.O_CREAT) for n in range(10)]
    for file in made:
        file.pins += 1
    with pytest.raises(OSError, match="too many open files"):
        descriptors.open("/log/more", os.O_RDWR | os.O_CREAT)
    assert all(file.descriptor != CLOSED for file in made)
    descriptors.release(made[3])
    descriptors.open("/log/more", os.O_RDWR | os.O_CREAT)
