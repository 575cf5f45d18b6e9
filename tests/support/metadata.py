"""A state to try commands on, commands for hypothesis, and partitions that keep a record."""

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.outcomes import Rejected, Success
from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from windsprite_protocol.model.topics import Compression
from windsprite_protocol.model.typed_values import Option, TypedValue
from windsprite_server.metadata import commands as c
from windsprite_server.metadata import snapshot
from windsprite_server.metadata.apply import apply
from windsprite_server.metadata.authorization import Rule
from windsprite_server.metadata.commands import Command, PartitionPlace
from windsprite_server.metadata.effects import Applied, Context
from windsprite_server.metadata.state import State, Topic

ROOT = 0
START_US = 1_700_000_000_000_000
FOREVER = 0xFFFF_FFFF_FFFF_FFFF

AWKWARD_NAMES = (
    "a/b",
    "..",
    ".",
    "A",
    "a",
    "\u00e9",  # é in one code point, and in two
    "e\u0301",
    "\u05e9\u05dc\u05d5\u05dd",  # right to left
    "🐕‍🦺",
    "é" * 127 + "x",  # 255 bytes
    "trailing space ",
    "trailing dot.",
    "CON",
    "NUL",
    "\0",
    "new\nline",
    "7",
    '"quoted"\\',
)


# Spec 01, 2.5, by rows: what passes a rule. The implementation has it by columns.
_READ_TOPICS = {
    *("g.manage_streams", "g.read_streams", "g.manage_topics", "g.read_topics"),
    *("s.manage_stream", "s.read_stream", "s.manage_topics", "s.read_topics"),
}
_CREATE_TOPIC = {"g.manage_streams", "g.manage_topics", "s.manage_stream", "s.manage_topics"}
PERMISSION_TABLE = {
    Rule.SERVERS: {"g.manage_servers", "g.read_servers"},
    Rule.READ_USERS: {"g.manage_users", "g.read_users"},
    Rule.MANAGE_USERS: {"g.manage_users"},
    Rule.READ_STREAMS: {"g.manage_streams", "g.read_streams"},
    Rule.READ_STREAM: {
        "g.manage_streams",
        "g.read_streams",
        "s.manage_stream",
        "s.read_stream",
    },
    Rule.CREATE_STREAM: {"g.manage_streams"},
    Rule.MANAGE_STREAM: {"g.manage_streams", "s.manage_stream"},
    Rule.READ_TOPICS: _READ_TOPICS,
    Rule.READ_TOPIC: _READ_TOPICS | {"t.manage_topic", "t.read_topic"},
    Rule.CREATE_TOPIC: _CREATE_TOPIC,
    Rule.MANAGE_TOPIC: _CREATE_TOPIC | {"t.manage_topic"},
    Rule.POLL: _READ_TOPICS
    | {"g.poll_messages", "s.poll_messages"}
    | {"t.manage_topic", "t.read_topic", "t.poll_messages"},
    Rule.SEND: _CREATE_TOPIC
    | {"g.send_messages", "s.send_messages", "t.manage_topic", "t.send_messages"},
}


class Machine:
    """A state that is given one command after the other, each at the next position."""

    def __init__(self, *, with_root: bool = True) -> None:
        self.state = State()
        self.history: list[tuple[Command, Context]] = []
        self.last = Applied()
        if with_root:
            self.do(c.CreateRoot("iggy", "hash of iggy"), user=None)

    def try_(self, command: Command, user: int | None = ROOT) -> Success | Rejected:
        context = Context(
            self.state.position + 1, max(START_US, self.state.timestamp_us) + 10, user
        )
        self.last = apply(self.state, command, context)
        self.history.append((command, context))
        return self.last.outcome

    def do(self, command: Command, user: int | None = ROOT) -> Any:
        outcome = self.try_(command, user)
        assert isinstance(outcome, Success), outcome
        return outcome.value

    def rejection(self, command: Command, user: int | None = ROOT) -> ErrorCode:
        """The number that turns the command down; fails if that has changed anything."""
        before = picture(self.state)
        outcome = self.try_(command, user)
        assert isinstance(outcome, Rejected), outcome
        assert self.last.effects == ()
        assert picture(self.state) == before
        return outcome.code

    def user(self, name: str, permissions: Permissions | None = None) -> int:
        created = self.do(c.CreateUser(name, f"hash of {name}", 1, permissions))
        user_id = created.user.id
        assert isinstance(user_id, int)
        return user_id


