"""Damage of many kinds in many places: what is sound is read, what is not is named."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from support.log import DIRECTORY, KEY, NOW, Harness, append, fetch, find_time, messages_of
from windsprite_server.log.inspection import inspect
from windsprite_server.log.keys import LogLimits, PartitionOptions

STEP = 10
"""Microseconds between two batches."""


@dataclass
class Batch:
    base: int
    payloads: list[bytes]
    path: str
    start: int
    end: int
    is_bad: bool = False

    @property
    def next(self) -> int:
        return self.base + len(self.payloads)


class Story:
    """A log that is filled, stopped, damaged and opened again."""

    def __init__(self, options: PartitionOptions, limits: LogLimits) -> None:
        self.harness = Harness(options=options, limits=limits)
        self.log = self.harness.open()
        self.batches: list[Batch] = []

    def fill(self, sizes: list[list[int]]) -> None:
        for number, lengths in enumerate(sizes, start=len(self.batches)):
            payloads = [b"%d.%d" % (number, n) + bytes(n) for n in lengths]
            segment = self.log._active
            start = segment.size
            base = append(self.log, *payloads, now=NOW + STEP * number)
            self.batches.append(Batch(base, payloads, segment.path, start, segment.size))

    def damage(self, kinds: list[tuple[str, int, int, int]]) -> None:
        """Do it, and find out which batches it hit: a bit that is flipped twice is as before."""
        before = [self.content(batch) for batch in self.batches]
        last = self.batches[-1].path
        for kind, which, place, bit in kinds:
            batch = self.batches[which % len(self.batches)]
            if "index" not in kind or batch.path != last:
                self.change(kind, batch, place, bit)
        for batch, content in zip(self.batches, before, strict=True):
            batch.is_bad = self.content(batch) != content

    def content(self, batch: Batch) -> bytes:
        return bytes(self.harness.files.content(batch.path)[batch.start : batch.end])

    def change(self, kind: str, batch: Batch, place: int, bit: int) -> None:
        files = self.harness.files
        data = files.content(batch.path)
        index = batch.path.removesuffix(".log") + ".index"
        if kind == "lost index":
            if files.exists(index):
                files.unlink(index)
        elif kind == "index":
            if files.exists(index) and (rows := files.content(index)):
                rows[place % len(rows)] ^= 1 << bit
        elif kind == "lost end":
            # Only of a segment that has a successor: the end of the last one may be torn.
            if batch.path == self.batches[-1].path:
                return
            del data[max(0, len(data) - place) :]
        elif batch.end <= len(data):
            at = batch.start + place % (batch.end - batch.start)
            if kind == "flip":
                data[at] ^= 1 << bit
            else:
                end = min(batch.end, at + 64)
                data[at:end] = bytes(end - at)

    async def check(self) -> None:
        log = self.log
        bad = {n for batch in self.batches if batch.is_bad for n in range(batch.base, batch.next)}
        messages = [(n, p) for b in self.batches for n, p in enumerate(b.payloads, start=b.base)]
        assert log.next_offset == len(messages)
        for start in range(len(messages)):
            found = await fetch(log, start, 1000)
            stop = min((offset for offset in bad if offset >= start), default=len(messages))
            assert messages_of(found) == messages[start:stop]
            if stop == len(messages):
                assert found.damage is None
            else:
                assert found.damage is not None
                assert found.damage.first_offset <= stop < found.damage.next_offset
                assert bad.issuperset(range(found.damage.first_offset, found.damage.next_offset))
        for number, batch in enumerate(self.batches):
            for time in (NOW + STEP * number - 1, NOW + STEP * number):
                found_at = await find_time(log, time)
                rest = set(range(batch.base, len(messages)))
                # Damage on the way ends the search, but nothing is passed over.
                assert found_at == batch.base or (
                    found_at in bad if found_at < batch.base else rest <= bad
                )


damages = st.lists(
    st.tuples(
        st.sampled_from(["flip", "flip", "zeros", "lost end", "index", "lost index"]),
        st.integers(0, 1000),
        st.integers(0, 60) | st.integers(0, 1000),
        st.integers(0, 7),
    ),
    min_size=1,
    max_size=3,
)
batches = st.lists(
    st.lists(st.sampled_from([0, 1, 50, 300]), min_size=1, max_size=6), min_size=1, max_size=12
)


@settings(max_examples=150, deadline=None)
@given(
    segment_size=st.sampled_from([1, 900, 2000, 1 << 20]),
    interval=st.sampled_from([1, 700, 1 << 16]),
    sizes=batches,
    damages=damages,
    more=batches,
)
def test_after_a_clean_stop_damage_hides_what_it_hit_and_nothing_else(
    segment_size, interval, sizes, damages, more
) -> None:
    """Also after further messages; indexes may be damaged, but not the marks that all was synced.

    Without its mark, the end of the last segment may be an unfinished write.
    """

    async def run() -> None:
        limits = LogLimits(tail_bytes=0, index_interval=interval, read_threads=1, sync_threads=1)
        story = Story(PartitionOptions(segment_size=segment_size), limits)
        story.fill(sizes)
        await story.harness.store.close()
        story.damage(damages)
        inspection = inspect(Path(DIRECTORY), KEY, files=story.harness.files)
        assert inspection.is_sound == (not any(batch.is_bad for batch in story.batches))
        assert inspection.next_offset == story.batches[-1].next
        story.log = story.harness.open()
        await story.check()
        story.fill(more)
        await story.check()
        await story.harness.kill()
        story.log = story.harness.log
        await story.check()
        await story.harness.store.close()

    asyncio.run(run())
