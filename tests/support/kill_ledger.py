"""What clients know of a partition, and whether what a server has of it agrees.

A ledger holds what was sent, what was acknowledged and what was seen. After a kill the partition is
read and compared: every acknowledged batch is there, once and where it was said to be; of what was
not answered a beginning is there; nothing else is.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

from windsprite_protocol.batches import BATCH_HEADER
from windsprite_protocol.model.messages import Buffer


class Sent(NamedTuple):
    """A batch on its way: whose it is, the how manieth of that producer, and its messages."""

    producer: str
    number: int
    count: int


class Known(NamedTuple):
    """A batch that was sent, and its bytes."""

    sent: Sent
    size: int


class Stored(NamedTuple):
    """A batch as it was read back."""

    base_offset: int
    count: int
    size: int
    digest: int


def digest_of(batch: Buffer) -> int:
    """What stays the same of a batch from its producer to its readers: the frames."""
    return xxh3_64_intdigest(memoryview(batch)[BATCH_HEADER.size :])


@dataclass
class StoredOffset:
    """What a consumer knows of its stored offset.

    Attributes:
        told: The last one whose storing was acknowledged.
        asked: Those sent since then; each may be stored or not.
        is_open: Whether an unanswered poll may have stored any later one.
    """

    told: int | None = None
    asked: set[int] = field(default_factory=set)
    is_open: bool = False

    def ask(self, offset: int) -> None:
        self.asked.add(offset)

    def tell(self, offset: int | None) -> None:
        self.told, self.asked, self.is_open = offset, set(), False

    def check(self, stored: int | None, end: int) -> None:
        assert stored is None or 0 <= stored < end, f"{stored} is stored, the end is {end}"
        if self.is_open and stored is not None:
            assert stored >= (self.told or 0), f"{stored} is stored, {self.told} was acknowledged"
        else:
            assert stored in {self.told, *self.asked}, f"{stored} is stored, not one of {self}"
        self.tell(stored)


class Life:
    """A partition between two purges.

    Attributes:
        end: The offset after the last that anybody was told of.
        first: The oldest offset, when it was last looked at.
        removed_bytes: Bytes of known batches that are gone.
        offsets: What consumers stored, by their names.
    """

    def __init__(self) -> None:
        self._known: dict[int, Known] = {}
        self._flight: dict[int, Sent] = {}
        self._placed: dict[int, int] = {}
        self._taken = 0
        self.end = 0
        self.first = 0
        self.removed_bytes = 0
        self.offsets: dict[str, StoredOffset] = defaultdict(StoredOffset)

    def send(self, batch: Buffer, sent: Sent) -> int:
        """A batch is sent; its digest names it from now on."""
        digest = digest_of(batch)
        assert digest not in self._known
        self._known[digest] = Known(sent, len(batch))
        self._flight[digest] = sent
        return digest

    def acknowledge(self, digest: int, base_offset: int) -> None:
        """A batch was acknowledged."""
        sent = self._flight.pop(digest)
        assert base_offset >= self._taken, f"offset {base_offset} was given away before"
        assert base_offset not in self._placed, f"offset {base_offset} was given away twice"
        self._placed[base_offset] = digest
        self.see(base_offset + sent.count)

    def see(self, end: int) -> None:
        """Somebody was told that the partition reaches up to `end`."""
        self.end = max(self.end, end)

    def check(self, batches: list[Stored], end: int) -> None:
        """Compare with what a server has; all senders have lost their connections.

        Args:
            batches: All that can be read.
            end: The offset after the last one, also if nothing can be read.
        """
        first = batches[0].base_offset if batches else end
        assert first >= self.first, f"{first} is the oldest offset, it was {self.first}"
        assert end >= self.end, f"the end is {end}, but {self.end} was told"
        expected = first
        for batch in batches:
            assert batch.base_offset == expected, f"{batch} stands where {expected} should"
            assert batch.digest in self._known, f"{batch} was never sent"
            assert batch.count == self._known[batch.digest].sent.count
            expected += batch.count
        assert expected == end
        there = {batch.base_offset: batch.digest for batch in batches}
        assert len(set(there.values())) == len(batches), "a batch is there twice"
        for base_offset, digest in self._placed.items():
            assert base_offset < first or there.get(base_offset) == digest, f"{base_offset} is gone"
        self._check_order(batches)
        self._check_flight(set(there.values()), first)
        self._begin_anew(batches, first, end)

    def _check_order(self, batches: list[Stored]) -> None:
        numbers: dict[str, int] = {}
        for batch in batches:
            producer, number, _ = self._known[batch.digest].sent
            assert number > numbers.get(producer, -1), f"{batch} is out of order"
            numbers[producer] = number

    def _check_flight(self, there: set[int], first: int) -> None:
        """Of each producer's unanswered batches, in their order, a beginning is there."""
        # Some may have been stored and removed already; then nobody can tell.
        was_removed = first > self.first
        missing: set[str] = set()
        for digest, sent in self._flight.items():
            if digest not in there:
                missing.add(sent.producer)
            else:
                assert was_removed or sent.producer not in missing, f"{sent} overtook another"

    def _begin_anew(self, batches: list[Stored], first: int, end: int) -> None:
        gone = [digest for base, digest in self._placed.items() if base < first]
        self.removed_bytes += sum(self._known[digest].size for digest in gone)
        self._placed = {batch.base_offset: batch.digest for batch in batches}
        # What was not stored can't come any more: nobody sends it again.
        self._known = {digest: self._known[digest] for digest in self._placed.values()}
        self._flight = {}
        self._taken = self.end = end
        self.first = first


class Ledger:
    """A partition over all purges: the last life, and those that may still go on.

    Attributes:
        lives: The present life, and one more for each purge that is not answered.
    """

    def __init__(self) -> None:
        self.lives = [Life()]

    @property
    def life(self) -> Life:
        """The life that is written to."""
        return self.lives[-1]

    def purge(self) -> None:
        """A purge is sent."""
        self.lives.append(Life())

    def purged(self) -> None:
        """A purge was acknowledged."""
        del self.lives[0]

    def check(self, batches: list[Stored], end: int) -> None:
        """As `Life.check`; one of the lives that may go on has to agree."""
        *others, last = self.lives
        for life in others:
            try:
                life.check(batches, end)
            except AssertionError:
                continue
            self.lives = [life]
            return
        last.check(batches, end)
        self.lives = [last]