def replayed(history: Iterable[tuple[Command, Context]], onto: State | None = None) -> State:
    state = onto or State()
    for command, context in history:
        apply(state, command, context)
    return state


def image(state: State) -> bytes:
    """The snapshot of a state."""
    return snapshot.encode(snapshot.freeze(state))


def picture(state: State) -> bytes:
    """The snapshot of a state without its position and time."""
    return image(state).split(b"\n", 1)[1]


def topic_of(stream: int | str, name: str, partitions: int = 1, **changes: Any) -> c.CreateTopic:
    values: dict[str, Any] = {
        "message_expiry": FOREVER,
        "compression": Compression.NONE,
        "max_topic_size": FOREVER,
        "derived_options": (option("segment_size"), option("compression_algorithm")),
    }
    return c.CreateTopic(stream, name, partitions, **{**values, **changes})


def option(key: str, data: bytes = b"\x01\xff") -> Option:
    return Option(key, TypedValue(1, data))


def populated(*, with_root: bool = True) -> Machine:
    """A state in which random commands find something."""
    machine = Machine(with_root=with_root)
    machine.do(c.CreateStream("a"), None)
    machine.do(topic_of("a", "a", 3), None)
    machine.do(topic_of("a", "b", 2), None)
    machine.do(c.CreateConsumerGroup("a", "a", "a"), None)
    if with_root:
        reader = Permissions(GlobalPermissions(read_streams=True))
        on_stream = (StreamPermissions(0, manage_topics=True),)
        machine.do(c.CreateUser("alice", "h1", 1, reader))
        machine.do(c.CreateUser("bob", "h2", 1, Permissions(streams=on_stream)))
        machine.do(c.CreateToken("a", "t1"))
    return machine


class RecordingPartitions:
    """Partitions without files: which are open, which were removed.

    Refuses what a real store would refuse, and fails as long as a test wants it to.
    """

    def __init__(self, existing: Iterable[PartitionPlace] = ()) -> None:
        self.open_places = set(existing)
        self.opened: list[PartitionPlace] = []
        self.condemned: list[PartitionPlace] = []
        self.removed: list[PartitionPlace] = []
        self.refused = 0
        self.failing = False

    async def open(self, place: PartitionPlace, topic: Topic) -> None:
        if self.failing:
            self.refused += 1
            raise OSError("no space left")
        assert place not in self.open_places
        assert place.partition_id < len(topic.partitions)
        self.open_places.add(place)
        self.opened.append(place)

    def condemn(self, place: PartitionPlace) -> None:
        self.condemned.append(place)

    async def remove(self, place: PartitionPlace) -> None:
        if self.failing:
            self.refused += 1
            raise OSError("no such luck")
        self.open_places.discard(place)
        self.removed.append(place)


# Few names and small ids, so that commands meet.

_names = st.sampled_from(["a", "b", "\u00e9", "e\u0301"])
_ids: st.SearchStrategy[int | str] = st.sampled_from([0, 0, 1, 2, "a", "b", "\u00e9"])
_usernames = st.sampled_from(["iggy", "alice", "bob", "carol", "xy", "x" * 51])
_users: st.SearchStrategy[int | str] = st.sampled_from([0, 1, 2, "alice", "bob", "carol"])
_flags = st.booleans()


@st.composite
def _topic_permissions(draw: st.DrawFn) -> TopicPermissions:
    return TopicPermissions(draw(st.integers(0, 2)), *(draw(_flags) for _ in range(4)))


