"""A consumer group on a scripted server, with one client; its partitions are what a test says."""

from typing import Any

from support.scripted_server import ScriptedCluster, ScriptedNode
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.groups import (
    GroupAssignment,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    SyncConsumerGroup,
)
from windsprite_protocol.model.identifiers import ConsumerKind
from windsprite_protocol.model.messages import NO_PARTITION, PolledMessages, PollMessages
from windsprite_protocol.model.outcomes import Outcome, Rejected, Success


class ScriptedGroup:
    """A group that has a good answer for its member.

    Attributes:
        polled: The partitions that were polled, in their order; None where the poll was turned
            away.
    """

    def __init__(self, cluster: ScriptedCluster, *partitions: int) -> None:
        self.polled: list[int | None] = []
        self._cluster = cluster
        self._assignment = GroupAssignment(1, partitions)
        self._member: int | None = None
        for node in cluster.nodes:
            self._serve(node)

    def assign(self, *partitions: int) -> None:
        """Let the member have these partitions from now on."""
        self._assignment = GroupAssignment(self._assignment.generation + 1, partitions)

    def expel(self) -> None:
        """End the membership without telling anybody."""
        self._member = None

    @property
    def has_member(self) -> bool:
        """Whether the client is a member; a membership ends with its session."""
        return self._member == self._cluster.sessions

    def _serve(self, node: ScriptedNode) -> None:
        node.always(JoinConsumerGroup, self._join)
        node.always(LeaveConsumerGroup, self._leave)
        node.always(SyncConsumerGroup, self._sync)
        node.always(PollMessages, self._poll)

    def _join(self, _: JoinConsumerGroup) -> Outcome:
        self._member = self._cluster.sessions
        return Success()

    def _leave(self, _: LeaveConsumerGroup) -> Outcome:
        if not self.has_member:
            return Rejected(ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND)
        self._member = None
        return Success()

    def _sync(self, _: SyncConsumerGroup) -> Outcome:
        return Success(self._assignment if self.has_member else None)

    def _poll(self, request: PollMessages) -> Any:
        assert request.consumer.kind is ConsumerKind.GROUP
        assert request.partition_id is not None
        if not self.has_member or request.partition_id not in self._assignment.partitions:
            self.polled.append(None)
            return Success(PolledMessages(NO_PARTITION, 0, 0, ()))
        self.polled.append(request.partition_id)
        return Success(PolledMessages(request.partition_id, 0, 0, ()))
