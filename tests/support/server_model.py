"""A model of what clients see of a server, as plain as the rules of the protocol (spec 02 to 06).

It searches where a server looks up, counts where a server keeps totals, and holds permissions as
sets of words. One request after the other; nothing ever waits or fails.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from support import permission_table as needs
from support.server_model_parts import (
    Assignment,
    Grants,
    Group,
    No,
    Partition,
    Secret,
    Shares,
    Stream,
    Token,
    Topic,
    User,
    a_time_from_now,
    find,
    grants_of,
    insert,
    lowest_unused,
    permissions_of,
)
from support.topic_option_choices import CATALOG, UPDATABLE, Effective, canonical, value_of
from support.wire_client import evicted, result, status
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.generation import Plane
from windsprite_protocol.hashing import partition_index
from windsprite_protocol.messages import Messages
from windsprite_protocol.model import groups, messages, offsets, streams, system, tokens, topics
from windsprite_protocol.model import users as accounts
from windsprite_protocol.model.identifiers import (
    Balanced,
    ByKey,
    Consumer,
    ConsumerKind,
    Identifier,
    Partitioning,
    PollingKind,
)
from windsprite_protocol.model.permissions import GlobalPermissions
from windsprite_protocol.model.typed_values import Option, Options
from windsprite_protocol.v0_11.table import GENERATION

ROOT = 0
FOREVER = 2**64 - 1
MAX_TOKENS = 3
NO_SESSION, BAD_CREDENTIALS, BAD_TOKEN, INACTIVE = 1, 9, 10, 11


class ServerModel:
    """A server with a root user, seen from connections that have numbers.

    Attributes:
        sessions: Who is logged in on a connection.
    """

    def __init__(self) -> None:
        all_words = {flag.name for flag in fields(GlobalPermissions)}
        root = User(ROOT, "iggy", 1, "iggy", grants=Grants(all_words, {}, {}))
        self.streams: list[Stream] = []
        self.users: list[User] = [root]
        self.sessions: dict[int, int] = {}

    def restart(self) -> None:
        """Forget what does not outlive the process."""
        for connection in list(self.sessions):
            self._end_session(connection)
        for stream in self.streams:
            for topic in stream.topics:
                topic.turn = 0

    def answer(self, connection: int, request: Any) -> Any:
        """What a request is answered, or raises `No`."""
        plane = GENERATION.of(type(request)).plane
        is_change = plane in (Plane.METADATA, Plane.PARTITION)
        if connection not in self.sessions:
            raise No(evicted(NO_SESSION) if is_change else status(ErrorCode.UNAUTHENTICATED))
        self.connection = connection
        self.user = find(self.users, self.sessions[connection])
        self.rejected = result if plane is Plane.METADATA else status
        name = type(request).__module__.rpartition(".")[2]
        return getattr(self, f"_{name}")(request)

    def everything(self) -> Iterator[Any]:
        """Requests of root that show all there is."""
        yield streams.GetStreams()
        yield accounts.GetUsers()
        yield tokens.GetTokens()
        yield system.GetStats()
        for user in self.users:
            yield accounts.GetUser(user.id)
        for stream in self.streams:
            yield streams.GetStream(stream.name)
            yield topics.GetTopics(stream.id)
            for topic in stream.topics:
                at = stream.id, topic.id
                yield topics.GetTopic(*at)
                yield groups.GetConsumerGroups(*at)
                for group_id in topic.groups:
                    yield groups.GetConsumerGroup(*at, group_id)
                for number, partition in enumerate(topic.partitions):
                    consumers = [
                        *(Consumer(ConsumerKind.SINGLE, key) for key in partition.offsets),
                        *(Consumer(ConsumerKind.GROUP, group_id) for group_id in topic.groups),
                    ]
                    for consumer in consumers:
                        yield offsets.GetConsumerOffset(consumer, *at, number)

    def settle(self) -> list[tuple[int, int]]:
        """Remove what a server removes soon; returns which topics hold less now."""
        changed = []
        for stream in self.streams:
            for topic in stream.topics:
                trimmed = [partition.trim() for partition in topic.partitions]
                if any(trimmed):
                    changed.append((stream.id, topic.id))
        return changed

    # Rules that requests have in common

    def _check(self, condition: object, code: ErrorCode) -> None:
        if not condition:
            raise No(self.rejected(code))

    def _check_first(self, condition: object, code: ErrorCode) -> None:
        """A check that is made before anything is carried out."""
        if not condition:
            raise No(status(code))

    def _may(
        self, enough: frozenset[str], stream: Stream | None = None, topic: Topic | None = None
    ) -> None:
        held = set()
        grants = self.user.grants
        if grants is not None:
            held |= {f"g.{word}" for word in grants.everywhere}
            if stream is not None:
                held |= {f"s.{word}" for word in grants.on_stream.get(stream.id, ())}
            if stream is not None and topic is not None:
                held |= {f"t.{word}" for word in grants.on_topic.get((stream.id, topic.id), ())}
        self._check(held & enough, ErrorCode.UNAUTHORIZED)

    def _stream(self, request: Any) -> Stream:
        stream: Stream = find(self.streams, request.stream)
        self._check(stream, ErrorCode.STREAM_ID_NOT_FOUND)
        return stream

    def _topic(self, request: Any) -> tuple[Stream, Topic]:
        stream = self._stream(request)
        topic: Topic = find(stream.topics, request.topic)
        self._check(topic, ErrorCode.TOPIC_ID_NOT_FOUND)
        return stream, topic

    def _partition(self, topic: Topic, partition_id: int) -> Partition:
        self._check(partition_id < len(topic.partitions), ErrorCode.PARTITION_NOT_FOUND)
        return topic.partitions[partition_id]

    # Streams

    def _streams(self, request: Any) -> Any:
        match request:
            case streams.GetStreams():
                self._may(needs.READ_STREAMS)
                return tuple(map(self._stream_row, self.streams))
            case streams.GetStream(stream=identifier):
                stream = find(self.streams, identifier)
                if stream is None:
                    return None
                self._may(needs.READ_STREAM, stream)
                return streams.StreamDetails(
                    self._stream_row(stream), tuple(map(self._topic_row, stream.topics))
                )
            case streams.CreateStream(name=name, options=options):
                self._check_first(not options, ErrorCode.UNSUPPORTED_OPTION_KEY)
                self._may(needs.CREATE_STREAM)
                self._check(not find(self.streams, name), ErrorCode.STREAM_NAME_ALREADY_EXISTS)
                stream = Stream(lowest_unused(self.streams), name, a_time_from_now())
                insert(self.streams, stream)
                return streams.StreamDetails(self._stream_row(stream), ())
            case streams.UpdateStream(name=name, options=options):
                self._check_first(not options, ErrorCode.UNSUPPORTED_OPTION_KEY)
                stream = self._stream(request)
                self._may(needs.MANAGE_STREAM, stream)
                self._check(
                    find(self.streams, name) in (None, stream),
                    ErrorCode.STREAM_NAME_ALREADY_EXISTS,
                )
                stream.name = name
            case streams.DeleteStream():
                stream = self._stream(request)
                self._may(needs.MANAGE_STREAM, stream)
                self.streams.remove(stream)
                self._forget_grants(stream.id)
            case streams.PurgeStream():
                stream = self._stream(request)
                self._may(needs.MANAGE_STREAM, stream)
                for topic in stream.topics:
                    self._purge(topic)
        return None

    def _stream_row(self, stream: Stream) -> streams.Stream:
        partitions = [partition for topic in stream.topics for partition in topic.partitions]
        return streams.Stream(
            stream.id,
            stream.created_at,
            len(stream.topics),
            sum(partition.size for partition in partitions),
            sum(partition.count for partition in partitions),
            stream.name,
        )

    # Topics

    def _topics(self, request: Any) -> Any:
        match request:
            case topics.GetTopics(stream=identifier):
                stream = find(self.streams, identifier)
                if stream is None:
                    return ()
                self._may(needs.READ_TOPICS, stream)
                return tuple(map(self._topic_row, stream.topics))
            case topics.GetTopic(stream=identifier):
                stream = find(self.streams, identifier)
                topic = stream and find(stream.topics, request.topic)
                if topic is None:
                    return None
                self._may(needs.READ_TOPIC, stream, topic)
                return self._topic_details(topic)
            case topics.CreateTopic():
                return self._create_topic(request)
            case topics.UpdateTopic():
                self._update_topic(request)
            case topics.DeleteTopic():
                stream, topic = self._managed_topic(request)
                stream.topics.remove(topic)
                self._forget_grants(stream.id, topic.id)
            case topics.PurgeTopic():
                _, topic = self._managed_topic(request)
                self._purge(topic)
            case topics.CreatePartitions(partitions_count=count):
                self._check_first(1 <= count <= 1000, ErrorCode.TOO_MANY_PARTITIONS)
                _, topic = self._managed_topic(request)
                self._add_partitions(topic, count, a_time_from_now())
                self._reassign(topic)
            case topics.DeletePartitions(partitions_count=count):
                self._check_first(1 <= count <= 1000, ErrorCode.TOO_MANY_PARTITIONS)
                _, topic = self._managed_topic(request)
                self._check(count <= len(topic.partitions), ErrorCode.INVALID_PARTITIONS_COUNT)
                del topic.partitions[-count:]
                self._reassign(topic)
            case topics.DeleteSegments(partition_id=number, segments_count=count):
                _, topic = self._managed_topic(request)
                partition = self._partition(topic, number)
                ends = partition.sealed_ends()[:count]
                partition.watermark = max([partition.watermark, *ends])
                partition.trim()
        return None

    def _managed_topic(self, request: Any) -> tuple[Stream, Topic]:
        stream, topic = self._topic(request)
        self._may(needs.MANAGE_TOPIC, stream, topic)
        return stream, topic

    def _chosen_values(self, chosen: Options) -> dict[str, Any]:
        values = {}
        for option in chosen:
            self._check_first(option.key in CATALOG, ErrorCode.UNSUPPORTED_OPTION_KEY)
            value = value_of(option)
            self._check_first(value is not None, ErrorCode.INVALID_OPTION_VALUE)
            if value != 0 or option.key == "preallocate_segments":
                values[option.key] = value
        return values

    def _create_topic(self, request: topics.CreateTopic) -> topics.TopicDetails:
        values = self._chosen_values(request.options)
        effective = Effective(**{**CATALOG, **values})
        size, count = effective.segment_size, request.partitions_count
        self._check_first(
            2**20 <= size <= 2**30 and size % 512 == 0, ErrorCode.INVALID_OPTION_VALUE
        )
        self._check_first(count <= 1000, ErrorCode.TOO_MANY_PARTITIONS)
        self._check_first(effective.max_topic_size >= size, ErrorCode.INVALID_TOPIC_SIZE)
        stream = self._stream(request)
        self._may(needs.CREATE_TOPIC, stream)
        taken = find(stream.topics, request.name)
        self._check(not taken, ErrorCode.TOPIC_NAME_ALREADY_EXISTS)
        topic = Topic(
            lowest_unused(stream.topics),
            request.name,
            a_time_from_now(),
            {key: canonical(key, value) for key, value in values.items()},
            {key: canonical(key, value) for key, value in CATALOG.items() if key not in values},
            effective,
        )
        self._add_partitions(topic, count, topic.created_at)
        insert(stream.topics, topic)
        # The reply to the creation shows partitions that have no segment yet (spec 03, 3.6).
        return self._topic_details(topic, segments_count=0)

    def _update_topic(self, request: topics.UpdateTopic) -> None:
        stream = find(self.streams, request.stream)
        topic = stream and find(stream.topics, request.topic)
        for option in request.options:
            self._check_first(option.key in UPDATABLE, ErrorCode.UNSUPPORTED_OPTION_KEY)
        values = self._chosen_values(request.options)
        segment_size = topic.effective.segment_size if topic else CATALOG["segment_size"]
        too_small = values.get("max_topic_size", FOREVER) < segment_size
        self._check_first(not too_small, ErrorCode.INVALID_TOPIC_SIZE)
        stream, topic = self._managed_topic(request)
        other = find(stream.topics, request.name)
        self._check(other in (None, topic), ErrorCode.TOPIC_NAME_ALREADY_EXISTS)
        topic.name = request.name
        topic.effective = Effective(**{**vars(topic.effective), **values})
        for option in request.options:
            if option.key in values:
                topic.chosen[option.key] = option.value
                topic.derived.pop(option.key, None)

    def _add_partitions(self, topic: Topic, count: int, created_at: Any) -> None:
        size = topic.effective.segment_size
        topic.partitions += [Partition(created_at, size) for _ in range(count)]

    def _purge(self, topic: Topic) -> None:
        topic.partitions = [
            Partition(partition.created_at, partition.segment_size)
            for partition in topic.partitions
        ]

    def _topic_row(self, topic: Topic) -> topics.Topic:
        return topics.Topic(
            topic.id,
            topic.created_at,
            len(topic.partitions),
            topic.effective.message_expiry,
            topics.Compression[topic.effective.compression_algorithm.upper()],
            topic.effective.max_topic_size,
            sum(partition.size for partition in topic.partitions),
            sum(partition.count for partition in topic.partitions),
            topic.name,
            tuple(Option(key, value) for key, value in sorted(topic.chosen.items())),
            tuple(Option(key, value) for key, value in sorted(topic.derived.items())),
        )

    def _topic_details(
        self, topic: Topic, segments_count: int | None = None
    ) -> topics.TopicDetails:
        return topics.TopicDetails(
            self._topic_row(topic),
            tuple(
                topics.Partition(
                    number,
                    partition.created_at,
                    len(partition.segments) if segments_count is None else segments_count,
                    partition.current_offset,
                    partition.size,
                    partition.count,
                )
                for number, partition in enumerate(topic.partitions)
            ),
        )

    # Consumer groups

    def _groups(self, request: Any) -> Any:
        if isinstance(request, groups.SyncConsumerGroup):
            return self._sync(request)
        stream, topic = self._topic(request)
        self._may(needs.READ_TOPIC, stream, topic)
        match request:
            case groups.GetConsumerGroups():
                return tuple(self._group_row(topic, group_id) for group_id in sorted(topic.groups))
            case groups.GetConsumerGroup(group=identifier):
                group_id = self._group_id(topic, identifier)
                return None if group_id is None else self._group_details(topic, group_id)
            case groups.CreateConsumerGroup(name=name):
                is_free = self._group_id(topic, name) is None
                self._check(is_free, ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS)
                group_id = topic.groups_made
                topic.groups_made += 1
                topic.groups[group_id] = Group(name)
                return self._group_details(topic, group_id)
        group_id = self._group_id(topic, request.group)
        self._check(group_id is not None, ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND)
        group = topic.groups[group_id]
        match request:
            case groups.DeleteConsumerGroup():
                del topic.groups[group_id]
                for partition in topic.partitions:
                    partition.group_offsets.pop(group_id, None)
            case groups.JoinConsumerGroup():
                if self.connection not in group.members:
                    taken = set(group.members.values())
                    group.members[self.connection] = min(set(range(len(taken) + 1)) - taken)
                    group.assigned.clear()
            case groups.LeaveConsumerGroup():
                is_member = self.connection in group.members
                self._check(is_member, ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND)
                self._leave(group, self.connection)
        return None

    def _sync(self, request: groups.SyncConsumerGroup) -> Any:
        """What a member may poll; told to nobody else, and nobody is told why."""
        stream = find(self.streams, request.stream)
        topic = stream and find(stream.topics, request.topic)
        group_id = topic and self._group_id(topic, request.group)
        if group_id is None or self.connection not in topic.groups[group_id].members:
            return None
        return Assignment(topic.groups[group_id], self.connection, len(topic.partitions))

    def _group_id(self, topic: Topic, identifier: Identifier) -> Any:
        for group_id, group in topic.groups.items():
            if identifier == (group.name if isinstance(identifier, str) else group_id):
                return group_id
        return None

    def _group_row(self, topic: Topic, group_id: int) -> groups.ConsumerGroup:
        group = topic.groups[group_id]
        count = len(topic.partitions)
        return groups.ConsumerGroup(group_id, count, len(group.members), group.name)

    def _group_details(self, topic: Topic, group_id: int) -> groups.ConsumerGroupDetails:
        slots = sorted(topic.groups[group_id].members.values())
        shares: Any = Shares(slots, len(topic.partitions))
        return groups.ConsumerGroupDetails(self._group_row(topic, group_id), shares)

    def _leave(self, group: Group, connection: int) -> None:
        if group.members.pop(connection, None) is not None:
            group.assigned.clear()

    def _reassign(self, topic: Topic) -> None:
        for group in topic.groups.values():
            group.assigned.clear()

    def _memberships(self) -> list[tuple[int, int, int]]:
        return [
            (stream.id, topic.id, group_id)
            for stream in self.streams
            for topic in stream.topics
            for group_id, group in sorted(topic.groups.items())
            if self.connection in group.members
        ]

    # Messages

    def _messages(self, request: Any) -> Any:
        match request:
            case messages.SendMessages(partitioning=partitioning):
                stream = find(self.streams, request.stream)
                topic = stream and find(stream.topics, request.topic)
                self._check(topic and topic.partitions, ErrorCode.RESOURCE_NOT_FOUND)
                number = self._choose(topic, partitioning)
                self._check(number < len(topic.partitions), ErrorCode.RESOURCE_NOT_FOUND)
                self._may(needs.SEND_MESSAGES, stream, topic)
                payloads = [message.payload for message in Messages([request.batch])]
                base_offset = topic.partitions[number].append(payloads)
                confirmation = messages.Confirmation(stream.id, topic.id, number, base_offset)
                return messages.Confirmations((confirmation,))
            case messages.PollMessages(consumer=Consumer(kind=ConsumerKind.GROUP)):
                return self._poll_as_member(request)
            case messages.PollMessages(partition_id=number):
                stream, topic = self._topic(request)
                self._may(needs.READ_MESSAGES, stream, topic)
                partition = self._partition(topic, number or 0)
                key = request.consumer.id
                return self._poll(partition, number or 0, request, partition.offsets, key)
        return None

    def _poll_as_member(self, request: messages.PollMessages) -> Any:
        stream = find(self.streams, request.stream)
        topic = stream and find(stream.topics, request.topic)
        if topic is not None:
            self._may(needs.READ_MESSAGES, stream, topic)
        number = request.partition_id
        self._check(number is not None, ErrorCode.INVALID_IDENTIFIER)
        group_id = topic and self._group_id(topic, request.consumer.id)
        group = None if group_id is None else topic.groups[group_id]
        if group is None or number not in group.assigned.get(self.connection, ()):
            return messages.NO_PARTITION, 0, []
        partition = topic.partitions[number]
        return self._poll(partition, number, request, partition.group_offsets, group_id)

    def _choose(self, topic: Topic, partitioning: Partitioning) -> int:
        match partitioning:
            case Balanced():
                number = topic.turn % len(topic.partitions)
                topic.turn = number + 1
                return number
            case ByKey(key):
                return partition_index(key, len(topic.partitions))
            case _:
                return partitioning.partition_id

    def _poll(
        self,
        partition: Partition,
        number: int,
        request: messages.PollMessages,
        stored: dict[Any, int],
        key: Identifier,
    ) -> tuple[int, int, list[tuple[int, bytes]]]:
        """Partition, current offset, and the messages with their offsets."""
        start = {
            PollingKind.OFFSET: request.strategy.value,
            PollingKind.FIRST: 0,
            PollingKind.LAST: len(partition.messages) - request.count,
            PollingKind.NEXT: stored.get(key, -1) + 1,
        }[request.strategy.kind]
        start = max(start, partition.first)
        found = list(enumerate(partition.messages))[start : start + request.count]
        if request.auto_commit and found:
            stored[key] = max(stored.get(key, 0), found[-1][0])
        return number, partition.current_offset, found

    # Offsets

    def _offsets(self, request: Any) -> Any:
        if isinstance(request, offsets.GetConsumerOffset):
            return self._stored_offset(request)
        self._check(request.partition_id is not None, ErrorCode.INVALID_IDENTIFIER)
        if request.consumer.kind is ConsumerKind.GROUP:
            return self._group_offset(request)
        stream, topic = self._topic(request)
        partition = self._partition(topic, request.partition_id)
        self._may(needs.READ_MESSAGES, stream, topic)
        self._change_offset(partition, partition.offsets, request.consumer.id, request)
        return None

    def _stored_offset(self, request: offsets.GetConsumerOffset) -> Any:
        stream, topic = self._topic(request)
        self._may(needs.READ_MESSAGES, stream, topic)
        number = request.partition_id or 0
        partition = self._partition(topic, number)
        stored, key = partition.offsets, request.consumer.id
        if request.consumer.kind is ConsumerKind.GROUP:
            stored, key = partition.group_offsets, self._group_id(topic, key)
        if key not in stored:
            return None
        return offsets.ConsumerOffset(number, partition.current_offset, stored[key])

    def _group_offset(self, request: Any) -> None:
        stream = find(self.streams, request.stream)
        topic = stream and find(stream.topics, request.topic)
        self._check(topic, ErrorCode.RESOURCE_NOT_FOUND)
        group_id = self._group_id(topic, request.consumer.id)
        by_name = isinstance(request.consumer.id, str)
        missing = (
            ErrorCode.CONSUMER_GROUP_NAME_NOT_FOUND
            if by_name
            else ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND
        )
        self._check(group_id is not None, missing)
        owned = topic.groups[group_id].assigned.get(self.connection, ())
        is_owned = request.partition_id in owned
        self._check(is_owned, ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED)
        self._may(needs.READ_MESSAGES, stream, topic)
        partition = topic.partitions[request.partition_id]
        self._change_offset(partition, partition.group_offsets, group_id, request)

    def _change_offset(
        self, partition: Partition, stored: dict[Any, int], key: Identifier, request: Any
    ) -> None:
        if isinstance(request, offsets.StoreConsumerOffset):
            is_known = request.offset < len(partition.messages)
            self._check(is_known, ErrorCode.INVALID_OFFSET)
            stored[key] = request.offset
        else:
            self._check(key in stored, ErrorCode.CONSUMER_OFFSET_NOT_FOUND)
            del stored[key]

    # Users

    def _users(self, request: Any) -> Any:
        match request:
            case accounts.GetUsers():
                self._may(needs.READ_USERS)
                return tuple(map(self._user_row, self.users))
            case accounts.GetUser(user=identifier):
                user = find(self.users, identifier)
                if user is None:
                    return None
                if user is not self.user:
                    self._may(needs.READ_USERS)
                return accounts.UserDetails(self._user_row(user), permissions_of(user.grants))
            case accounts.CreateUser():
                return self._create_user(request)
            case accounts.UpdateUser(username=name):
                self._check_first(not request.options, ErrorCode.UNSUPPORTED_OPTION_KEY)
                user = self._managed_user(request)
                if name is not None:
                    self._check_username(name, user)
                    user.name = name
                if request.status in {1, 2}:
                    user.status = request.status
            case accounts.DeleteUser():
                user = self._managed_user(request)
                self._check(user.id != ROOT, ErrorCode.CANNOT_DELETE_USER)
                self.users.remove(user)
                # Its sessions end: its id may come again, for somebody else.
                for connection, user_id in list(self.sessions.items()):
                    if user_id == user.id:
                        self._end_session(connection)
            case accounts.UpdatePermissions(permissions=permissions):
                user = self._managed_user(request)
                self._check(user.id != ROOT, ErrorCode.CANNOT_CHANGE_PERMISSIONS)
                user.grants = grants_of(permissions)
            case accounts.ChangePassword(new_password=new):
                # Passwords with which nobody could log in are not accepted here (spec 06, 3.6).
                self._check_first(3 <= len(new.encode()) <= 100, ErrorCode.INVALID_PASSWORD)
                user = find(self.users, request.user)
                self._check(user, ErrorCode.RESOURCE_NOT_FOUND)
                if user is not self.user:
                    self._may(needs.MANAGE_USERS)
                matches = request.current_password == user.password
                self._check(matches, ErrorCode.INVALID_CREDENTIALS)
                user.password = new
        return None

    def _create_user(self, request: accounts.CreateUser) -> accounts.UserDetails:
        self._check_first(not request.options, ErrorCode.UNSUPPORTED_OPTION_KEY)
        usable = 3 <= len(request.password.encode()) <= 100
        self._check_first(usable, ErrorCode.INVALID_PASSWORD)
        self._may(needs.MANAGE_USERS)
        self._check_username(request.username)
        user = User(
            lowest_unused(self.users),
            request.username,
            a_time_from_now(),
            request.password,
            2 if request.status == 2 else 1,
            grants_of(request.permissions),
        )
        insert(self.users, user)
        # The reply to the creation shows what was sent (spec 06, 3.6).
        row = accounts.User(user.id, user.created_at, request.status, user.name)
        return accounts.UserDetails(row, request.permissions)

    def _managed_user(self, request: Any) -> User:
        self._may(needs.MANAGE_USERS)
        user: User = find(self.users, request.user)
        self._check(user, ErrorCode.RESOURCE_NOT_FOUND)
        return user

    def _check_username(self, name: str, user: User | None = None) -> None:
        self._check(3 <= len(name.encode()) <= 50, ErrorCode.INVALID_USERNAME)
        self._check(find(self.users, name) in (None, user), ErrorCode.USER_ALREADY_EXISTS)

    def _user_row(self, user: User) -> accounts.User:
        return accounts.User(user.id, user.created_at, user.status, user.name)

    def _forget_grants(self, stream_id: int, topic_id: int | None = None) -> None:
        """What comes under the id of something deleted does not fall under its grants."""
        for user in self.users:
            if user.grants is None:
                continue
            if topic_id is None:
                user.grants.on_stream.pop(stream_id, None)
            for place in list(user.grants.on_topic):
                if place == (stream_id, topic_id) or (topic_id is None and place[0] == stream_id):
                    del user.grants.on_topic[place]

    # Tokens

    def _tokens(self, request: Any) -> Any:
        own = self.user.tokens
        match request:
            case tokens.GetTokens():
                return tuple(
                    tokens.TokenInfo(name, token.expiry) for name, token in sorted(own.items())
                )
            case tokens.CreateToken(name=name, expiry=lifetime):
                good = [token for token in own.values() if not token.is_expired]
                self._check_first(
                    len(good) < MAX_TOKENS, ErrorCode.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED
                )
                if len(own) >= MAX_TOKENS:  # expired ones make room
                    own = {name: token for name, token in own.items() if not token.is_expired}
                is_free = name not in own
                self._check(is_free, ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS)
                is_forever = lifetime in {0, FOREVER}
                fits = is_forever or time.time_ns() // 1000 + lifetime < 2**64
                self._check(fits, ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY)
                expiry = 0 if is_forever else a_time_from_now(lifetime)
                token = Token(Secret(), expiry, not is_forever and lifetime < 1_000)
                self.user.tokens = {**own, name: token}
                return tokens.RawToken(token.secret)
            case tokens.DeleteToken(name=name):
                self._check(name in own, ErrorCode.RESOURCE_NOT_FOUND)
                del own[name]
        return None

    # Sessions

    def log_in(self, connection: int, username: str, password: str) -> int:
        """Log in on a connection; returns who it was."""
        user = find(self.users, username)
        if user is None or user.password != password or user.status != 1:
            raise No(evicted(BAD_CREDENTIALS))
        return self._open(connection, user)

    def log_in_with_token(self, connection: int, secret: str) -> int:
        """Log in on a connection; returns who it was."""
        for user in self.users:
            for token in user.tokens.values():
                if token.secret.text == secret and not token.is_expired:
                    if user.status != 1:
                        raise No(evicted(INACTIVE))
                    return self._open(connection, user)
        raise No(evicted(BAD_TOKEN))

    def _open(self, connection: int, user: User) -> int:
        # Whoever logs in on a connection that has a session already: it stays what it was.
        self.sessions.setdefault(connection, user.id)
        return user.id

    def log_out(self, connection: int) -> None:
        """Log out on a connection, where nobody may be logged in."""
        self._end_session(connection)

    def _end_session(self, connection: int) -> None:
        self.sessions.pop(connection, None)
        for stream in self.streams:
            for topic in stream.topics:
                for group in topic.groups.values():
                    self._leave(group, connection)

    # The server itself

    def _system(self, request: Any) -> Any:
        match request:
            case system.GetMe():
                return self.user.id, self._memberships()
            case system.GetStats():
                self._may(needs.SERVERS)
                all_topics = [topic for stream in self.streams for topic in stream.topics]
                partitions = [partition for topic in all_topics for partition in topic.partitions]
                return {
                    "streams_count": len(self.streams),
                    "topics_count": len(all_topics),
                    "partitions_count": len(partitions),
                    "segments_count": sum(len(partition.segments) for partition in partitions),
                    "messages_count": sum(partition.count for partition in partitions),
                    "messages_size_bytes": sum(partition.size for partition in partitions),
                    "consumer_groups_count": sum(len(topic.groups) for topic in all_topics),
                }
        return None
