"""One consumer group: its members, who owns which partition, and what is being handed over.

While a group has members, each partition of the topic is owned by exactly one of them. A partition
changes its owner in one of two ways:

- When a member goes, or partitions are added or removed, all are dealt out anew, at once
  (`_deal_out`). What an old owner was given and did not commit is delivered again.
- When a member comes, those that own too much give some of it away (`_balance`). A partition with a
  batch in flight, delivered and not yet committed, is handed over: nobody may poll it until its
  owner has committed that batch, or a time-out has passed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from windsprite_protocol.model.groups import GroupAssignment, GroupMember


@dataclass(slots=True)
class _Progress:
    """How far a partition was delivered to its owner, and what the group has committed of it."""

    served: int
    committed: int | None

    @property
    def is_in_flight(self) -> bool:
        return self.committed is None or self.committed < self.served


class _Member:
    """A client that joined, and the partitions it owns in their order.

    With each partition goes what was delivered of it to this owner: the next one starts afresh.
    """

    __slots__ = ("client", "owned", "slot")

    def __init__(self, slot: int, client: bytes) -> None:
        self.slot = slot
        self.client = client
        self.owned: dict[int, _Progress | None] = {}

    def is_busy_with(self, partition_id: int) -> bool:
        progress = self.owned[partition_id]
        return progress is not None and progress.is_in_flight

    def give(self, partition_id: int, other: _Member) -> None:
        del self.owned[partition_id]
        other.owned[partition_id] = None


class _Handoff(NamedTuple):
    """A partition that its owner is to give to another member, at the latest at the deadline."""

    source: _Member
    target: _Member
    deadline: float


class Group:
    """One consumer group. Its members are clients, by the ids of their sessions.

    Times are seconds of a clock that never goes backwards.

    Attributes:
        generation: Grows with every change of what a member owns or may poll (spec 05, 8).
        partitions_count: Of the topic.
    """

    __slots__ = (
        "_clients", "_handoffs", "_members", "_timeout", "generation", "partitions_count",
    )  # fmt: skip

    def __init__(self, partitions_count: int, timeout: float) -> None:
        """A group without members.

        Args:
            partitions_count: Of the topic.
            timeout: Seconds a hand-off may take.
        """
        self.generation = 0
        self.partitions_count = partitions_count
        self._timeout = timeout
        self._members: list[_Member] = []
        self._clients: dict[bytes, _Member] = {}
        self._handoffs: dict[int, _Handoff] = {}

    # Questions

    @property
    def clients(self) -> tuple[bytes, ...]:
        """Who is a member, by ascending slot."""
        return tuple(member.client for member in self._members)

    @property
    def members(self) -> tuple[GroupMember, ...]:
        """The members by ascending slot, each with what it owns; its source owns a hand-off."""
        return tuple(GroupMember(member.slot, tuple(member.owned)) for member in self._members)

    @property
    def is_handing_over(self) -> bool:
        """Whether any partition is to go from one member to another."""
        return bool(self._handoffs)

    @property
    def deadline(self) -> float | None:
        """When the next hand-off ends, whatever its source does; `None`: there is none."""
        return min((handoff.deadline for handoff in self._handoffs.values()), default=None)

    def assignment(self, client: bytes) -> GroupAssignment | None:
        """What a member may poll, in the order it should; `None`: the client is no member."""
        member = self._clients.get(client)
        if member is None:
            return None
        pollable = (number for number in member.owned if number not in self._handoffs)
        return GroupAssignment(self.generation, tuple(pollable))

    def owns(self, client: bytes, partition_id: int) -> bool:
        """Whether a client may change what the group has stored for a partition."""
        member = self._clients.get(client)
        return member is not None and partition_id in member.owned

    def may_poll(self, client: bytes, partition_id: int) -> bool:
        """Whether a client may poll a partition: it owns it and is not to give it away."""
        return self.owns(client, partition_id) and partition_id not in self._handoffs

    # Members come and go

    def join(self, client: bytes, now: float) -> None:
        """Make a client a member, in the lowest free slot; one that is a member stays as it is."""
        if client in self._clients:
            return
        slot = next(
            (place for place, member in enumerate(self._members) if member.slot != place),
            len(self._members),
        )
        member = self._clients[client] = _Member(slot, client)
        self._members.insert(slot, member)
        self.generation += 1
        if len(self._members) == 1:
            member.owned = dict.fromkeys(range(self.partitions_count))
        else:
            self._balance(now)

    def leave(self, client: bytes) -> bool:
        """End a membership; returns whether there was one."""
        member = self._clients.pop(client, None)
        if member is None:
            return False
        self._members.remove(member)
        self._deal_out()
        return True

    def resize(self, partitions_count: int) -> None:
        """Note that partitions were added after the last one, or the last ones removed."""
        if partitions_count != self.partitions_count:
            self.partitions_count = partitions_count
            self._deal_out()

    # Messages are delivered and committed

    def delivered(
        self, client: bytes, partition_id: int, offset: int, committed: int | None
    ) -> None:
        """Note that a batch goes to the owner of a partition.

        Args:
            client: The owner; what others get does not count.
            partition_id: The partition.
            offset: Of the last message of the batch.
            committed: What the group has stored for the partition now.
        """
        member = self._clients.get(client)
        if member is None or partition_id not in member.owned:
            return
        progress = member.owned[partition_id]
        served = offset if progress is None else max(progress.served, offset)
        member.owned[partition_id] = _Progress(served, committed)

    def committed(self, client: bytes, partition_id: int, offset: int | None, now: float) -> None:
        """Note what the group has stored for a partition now.

        Args:
            client: The owner, who stored it.
            partition_id: The partition.
            offset: What is stored; `None`: nothing any more.
            now: The time.
        """
        member = self._clients.get(client)
        progress = None if member is None else member.owned.get(partition_id)
        if progress is not None:
            progress.committed = offset
            self._finish((partition_id,), now)

    def purge(self, now: float) -> None:
        """Note that all messages of the topic are gone, and all that was stored for the group."""
        for member in self._members:
            member.owned = dict.fromkeys(member.owned)
        self.finish_handoffs(now)

    def finish_handoffs(self, now: float) -> None:
        """End the hand-offs whose time is over, or whose source has nothing left to do."""
        self._finish(tuple(self._handoffs), now)

    # Partitions change hands

    def _finish(self, partitions: tuple[int, ...], now: float) -> None:
        """End those hand-offs of the given partitions that can end (spec 05, 7.2)."""
        any_ended = False
        for partition_id in partitions:
            handoff = self._handoffs.get(partition_id)
            if handoff is None:
                continue
            if handoff.deadline <= now or not handoff.source.is_busy_with(partition_id):
                del self._handoffs[partition_id]
                handoff.source.give(partition_id, handoff.target)
                self.generation += 1
                any_ended = True
        # Who joined while all there was to give was promised to others is not forgotten.
        if any_ended and not self._handoffs and self._balance(now):
            self.generation += 1

    def _deal_out(self) -> None:
        """Give out all partitions in turn, and drop all hand-offs (spec 05, 6.2, EAGER)."""
        self.generation += 1
        self._handoffs.clear()
        for turn, member in enumerate(self._members):
            before = member.owned
            partitions = range(turn, self.partitions_count, len(self._members))
            member.owned = {number: before.get(number) for number in partitions}

    def _balance(self, now: float) -> bool:
        """Make shares equal by moving as little as possible (spec 05, 6.3, COOPERATIVE).

        The reference gives only to members that have nothing and wait for nothing. Here those with
        the smallest share get what is given away; it is the same as long as nobody waits.

        Returns:
            Whether there was anything to move.
        """
        fair, larger = divmod(self.partitions_count, len(self._members))
        shares = Counter(handoff.target.slot for handoff in self._handoffs.values())
        excess: list[tuple[int, _Member]] = []
        for member in self._members:
            kept = [number for number in member.owned if number not in self._handoffs]
            shares[member.slot] += len(kept)
            allowed = fair
            if larger and shares[member.slot] > fair:
                larger -= 1
                allowed += 1
            while len(kept) > allowed:
                excess.append((kept.pop(), member))
                shares[member.slot] -= 1
        for partition_id, source in excess:
            target = min(self._members, key=lambda member: shares[member.slot])
            shares[target.slot] += 1
            if source.is_busy_with(partition_id):
                self._handoffs[partition_id] = _Handoff(source, target, now + self._timeout)
            else:
                source.give(partition_id, target)
        return bool(excess)
