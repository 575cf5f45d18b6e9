"""The client: every command of the protocol that this version offers, as a method."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Literal, Self, TypeAlias

from windsprite.address import (
    Address,
    Password,
    RetryMode,
    Token,
)
from windsprite.caller import Caller
from windsprite.environment import Environment, SystemEnvironment
from windsprite.errors import InvalidRequest
from windsprite.messages import Batch, From, Headers, Message, build_send, consumer_of, read_batch
from windsprite.retries import Safety
from windsprite.tls import tls_context
from windsprite.topic_options import Durability, Duration, Size, topic_options
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.cluster import ClusterMetadata, GetClusterMetadata
from windsprite_protocol.model.identifiers import AckLevel, Consumer, Identifier
from windsprite_protocol.model.messages import (
    Confirmation,
    Confirmations,
    PolledMessages,
    PollMessages,
)
from windsprite_protocol.model.offsets import (
    ConsumerOffset,
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from windsprite_protocol.model.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    GetStreams,
    PurgeStream,
    Stream,
    StreamDetails,
    UpdateStream,
)
from windsprite_protocol.model.system import (
    ClientDetails,
    ClientInfo,
    GetClient,
    GetClients,
    GetMe,
    GetStats,
    Ping,
    Stats,
)
from windsprite_protocol.model.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteSegments,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    Topic,
    TopicDetails,
    UpdateTopic,
)
from windsprite_protocol.model.typed_values import PythonValue

CompressionName: TypeAlias = Literal["none", "gzip"]


class Client:
    """A connection to a cluster; made by `connect`.

    Streams, topics and consumers are named by their number (`int`) or their name (`str`): `7` and
    `"7"` are different. All methods raise a `WindspriteError`, and every one of them takes at
    most `request_timeout`, or `timeout` seconds where it is given.

    Calls of one client are carried out one after the other, in the order in which they are made.
    A lost connection is replaced, and the client goes where the leader is, without further ado;
    what had been asked for meanwhile is done then, if that cannot do anything twice.
    """

    def __init__(
        self,
        address: Address,
        *,
        environment: Environment | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address = address
        self._environment = environment or SystemEnvironment()
        if tls is None and address.options.tls:
            tls = tls_context(address.options.tls_ca_file)
        self._caller = Caller(address, self._environment, tls)

    def __repr__(self) -> str:
        return f"<windsprite.Client {self._address}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def address(self) -> Address:
        """What the client was made with."""
        return self._address

    @property
    def server(self) -> str | None:
        """The `host:port` that the client is connected to; None while there is no connection."""
        location = self._caller.link.location
        return str(location.dialled) if location else None

    async def connect(self) -> None:
        """Find a server, log in and move to the leader; `windsprite.connect` does this.

        Raises:
            ConnectionFailed: No server could be reached within `connect_timeout`.
            AuthenticationError: The credentials were refused.
        """
        await self._caller.connect()

    async def close(self) -> None:
        """Close the connection and end all background work; may be called more than once."""
        await self._caller.close()

    # --- Session -----------------------------------------------------------------------------

    async def login(self, username: str, password: str) -> None:
        """Log in, or become somebody else; also used for later reconnects.

        Raises:
            AuthenticationError: The server refused; the client remains who it was.
        """
        await self._caller.log_in(Password(username, password))

    async def login_with_token(self, token: str) -> None:
        """Log in with a personal access token; also used for later reconnects.

        Raises:
            AuthenticationError: The server refused; the client remains who it was.
        """
        await self._caller.log_in(Token(token))

    async def logout(self) -> None:
        """End the session and forget the credentials; `login` works afterwards."""
        await self._caller.log_out()

    # --- System ------------------------------------------------------------------------------

    async def ping(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - covers more than a wait
        """See that the server answers; works without a login."""
        await self._caller.call(Ping(), "ping", time_limit=timeout)

    async def get_cluster_metadata(self) -> ClusterMetadata:
        """Who is in the cluster and who leads it.

        `cluster_id` and `leader_epoch` are None and nodes have no `identity` if the server is not
        a Windsprite server.
        """
        metadata: ClusterMetadata = await self._caller.call(
            GetClusterMetadata(), "get_cluster_metadata"
        )
        return metadata

    async def me(self) -> ClientDetails:
        """How the server sees this connection."""
        details: ClientDetails = await self._caller.call(GetMe(), "me")
        return details

    async def stats(self) -> Stats:
        """The figures of the server."""
        stats: Stats = await self._caller.call(GetStats(), "stats")
        return stats

    async def get_clients(self) -> tuple[ClientInfo, ...]:
        """All connections of the node."""
        clients: tuple[ClientInfo, ...] = await self._caller.call(GetClients(), "get_clients")
        return clients

    async def get_client(self, client_id: int) -> ClientDetails | None:
        """One connection by its number; None if there is none with this number."""
        details: ClientDetails | None = await self._caller.call(
            GetClient(client_id), f"get_client {client_id}"
        )
        return details

    # --- Streams -----------------------------------------------------------------------------

    async def create_stream(self, name: str) -> StreamDetails:
        """Create a stream.

        Args:
            name: 1 to 255 bytes of UTF-8.

        Raises:
            AlreadyExists: There is a stream with this name.
        """
        details: StreamDetails = await self._caller.call(
            CreateStream(name), f"create_stream {name!r}"
        )
        return details

    async def get_stream(self, stream: Identifier) -> StreamDetails | None:
        """A stream and its topics; None if there is no such stream."""
        details: StreamDetails | None = await self._caller.call(
            GetStream(stream), f"get_stream {stream!r}"
        )
        return details

    async def get_streams(self) -> tuple[Stream, ...]:
        """All streams, by ascending id."""
        streams: tuple[Stream, ...] = await self._caller.call(GetStreams(), "get_streams")
        return streams

    async def update_stream(self, stream: Identifier, name: str) -> None:
        """Rename a stream.

        Raises:
            NotFound: There is no such stream.
            AlreadyExists: Another stream has this name.
        """
        await self._caller.call(UpdateStream(stream, name), f"update_stream {stream!r}")

    async def purge_stream(self, stream: Identifier) -> None:
        """Delete all messages and stored offsets of a stream's topics.

        Raises:
            NotFound: There is no such stream.
        """
        await self._caller.call(PurgeStream(stream), f"purge_stream {stream!r}")

    async def delete_stream(self, stream: Identifier) -> None:
        """Delete a stream with all it holds.

        Raises:
            NotFound: There is no such stream.
        """
        await self._caller.call(DeleteStream(stream), f"delete_stream {stream!r}")

    # --- Topics ------------------------------------------------------------------------------

    async def create_topic(
        self,
        stream: Identifier,
        name: str,
        partitions: int = 1,
        *,
        compression: CompressionName | None = None,
        message_expiry: Duration | None = None,
        max_topic_size: Size | None = None,
        segment_size: Size | None = None,
        durability: Durability | None = None,
        consumer_offset_durability: Durability | None = None,
        messages_required_to_save: int | None = None,
        size_of_messages_required_to_save: Size | None = None,
        preallocate_segments: bool | None = None,
        options: Mapping[str, PythonValue] | None = None,
    ) -> TopicDetails:
        """Create a topic. What is None is left to the server.

        Args:
            stream: Where.
            name: 1 to 255 bytes of UTF-8.
            partitions: 0 to 1000.
            compression: A note for clients; the server compresses nothing.
            message_expiry: How long messages are kept: a `timedelta`, a text such as `"7 days"`,
                or `"never_expire"`.
            max_topic_size: Where the oldest messages are removed: bytes, a text such as
                `"10 GiB"`, or `"unlimited"`.
            segment_size: 1 MiB to 1 GiB, a multiple of 512.
            durability: When a send is acknowledged: `replicated` or `persisted`.
            consumer_offset_durability: The same for stored offsets.
            messages_required_to_save: Messages after which they are written to disk.
            size_of_messages_required_to_save: Bytes after which they are written to disk.
            preallocate_segments: Reserve the disk space of segments in advance.
            options: Further options that the server may know.

        Raises:
            NotFound: There is no such stream.
            AlreadyExists: There is a topic with this name.
            InvalidRequest: An option or the number of partitions is out of bounds.
        """
        block = topic_options(
            {
                "compression_algorithm": compression,
                "message_expiry": message_expiry,
                "max_topic_size": max_topic_size,
                "segment_size": segment_size,
                "durability": durability,
                "consumer_offset_durability": consumer_offset_durability,
                "messages_required_to_save": messages_required_to_save,
                "size_of_messages_required_to_save": size_of_messages_required_to_save,
                "preallocate_segments": preallocate_segments,
            },
            options or {},
        )
        details: TopicDetails = await self._caller.call(
            CreateTopic(stream, partitions, name, block), f"create_topic {name!r}"
        )
        return details

    async def get_topic(self, stream: Identifier, topic: Identifier) -> TopicDetails | None:
        """A topic and its partitions; None if there is no such topic or stream."""
        details: TopicDetails | None = await self._caller.call(
            GetTopic(stream, topic), f"get_topic {topic!r}"
        )
        return details

    async def get_topics(self, stream: Identifier) -> tuple[Topic, ...]:
        """All topics of a stream, by ascending id; none if there is no such stream."""
        topics: tuple[Topic, ...] = await self._caller.call(
            GetTopics(stream), f"get_topics {stream!r}"
        )
        return topics

    async def update_topic(
        self,
        stream: Identifier,
        topic: Identifier,
        name: str,
        *,
        compression: CompressionName | None = None,
        message_expiry: Duration | None = None,
        max_topic_size: Size | None = None,
        options: Mapping[str, PythonValue] | None = None,
    ) -> None:
        """Rename a topic and change some of its options. What is None stays as it is.

        Args:
            stream: Where.
            topic: Which.
            name: The new name, or the old one.
            compression: As in `create_topic`.
            message_expiry: As in `create_topic`.
            max_topic_size: As in `create_topic`.
            options: Further options that the server may know.

        Raises:
            NotFound: There is no such stream or topic.
            AlreadyExists: Another topic has this name.
            InvalidRequest: An option is out of bounds or cannot be changed.
        """
        block = topic_options(
            {
                "compression_algorithm": compression,
                "message_expiry": message_expiry,
                "max_topic_size": max_topic_size,
            },
            options or {},
        )
        await self._caller.call(UpdateTopic(stream, topic, name, block), f"update_topic {topic!r}")

    async def purge_topic(self, stream: Identifier, topic: Identifier) -> None:
        """Delete all messages and stored offsets of a topic.

        Raises:
            NotFound: There is no such stream or topic.
        """
        await self._caller.call(PurgeTopic(stream, topic), f"purge_topic {topic!r}")

    async def delete_topic(self, stream: Identifier, topic: Identifier) -> None:
        """Delete a topic with all it holds.

        Raises:
            NotFound: There is no such stream or topic.
        """
        await self._caller.call(DeleteTopic(stream, topic), f"delete_topic {topic!r}")

    async def create_partitions(self, stream: Identifier, topic: Identifier, count: int) -> None:
        """Add 1 to 1000 partitions to a topic; keys go to other partitions from then on.

        Raises:
            NotFound: There is no such stream or topic.
            InvalidRequest: The count is out of bounds.
        """
        await self._caller.call(
            CreatePartitions(stream, topic, count), f"create_partitions {topic!r}"
        )

    async def delete_partitions(self, stream: Identifier, topic: Identifier, count: int) -> None:
        """Remove the partitions with the highest ids, and their messages, from a topic.

        Raises:
            NotFound: There is no such stream or topic.
            InvalidRequest: The count is out of bounds.
        """
        await self._caller.call(
            DeletePartitions(stream, topic, count), f"delete_partitions {topic!r}"
        )

    async def delete_segments(
        self, stream: Identifier, topic: Identifier, partition: int, count: int
    ) -> None:
        """Remove the oldest sealed segments, and their messages, from a partition.

        Raises:
            NotFound: There is no such stream, topic or partition.
        """
        await self._caller.call(
            DeleteSegments(stream, topic, partition, count), f"delete_segments {topic!r}"
        )

    # --- Messages ----------------------------------------------------------------------------

    async def send(
        self,
        stream: Identifier,
        topic: Identifier,
        messages: Sequence[bytes | str | Message],
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        retry: RetryMode | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - covers more than a wait
    ) -> Confirmation | None:
        """Append messages to one partition of a topic, all or none of them.

            await client.send("orders", "events", [b"one", "two"], key="customer-7")

        With neither a key nor a partition the server takes the partitions of the topic in turn,
        one for each call. It knows how many there are; the client never has to.

        Args:
            stream: Where.
            topic: Where.
            messages: At least one. Text is sent as UTF-8.
            key: 1 to 255 bytes; messages with the same key go to the same partition, the same as
                with every official client, as long as the number of partitions stays.
            partition: The partition itself.
            headers: For all messages that have no headers of their own.
            retry: What happens if nobody can tell whether the messages were stored:
                `safe` raises `OutcomeUnknown`; `at-least-once` sends them again, with the same
                message ids. None: as `send_retry` of the client says.
            timeout: Seconds for all of it.

        Returns:
            Where the messages are; None if they are stored but the server did not say where.

        Raises:
            NotFound: There is no such stream, topic or partition.
            InvalidRequest: There is no message, or one is too large.
            OutcomeUnknown: They may have been stored or not.
        """
        request = build_send(
            stream,
            topic,
            messages,
            key=key,
            partition=partition,
            headers=headers,
            environment=self._environment,
        )
        mode = retry or self._address.options.send_retry
        confirmations: Confirmations = await self._caller.call(
            request,
            f"send to {topic!r}",
            time_limit=timeout,
            safety=Safety.AT_LEAST_ONCE if mode == "at-least-once" else Safety.WRITE,
        )
        return confirmations.items[0] if confirmations.items else None

    async def poll(
        self,
        stream: Identifier,
        topic: Identifier,
        *,
        partition: int = 0,
        start: From | None = None,
        count: int = 1000,
        consumer: Identifier | Consumer = 0,
        auto_commit: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - covers more than a wait
    ) -> Batch:
        """Read messages of a partition; comes back at once, with none if there are none.

            batch = await client.poll("orders", "events", start=From.first(), count=100)
            for message in batch:
                print(message.offset, message.payload)

        Args:
            stream: Where.
            topic: Where.
            partition: The partition.
            start: Where to begin; None: after the offset stored for the consumer.
            count: How many messages at most; at least 1.
            consumer: On whose behalf; only `From.next()` and `auto_commit` make use of it.
            auto_commit: Let the server store the offset of the last message it returns, before
                it returns it. If the answer is lost, `From.next()` does not see these messages
                again; use `store_consumer_offset` where that matters.
            timeout: Seconds for all of it.

        Raises:
            NotFound: There is no such stream, topic or partition.
            OutcomeUnknown: The answer to a poll that commits was lost.
        """
        if count < 1:
            raise InvalidRequest(
                "poll: count has to be at least 1", code=ErrorCode.INVALID_MESSAGES_COUNT
            )
        request = PollMessages(
            consumer_of(consumer),
            stream,
            topic,
            partition,
            start or From.next(),
            count,
            auto_commit,
        )
        polled: PolledMessages = await self._caller.call(
            request, f"poll {topic!r}", time_limit=timeout
        )
        return read_batch(polled)

    # --- Consumer offsets --------------------------------------------------------------------

    async def get_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        *,
        partition: int = 0,
        consumer: Identifier | Consumer = 0,
    ) -> ConsumerOffset | None:
        """The offset stored for a consumer; None if nothing is stored.

        Raises:
            NotFound: There is no such stream, topic or partition.
        """
        offset: ConsumerOffset | None = await self._caller.call(
            GetConsumerOffset(consumer_of(consumer), stream, topic, partition),
            f"get_consumer_offset {topic!r}",
        )
        return offset

    async def store_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        offset: int,
        *,
        partition: int = 0,
        consumer: Identifier | Consumer = 0,
    ) -> None:
        """Store the offset of the last message a consumer is done with; it may go back.

        Raises:
            NotFound: There is no such stream, topic or partition.
            InvalidRequest: The partition has no such offset yet.
        """
        await self._caller.call(
            StoreConsumerOffset(
                consumer_of(consumer), stream, topic, partition, offset, AckLevel.QUORUM
            ),
            f"store_consumer_offset {topic!r}",
        )

    async def delete_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        *,
        partition: int = 0,
        consumer: Identifier | Consumer = 0,
    ) -> None:
        """Forget the offset stored for a consumer.

        Raises:
            NotFound: There is no such stream, topic or partition, or nothing is stored.
        """
        await self._caller.call(
            DeleteConsumerOffset(consumer_of(consumer), stream, topic, partition, AckLevel.QUORUM),
            f"delete_consumer_offset {topic!r}",
        )
