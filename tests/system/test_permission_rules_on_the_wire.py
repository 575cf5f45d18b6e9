"""Each command with each single grant: what is allowed, and how the rest is refused.

The rows are those of spec 06, 4.3; the channels and the order of checks are those of
4.4. The server is the real one: nothing is asked but what clients can ask.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.batch_examples import PRODUCED
from support.pages import load_page_script
from support.permission_table import (
    ANYBODY,
    CREATE_STREAM,
    CREATE_TOPIC,
    MANAGE_STREAM,
    MANAGE_TOPIC,
    MANAGE_USERS,
    READ_MESSAGES,
    READ_STREAM,
    READ_STREAMS,
    READ_TOPIC,
    READ_TOPICS,
    READ_USERS,
    SEND_MESSAGES,
    SERVERS,
)
from support.real_server import real_server
from support.wire_client import Told, WireClient, result, status, success
from windsprite_protocol.model.cluster import GetClusterMetadata
from windsprite_protocol.model.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    SyncConsumerGroup,
)
from windsprite_protocol.model.identifiers import (
    Consumer,
    ConsumerKind,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import GetPollRouting, PollMessages, SendMessages
from windsprite_protocol.model.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    GetConsumerOffsetRouting,
    StoreConsumerOffset,
)
from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from windsprite_protocol.model.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    GetStreams,
    PurgeStream,
    UpdateStream,
)
from windsprite_protocol.model.system import (
    DescribeOptions,
    GetClient,
    GetClients,
    GetMe,
    GetSnapshot,
    GetStats,
    OptionScope,
    Ping,
    SnapshotCompression,
    SnapshotKind,
)
from windsprite_protocol.model.tokens import CreateToken, DeleteToken, GetTokens
from windsprite_protocol.model.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteSegments,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    UpdateTopic,
)
from windsprite_protocol.model.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    GetUsers,
    UpdatePermissions,
    UpdateUser,
)
from windsprite_protocol.v0_11.table import GENERATION
from windsprite_server.handlers.table import HANDLERS
from windsprite_server.metadata.authorization import Rule

ALICE = 1
FOREVER = 2**64 - 1
SINGLE = Consumer(ConsumerKind.SINGLE, 5)
POLL = PollMessages(SINGLE, "s", "t", 0, PollingStrategy.first(), 10, auto_commit=False)
COMMITTING_POLL = PollMessages(SINGLE, "s", "t", 0, PollingStrategy.first(), 10, auto_commit=True)
SEND = SendMessages("s", "t", ToPartition(0), 2, PRODUCED)

# --- The table -----------------------------------------------------------------------------------

DENIED_READ = status(41)
DENIED_CHANGE = result(41)


class Case(NamedTuple):
    """A request and what it takes.

    Attributes:
        request: What is asked for.
        needs: The grants of which any one is enough; `ANYBODY`: none.
        denied: The answer to everybody else.
        then: What an allowed request is answered, if it cannot succeed: most changes are made
            so that they are turned down after the check of permissions.
    """

    request: Any
    needs: frozenset[str]
    denied: Told = DENIED_READ
    then: Told | None = None


CASES = [
    Case(Ping(), ANYBODY),
    Case(GetMe(), ANYBODY),
    Case(GetClusterMetadata(), ANYBODY),
    Case(DescribeOptions(OptionScope.TOPIC), ANYBODY),
    Case(SyncConsumerGroup("s", "t", "g"), ANYBODY),
    Case(GetTokens(), ANYBODY),
    Case(CreateToken("t", FOREVER - 1), ANYBODY, then=result(56)),
    Case(DeleteToken("missing"), ANYBODY, then=result(20)),
    Case(GetUser(ALICE), ANYBODY),
    Case(GetUser("alice"), ANYBODY),
    Case(ChangePassword("alice", "wrong", "secret"), ANYBODY, then=result(42)),
    Case(GetStats(), SERVERS),
    Case(GetSnapshot(SnapshotCompression.STORED, (SnapshotKind.TEST,)), SERVERS),
    Case(GetClient(1), SERVERS),
    Case(GetClients(), SERVERS),
    Case(GetUser("iggy"), READ_USERS),
    Case(GetUsers(), READ_USERS),
    Case(CreateUser("alice", "secret"), MANAGE_USERS, DENIED_CHANGE, result(46)),
    Case(DeleteUser("missing"), MANAGE_USERS, DENIED_CHANGE, result(20)),
    Case(DeleteUser("iggy"), MANAGE_USERS, DENIED_CHANGE, result(48)),
    Case(UpdateUser("iggy"), MANAGE_USERS, DENIED_CHANGE),
    Case(UpdatePermissions("iggy", None), MANAGE_USERS, DENIED_CHANGE, result(49)),
    Case(ChangePassword("iggy", "wrong", "secret"), MANAGE_USERS, DENIED_CHANGE, result(42)),
    Case(GetStreams(), READ_STREAMS),
    Case(GetStream("s"), READ_STREAM),
    Case(CreateStream("s"), CREATE_STREAM, DENIED_CHANGE, result(1012)),
    Case(UpdateStream("s", "other"), MANAGE_STREAM, DENIED_CHANGE, result(1012)),
    Case(GetTopics("s"), READ_TOPICS),
    Case(GetTopic("s", "t"), READ_TOPIC),
    Case(CreateTopic("s", 1, "t"), CREATE_TOPIC, DENIED_CHANGE, result(2013)),
    Case(UpdateTopic("s", "t", "u"), MANAGE_TOPIC, DENIED_CHANGE, result(2013)),
    Case(CreatePartitions("s", "t", 1), MANAGE_TOPIC, DENIED_CHANGE),
    Case(DeletePartitions("s", "t", 1), MANAGE_TOPIC, DENIED_CHANGE),
    Case(DeletePartitions("s", "t", 900), MANAGE_TOPIC, DENIED_CHANGE, result(2019)),
    Case(DeleteSegments("s", "t", 0, 1), MANAGE_TOPIC, DENIED_CHANGE),
    Case(DeleteSegments("s", "t", 99, 1), MANAGE_TOPIC, DENIED_CHANGE, result(3007)),
    Case(GetConsumerGroup("s", "t", "g"), READ_TOPIC),
    Case(GetConsumerGroup("s", "t", "missing"), READ_TOPIC),
    Case(GetConsumerGroups("s", "t"), READ_TOPIC),
    Case(CreateConsumerGroup("s", "t", "g"), READ_TOPIC, DENIED_CHANGE, result(5004)),
    Case(DeleteConsumerGroup("s", "t", "missing"), READ_TOPIC, DENIED_CHANGE, result(5000)),
    Case(JoinConsumerGroup("s", "t", "missing"), READ_TOPIC, DENIED_CHANGE, result(5000)),
    Case(LeaveConsumerGroup("s", "t", "missing"), READ_TOPIC, DENIED_CHANGE, result(5000)),
    Case(JoinConsumerGroup("s", "t", "g"), READ_TOPIC, DENIED_CHANGE),
    Case(LeaveConsumerGroup("s", "t", "g"), READ_TOPIC, DENIED_CHANGE),
    Case(POLL, READ_MESSAGES),
    Case(COMMITTING_POLL, READ_MESSAGES),
    Case(GetPollRouting(COMMITTING_POLL), READ_MESSAGES),
    Case(GetConsumerOffset(SINGLE, "s", "t", 0), READ_MESSAGES),
    Case(StoreConsumerOffset(SINGLE, "s", "t", 0, 0), READ_MESSAGES),
    Case(DeleteConsumerOffset(SINGLE, "s", "t", 0), READ_MESSAGES),
    Case(GetConsumerOffsetRouting(SINGLE, "s", "t", 0), READ_MESSAGES),
    Case(SEND, SEND_MESSAGES),
    Case(replace(POLL, partition_id=99), READ_MESSAGES, then=status(3007)),
    Case(GetConsumerOffset(SINGLE, "s", "t", 99), READ_MESSAGES, then=status(3007)),
    Case(PurgeTopic("s", "t"), MANAGE_TOPIC, DENIED_CHANGE),
    Case(PurgeStream("s"), MANAGE_STREAM, DENIED_CHANGE),
    Case(DeleteTopic("s", "t"), MANAGE_TOPIC, DENIED_CHANGE),
    Case(DeleteStream("s"), MANAGE_STREAM, DENIED_CHANGE),
]
"""In an order in which those that change something disturb none behind them."""

# A target that is missing is told to everybody, whatever the permissions.
MISSING = [
    (GetUser("missing"), success()),
    (ChangePassword("missing", "wrong", "secret"), result(20)),
    (GetStream("missing"), success()),
    (GetTopic("missing", "t"), success()),
    (GetTopic("s", "missing"), success()),
    (GetTopics("missing"), success(bytes(4))),
    (UpdateStream("missing", "s"), result(1009)),
    (DeleteStream("missing"), result(1009)),
    (PurgeStream("missing"), result(1009)),
    (CreateTopic("missing", 1, "t"), result(1009)),
    (replace(SEND, stream="missing"), status(20)),
    (replace(SEND, topic="missing"), status(20)),
    (replace(SEND, partitioning=ToPartition(99)), status(20)),
    (StoreConsumerOffset(SINGLE, "s", "t", 99, 0), status(3007)),
    (DeleteConsumerOffset(SINGLE, "s", "t", 99), status(3007)),
    *(
        (request, told)
        for place, told in ((("missing", "t"), status(1009)), (("s", "missing"), status(2010)))
        for request in (
            GetConsumerGroup(*place, "g"),
            GetConsumerGroups(*place),
            replace(POLL, stream=place[0], topic=place[1]),
            GetPollRouting(replace(COMMITTING_POLL, stream=place[0], topic=place[1])),
            GetConsumerOffset(SINGLE, *place, 0),
            GetConsumerOffsetRouting(SINGLE, *place, 0),
            StoreConsumerOffset(SINGLE, *place, 0, 0),
            DeleteConsumerOffset(SINGLE, *place, 0),
        )
    ),
    *(
        (request, told)
        for place, told in ((("missing", "t"), result(1009)), (("s", "missing"), result(2010)))
        for request in (
            UpdateTopic(*place, "u"),
            DeleteTopic(*place),
            PurgeTopic(*place),
            CreatePartitions(*place, 1),
            DeletePartitions(*place, 1),
            DeleteSegments(*place, 0, 1),
            CreateConsumerGroup(*place, "g"),
            DeleteConsumerGroup(*place, "g"),
            JoinConsumerGroup(*place, "g"),
            LeaveConsumerGroup(*place, "g"),
        )
    ),
]


# --- Grants --------------------------------------------------------------------------------------


def flags(kind: type[Any]) -> list[str]:
    return [flag.name for flag in fields(kind) if flag.type == "bool"]


ALL_OF_STREAM = dict.fromkeys(flags(StreamPermissions), True)
ALL_OF_TOPIC = dict.fromkeys(flags(TopicPermissions), True)
EVERYTHING = Permissions(GlobalPermissions(*(True,) * 10))
ELSEWHERE = Permissions(
    streams=(
        StreamPermissions(0, topics=(TopicPermissions(1, **ALL_OF_TOPIC),)),
        StreamPermissions(1, **ALL_OF_STREAM, topics=(TopicPermissions(0, **ALL_OF_TOPIC),)),
    )
)


def single_grants() -> Iterator[tuple[str, Permissions | None]]:
    """Each grant by itself, those on the stream 0 and its topic 0; and what is no grant there."""
    yield "nothing", None
    yield "elsewhere", ELSEWHERE
    for flag in flags(GlobalPermissions):
        yield f"g.{flag}", Permissions(GlobalPermissions(**{flag: True}))
    for flag in flags(StreamPermissions):
        yield f"s.{flag}", Permissions(streams=(StreamPermissions(0, **{flag: True}),))
    for flag in flags(TopicPermissions):
        on_topic = StreamPermissions(0, topics=(TopicPermissions(0, **{flag: True}),))
        yield f"t.{flag}", Permissions(streams=(on_topic,))


class Stage:
    """Root and a user, on a server that has what the cases are about."""

    def __init__(self, root: WireClient, alice: WireClient) -> None:
        self._root = root
        self._alice = alice
        self._permissions: Permissions | None = None

    async def grant(self, permissions: Permissions | None) -> None:
        """Give the user these permissions, with everything where it should be."""
        # The lowest unused id is the one that a deleted one had.
        for request in (
            CreateStream("s"),
            CreateStream("other"),
            CreateTopic("s", 2, "t"),
            CreateTopic("s", 1, "u"),
            CreateTopic("other", 1, "t"),
            CreateConsumerGroup("s", "t", "g"),
            SEND,
        ):
            await self._root.told(request)
        await self._root.call(UpdatePermissions(ALICE, permissions))
        self._permissions = permissions

    async def ask(self, request: Any) -> Told:
        """How the user is answered."""
        told = await self._alice.told(request)
        if told.channel == "success" and isinstance(request, DeleteTopic | DeleteStream):
            await self.grant(self._permissions)
        return told


def is_served(request: Any) -> bool:
    """Whether the rules can be tried on a command: all but those that lead to other nodes."""
    served = type(request) in HANDLERS
    assert served or isinstance(request, GetPollRouting | GetConsumerOffsetRouting)
    return served


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with real_server(tmp_path) as server, server.client("iggy", "iggy") as root:
        await root.call(CreateUser("alice", "secret"))
        async with server.client("alice", "secret") as alice:
            yield Stage(root, alice)


async def test_every_command_with_every_single_grant(stage: Stage) -> None:
    wrong = []
    cases = [case for case in CASES if is_served(case.request)]
    for grant, permissions in single_grants():
        await stage.grant(permissions)
        for case in cases:
            told = await stage.ask(case.request)
            if case.needs != ANYBODY and grant not in case.needs:
                is_right = told == case.denied
            elif case.then is None:
                is_right = told.channel == "success"
            else:
                is_right = told == case.then
            if not is_right:
                wrong.append((grant, case.request, told))
    assert wrong == []


@pytest.mark.parametrize("permissions", [None, EVERYTHING], ids=["nothing", "everything"])
async def test_what_is_missing_is_told_to_everybody(
    stage: Stage, permissions: Permissions | None
) -> None:
    await stage.grant(permissions)
    requests = [(request, answer) for request, answer in MISSING if is_served(request)]
    told = [(request, await stage.ask(request)) for request, _ in requests]
    assert told == requests


def test_the_page_for_clients_says_the_same() -> None:
    script = load_page_script("protocol_page")
    for case in CASES:
        rule = script.notes_of(GENERATION.of(type(case.request))).get("needs")
        told = ANYBODY if rule is None else names_of(script.grants_of(Rule[rule]))
        # What is one's own needs no grant, under the same command.
        assert case.needs in (ANYBODY, told), case.request


def names_of(grants: dict[str, list[str]]) -> frozenset[str]:
    levels = {"everywhere": "g", "on the stream": "s", "on the topic": "t"}
    return frozenset(f"{levels[level]}.{name}" for level in grants for name in grants[level])
