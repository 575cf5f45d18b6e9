"""Random commands against a model that is as plain as the rules of the protocol.

The model keeps nested dictionaries by name, searches where the state machine looks up, and knows
permissions as sets of words.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.metadata import (
    PERMISSION_TABLE,
    acting_users,
    any_command,
    picture,
    populated,
)
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.outcomes import Rejected, Success
from windsprite_protocol.model.permissions import Permissions
from windsprite_server.metadata import commands as c
from windsprite_server.metadata.authorization import Rule
from windsprite_server.metadata.commands import Command, PartitionPlace
from windsprite_server.metadata.effects import (
    Context,
    PartitionCondemned,
    PartitionOpened,
    UserDeleted,
)
from windsprite_server.metadata.queries import live_partitions
from windsprite_server.metadata.state import State

Row = dict[str, Any]


class No(Exception):  # noqa: N818 - says it best
    """The model turns a command down."""


def check(*, code: ErrorCode, unless: bool) -> None:
    if not unless:
        raise No(code)


def find(rows: dict[str, Row], identifier: int | str) -> tuple[str, Row] | None:
    for name, row in rows.items():
        if identifier == (name if isinstance(identifier, str) else row["id"]):
            return name, row
    return None


def lowest_unused(rows: dict[str, Row]) -> int:
    return min(set(range(len(rows) + 1)) - {row["id"] for row in rows.values()})


def words(permissions: Permissions | None) -> set[str]:
    held: dict[str, bool] = {}
    if permissions is None:
        return set()
    for flag in fields(permissions.root):
        held[f"g.{flag.name}"] = getattr(permissions.root, flag.name)
    for stream in permissions.streams:
        for old in list(held):
            if old.startswith((f"s{stream.stream_id}.", f"t{stream.stream_id}/")):
                del held[old]
        for flag in fields(stream)[1:-1]:
            held[f"s{stream.stream_id}.{flag.name}"] = getattr(stream, flag.name)
        for topic in stream.topics:
            for flag in fields(topic)[1:]:
                word = f"t{stream.stream_id}/{topic.topic_id}.{flag.name}"
                held[word] = getattr(topic, flag.name)
    return {word for word, is_held in held.items() if is_held}


class Model:
    def __init__(self) -> None:
        self.streams: dict[str, Row] = {}
        self.users: dict[str, Row] = {}
        self.condemned: set[tuple[int, int, int, int]] = set()

    # Parts that rules have in common

    def may(self, rule: Rule, stream: Row | None = None, topic: Row | None = None) -> None:
        if self.acting is None:
            return
        user = find(self.users, self.acting)
        held = user[1]["held"] if user else set()
        levels = {"g": "g."}
        if stream is not None:
            levels["s"] = f"s{stream['id']}."
            if topic is not None:
                levels["t"] = f"t{stream['id']}/{topic['id']}."
        passing = {
            levels[grant[0]] + grant[2:] for grant in PERMISSION_TABLE[rule] if grant[0] in levels
        }
        check(unless=bool(held & passing), code=ErrorCode.UNAUTHORIZED)

    def server_only(self) -> None:
        check(unless=self.acting is None, code=ErrorCode.UNAUTHORIZED)

    def stream(self, identifier: int | str) -> tuple[str, Row]:
        found = find(self.streams, identifier)
        if found is None:
            raise No(ErrorCode.STREAM_ID_NOT_FOUND)
        return found

    def topic(self, command: Any) -> tuple[Row, str, Row]:
        _, stream = self.stream(command.stream)
        found = find(stream["topics"], command.topic)
        if found is None:
            raise No(ErrorCode.TOPIC_ID_NOT_FOUND)
        return stream, *found

    def user(self, identifier: int | str) -> tuple[str, Row]:
        found = find(self.users, identifier)
        if found is None:
            raise No(ErrorCode.RESOURCE_NOT_FOUND)
        return found

    def acting_user(self) -> Row:
        found = None if self.acting is None else find(self.users, self.acting)
        if found is None:
            raise No(ErrorCode.UNAUTHORIZED)
        return found[1]

    def places(self, stream: Row, topic: Row) -> Iterator[tuple[int, int, int, int]]:
        for number, (_, incarnation) in enumerate(topic["partitions"]):
            yield stream["id"], topic["id"], number, incarnation

    def revoke(self, prefix: str) -> None:
        for user in self.users.values():
            user["held"] = {word for word in user["held"] if not word.startswith(prefix)}

    def username(self, name: str) -> None:
        check(unless=3 <= len(name.encode()) <= 50, code=ErrorCode.INVALID_USERNAME)

    def new_id(self, rows: dict[str, Row]) -> int:
        return lowest_unused(rows)

    # One method a command

    def apply(self, command: Command, context: Context) -> ErrorCode | None:
        self.acting = context.user_id
        self.now = context.timestamp_us
        self.position = context.position
        try:
            getattr(self, type(command).__name__)(command)
        except No as no:
            code: ErrorCode = no.args[0]
            return code
        return None

    def NoOperation(self, _: Any) -> None:  # noqa: N802 - named after the command, as all below
        self.server_only()

    def CreateStream(self, command: c.CreateStream) -> None:  # noqa: N802
        self.may(Rule.CREATE_STREAM)
        taken = command.name in self.streams
        check(unless=not taken, code=ErrorCode.STREAM_NAME_ALREADY_EXISTS)
        new_id = lowest_unused(self.streams)
        self.streams[command.name] = {"id": new_id, "created_at": self.now, "topics": {}}

    def UpdateStream(self, command: c.UpdateStream) -> None:  # noqa: N802
        name, stream = self.stream(command.stream)
        self.may(Rule.MANAGE_STREAM, stream)
        taken = self.streams.get(command.name, stream) is not stream
        check(unless=not taken, code=ErrorCode.STREAM_NAME_ALREADY_EXISTS)
        self.streams[command.name] = self.streams.pop(name)

    def DeleteStream(self, command: c.DeleteStream) -> None:  # noqa: N802
        name, stream = self.stream(command.stream)
        self.may(Rule.MANAGE_STREAM, stream)
        for topic in stream["topics"].values():
            self.condemned.update(self.places(stream, topic))
        del self.streams[name]
        self.revoke(f"s{stream['id']}.")
        self.revoke(f"t{stream['id']}/")

    def purge(self, stream: Row, topic: Row) -> None:
        self.condemned.update(self.places(stream, topic))
        topic["partitions"] = [(born, self.position) for born, _ in topic["partitions"]]

    def PurgeStream(self, command: c.PurgeStream) -> None:  # noqa: N802
        _, stream = self.stream(command.stream)
        self.may(Rule.MANAGE_STREAM, stream)
        for topic in stream["topics"].values():
            self.purge(stream, topic)

    def CreateTopic(self, command: c.CreateTopic) -> None:  # noqa: N802
        _, stream = self.stream(command.stream)
        self.may(Rule.CREATE_TOPIC, stream)
        taken = command.name in stream["topics"]
        check(unless=not taken, code=ErrorCode.TOPIC_NAME_ALREADY_EXISTS)
        stream["topics"][command.name] = {
            "id": lowest_unused(stream["topics"]),
            "created_at": self.now,
            "expiry": command.message_expiry,
            "compression": command.compression,
            "max_size": command.max_topic_size,
            "chosen": {option.key: option.value for option in command.options},
            "derived": {option.key: option.value for option in command.derived_options},
            "partitions": [(self.now, self.position)] * command.partitions_count,
            "groups": {},
            "next_group": 0,
        }

    def UpdateTopic(self, command: c.UpdateTopic) -> None:  # noqa: N802
        stream, name, topic = self.topic(command)
        self.may(Rule.MANAGE_TOPIC, stream, topic)
        taken = stream["topics"].get(command.name, topic) is not topic
        check(unless=not taken, code=ErrorCode.TOPIC_NAME_ALREADY_EXISTS)
        stream["topics"][command.name] = stream["topics"].pop(name)
        for key, value in (
            ("expiry", command.message_expiry),
            ("compression", command.compression),
            ("max_size", command.max_topic_size),
        ):
            if value is not None:
                topic[key] = value
        for option in command.options:
            topic["chosen"][option.key] = option.value
            topic["derived"].pop(option.key, None)

    def DeleteTopic(self, command: c.DeleteTopic) -> None:  # noqa: N802
        stream, name, topic = self.topic(command)
        self.may(Rule.MANAGE_TOPIC, stream, topic)
        self.condemned.update(self.places(stream, topic))
        del stream["topics"][name]
        self.revoke(f"t{stream['id']}/{topic['id']}.")

    def PurgeTopic(self, command: c.PurgeTopic) -> None:  # noqa: N802
        stream, _, topic = self.topic(command)
        self.may(Rule.MANAGE_TOPIC, stream, topic)
        self.purge(stream, topic)

    def CreatePartitions(self, command: c.CreatePartitions) -> None:  # noqa: N802
        stream, _, topic = self.topic(command)
        self.may(Rule.MANAGE_TOPIC, stream, topic)
        check(unless=command.partitions_count > 0, code=ErrorCode.TOO_MANY_PARTITIONS)
        topic["partitions"] += [(self.now, self.position)] * command.partitions_count

    def DeletePartitions(self, command: c.DeletePartitions) -> None:  # noqa: N802
        stream, _, topic = self.topic(command)
        self.may(Rule.MANAGE_TOPIC, stream, topic)
        count = command.partitions_count
        check(unless=count > 0, code=ErrorCode.TOO_MANY_PARTITIONS)
        enough = count <= len(topic["partitions"])
        check(unless=enough, code=ErrorCode.INVALID_PARTITIONS_COUNT)
        self.condemned.update(list(self.places(stream, topic))[-count:])
        del topic["partitions"][-count:]

    def CreateConsumerGroup(self, command: c.CreateConsumerGroup) -> None:  # noqa: N802
        stream, _, topic = self.topic(command)
        self.may(Rule.READ_TOPIC, stream, topic)
        taken = command.name in topic["groups"]
        check(unless=not taken, code=ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS)
        topic["groups"][command.name] = {"id": topic["next_group"]}
        topic["next_group"] += 1

    def DeleteConsumerGroup(self, command: c.DeleteConsumerGroup) -> None:  # noqa: N802
        stream, _, topic = self.topic(command)
        self.may(Rule.READ_TOPIC, stream, topic)
        found = find(topic["groups"], command.group)
        if found is None:
            raise No(ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND)
        del topic["groups"][found[0]]

    def CreateRoot(self, command: c.CreateRoot) -> None:  # noqa: N802
        self.server_only()
        self.username(command.username)
        check(unless=not self.users, code=ErrorCode.USER_ALREADY_EXISTS)
        everything = {grant for row in PERMISSION_TABLE.values() for grant in row}
        self.users[command.username] = {
            "id": 0,
            "created_at": 1,
            "status": 1,
            "hash": command.password_hash,
            "held": {grant for grant in everything if grant.startswith("g.")},
            "tokens": {},
        }

    def CreateUser(self, command: c.CreateUser) -> None:  # noqa: N802
        self.may(Rule.MANAGE_USERS)
        self.username(command.username)
        taken = command.username in self.users
        check(unless=not taken, code=ErrorCode.USER_ALREADY_EXISTS)
        self.users[command.username] = {
            "id": lowest_unused(self.users),
            "created_at": self.now,
            "status": 2 if command.status == 2 else 1,
            "hash": command.password_hash,
            "held": words(command.permissions),
            "tokens": {},
        }

    def UpdateUser(self, command: c.UpdateUser) -> None:  # noqa: N802
        self.may(Rule.MANAGE_USERS)
        name, user = self.user(command.user)
        new = name
        if command.username is not None:
            new = command.username
            self.username(new)
            taken = self.users.get(new, user) is not user
            check(unless=not taken, code=ErrorCode.USER_ALREADY_EXISTS)
        if command.status in {1, 2}:
            user["status"] = command.status
        self.users[new] = self.users.pop(name)

    def DeleteUser(self, command: c.DeleteUser) -> None:  # noqa: N802
        self.may(Rule.MANAGE_USERS)
        name, user = self.user(command.user)
        check(unless=user["id"] != 0, code=ErrorCode.CANNOT_DELETE_USER)
        del self.users[name]

    def UpdatePermissions(self, command: c.UpdatePermissions) -> None:  # noqa: N802
        self.may(Rule.MANAGE_USERS)
        _, user = self.user(command.user)
        check(unless=user["id"] != 0, code=ErrorCode.CANNOT_CHANGE_PERMISSIONS)
        user["held"] = words(command.permissions)

    def ChangePassword(self, command: c.ChangePassword) -> None:  # noqa: N802
        _, user = self.user(command.user)
        if self.acting != user["id"]:
            self.may(Rule.MANAGE_USERS)
        matches = command.verified_hash == user["hash"]
        check(unless=matches, code=ErrorCode.INVALID_CREDENTIALS)
        user["hash"] = command.password_hash

    def CreateToken(self, command: c.CreateToken) -> None:  # noqa: N802
        user = self.acting_user()
        tokens = dict(user["tokens"])
        if command.limit is not None and len(tokens) >= command.limit:
            tokens = {name: token for name, token in tokens.items() if not self.is_over(token)}
            full = len(tokens) >= command.limit
            check(unless=not full, code=ErrorCode.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED)
        hashes = {token[0] for each in self.users.values() for token in each["tokens"].values()}
        taken = command.name in tokens or command.token_hash in hashes
        check(unless=not taken, code=ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS)
        expiry = 0 if command.expiry in {0, 2**64 - 1} else self.now + command.expiry
        fits = expiry < 2**64
        check(unless=fits, code=ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY)
        user["tokens"] = {**tokens, command.name: (command.token_hash, expiry)}

    def is_over(self, token: tuple[str, int]) -> bool:
        return 0 < token[1] <= self.now

    def DeleteExpiredTokens(self, command: c.DeleteExpiredTokens) -> None:  # noqa: N802
        self.server_only()
        for owned in command.tokens:
            for user in self.users.values():
                token = user["tokens"].get(owned.name)
                if user["id"] == owned.user_id and token and self.is_over(token):
                    del user["tokens"][owned.name]

    def DeleteToken(self, command: c.DeleteToken) -> None:  # noqa: N802
        user = self.acting_user()
        exists = command.name in user["tokens"]
        check(unless=exists, code=ErrorCode.RESOURCE_NOT_FOUND)
        del user["tokens"][command.name]

    def ForgetCondemned(self, command: c.ForgetCondemned) -> None:  # noqa: N802
        self.server_only()
        for place in command.places:
            self.condemned.discard(as_tuple(place))


def as_tuple(place: PartitionPlace) -> tuple[int, int, int, int]:
    return place.stream_id, place.topic_id, place.partition_id, place.incarnation


def as_the_model_has_it(state: State) -> tuple[Any, Any, Any]:
    streams = {
        stream.name: {
            "id": stream.id,
            "created_at": stream.created_at,
            "topics": {
                topic.name: {
                    "id": topic.id,
                    "created_at": topic.created_at,
                    "expiry": topic.message_expiry,
                    "compression": topic.compression,
                    "max_size": topic.max_topic_size,
                    "chosen": {option.key: option.value for option in topic.options},
                    "derived": {option.key: option.value for option in topic.derived_options},
                    "partitions": [(p.created_at, p.incarnation) for p in topic.partitions],
                    "groups": {group.name: {"id": group.id} for group in topic.groups.values()},
                    "next_group": topic.next_group_id,
                }
                for topic in stream.topics.values()
            },
        }
        for stream in state.streams.values()
    }
    users = {
        user.username: {
            "id": user.id,
            "created_at": user.created_at,
            "status": user.status,
            "hash": user.password_hash,
            "held": words(user.permissions),
            "tokens": {
                token.name: (token.token_hash, token.expiry) for token in user.tokens.values()
            },
        }
        for user in state.users.values()
    }
    return streams, users, {as_tuple(place) for place in state.condemned}


def require_consistent(state: State) -> None:
    """Indexes and what they are indexes of say the same."""
    assert state.stream_ids == {stream.name: key for key, stream in state.streams.items()}
    assert state.user_ids == {user.username: key for key, user in state.users.items()}
    assert state.token_owners == {
        token.token_hash: (user.id, token.name)
        for user in state.users.values()
        for token in user.tokens.values()
    }
    for stream in state.streams.values():
        assert stream.topic_ids == {topic.name: key for key, topic in stream.topics.items()}
        for topic in stream.topics.values():
            assert topic.group_ids == {group.name: key for key, group in topic.groups.items()}
            assert list(topic.groups) == sorted(topic.groups)
            keys = [option.key for option in topic.options]
            derived = [option.key for option in topic.derived_options]
            assert (keys, derived) == (sorted(keys), sorted(derived))
            assert not set(keys) & set(derived)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(any_command(), acting_users()), min_size=15, max_size=40), st.booleans())
def test_any_commands_do_what_the_rules_say(
    steps: list[tuple[Command, int | None]], with_root: bool
) -> None:
    machine = populated(with_root=with_root)
    model = Model()
    for command, context in machine.history:
        assert model.apply(command, context) is None
    live = {as_tuple(place) for place, _ in live_partitions(machine.state)}
    for command, user in steps:
        before = picture(machine.state)
        outcome = machine.try_(command, user)
        code = model.apply(command, machine.history[-1][1])
        assert (outcome.code if isinstance(outcome, Rejected) else None) == code
        if code is not None:
            assert picture(machine.state) == before
            assert machine.last.effects == ()
        assert as_the_model_has_it(machine.state) == (
            model.streams,
            model.users,
            model.condemned,
        )
        require_consistent(machine.state)
        # Following the effects one by one, a store knows at any time which logs must exist.
        for effect in machine.last.effects:
            if isinstance(effect, PartitionOpened):
                assert as_tuple(effect.place) not in live
                live.add(as_tuple(effect.place))
            elif isinstance(effect, PartitionCondemned):
                live.remove(as_tuple(effect.place))
            elif isinstance(effect, UserDeleted):
                assert effect.user_id not in machine.state.users
        assert live == {
            place
            for stream in model.streams.values()
            for topic in stream["topics"].values()
            for place in model.places(stream, topic)
        }


def test_the_commands_tried_reach_every_outcome() -> None:
    """The test above would say little if its commands all ended the same way."""
    reached: dict[str, set[ErrorCode | None]] = {}

    @settings(max_examples=200, database=None, deadline=None, derandomize=True)
    @given(st.lists(st.tuples(any_command(), acting_users()), min_size=20, max_size=40))
    def try_many(steps: list[tuple[Command, int | None]]) -> None:
        machine = populated()
        for command, user in steps:
            outcome = machine.try_(command, user)
            code = None if isinstance(outcome, Success) else outcome.code
            reached.setdefault(type(command).__name__, set()).add(code)

    try_many()
    for name, codes in reached.items():
        may_succeed = name != "CreateRoot"  # root exists already
        assert (None in codes) == may_succeed, name
        assert codes - {None}, name
    assert len(set.union(*reached.values())) >= 19
