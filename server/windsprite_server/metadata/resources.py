"""What commands do to streams, topics, partitions and consumer groups (spec 03, 4; spec 05, 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.outcomes import Success
from windsprite_protocol.model.permissions import Permissions
from windsprite_protocol.model.typed_values import Options
from windsprite_server.metadata import commands
from windsprite_server.metadata.authorization import (
    Rule,
    compile_grants,
    without_stream,
    without_topic,
)
from windsprite_server.metadata.checks import (
    RejectedError,
    authorize,
    require_server,
    require_stream,
    require_topic,
)
from windsprite_server.metadata.commands import PartitionPlace
from windsprite_server.metadata.effects import (
    Applied,
    ConsumerGroupDeleted,
    Context,
    Effect,
    PartitionCondemned,
    PartitionOpened,
    PartitionsChanged,
    TopicDeleted,
    TopicPurged,
)
from windsprite_server.metadata.queries import find_group, places_of_topic, topics_by_id
from windsprite_server.metadata.state import (
    MAX_GROUPS,
    MAX_PARTITIONS,
    MAX_PARTITIONS_IN_COMMAND,
    MAX_STREAMS,
    MAX_TOPICS,
    ConsumerGroup,
    Partition,
    State,
    Stream,
    Topic,
    User,
)
from windsprite_server.metadata.views import (
    NO_FIGURES,
    group_details,
    stream_details,
    topic_details,
)

Key = TypeVar("Key")
Value = TypeVar("Value")


def create_stream(state: State, command: commands.CreateStream, context: Context) -> Applied:
    """Create a stream under the lowest unused id."""
    authorize(state, context, Rule.CREATE_STREAM)
    if command.name in state.stream_ids:
        raise RejectedError(ErrorCode.STREAM_NAME_ALREADY_EXISTS)
    if len(state.streams) >= MAX_STREAMS:
        raise RejectedError(ErrorCode.TOO_MANY_STREAMS)
    stream = Stream(state.free_stream_ids.take(), command.name, context.timestamp_us)
    state.streams[stream.id] = stream
    state.stream_ids[stream.name] = stream.id
    return Applied(Success(stream_details(stream, NO_FIGURES)))


def update_stream(state: State, command: commands.UpdateStream, context: Context) -> Applied:
    """Rename a stream."""
    stream = require_stream(state, command.stream)
    authorize(state, context, Rule.MANAGE_STREAM, stream.id)
    if state.stream_ids.get(command.name, stream.id) != stream.id:
        raise RejectedError(ErrorCode.STREAM_NAME_ALREADY_EXISTS)
    del state.stream_ids[stream.name]
    state.stream_ids[command.name] = stream.id
    state.streams[stream.id] = replace(stream, name=command.name)
    return Applied()


def delete_stream(state: State, command: commands.DeleteStream, context: Context) -> Applied:
    """Delete a stream with its topics and the permissions on it."""
    stream = require_stream(state, command.stream)
    authorize(state, context, Rule.MANAGE_STREAM, stream.id)
    del state.streams[stream.id]
    del state.stream_ids[stream.name]
    state.free_stream_ids.give_back(stream.id)
    for user in list(state.users.values()):
        if user.permissions is not None and stream.id in user.grants.streams:
            _set_permissions(state, user, without_stream(user.permissions, stream.id))
    effects: list[Effect] = []
    for topic in topics_by_id(stream):
        effects.append(TopicDeleted(stream.id, topic.id))
        effects += _condemn(state, places_of_topic(stream, topic))
    return Applied(effects=tuple(effects))


def purge_stream(state: State, command: commands.PurgeStream, context: Context) -> Applied:
    """Begin a new life of all partitions of a stream."""
    stream = require_stream(state, command.stream)
    authorize(state, context, Rule.MANAGE_STREAM, stream.id)
    topics: dict[int, Topic] = {}
    effects: list[Effect] = []
    for topic in topics_by_id(stream):
        topics[topic.id], of_topic = _purge(state, stream, topic, context)
        effects += of_topic
    state.streams[stream.id] = replace(stream, topics=topics)
    return Applied(effects=tuple(effects))


def create_topic(state: State, command: commands.CreateTopic, context: Context) -> Applied:
    """Create a topic and its partitions under the lowest unused id of the stream."""
    stream = require_stream(state, command.stream)
    authorize(state, context, Rule.CREATE_TOPIC, stream.id)
    if command.name in stream.topic_ids:
        raise RejectedError(ErrorCode.TOPIC_NAME_ALREADY_EXISTS)
    if len(stream.topics) >= MAX_TOPICS:
        raise RejectedError(ErrorCode.TOO_MANY_TOPICS)
    if not 0 <= command.partitions_count <= MAX_PARTITIONS_IN_COMMAND:
        raise RejectedError(ErrorCode.TOO_MANY_PARTITIONS)
    topic = Topic(
        id=next(number for number in range(MAX_TOPICS) if number not in stream.topics),
        name=command.name,
        created_at=context.timestamp_us,
        message_expiry=command.message_expiry,
        compression=command.compression,
        max_topic_size=command.max_topic_size,
        options=_by_key(command.options),
        derived_options=_by_key(command.derived_options),
        partitions=_new_partitions(command.partitions_count, context),
    )
    stream = replace(
        stream,
        topics=_with(stream.topics, topic.id, topic),
        topic_ids=_with(stream.topic_ids, topic.name, topic.id),
    )
    state.streams[stream.id] = stream
    return Applied(
        Success(topic_details(stream, topic, NO_FIGURES)),
        tuple(PartitionOpened(place, topic) for place in places_of_topic(stream, topic)),
    )


def update_topic(state: State, command: commands.UpdateTopic, context: Context) -> Applied:
    """Rename a topic, and change those options that the command names."""
    stream, topic = require_topic(state, command.stream, command.topic)
    authorize(state, context, Rule.MANAGE_TOPIC, stream.id, topic.id)
    if stream.topic_ids.get(command.name, topic.id) != topic.id:
        raise RejectedError(ErrorCode.TOPIC_NAME_ALREADY_EXISTS)
    changed = {option.key for option in command.options}
    updated = replace(
        topic,
        name=command.name,
        message_expiry=_or_kept(command.message_expiry, topic.message_expiry),
        compression=_or_kept(command.compression, topic.compression),
        max_topic_size=_or_kept(command.max_topic_size, topic.max_topic_size),
        options=_by_key((*_without_keys(topic.options, changed), *command.options)),
        derived_options=_without_keys(topic.derived_options, changed),
    )
    if updated.name != topic.name:
        names = _with(_without(stream.topic_ids, topic.name), updated.name, topic.id)
        stream = replace(stream, topic_ids=names)
    _put_topic(state, stream, updated)
    return Applied()


def delete_topic(state: State, command: commands.DeleteTopic, context: Context) -> Applied:
    """Delete a topic with its partitions, its groups and the permissions on it."""
    stream, topic = require_topic(state, command.stream, command.topic)
    authorize(state, context, Rule.MANAGE_TOPIC, stream.id, topic.id)
    state.streams[stream.id] = replace(
        stream,
        topics=_without(stream.topics, topic.id),
        topic_ids=_without(stream.topic_ids, topic.name),
    )
    for user in list(state.users.values()):
        if user.permissions is not None and (stream.id, topic.id) in user.grants.topics:
            _set_permissions(state, user, without_topic(user.permissions, stream.id, topic.id))
    condemned = _condemn(state, places_of_topic(stream, topic))
    return Applied(effects=(TopicDeleted(stream.id, topic.id), *condemned))


def purge_topic(state: State, command: commands.PurgeTopic, context: Context) -> Applied:
    """Begin a new life of all partitions of a topic."""
    stream, topic = require_topic(state, command.stream, command.topic)
    authorize(state, context, Rule.MANAGE_TOPIC, stream.id, topic.id)
    purged, effects = _purge(state, stream, topic, context)
    _put_topic(state, stream, purged)
    return Applied(effects=tuple(effects))


def create_partitions(
    state: State, command: commands.CreatePartitions, context: Context
) -> Applied:
    """Add partitions after the last one."""
    stream, topic = require_topic(state, command.stream, command.topic)
    authorize(state, context, Rule.MANAGE_TOPIC, stream.id, topic.id)
    if not 1 <= command.partitions_count <= MAX_PARTITIONS_IN_COMMAND:
        raise RejectedError(ErrorCode.TOO_MANY_PARTITIONS)
    before = len(topic.partitions)
    if before + command.partitions_count > MAX_PARTITIONS:
        raise RejectedError(ErrorCode.PARTITION_ID_SPACE_EXHAUSTED)
    added = _new_partitions(command.partitions_count, context)
    topic = replace(topic, partitions=topic.partitions + added)
    _put_topic(state, stream, topic)
    opened = (
        PartitionOpened(
            PartitionPlace(stream.id, topic.id, before + index, partition.incarnation), topic
        )
        for index, partition in enumerate(added)
    )
    changed = PartitionsChanged(stream.id, topic.id, len(topic.partitions))
    return Applied(effects=(*opened, changed))


def delete_partitions(
    state: State, command: commands.DeletePartitions, context: Context
) -> Applied:
    """Remove the last partitions."""
    stream, topic = require_topic(state, command.stream, command.topic)
    authorize(state, context, Rule.MANAGE_TOPIC, stream.id, topic.id)
    if not 1 <= command.partitions_count <= MAX_PARTITIONS_IN_COMMAND:
        raise RejectedError(ErrorCode.TOO_MANY_PARTITIONS)
    kept = len(topic.partitions) - command.partitions_count
    if kept < 0:
        raise RejectedError(ErrorCode.INVALID_PARTITIONS_COUNT)
    removed = [
        PartitionPlace(stream.id, topic.id, kept + index, partition.incarnation)
        for index, partition in enumerate(topic.partitions[kept:])
    ]
    _put_topic(state, stream, replace(topic, partitions=topic.partitions[:kept]))
    changed = PartitionsChanged(stream.id, topic.id, kept)
    return Applied(effects=(changed, *_condemn(state, removed)))


def create_consumer_group(
    state: State, command: commands.CreateConsumerGroup, context: Context
) -> Applied:
    """Create a group under an id that the topic never used before."""
    stream, topic = require_topic(state, command.stream, command.topic)
    authorize(state, context, Rule.READ_TOPIC, stream.id, topic.id)
    if command.name in topic.group_ids:
        raise RejectedError(ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS)
    if len(topic.groups) >= MAX_GROUPS:
        raise RejectedError(ErrorCode.TOO_MANY_CONSUMER_OFFSETS)
    group = ConsumerGroup(topic.next_group_id, command.name)
    topic = replace(
        topic,
        groups=_with(topic.groups, group.id, group),
        group_ids=_with(topic.group_ids, group.name, group.id),
        next_group_id=group.id + 1,
    )
    _put_topic(state, stream, topic)
    return Applied(Success(group_details(topic, group)))


def delete_consumer_group(
    state: State, command: commands.DeleteConsumerGroup, context: Context
) -> Applied:
    """Delete a group."""
    stream, topic = require_topic(state, command.stream, command.topic)
    authorize(state, context, Rule.READ_TOPIC, stream.id, topic.id)
    group = find_group(topic, command.group)
    if group is None:
        raise RejectedError(ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND)
    topic = replace(
        topic,
        groups=_without(topic.groups, group.id),
        group_ids=_without(topic.group_ids, group.name),
    )
    _put_topic(state, stream, topic)
    return Applied(effects=(ConsumerGroupDeleted(stream.id, topic.id, group.id),))


def forget_condemned(state: State, command: commands.ForgetCondemned, context: Context) -> Applied:
    """Note that files of condemned partitions are gone."""
    require_server(context)
    state.condemned.difference_update(command.places)
    return Applied()


def _new_partitions(count: int, context: Context) -> tuple[Partition, ...]:
    return (Partition(context.timestamp_us, context.position),) * count


def _purge(
    state: State, stream: Stream, topic: Topic, context: Context
) -> tuple[Topic, list[Effect]]:
    # Partitions that were created together share one value, however many they are.
    reborn = {
        created_at: Partition(created_at, context.position)
        for created_at in {partition.created_at for partition in topic.partitions}
    }
    purged = replace(
        topic, partitions=tuple(reborn[partition.created_at] for partition in topic.partitions)
    )
    condemned = _condemn(state, places_of_topic(stream, topic))
    opened = [PartitionOpened(place, purged) for place in places_of_topic(stream, purged)]
    return purged, [TopicPurged(stream.id, topic.id), *condemned, *opened]


def _condemn(state: State, places: Iterable[PartitionPlace]) -> tuple[PartitionCondemned, ...]:
    effects = tuple(PartitionCondemned(place) for place in places)
    state.condemned.update(effect.place for effect in effects)
    return effects


def _put_topic(state: State, stream: Stream, topic: Topic) -> None:
    state.streams[stream.id] = replace(stream, topics=_with(stream.topics, topic.id, topic))


def _set_permissions(state: State, user: User, permissions: Permissions) -> None:
    state.users[user.id] = replace(
        user, permissions=permissions, grants=compile_grants(permissions)
    )


def _by_key(options: Options) -> Options:
    return tuple(sorted(options, key=lambda option: option.key.encode()))


def _without_keys(options: Options, keys: set[str]) -> Options:
    return tuple(option for option in options if option.key not in keys)


def _or_kept(new: Value | None, old: Value) -> Value:
    return old if new is None else new


def _with(mapping: Mapping[Key, Value], key: Key, value: Value) -> Mapping[Key, Value]:
    return {**mapping, key: value}


def _without(mapping: Mapping[Key, Value], key: Key) -> Mapping[Key, Value]:
    return {other: value for other, value in mapping.items() if other != key}
