"""A partition on a scripted server that a group reads: one client, and others that a test plays."""

from typing import Any

from support.scripted_server import ScriptedCluster
from windsprite_protocol.batches import NewMessage, build_batch, stamp_batch
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.groups import (
    ConsumerGroup,
    ConsumerGroupDetails,
    GetConsumerGroup,
    GroupAssignment,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    SyncConsumerGroup,
)
from windsprite_protocol.model.identifiers import PollingKind
from windsprite_protocol.model.messages import NO_PARTITION, PolledMessages, PollMessages
from windsprite_protocol.model.offsets import (
    ConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from windsprite_protocol.model.outcomes import Outcome, Refused, Success


class ScriptedPartition:
    """Partition 0 of a topic, and the group "g" that reads it.

    A member has it for as long as its session lasts; whoever joins then has it again.

    Attributes:
        length: How many messages it has.
        stored: The stored offset of the group.
        asked: The offsets that were to be stored, in their order.
    """

    def __init__(self, cluster: ScriptedCluster, length: int) -> None:
        self.length = length
        self.stored: int | None = None
        self.asked: list[int] = []
        self._cluster = cluster
        self._member: int | None = None
        self._generation = 0
        (node,) = cluster.nodes
        details = ConsumerGroupDetails(ConsumerGroup(0, 1, 0, "g"), ())
        node.always(GetConsumerGroup, Success(details))
        node.always(JoinConsumerGroup, self.join)
        node.always(LeaveConsumerGroup, self._leave)
        node.always(SyncConsumerGroup, self._sync)
        node.always(PollMessages, self._poll)
        node.always(GetConsumerOffset, self._get)
        node.always(StoreConsumerOffset, self.store)

    @property
    def has_member(self) -> bool:
        """Whether the client is a member; a membership ends with its session."""
        return self._member == self._cluster.sessions

    def deal_out(self) -> None:
        """Let the partition go elsewhere, and come back to the member."""
        self._generation += 1

    def store(self, request: StoreConsumerOffset) -> Outcome:
        """The good answer to a request to store an offset."""
        if not self.has_member:
            return Refused(ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED)
        self.asked.append(request.offset)
        self.stored = request.offset
        return Success()

    def join(self, _: JoinConsumerGroup) -> Outcome:
        """The good answer to a request to join."""
        self._member = self._cluster.sessions
        self.deal_out()
        return Success()

    def _leave(self, _: LeaveConsumerGroup) -> Outcome:
        self._member = None
        return Success()

    def _sync(self, _: SyncConsumerGroup) -> Outcome:
        assignment = GroupAssignment(self._generation, (0,))
        return Success(assignment if self.has_member else None)

    def _get(self, _: GetConsumerOffset) -> Outcome:
        if self.stored is None:
            return Success(None)
        return Success(ConsumerOffset(0, self.length - 1, self.stored))

    def _poll(self, request: PollMessages) -> Any:
        if not self.has_member:
            return Success(PolledMessages(NO_PARTITION, 0, 0, ()))
        first = request.strategy.value if request.strategy.kind is PollingKind.OFFSET else 0
        last = min(self.length, first + request.count)
        records = ()
        if first < last:
            batch = build_batch(
                [NewMessage(b"%d" % n, n.to_bytes(16, "little"), 1) for n in range(first, last)]
            )
            stamp_batch(batch, partition_id=0, base_offset=first, base_timestamp=1)
            records = (bytes(batch),)
            if request.auto_commit:
                self.stored = max(last - 1, -1 if self.stored is None else self.stored)
        return Success(PolledMessages(0, self.length - 1, max(0, last - first), records))
