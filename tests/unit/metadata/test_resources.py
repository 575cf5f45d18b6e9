"""Streams, topics, partitions and groups: what commands do and in which order they check."""

import time

import pytest

from support.metadata import AWKWARD_NAMES, FOREVER, Machine, image, option, topic_of
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model import groups, streams, topics
from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from windsprite_protocol.model.topics import Compression
from windsprite_server.metadata import commands as c
from windsprite_server.metadata import snapshot
from windsprite_server.metadata import state as limits
from windsprite_server.metadata.apply import apply
from windsprite_server.metadata.commands import Command, PartitionPlace
from windsprite_server.metadata.effects import (
    ConsumerGroupDeleted,
    Context,
    PartitionCondemned,
    PartitionOpened,
    PartitionsChanged,
    TopicDeleted,
    TopicPurged,
)
from windsprite_server.metadata.queries import find_stream, find_topic, live_partitions
from windsprite_server.metadata.state import State, Topic


@pytest.fixture
def machine() -> Machine:
    return Machine()


def topic_at(state: State, stream: int | str, topic: int | str) -> Topic:
    found_stream = find_stream(state, stream)
    assert found_stream is not None
    found = find_topic(found_stream, topic)
    assert found is not None
    return found


def opened(machine: Machine) -> list[PartitionPlace]:
    return [e.place for e in machine.last.effects if isinstance(e, PartitionOpened)]


def condemned(machine: Machine) -> list[PartitionPlace]:
    return [e.place for e in machine.last.effects if isinstance(e, PartitionCondemned)]


# Streams


def test_a_created_stream_is_empty_and_has_the_time_of_its_command(machine: Machine) -> None:
    details = machine.do(c.CreateStream("orders"))
    created_at = machine.state.timestamp_us
    assert details == streams.StreamDetails(streams.Stream(0, created_at, 0, 0, 0, "orders"), ())


def test_the_lowest_unused_id_comes_next(machine: Machine) -> None:
    for name in "abcd":
        machine.do(c.CreateStream(name))
    machine.do(c.DeleteStream("c"))
    machine.do(c.DeleteStream(0))
    assert [machine.do(c.CreateStream(name)).stream.id for name in "xyz"] == [0, 2, 4]


@pytest.mark.parametrize("user", [None, 0])
def test_names_of_streams_are_unique_until_they_are_free_again(
    machine: Machine, user: int | None
) -> None:
    machine.do(c.CreateStream("a"), user)
    assert machine.rejection(c.CreateStream("a"), user) == ErrorCode.STREAM_NAME_ALREADY_EXISTS
    machine.do(c.UpdateStream("a", "b"), user)
    assert machine.do(c.CreateStream("a"), user).stream.id == 1
    rename = c.UpdateStream("b", "a")
    assert machine.rejection(rename, user) == ErrorCode.STREAM_NAME_ALREADY_EXISTS
    machine.do(c.UpdateStream("b", "b"), user)
    machine.do(c.DeleteStream("b"), user)
    machine.do(c.UpdateStream("a", "b"), user)
    assert find_stream(machine.state, "a") is None


@pytest.mark.parametrize("name", AWKWARD_NAMES)
def test_any_text_is_a_name_and_none_is_another(machine: Machine, name: str) -> None:
    for other in AWKWARD_NAMES:
        stream_id = machine.do(c.CreateStream(other)).stream.id
        assert machine.do(topic_of(stream_id, other)).topic.name == other
        machine.do(c.CreateConsumerGroup(stream_id, other, other))
    stream = find_stream(machine.state, name)
    assert stream is not None
    assert (stream.name, stream.id) == (name, AWKWARD_NAMES.index(name))
    assert topic_at(machine.state, name, name).group_ids == {name: 0}
    machine.do(c.DeleteStream(name))
    assert len(machine.state.streams) == len(AWKWARD_NAMES) - 1


def test_a_number_and_its_text_are_different_names(machine: Machine) -> None:
    machine.do(c.CreateStream("1"))
    machine.do(c.CreateStream("0"))
    assert find_stream(machine.state, 0) == find_stream(machine.state, "1")
    machine.do(c.DeleteStream("0"))
    assert find_stream(machine.state, 0) is not None
    assert machine.rejection(c.DeleteStream(1)) == ErrorCode.STREAM_ID_NOT_FOUND


