"""The certificate in force: what changes it, what does not, and what the log says of it."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.certificates import Authority, Files, Pair
from support.clock import ManualClock
from windsprite_server.core.log_setup import make_logger
from windsprite_server.transport.certificate import CertificateError
from windsprite_server.transport.certificate_watch import CertificateWatch

START = datetime(2030, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
INTERVAL = 3600
CA = Authority()


def good(days: int = 100) -> Pair:
    return CA.issue_until(START + days * DAY)


class Watched:
    """A watch that looks every hour, with its files, a clock that stands still, and a log."""

    def __init__(self, folder: Path, pair: Pair) -> None:
        self.files = Files(folder, pair)
        self.clock = ManualClock(int(START.timestamp()) * 1_000_000)
        self._log = io.StringIO()
        logger = make_logger(log_format="json", level="info", stream=self._log, clock=self.clock)
        self.watch = CertificateWatch(
            self.files.cert, self.files.key, self.clock, logger, interval=INTERVAL
        )

    async def pass_looks(self, count: int) -> None:
        await self.clock.advance(count * INTERVAL)

    def told(self) -> list[tuple[str, str]]:
        """What was logged since the last call: level and event."""
        lines = self._log.getvalue().splitlines()
        self._log.seek(0)
        self._log.truncate()
        events: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [(event["level"], event["event"]) for event in events]


LOADED = [("info", "certificate loaded")]
KEPT = [("error", "the certificate before stays in force")]


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    watched = Watched(tmp_path, good())
    assert watched.told() == LOADED
    watched.watch.start()
    yield watched
    await watched.watch.stop()


async def test_files_that_stay_are_read_once(watched: Watched) -> None:
    context = watched.watch.context
    await watched.pass_looks(5)
    assert watched.watch.context is context
    assert watched.told() == []


async def test_new_files_are_read_once_they_have_come_to_rest(watched: Watched) -> None:
    first = watched.watch.context
    watched.files.put(good())
    await watched.pass_looks(1)
    assert watched.watch.context is first, "the key may still be on its way"
    await watched.pass_looks(1)
    assert watched.watch.context is not first
    assert watched.told() == LOADED
    await watched.pass_looks(3)
    assert watched.told() == []


async def test_a_key_that_comes_a_moment_after_its_certificate(watched: Watched) -> None:
    new = good()
    watched.files.put(Pair(new.cert, watched.files.key.read_bytes()))
    await watched.pass_looks(1)
    watched.files.put(new)
    await watched.pass_looks(3)
    assert watched.told() == LOADED


async def test_content_written_in_place_counts_as_well(watched: Watched) -> None:
    first = watched.watch.context
    new = good()
    watched.files.cert.write_bytes(new.cert + b"\n")
    watched.files.key.write_bytes(new.key)
    await watched.pass_looks(2)
    assert watched.watch.context is not first


async def test_links_that_lead_elsewhere_count_as_well(tmp_path: Path) -> None:
    """As in volumes of Kubernetes: the files are links, through a directory that is replaced."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        Files(tmp_path / name, good())
    (tmp_path / "now").symlink_to("one")
    cert, key = tmp_path / "now" / "cert.pem", tmp_path / "now" / "key.pem"
    clock = ManualClock(int(START.timestamp()) * 1_000_000)
    logger = make_logger(log_format="json", level="error", stream=io.StringIO(), clock=clock)
    watch = CertificateWatch(cert, key, clock, logger, interval=INTERVAL)
    first = watch.context
    watch.start()
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(tmp_path / "now")
    await clock.advance(2 * INTERVAL)
    assert watch.context is not first
    await watch.stop()


@pytest.mark.parametrize(
    "bad",
    [
        Pair(b"", b""),
        Pair(good().cert, good().key),
        CA.issue_until(START - DAY),
        CA.issue(not_before=START + DAY, not_after=START + 2 * DAY),
    ],
    ids=["empty", "two of different pairs", "expired", "not valid yet"],
)
async def test_bad_files_change_nothing_and_are_told_once(watched: Watched, bad: Pair) -> None:
    first = watched.watch.context
    watched.files.put(bad)
    await watched.pass_looks(5)
    assert watched.watch.context is first
    assert watched.told() == KEPT
    watched.files.put(good())
    await watched.pass_looks(2)
    assert watched.watch.context is not first
    assert watched.told() == LOADED
    watched.files.put(bad)
    await watched.pass_looks(2)
    assert watched.told() == KEPT, "a new failure is told again"


async def test_files_that_are_removed_change_nothing(watched: Watched) -> None:
    first = watched.watch.context
    watched.files.cert.unlink()
    watched.files.key.unlink()
    await watched.pass_looks(5)
    assert watched.watch.context is first
    assert watched.told() == KEPT


async def test_a_certificate_for_later_comes_into_force_in_time(watched: Watched) -> None:
    first = watched.watch.context
    watched.files.put(CA.issue(not_before=START + DAY, not_after=START + 90 * DAY))
    await watched.pass_looks(23)
    assert watched.watch.context is first
    assert watched.told() == KEPT
    await watched.pass_looks(2)
    assert watched.watch.context is not first
    assert watched.told() == LOADED


async def test_a_reload_that_is_asked_for_happens_at_once_and_is_always_told(
    watched: Watched,
) -> None:
    first = watched.watch.context
    watched.watch.reload()
    assert watched.watch.context is not first
    assert watched.told() == LOADED
    watched.files.put(Pair(b"", b""))
    for _ in range(2):
        watched.watch.reload()
        assert watched.told() == KEPT
    await watched.pass_looks(3)
    assert watched.told() == []


async def test_age_is_told_a_week_before_the_end_and_at_the_end(tmp_path: Path) -> None:
    watched = Watched(tmp_path, good(days=8))
    watched.watch.start()
    watched.told()
    await watched.pass_looks(22)
    assert watched.told() == []
    await watched.pass_looks(4)
    assert watched.told() == [("warning", "the certificate expires soon")]
    await watched.pass_looks(164)
    assert watched.told() == []
    await watched.pass_looks(4)
    assert watched.told() == [("error", "the certificate has expired: clients refuse it")]
    watched.files.put(good(days=9))
    await watched.pass_looks(2)
    assert watched.told() == [*LOADED, ("warning", "the certificate expires soon")]
    watched.files.put(good(days=10))
    await watched.pass_looks(2)
    assert watched.told() == [*LOADED, ("warning", "the certificate expires soon")]
    watched.files.put(good())
    await watched.pass_looks(2)
    assert watched.told() == LOADED
    await watched.watch.stop()


def test_bad_files_at_the_start_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="expired"):
        Watched(tmp_path, CA.issue_until(START - DAY))


async def test_stopping_before_and_after_a_start(tmp_path: Path) -> None:
    watch = Watched(tmp_path, good()).watch
    await watch.stop()
    watch.start()
    await watch.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}