@st.composite
def _stream_permissions(draw: st.DrawFn) -> StreamPermissions:
    return StreamPermissions(
        draw(st.integers(0, 2)),
        *(draw(_flags) for _ in range(6)),
        topics=tuple(draw(st.lists(_topic_permissions(), max_size=3))),
    )


@st.composite
def permissions(draw: st.DrawFn) -> Permissions:
    return Permissions(
        GlobalPermissions(*(draw(_flags) for _ in range(10))),
        tuple(draw(st.lists(_stream_permissions(), max_size=3))),
    )


_options = st.lists(
    st.builds(option, st.sampled_from(["x", "y", "z"]), st.binary(min_size=1, max_size=3)),
    max_size=3,
    unique_by=lambda entry: entry.key,
).map(tuple)


@st.composite
def _new_topics(draw: st.DrawFn) -> c.CreateTopic:
    """Each option is chosen, or filled in by the server, or is not there."""
    options = draw(_options)
    chosen = {entry.key for entry in options}
    derived = tuple(entry for entry in draw(_options) if entry.key not in chosen)
    return c.CreateTopic(
        draw(_ids),
        draw(_names),
        draw(st.integers(0, 4)),
        draw(st.sampled_from([1, FOREVER])),
        draw(st.sampled_from(Compression)),
        draw(st.sampled_from([1, FOREVER])),
        options,
        derived,
    )


_COMMANDS = (
    st.builds(c.CreateStream, _names),
    st.builds(c.UpdateStream, _ids, _names),
    st.builds(c.DeleteStream, _ids),
    st.builds(c.PurgeStream, _ids),
    _new_topics(),
    st.builds(
        c.UpdateTopic,
        _ids,
        _ids,
        _names,
        _options,
        st.none() | st.integers(1, FOREVER),
        st.none() | st.sampled_from(Compression),
        st.none() | st.integers(1, FOREVER),
    ),
    st.builds(c.DeleteTopic, _ids, _ids),
    st.builds(c.PurgeTopic, _ids, _ids),
    st.builds(c.CreatePartitions, _ids, _ids, st.integers(0, 3)),
    st.builds(c.DeletePartitions, _ids, _ids, st.integers(0, 3)),
    st.builds(c.CreateConsumerGroup, _ids, _ids, _names),
    st.builds(c.DeleteConsumerGroup, _ids, _ids, _ids),
    st.builds(c.CreateRoot, _usernames, st.just("another hash")),
    st.builds(
        c.CreateUser,
        _usernames,
        st.sampled_from(["h1", "h2"]),
        st.integers(0, 3),
        st.none() | permissions(),
    ),
    st.builds(c.UpdateUser, _users, st.none() | _usernames, st.none() | st.integers(0, 3)),
    st.builds(c.DeleteUser, _users),
    st.builds(c.UpdatePermissions, _users, st.none() | permissions()),
    st.builds(c.ChangePassword, _users, st.none() | st.sampled_from(["h1", "h2"]), st.just("h3")),
    st.builds(
        c.CreateToken,
        _names,
        st.sampled_from(["t1", "t2", "t3"]),
        st.sampled_from([0, 1, 10**9, FOREVER - 1, FOREVER]),
        st.sampled_from([None, 1, 2]),
    ),
    st.builds(c.DeleteToken, _names),
    st.builds(
        c.DeleteExpiredTokens,
        st.lists(st.builds(c.OwnedToken, st.integers(0, 3), _names), max_size=4).map(tuple),
    ),
    st.builds(
        c.ForgetCondemned,
        st.lists(
            st.builds(
                PartitionPlace,
                st.integers(0, 1),
                st.integers(0, 1),
                st.integers(0, 2),
                st.integers(1, 20),
            ),
            max_size=4,
        ).map(tuple),
    ),
    st.just(c.NoOperation()),
)


def any_command() -> st.SearchStrategy[Command]:
    """Any command, most of them about things that may exist."""
    return st.one_of(*_COMMANDS)


def acting_users() -> st.SearchStrategy[int | None]:
    """Who acts: mostly root."""
    return st.sampled_from([ROOT, ROOT, ROOT, 1, 2, None])