def test_a_server_holds_so_many_streams(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.MAX_STREAMS == 1_048_576
    monkeypatch.setattr("windsprite_server.metadata.resources.MAX_STREAMS", 2)
    machine.do(c.CreateStream("a"))
    machine.do(c.CreateStream("b"))
    assert machine.rejection(c.CreateStream("b")) == ErrorCode.STREAM_NAME_ALREADY_EXISTS
    assert machine.rejection(c.CreateStream("c")) == ErrorCode.TOO_MANY_STREAMS


# Topics


def test_a_created_topic_has_all_that_was_resolved_for_it(machine: Machine) -> None:
    machine.do(c.CreateStream("s"))
    command = topic_of(
        "s",
        "t",
        2,
        message_expiry=7,
        compression=Compression.GZIP,
        max_topic_size=9,
        options=(option("b"), option("a")),
        derived_options=(option("d"), option("c")),
    )
    details = machine.do(command)
    created_at, position = machine.state.timestamp_us, machine.state.position
    assert details == topics.TopicDetails(
        topics.Topic(
            id=0,
            created_at=created_at,
            partitions_count=2,
            message_expiry=7,
            compression=Compression.GZIP,
            max_topic_size=9,
            size_bytes=0,
            messages_count=0,
            name="t",
            options=(option("a"), option("b")),
            derived_options=(option("c"), option("d")),
        ),
        tuple(topics.Partition(number, created_at, 0, 0, 0, 0) for number in range(2)),
    )
    assert opened(machine) == [PartitionPlace(0, 0, number, position) for number in range(2)]


def test_a_topic_may_have_no_partition(machine: Machine) -> None:
    machine.do(c.CreateStream("s"))
    assert machine.do(topic_of("s", "t", 0)).partitions == ()
    assert machine.last.effects == ()
    machine.do(c.PurgeTopic("s", "t"))
    assert machine.last.effects == (TopicPurged(0, 0),)


def test_topic_ids_and_names_are_those_of_one_stream(machine: Machine) -> None:
    for stream in "ab":
        machine.do(c.CreateStream(stream))
        for topic in "xyz":
            machine.do(topic_of(stream, topic))
    machine.do(c.DeleteTopic("a", 1))
    assert machine.do(topic_of("a", "y")).topic.id == 1
    assert machine.do(topic_of("a", "new")).topic.id == 3
    assert machine.rejection(topic_of("a", "y")) == ErrorCode.TOPIC_NAME_ALREADY_EXISTS
    assert set(machine.state.streams[1].topics) == {0, 1, 2}


def test_a_stream_holds_4096_topics(machine: Machine) -> None:
    machine.do(c.CreateStream("s"))
    for number in range(4096):
        machine.do(topic_of("s", f"t{number}", 0))
    assert machine.try_(topic_of("s", "one more")).code == ErrorCode.TOO_MANY_TOPICS
    machine.do(c.DeleteTopic("s", 17))
    assert machine.do(topic_of("s", "one more")).topic.id == 17


def test_an_update_changes_what_it_names(machine: Machine) -> None:
    machine.do(c.CreateStream("s"))
    machine.do(
        topic_of("s", "t", options=(option("x", b"1"),), derived_options=(option("y", b"2"),))
    )
    before = topic_at(machine.state, "s", "t")
    machine.do(c.UpdateTopic("s", "t", "t"))
    assert topic_at(machine.state, "s", "t") == before
    machine.do(
        c.UpdateTopic("s", "t", "u", (option("y", b"3"),), 5, Compression.GZIP, max_topic_size=6)
    )
    after = topic_at(machine.state, "s", "u")
    assert (after.message_expiry, after.compression, after.max_topic_size) == (5, 2, 6)
    assert after.options == (option("x", b"1"), option("y", b"3"))
    assert after.derived_options == ()
    assert (after.id, after.created_at, after.partitions) == (
        0,
        before.created_at,
        before.partitions,
    )
    assert find_topic(machine.state.streams[0], "t") is None


def test_an_update_to_a_taken_name_changes_nothing(machine: Machine) -> None:
    machine.do(c.CreateStream("s"))
    machine.do(topic_of("s", "t"))
    machine.do(topic_of("s", "u"))
    command = c.UpdateTopic("s", "t", "u", message_expiry=1)
    assert machine.rejection(command) == ErrorCode.TOPIC_NAME_ALREADY_EXISTS


# Partitions


def test_partitions_are_added_and_removed_at_the_end(machine: Machine) -> None:
    machine.do(c.CreateStream("s"))
    machine.do(topic_of("s", "t", 2))
    first = machine.state.position
    machine.do(c.CreatePartitions("s", "t", 2))
    second = machine.state.position
    assert opened(machine) == [PartitionPlace(0, 0, 2, second), PartitionPlace(0, 0, 3, second)]
    machine.do(c.DeletePartitions("s", "t", 3))
    gone = [
        PartitionPlace(0, 0, 1, first),
        PartitionPlace(0, 0, 2, second),
        PartitionPlace(0, 0, 3, second),
    ]
    assert condemned(machine) == gone
    assert machine.state.condemned == set(gone)
    machine.do(c.CreatePartitions("s", "t", 1))
    assert opened(machine) == [PartitionPlace(0, 0, 1, machine.state.position)]
    born = topic_at(machine.state, "s", "t").partitions[1]
    assert born.created_at == machine.state.timestamp_us


def test_counts_of_partitions_have_bounds(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.do(c.CreateStream("s"))
    assert machine.rejection(topic_of("s", "t", 1001)) == ErrorCode.TOO_MANY_PARTITIONS
    machine.do(topic_of("s", "t", 1000))
    for command in (c.CreatePartitions, c.DeletePartitions):
        for count in (0, 1001):
            code = machine.rejection(command("s", "t", count))
            assert code == ErrorCode.TOO_MANY_PARTITIONS
    machine.do(c.DeletePartitions("s", "t", 999))
    too_many = c.DeletePartitions("s", "t", 2)
    assert machine.rejection(too_many) == ErrorCode.INVALID_PARTITIONS_COUNT
    assert limits.MAX_PARTITIONS == 1_000_000
    monkeypatch.setattr("windsprite_server.metadata.resources.MAX_PARTITIONS", 3)
    too_many_ids = c.CreatePartitions("s", "t", 3)
    assert machine.rejection(too_many_ids) == ErrorCode.PARTITION_ID_SPACE_EXHAUSTED
    machine.do(c.CreatePartitions("s", "t", 2))


def test_a_topic_has_so_many_groups_and_no_more(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.do(c.CreateStream("s"))
    for topic in "tu":
        machine.do(topic_of("s", topic))
    assert limits.MAX_GROUPS == 4096
    monkeypatch.setattr("windsprite_server.metadata.resources.MAX_GROUPS", 2)
    for group in "ab":
        machine.do(c.CreateConsumerGroup("s", "t", group))
    taken = c.CreateConsumerGroup("s", "t", "a")
    assert machine.rejection(taken) == ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS
    one_more = c.CreateConsumerGroup("s", "t", "c")
    assert machine.rejection(one_more) == ErrorCode.TOO_MANY_CONSUMER_OFFSETS
    machine.do(c.CreateConsumerGroup("s", "u", "c"))
    # Those that are there count, not those that were.
    machine.do(c.DeleteConsumerGroup("s", "t", "a"))
    assert machine.do(one_more).group.id == 2


def test_a_purge_begins_new_lives_and_condemns_the_old_ones(machine: Machine) -> None:
    machine.do(c.CreateStream("s"))
    machine.do(topic_of("s", "t", 1))
    created = machine.state.position
    machine.do(topic_of("s", "u", 1))
    created_at = topic_at(machine.state, "s", "t").partitions[0].created_at
    machine.do(c.PurgeTopic("s", "t"))
    purged = machine.state.position
    assert opened(machine) == [PartitionPlace(0, 0, 0, purged)]
    assert condemned(machine) == [PartitionPlace(0, 0, 0, created)]
    partition = topic_at(machine.state, "s", "t").partitions[0]
    assert (partition.created_at, partition.incarnation) == (created_at, purged)
    machine.do(c.PurgeStream("s"))
    assert opened(machine) == [
        PartitionPlace(0, topic_id, 0, machine.state.position) for topic_id in (0, 1)
    ]
    assert condemned(machine) == [
        PartitionPlace(0, 0, 0, purged),
        PartitionPlace(0, 1, 0, created + 1),
    ]


def test_what_is_condemned_is_remembered_until_its_files_are_gone(machine: Machine) -> None:
    machine.do(c.CreateStream("s"))
    machine.do(topic_of("s", "t", 3))
    machine.do(c.DeleteStream("s"))
    places = condemned(machine)
    unknown = PartitionPlace(9, 9, 9, 9)
    machine.do(c.ForgetCondemned((*places[:2], unknown)), user=None)
    assert machine.state.condemned == {places[2]}
    as_a_user = c.ForgetCondemned((places[2],))
    assert machine.rejection(as_a_user) == ErrorCode.UNAUTHORIZED
    machine.do(c.ForgetCondemned((places[2],)), user=None)
    assert machine.state.condemned == set()


def test_no_two_lives_share_a_place(machine: Machine) -> None:
    seen: list[PartitionPlace] = []
    for _ in range(3):
        machine.do(c.CreateStream("s"))
        machine.do(topic_of("s", "t", 2))
        seen += opened(machine)
        machine.do(c.PurgeStream("s"))
        seen += opened(machine)
        machine.do(c.DeleteTopic("s", "t"))
        machine.do(topic_of("s", "t", 2))
        seen += opened(machine)
        machine.do(c.DeleteStream("s"))
    assert len(set(seen)) == len(seen) == 18
    assert machine.state.condemned == set(seen)
    assert list(live_partitions(machine.state)) == []


# Consumer groups


def test_group_ids_never_come_again_in_a_topic(machine: Machine) -> None:
    machine.do(c.CreateStream("s"))
    machine.do(topic_of("s", "t", 3))
    for number, name in enumerate("abc"):
        details = machine.do(c.CreateConsumerGroup("s", "t", name))
        assert details == groups.ConsumerGroupDetails(groups.ConsumerGroup(number, 3, 0, name), ())
    machine.do(c.DeleteConsumerGroup("s", "t", "c"))
    assert machine.last.effects == (ConsumerGroupDeleted(0, 0, 2),)
    machine.do(c.DeleteConsumerGroup("s", "t", 1))
    assert list(topic_at(machine.state, "s", "t").groups) == [0]
    assert machine.do(c.CreateConsumerGroup("s", "t", "b")).group.id == 3
    machine.do(c.DeleteTopic("s", "t"))
    machine.do(topic_of("s", "t"))
    assert machine.do(c.CreateConsumerGroup("s", "t", "b")).group.id == 0


def test_what_concerns_the_members_of_groups_is_told(machine: Machine) -> None:
    def told() -> list[object]:
        kinds = PartitionOpened, PartitionCondemned
        return [effect for effect in machine.last.effects if not isinstance(effect, kinds)]

    machine.do(c.CreateStream("s"))
    for name in "tu":
        machine.do(topic_of("s", name, 2))
        assert told() == []
    machine.do(c.CreatePartitions("s", "u", 3))
    assert machine.last.effects[-1] == PartitionsChanged(0, 1, 5)
    assert len(told()) == 1
    machine.do(c.DeletePartitions("s", "u", 5))
    assert machine.last.effects[0] == PartitionsChanged(0, 1, 0)
    assert len(told()) == 1
    machine.do(c.PurgeTopic("s", "t"))
    assert machine.last.effects[0] == TopicPurged(0, 0)
    assert len(told()) == 1
    machine.do(c.PurgeStream("s"))
    assert told() == [TopicPurged(0, 0), TopicPurged(0, 1)]
    machine.do(c.UpdateStream("s", "r"))
    assert told() == []
    machine.do(c.DeleteTopic("r", "t"))
    assert machine.last.effects[0] == TopicDeleted(0, 0)
    assert len(told()) == 1
    machine.do(topic_of("r", "t", 1))
    machine.do(c.DeleteStream("r"))
    assert told() == [TopicDeleted(0, 0), TopicDeleted(0, 1)]


def test_groups_are_told_apart_by_name(machine: Machine) -> None:
    machine.do(c.CreateStream("s"))
    machine.do(topic_of("s", "t"))
    machine.do(c.CreateConsumerGroup("s", "t", "7"))
    again = c.CreateConsumerGroup("s", "t", "7")
    assert machine.rejection(again) == ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS
    for missing in (7, "0"):
        command = c.DeleteConsumerGroup("s", "t", missing)
        assert machine.rejection(command) == ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND
    machine.do(c.DeleteConsumerGroup("s", "t", "7"))


def test_groups_outlive_purges_renames_and_partitions(machine: Machine) -> None:
    machine.do(c.CreateStream("s"))
    machine.do(topic_of("s", "t"))
    machine.do(c.CreateConsumerGroup("s", "t", "g"))
    machine.do(c.UpdateTopic("s", "t", "u"))
    machine.do(c.PurgeTopic("s", "u"))
    machine.do(c.DeletePartitions("s", "u", 1))
    machine.do(c.PurgeStream("s"))
    assert topic_at(machine.state, "s", "u").group_ids == {"g": 0}


# Existence, then permission, then the rest

ON_STREAM = [
    lambda stream: c.UpdateStream(stream, "taken"),
    c.DeleteStream,
    c.PurgeStream,
    lambda stream: topic_of(stream, "taken"),
]
ON_TOPIC = [
    lambda stream, topic: c.UpdateTopic(stream, topic, "taken"),
    c.DeleteTopic,
    c.PurgeTopic,
    lambda stream, topic: c.CreatePartitions(stream, topic, 0),
    lambda stream, topic: c.DeletePartitions(stream, topic, 2),
    lambda stream, topic: c.CreateConsumerGroup(stream, topic, "taken"),
    lambda stream, topic: c.DeleteConsumerGroup(stream, topic, "missing"),
]


def populated() -> Machine:
    machine = Machine()
    for name in ("s", "taken"):
        machine.do(c.CreateStream(name))
    for name in ("t", "taken"):
        machine.do(topic_of("s", name))
    machine.do(c.CreateConsumerGroup("s", "t", "taken"))
    return machine


def test_what_is_missing_comes_before_what_is_forbidden_before_what_is_wrong() -> None:
    machine = populated()
    nobody = machine.user("nobody")
    assert machine.rejection(c.CreateStream("taken"), nobody) == ErrorCode.UNAUTHORIZED
    for on_stream in ON_STREAM:
        for missing in (9, "no"):
            code = machine.rejection(on_stream(missing), nobody)
            assert code == ErrorCode.STREAM_ID_NOT_FOUND
        assert machine.rejection(on_stream("s"), nobody) == ErrorCode.UNAUTHORIZED
    for on_topic in ON_TOPIC:
        code = machine.rejection(on_topic("no", "t"), nobody)
        assert code == ErrorCode.STREAM_ID_NOT_FOUND
        code = machine.rejection(on_topic("s", "no"), nobody)
        assert code == ErrorCode.TOPIC_ID_NOT_FOUND
        assert machine.rejection(on_topic("s", "t"), nobody) == ErrorCode.UNAUTHORIZED


@pytest.mark.parametrize(
    ("grant", "command", "passes"),
    [
        (StreamPermissions(0, manage_stream=True), c.DeleteStream(0), True),
        (StreamPermissions(0, manage_stream=True), c.DeleteStream(1), False),
        (StreamPermissions(0, manage_topics=True), c.DeleteStream(0), False),
        (StreamPermissions(0, manage_topics=True), topic_of(0, "new"), True),
        (StreamPermissions(0, read_topics=True), c.DeleteTopic(0, 0), False),
        (StreamPermissions(0, read_topics=True), c.CreateConsumerGroup(0, 0, "g"), True),
        (StreamPermissions(0, poll_messages=True), c.CreateConsumerGroup(0, 0, "g"), False),
        (
            StreamPermissions(0, topics=(TopicPermissions(0, manage_topic=True),)),
            c.DeletePartitions(0, 0, 1),
            True,
        ),
        (
            StreamPermissions(0, topics=(TopicPermissions(0, manage_topic=True),)),
            c.PurgeTopic(0, 1),
            False,
        ),
        (
            StreamPermissions(0, topics=(TopicPermissions(0, manage_topic=True),)),
            topic_of(0, "new"),
            False,
        ),
    ],
)
def test_grants_on_a_stream_or_a_topic_are_enough_for_it(
    grant: StreamPermissions, command: Command, passes: bool
) -> None:
    machine = populated()
    user = machine.user("someone", Permissions(streams=(grant,)))
    if passes:
        machine.do(command, user)
    else:
        assert machine.rejection(command, user) == ErrorCode.UNAUTHORIZED


def test_grants_die_with_their_stream_or_topic() -> None:
    machine = populated()
    both = tuple(TopicPermissions(number, read_topic=True) for number in range(2))
    user = machine.user(
        "someone",
        Permissions(
            GlobalPermissions(read_servers=True),
            (
                StreamPermissions(0, read_stream=True, topics=both),
                StreamPermissions(1, read_stream=True),
            ),
        ),
    )
    machine.do(c.DeleteTopic(0, 1))
    machine.do(c.DeleteStream(1))
    assert machine.state.users[user].permissions == Permissions(
        GlobalPermissions(read_servers=True),
        (StreamPermissions(0, read_stream=True, topics=both[:1]),),
    )
    # The ids come again; the grants don't.
    assert machine.do(topic_of(0, "again")).topic.id == 1
    assert machine.do(c.CreateStream("again")).stream.id == 1
    machine.do(topic_of(1, "t"))
    group = c.CreateConsumerGroup(1, "t", "g")
    assert machine.rejection(group, user) == ErrorCode.UNAUTHORIZED


def test_a_grant_may_come_before_its_stream(machine: Machine) -> None:
    grant = StreamPermissions(0, manage_stream=True)
    user = machine.user("someone", Permissions(streams=(grant,)))
    machine.do(c.CreateStream("s"))
    machine.do(c.DeleteStream("s"), user)


# Time and cost


def test_the_first_moment_and_the_first_ids_are_like_any_other() -> None:
    """Zero and one stand for nothing else: no id, position or time is taken for "none"."""
    state = State()
    for position, command in enumerate((c.CreateStream("s"), topic_of(0, "t", 1)), start=1):
        apply(state, command, Context(position, position, None))
    restored = snapshot.restore(image(state))
    stream = find_stream(restored, 0)
    assert stream is not None
    assert (stream.id, stream.created_at, restored.position) == (0, 1, 2)
    assert list(live_partitions(restored)) == [(PartitionPlace(0, 0, 0, 2), stream.topics[0])]


def test_thousands_of_streams_cost_no_more_each() -> None:
    machine = Machine()

    def seconds_for(first: int, end: int) -> float:
        """Of the quickest hundred, as others may want the processor meanwhile."""
        taken = []
        for hundred in range(first, end, 100):
            began = time.perf_counter()
            for number in range(hundred, hundred + 100):
                machine.do(c.CreateStream(f"stream {number}"))
            taken.append(time.perf_counter() - began)
        return min(taken)

    early = seconds_for(0, 2000)
    seconds_for(2000, 18_000)
    late = seconds_for(18_000, 20_000)
    assert late < 10 * early
    for number in range(0, 20_000, 2):
        machine.do(c.DeleteStream(number))
    assert machine.do(c.CreateStream("again")).stream.id == 0
    assert len(machine.state.streams) == 10_001


def test_a_thousand_partitions_share_what_is_the_same(machine: Machine) -> None:
    machine.do(c.CreateStream("s"))
    machine.do(topic_of("s", "t", 1000))
    machine.do(c.PurgeTopic("s", "t"))
    assert len({id(partition) for partition in topic_at(machine.state, "s", "t").partitions}) == 1


def test_effects_of_an_update_of_options_are_none(machine: Machine) -> None:
    machine.do(c.CreateStream("s"))
    machine.do(topic_of("s", "t", message_expiry=FOREVER))
    machine.do(c.UpdateTopic("s", "t", "t", message_expiry=1))
    assert machine.last.effects == ()
