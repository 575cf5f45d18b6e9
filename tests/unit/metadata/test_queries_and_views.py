"""Looking things up, and showing them."""

from dataclasses import dataclass

import pytest

from support.metadata import Machine, topic_of
from windsprite_protocol.model import groups, streams, topics, users
from windsprite_protocol.model.tokens import TokenInfo
from windsprite_server.metadata import commands as c
from windsprite_server.metadata.queries import (
    find_group,
    find_partition,
    find_stream,
    find_topic,
    find_user,
    live_partitions,
    streams_by_id,
    topics_by_id,
    users_by_id,
)
from windsprite_server.metadata.state import LowestUnused, Stream, Topic
from windsprite_server.metadata.views import (
    group_details,
    stream_details,
    stream_summary,
    token_infos,
    topic_details,
    topic_summary,
    user_details,
    user_summary,
)


@dataclass(frozen=True)
class Held:
    segments_count: int
    current_offset: int
    size_bytes: int
    messages_count: int


class Numbered:
    """Figures that tell of what they are."""

    def partition(self, stream_id: int, topic_id: int, partition_id: int, _: int) -> Held:
        number = stream_id * 100 + topic_id * 10 + partition_id
        return Held(1, number, number * 1000, number + 1)

    def topic(self, stream_id: int, topic_id: int) -> Held:
        return Held(0, 0, stream_id * 100 + topic_id * 10, 7)

    def stream(self, stream_id: int) -> Held:
        return Held(0, 0, stream_id * 100, 8)


FIGURES = Numbered()


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    machine.do(c.CreateStream("gone"))
    machine.do(c.CreateStream("s"))
    machine.do(topic_of("s", "gone"))
    machine.do(topic_of("s", "t", 2))
    machine.do(c.CreateConsumerGroup("s", "t", "g"))
    machine.do(c.DeleteStream("gone"))
    machine.do(c.DeleteTopic("s", "gone"))
    return machine


def parts(machine: Machine) -> tuple[Stream, Topic]:
    stream = find_stream(machine.state, "s")
    assert stream is not None
    topic = find_topic(stream, "t")
    assert topic is not None
    return stream, topic


def test_everything_is_found_by_number_and_by_name(machine: Machine) -> None:
    stream, topic = parts(machine)
    assert (stream.id, topic.id) == (1, 1)
    assert find_stream(machine.state, 1) is stream
    assert find_topic(stream, 1) is topic
    assert find_group(topic, 0) is find_group(topic, "g") is not None
    assert find_partition(topic, 1) is topic.partitions[1]
    assert find_user(machine.state, 0) is find_user(machine.state, "iggy") is not None


def test_what_is_not_there_is_not_found(machine: Machine) -> None:
    stream, topic = parts(machine)
    for identifier in (0, 2, 1 << 40, -1, "gone", "1", "", "S"):
        assert find_stream(machine.state, identifier) is None
    for identifier in (0, -1, "gone", "1"):
        assert find_topic(stream, identifier) is None
    for identifier in (1, -1, "0"):
        assert find_group(topic, identifier) is None
    for number in (-1, 2, 1 << 40):
        assert find_partition(topic, number) is None
    for identifier in (1, "0", "Iggy"):
        assert find_user(machine.state, identifier) is None


def test_lists_ascend_whatever_the_order_of_creation(machine: Machine) -> None:
    machine.do(c.CreateStream("late"))
    machine.do(topic_of("s", "late"))
    for name in ("alice", "bob"):
        machine.user(name)
    machine.do(c.DeleteUser("alice"))
    machine.user("carol")
    stream, _ = parts(machine)
    assert [each.name for each in streams_by_id(machine.state)] == ["late", "s"]
    assert [each.name for each in topics_by_id(stream)] == ["late", "t"]
    assert [each.username for each in users_by_id(machine.state)] == ["iggy", "carol", "bob"]
    places = [place for place, _ in live_partitions(machine.state)]
    assert places == sorted(places)
    assert len(places) == 3


def test_figures_are_told_of_partitions_topics_and_streams(machine: Machine) -> None:
    stream, topic = parts(machine)
    created_at = topic.created_at
    shown = topic_details(stream, topic, FIGURES)
    assert shown.partitions == (
        topics.Partition(0, created_at, 1, 110, 110_000, 111),
        topics.Partition(1, created_at, 1, 111, 111_000, 112),
    )
    assert (shown.topic.size_bytes, shown.topic.messages_count) == (110, 7)
    assert shown.topic.partitions_count == 2
    assert topic_summary(stream, topic, FIGURES) == shown.topic
    assert stream_details(stream, FIGURES) == streams.StreamDetails(
        streams.Stream(1, stream.created_at, 1, 100, 8, "s"), (shown.topic,)
    )
    assert stream_summary(stream, FIGURES) == stream_details(stream, FIGURES).stream


def test_groups_users_and_tokens_are_shown(machine: Machine) -> None:
    _, topic = parts(machine)
    members = (groups.GroupMember(0, (0, 1)),)
    assert group_details(topic, topic.groups[0], members) == groups.ConsumerGroupDetails(
        groups.ConsumerGroup(0, 2, 1, "g"), members
    )
    root = machine.state.users[0]
    assert user_summary(root) == users.User(0, 1, 1, "iggy")
    assert user_details(root) == users.UserDetails(user_summary(root), root.permissions)
    for name in ("b", "a"):
        machine.do(c.CreateToken(name, f"hash of {name}"))
    assert token_infos(machine.state.users[0]) == (TokenInfo("a", 0), TokenInfo("b", 0))


def test_the_lowest_unused_number_is_taken() -> None:
    numbers = LowestUnused([0, 1, 3, 6])
    assert [numbers.take() for _ in range(5)] == [2, 4, 5, 7, 8]
    for number in (8, 0, 3):
        numbers.give_back(number)
    assert [numbers.take() for _ in range(4)] == [0, 3, 8, 9]
    assert LowestUnused().take() == 0
