"""Random requests to a server, mostly about what there is, and some that are never allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from random import Random
from typing import Any, Final

from support.server_model import ServerModel
from support.server_model_parts import Partition, Stream, Topic
from support.topic_option_choices import CHOICES, option
from windsprite_protocol.batches import NewMessage, build_batch
from windsprite_protocol.model import groups, messages, offsets, streams, system, tokens, topics
from windsprite_protocol.model import users as accounts
from windsprite_protocol.model.identifiers import (
    Balanced,
    ByKey,
    Consumer,
    ConsumerKind,
    Identifier,
    Partitioning,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from windsprite_protocol.model.typed_values import Options

FOREVER: Final = 2**64 - 1
NAMES: Final = ("a", "b", "\u00e9", "e\u0301", "0")
USERNAMES: Final = ("alice", "bob", "carol", "xy", "é" * 26)
PASSWORDS: Final = ("secret-1", "secret-2", "secret-3", "no")
COUNTS: Final = (0, 1, 1, 2, 3, 1001)
MANY_PARTITIONS: Final = 6


class Batch(bytes):
    """A batch that does not fill the screen when a test fails."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<batch of {len(self)} bytes>"


class RandomRequests:
    """Makes requests from one source of randomness.

    Args:
        random: Decides everything.
        model: Knows what there is.
    """

    def __init__(self, random: Random, model: ServerModel) -> None:
        self._random = random
        self._model = model

    def any(self) -> Any:
        """A request of any kind."""
        areas: dict[Callable[[], Any], int] = {
            self.about_streams: 6,
            self.about_topics: 12,
            self.about_partitions: 10,
            self.about_groups: 14,
            self.about_users: 12,
            self.about_tokens: 6,
            self.about_offsets: 10,
            self.send: 16,
            self.poll: 10,
            self.about_the_server: 2,
        }
        return self._random.choices(list(areas), list(areas.values()))[0]()

    # By areas

    def about_streams(self) -> Any:
        options = self._no_options()
        return self._one_of(
            (4, lambda: streams.CreateStream(self._name(), options)),
            (2, lambda: streams.UpdateStream(self._stream(), self._name(), options)),
            (1, lambda: streams.DeleteStream(self._stream())),
            (1, lambda: streams.PurgeStream(self._stream())),
            (2, lambda: streams.GetStream(self._stream())),
            (1, streams.GetStreams),
        )

    def about_topics(self) -> Any:
        return self._one_of(
            (6, lambda: topics.CreateTopic(self._stream(), *self._new_topic())),
            (3, lambda: topics.UpdateTopic(*self._topic(), self._name(), self._options())),
            (1, lambda: topics.DeleteTopic(*self._topic())),
            (1, lambda: topics.PurgeTopic(*self._topic())),
            (2, lambda: topics.GetTopic(*self._topic())),
            (1, lambda: topics.GetTopics(self._stream())),
        )

    def about_partitions(self) -> Any:
        stream, topic = self._topic()
        found = self._find(stream, topic)
        is_large = found is not None and len(found.partitions) > MANY_PARTITIONS
        count = self._random.choice(COUNTS)
        return self._one_of(
            (1 if is_large else 4, lambda: topics.CreatePartitions(stream, topic, count)),
            (4 if is_large else 2, lambda: topics.DeletePartitions(stream, topic, count)),
            (2, lambda: topics.DeleteSegments(stream, topic, self._partition(), self._segments())),
            (3, self._delete_sealed_segments),
        )

    def about_groups(self) -> Any:
        place, group = self._group()
        return self._one_of(
            (4, lambda: groups.CreateConsumerGroup(*place, self._name())),
            (1, lambda: groups.DeleteConsumerGroup(*place, group)),
            (6, lambda: groups.JoinConsumerGroup(*place, group)),
            (3, lambda: groups.LeaveConsumerGroup(*place, group)),
            (4, lambda: groups.SyncConsumerGroup(*place, group)),
            (1, lambda: groups.GetConsumerGroup(*place, group)),
            (1, lambda: groups.GetConsumerGroups(*place)),
        )

    def about_users(self) -> Any:
        random, user, options = self._random, self._user(), self._no_options()
        permissions = self._permissions()
        return self._one_of(
            (4, lambda: self._create_user(permissions, options)),
            (1, lambda: accounts.UpdateUser(user, random.choice(USERNAMES), None, options)),
            # Root stays active: somebody has to look at everything.
            (1, lambda: accounts.UpdateUser(random.randint(1, 3), None, random.choice([1, 2, 3]))),
            (1, lambda: accounts.DeleteUser(user)),
            (4, lambda: accounts.UpdatePermissions(user, permissions)),
            (1, lambda: accounts.ChangePassword(user, self._password(), self._password())),
            (1, lambda: accounts.GetUser(user)),
            (1, accounts.GetUsers),
        )

    def about_tokens(self) -> Any:
        name = self._random.choice("abcd")
        lifetime = self._random.choice([0, FOREVER, 3_600_000_000, 1, FOREVER - 1])
        return self._one_of(
            (3, lambda: tokens.CreateToken(name, lifetime)),
            (1, lambda: tokens.DeleteToken(name)),
            (1, tokens.GetTokens),
        )

    def about_offsets(self) -> Any:
        consumer, (stream, topic) = self._consumer()
        number = self._random.choice([0, 0, 1, 2, None])
        key = (consumer, stream, topic, number)
        offset = self._random.choice([0, 0, 1, 3, 10, 1000])
        get = (1, lambda: offsets.GetConsumerOffset(*key))
        if consumer.kind is ConsumerKind.GROUP:
            # Groups are never behind what they were given, see `poll`.
            offset = self._random.choice([self._last_offset(stream, topic, number), 1000])
            return self._one_of((3, lambda: offsets.StoreConsumerOffset(*key, offset)), get)
        return self._one_of(
            (2, lambda: offsets.StoreConsumerOffset(*key, offset)),
            (2, self._catch_up),
            (1, lambda: offsets.DeleteConsumerOffset(*key)),
            get,
        )

    def about_the_server(self) -> Any:
        return self._random.choice([system.GetMe(), system.GetStats()])

    def send(self) -> messages.SendMessages:
        # What fills a segment of the smallest size comes often enough to be worth deleting.
        sizes = [600_000, 600_000]
        if self._random.random() < 0.75:
            sizes = self._random.choices([1, 10, 100, 300_000], k=self._random.choice([1, 2, 3]))
        serial = bytes([self._random.randrange(256)])
        batch = build_batch(
            [
                NewMessage(serial * size, number.to_bytes(16, "little"), 1_000_000 + number)
                for number, size in enumerate(sizes)
            ]
        )
        partitioning: Sequence[Partitioning] = [
            ToPartition(self._partition()),
            Balanced(),
            ByKey(self._random.choice([b"a", b"user-42"])),
        ]
        return messages.SendMessages(
            *self._topic(), self._random.choice(partitioning), len(sizes), Batch(batch)
        )

    def poll(self) -> messages.PollMessages:
        strategies = [
            PollingStrategy.offset(self._random.randrange(6)),
            PollingStrategy.first(),
            PollingStrategy.last(),
            PollingStrategy.next(),
        ]
        consumer, place = self._consumer()
        # Groups commit at once: what they would leave uncommitted would delay changes of owners.
        auto_commit = consumer.kind is ConsumerKind.GROUP or self._random.random() < 0.5
        return messages.PollMessages(
            consumer,
            *place,
            self._random.choice([0, 0, 1, 2, None]),
            self._random.choice(strategies),
            self._random.choice([0, 1, 3, 1000]),
            auto_commit,
        )

    def _delete_sealed_segments(self) -> topics.DeleteSegments:
        place, _ = self._full_partition()
        return topics.DeleteSegments(*place, self._segments())

    def _catch_up(self) -> offsets.StoreConsumerOffset:
        """The slowest consumer of a partition comes to the end of a segment, or beside it."""
        (stream, topic, number), partition = self._full_partition()
        ends = [0] if partition is None else [0, *partition.sealed_ends()]
        offset = max(0, self._random.choice(ends) + self._random.choice([0, 0, -1, 1]))
        consumer = Consumer(ConsumerKind.SINGLE, 1)
        if partition is not None and partition.offsets:
            slowest = min(partition.offsets, key=lambda key: partition.offsets[key])
            consumer = Consumer(ConsumerKind.SINGLE, slowest)
        return offsets.StoreConsumerOffset(consumer, stream, topic, number, offset)

    # What they are made of

    def _one_of(self, *ways: tuple[int, Callable[[], Any]]) -> Any:
        weights = [weight for weight, _ in ways]
        return self._random.choices([make for _, make in ways], weights)[0]()

    def _name(self) -> str:
        return self._random.choice(NAMES)

    def _identifier(self, row: Any) -> Identifier:
        identifier: Identifier = row.name if self._random.random() < 0.5 else row.id
        return identifier

    def _stream(self) -> Identifier:
        if self._model.streams and self._random.random() < 0.9:
            return self._identifier(self._random.choice(self._model.streams))
        return self._random.choice([0, 1, 7, *NAMES])

    def _topic(self) -> tuple[Identifier, Identifier]:
        places: list[tuple[Stream, Topic]] = [
            (stream, topic) for stream in self._model.streams for topic in stream.topics
        ]
        if places and self._random.random() < 0.9:
            stream, topic = self._random.choice(places)
            return self._identifier(stream), self._identifier(topic)
        return self._stream(), self._random.choice([0, 1, 7, *NAMES])

    def _find(self, stream: Identifier, topic: Identifier) -> Topic | None:
        for its_stream in self._model.streams:
            for its_topic in its_stream.topics:
                if stream in (its_stream.id, its_stream.name) and topic in (
                    its_topic.id,
                    its_topic.name,
                ):
                    return its_topic
        return None

    def _full_partition(self) -> tuple[tuple[Identifier, Identifier, int], Partition | None]:
        """A partition that has sealed segments, if there is one."""
        found: list[tuple[tuple[Identifier, Identifier, int], Partition]] = [
            ((stream.id, topic.id, number), partition)
            for stream in self._model.streams
            for topic in stream.topics
            for number, partition in enumerate(topic.partitions)
            if partition.sealed_ends()
        ]
        return self._random.choice(found) if found else ((*self._topic(), 0), None)

    def _last_offset(self, stream: Identifier, topic: Identifier, number: int | None) -> int:
        found = self._find(stream, topic)
        if found is None or number is None or number >= len(found.partitions):
            return 0
        return found.partitions[number].current_offset

    def _new_topic(self) -> tuple[int, str, Options]:
        count = self._random.choice(COUNTS)
        if self._random.random() < 0.5:
            return count, self._name(), (option("segment_size", "1 MiB"),)
        return count, self._name(), self._options()

    def _options(self) -> Options:
        chosen = self._random.sample(CHOICES, self._random.choice([0, 0, 1, 2, 3]))
        return tuple({one.key: one for one in chosen}.values())

    def _no_options(self) -> Options:
        return (option("colour", "red"),) if self._random.random() < 0.1 else ()

    def _partition(self) -> int:
        return self._random.choice([0, 0, 0, 1, 2, 7])

    def _segments(self) -> int:
        return self._random.choice([0, 1, 2, 2**32 - 1])

    def _group(self) -> tuple[tuple[Identifier, Identifier], Identifier]:
        """A topic, and a group that it may have."""
        found = [
            ((stream.id, topic.name), group_id if self._random.random() < 0.5 else group.name)
            for stream in self._model.streams
            for topic in stream.topics
            for group_id, group in topic.groups.items()
        ]
        if found and self._random.random() < 0.8:
            return self._random.choice(found)
        return self._topic(), self._random.choice([0, 1, *NAMES])

    def _consumer(self) -> tuple[Consumer, tuple[Identifier, Identifier]]:
        """A consumer, and a topic that it may be interested in."""
        if self._random.random() < 0.3:
            place, group = self._group()
            return Consumer(ConsumerKind.GROUP, group), place
        key = self._random.choice([1, 2, "worker", "1"])
        return Consumer(ConsumerKind.SINGLE, key), self._topic()

    def _user(self) -> Identifier:
        if self._random.random() < 0.8:
            return self._identifier(self._random.choice(self._model.users))
        return self._random.choice([0, 1, 2, 7, *USERNAMES])

    def _password(self) -> str:
        return self._random.choice(PASSWORDS)

    def _create_user(
        self, permissions: Permissions | None, options: Options
    ) -> accounts.CreateUser:
        status = self._random.choice([1, 1, 1, 2, 3])
        username, password = self._random.choice(USERNAMES), self._password()
        return accounts.CreateUser(username, password, status, permissions, options)

    def _permissions(self) -> Permissions | None:
        if self._random.random() < 0.1:
            return None
        density = self._random.choice([0.0, 0.1, 0.3, 1.0])

        def flags(kind: type[Any]) -> dict[str, bool]:
            names = [flag.name for flag in fields(kind) if flag.type == "bool"]
            return {name: self._random.random() < density for name in names}

        def on_topic() -> TopicPermissions:
            return TopicPermissions(self._random.randrange(3), **flags(TopicPermissions))

        def on_stream() -> StreamPermissions:
            topics = tuple(on_topic() for _ in range(self._random.randrange(3)))
            stream_id = self._random.randrange(3)
            return StreamPermissions(stream_id, **flags(StreamPermissions), topics=topics)

        return Permissions(
            GlobalPermissions(**flags(GlobalPermissions)),
            tuple(on_stream() for _ in range(self._random.randrange(4))),
        )
