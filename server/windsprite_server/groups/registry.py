"""All consumer groups that have, or had, members (spec 05, 13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from windsprite_protocol.model.groups import GroupAssignment, GroupMember
from windsprite_server.groups.group import Group


class GroupKey(NamedTuple):
    """Which group: its id is never given to another one as long as the topic exists."""

    stream_id: int
    topic_id: int
    group_id: int


class Groups:
    """Who is a member of which group, over all topics.

    It is told what happens and asked who may do what. Which groups exist it is not asked: a group
    nobody joined yet is one without members. Clients are known by the ids of their sessions; times
    are seconds of a clock that never goes backwards.
    """

    __slots__ = ("_memberships", "_on_handoff", "_timeout", "_topics", "_waiting")

    def __init__(
        self, rebalancing_timeout: float, on_handoff: Callable[[], None] | None = None
    ) -> None:
        """No group has members.

        Args:
            rebalancing_timeout: Seconds that a member has to commit what it was given of a
                partition that is to go to another one.
            on_handoff: Called when hand-offs began while there were none, after which
                `finish_handoffs` is due at `deadline`. Must not call back.
        """
        self._timeout = rebalancing_timeout
        self._on_handoff = on_handoff
        self._topics: dict[tuple[int, int], dict[int, Group]] = {}
        self._memberships: dict[bytes, set[GroupKey]] = {}
        self._waiting: dict[GroupKey, Group] = {}

    # Questions

    def memberships(self, client: bytes) -> list[GroupKey]:
        """The groups a client is a member of, by ascending stream, topic and group."""
        return sorted(self._memberships.get(client, ()))

    def is_member(self, client: bytes) -> bool:
        """Whether a client is a member of any group."""
        return client in self._memberships

    def members(self, key: GroupKey) -> tuple[GroupMember, ...]:
        """The members of a group by ascending slot, each with the partitions it owns."""
        group = self._find(key)
        return () if group is None else group.members

    def members_count(self, key: GroupKey) -> int:
        """How many members a group has."""
        group = self._find(key)
        return 0 if group is None else len(group.clients)

    def assignment(self, key: GroupKey, client: bytes) -> GroupAssignment | None:
        """What a member may poll; `None`: the client is no member."""
        group = self._find(key)
        return None if group is None else group.assignment(client)

    def may_poll(self, key: GroupKey, client: bytes, partition_id: int) -> bool:
        """Whether a client may poll a partition for a group."""
        group = self._find(key)
        return group is not None and group.may_poll(client, partition_id)

    def owns(self, key: GroupKey, client: bytes, partition_id: int) -> bool:
        """Whether a client may change the stored offset of a group on a partition."""
        group = self._find(key)
        return group is not None and group.owns(client, partition_id)

    @property
    def deadline(self) -> float | None:
        """When `finish_handoffs` is due; `None`: nothing is being handed over."""
        deadlines = (group.deadline for group in self._waiting.values())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # Members come and go

    def join(self, key: GroupKey, client: bytes, partitions_count: int, now: float) -> None:
        """Make a client a member of a group; nothing happens if it is one.

        Args:
            key: A group that exists.
            client: Who joins.
            partitions_count: Of its topic.
            now: The time.
        """
        groups = self._topics.setdefault(key[:2], {})
        group = groups.get(key.group_id)
        if group is None:
            group = groups[key.group_id] = Group(partitions_count, self._timeout)
        group.resize(partitions_count)
        group.join(client, now)
        self._memberships.setdefault(client, set()).add(key)
        self._note_handoffs(key, group)

    def leave(self, key: GroupKey, client: bytes) -> bool:
        """End a membership; returns whether there was one."""
        group = self._find(key)
        if group is None or not group.leave(client):
            return False
        self._forget(key, client)
        self._note_handoffs(key, group)
        return True

    def leave_all(self, client: bytes) -> None:
        """End all memberships of a client: its session is over."""
        for key in self.memberships(client):
            self.leave(key, client)

    # Messages are delivered and committed

    def delivered(
        self, key: GroupKey, client: bytes, partition_id: int, offset: int, committed: int | None
    ) -> None:
        """Note that a batch goes to the owner of a partition.

        Args:
            key: The group.
            client: The owner.
            partition_id: The partition.
            offset: Of the last message of the batch.
            committed: What the group has stored for the partition now.
        """
        group = self._find(key)
        if group is not None:
            group.delivered(client, partition_id, offset, committed)

    def committed(
        self, key: GroupKey, client: bytes, partition_id: int, offset: int | None, now: float
    ) -> None:
        """Note what a group has stored for a partition now; `None`: nothing any more.

        If that is all the owner was given, and another member waits for the partition, it moves.
        """
        group = self._find(key)
        if group is not None:
            group.committed(client, partition_id, offset, now)
            self._note_handoffs(key, group)

    def finish_handoffs(self, now: float) -> None:
        """End the hand-offs whose time is over."""
        for key, group in tuple(self._waiting.items()):
            group.finish_handoffs(now)
            self._note_handoffs(key, group)

    # Topics change

    def resize(self, stream_id: int, topic_id: int, partitions_count: int) -> None:
        """Note how many partitions a topic has now."""
        for key, group in self._groups_of(stream_id, topic_id):
            group.resize(partitions_count)
            self._note_handoffs(key, group)

    def purge(self, stream_id: int, topic_id: int, now: float) -> None:
        """Note that all messages of a topic are gone, and all offsets stored for them."""
        for key, group in self._groups_of(stream_id, topic_id):
            group.purge(now)
            self._note_handoffs(key, group)

    def delete(self, key: GroupKey) -> None:
        """Forget a group that is deleted, and all memberships of it."""
        groups = self._topics.get(key[:2], {})
        group = groups.pop(key.group_id, None)
        if group is None:
            return
        if not groups:
            del self._topics[key[:2]]
        for client in group.clients:
            self._forget(key, client)
        self._waiting.pop(key, None)

    def delete_topic(self, stream_id: int, topic_id: int) -> None:
        """Forget all groups of a topic that is deleted."""
        for key, _ in self._groups_of(stream_id, topic_id):
            self.delete(key)

    # Helpers

    def _find(self, key: GroupKey) -> Group | None:
        groups = self._topics.get(key[:2])
        return None if groups is None else groups.get(key.group_id)

    def _groups_of(self, stream_id: int, topic_id: int) -> list[tuple[GroupKey, Group]]:
        groups = self._topics.get((stream_id, topic_id), {})
        return [(GroupKey(stream_id, topic_id, number), group) for number, group in groups.items()]

    def _forget(self, key: GroupKey, client: bytes) -> None:
        memberships = self._memberships[client]
        memberships.discard(key)
        if not memberships:
            del self._memberships[client]

    def _note_handoffs(self, key: GroupKey, group: Group) -> None:
        """Keep track of which groups are handing something over."""
        if not group.is_handing_over:
            self._waiting.pop(key, None)
            return
        was_quiet = not self._waiting
        self._waiting[key] = group
        if was_quiet and self._on_handoff is not None:
            self._on_handoff()
