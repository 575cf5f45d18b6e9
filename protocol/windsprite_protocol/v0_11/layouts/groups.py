"""Consumer groups (spec 05, 3)."""

from __future__ import annotations

from typing import Final

from windsprite_protocol.layout import NAME8, U32, U64, Counted, Headed, Record, UntilEnd
from windsprite_protocol.model.groups import (
    ConsumerGroup,
    ConsumerGroupDetails,
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    GroupAssignment,
    GroupMember,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    SyncConsumerGroup,
)
from windsprite_protocol.v0_11.layouts.primitives import IDENTIFIER, STREAM, TOPIC

GROUP_HEADER: Final = Record(
    ConsumerGroup,
    "id" / U32,
    "partitions_count" / U32,
    "members_count" / U32,
    "name" / NAME8,
)

MEMBER: Final = Record(
    GroupMember,
    "id" / U32,
    "partitions" / Counted[int](U32, U32),
)

GROUP_DETAILS: Final = Headed(
    ConsumerGroupDetails, "group" / GROUP_HEADER, "members_count", "members" / MEMBER
)

GROUPS: Final = UntilEnd[ConsumerGroup](GROUP_HEADER)

ASSIGNMENT: Final = Record(
    GroupAssignment,
    "generation" / U64,
    "partitions" / Counted[int](U32, U32),
)

GET_GROUP: Final = Record(GetConsumerGroup, STREAM, TOPIC, "group" / IDENTIFIER)
GET_GROUPS: Final = Record(GetConsumerGroups, STREAM, TOPIC)
CREATE_GROUP: Final = Record(CreateConsumerGroup, STREAM, TOPIC, "name" / NAME8)
DELETE_GROUP: Final = Record(DeleteConsumerGroup, STREAM, TOPIC, "group" / IDENTIFIER)
JOIN_GROUP: Final = Record(JoinConsumerGroup, STREAM, TOPIC, "group" / IDENTIFIER)
LEAVE_GROUP: Final = Record(LeaveConsumerGroup, STREAM, TOPIC, "group" / IDENTIFIER)
SYNC_GROUP: Final = Record(SyncConsumerGroup, STREAM, TOPIC, "group" / IDENTIFIER)
