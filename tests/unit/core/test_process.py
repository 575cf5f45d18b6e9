"""Figures of this process and its machine."""

import os
from pathlib import Path

import pytest

from support.clock import ManualClock
from windsprite_server.core.process import ProcessMeter

SECOND = 1_000_000


def burn() -> int:
    return sum(number * number for number in range(2_000_000))


def test_processor_use_is_that_since_the_look_before(tmp_path: Path) -> None:
    meter = ProcessMeter(tmp_path, ManualClock())
    assert meter.read().cpu_usage == 0
    burn()
    figures = meter.read()
    assert figures.cpu_usage > 0  # how much depends on who else wants the processor
    assert 0 <= figures.total_cpu_usage <= 100


async def test_times_are_whole_seconds(tmp_path: Path) -> None:
    clock = ManualClock(now_us=1_700_000_000_900_000)
    meter = ProcessMeter(tmp_path, clock)
    await clock.advance(2.95)
    clock.set_wall_clock(0)
    figures = meter.read()
    assert figures.run_time == 2 * SECOND
    assert figures.start_time == 1_700_000_000 * SECOND


def test_sizes_are_plausible(tmp_path: Path) -> None:
    figures = ProcessMeter(tmp_path, ManualClock()).read()
    assert figures.process_id == os.getpid()
    assert 1 << 20 < figures.memory_usage < figures.total_memory
    assert 0 < figures.available_memory <= figures.total_memory
    assert 0 < figures.free_disk_space <= figures.total_disk_space
    assert figures.threads_count >= 1


def test_written_bytes_grow(tmp_path: Path) -> None:
    meter = ProcessMeter(tmp_path, ManualClock())
    before = meter.read().written_bytes
    with (tmp_path / "file").open("wb") as file:
        file.write(bytes(1 << 20))
        os.fsync(file.fileno())
    assert meter.read().written_bytes >= before + (1 << 20)


def test_a_volume_that_is_gone_has_no_space(tmp_path: Path) -> None:
    figures = ProcessMeter(tmp_path / "missing", ManualClock()).read()
    assert (figures.free_disk_space, figures.total_disk_space) == (0, 0)


@pytest.mark.parametrize("name", ["hostname", "os_name", "os_version", "kernel_version"])
def test_the_machine_has_names(tmp_path: Path, name: str) -> None:
    assert getattr(ProcessMeter(tmp_path, ManualClock()).names, name)
