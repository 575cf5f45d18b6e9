"""A bounded number of open files."""

import os

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
