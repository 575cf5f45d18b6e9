"""Servers that speak the protocol over real sockets and do whatever a test tells them to.

A `ScriptedCluster` has nodes that share streams and messages and agree on a leader. Each
`ScriptedNode` does what a good node would do, unless a script says otherwise:

    node.script(SendMessages, [Cut(), NotNow(ErrorCode.TRANSIENT_NOT_ACCEPTED)])

The items of a script answer the next requests of that kind, one each: an outcome, a way to
misbehave, or a function of the request that returns either. `None` stands for the good answer.
"""

import asyncio
import socket
import ssl
import struct
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID

from windsprite_protocol.batches import read_header
from windsprite_protocol.errors import BadFrameError, ErrorCode
from windsprite_protocol.messages import Messages
from windsprite_protocol.model.cluster import (
    ClusterMetadata,
    ClusterNode,
    GetClusterMetadata,
    NodeIdentity,
    NodeRole,
    NodeStatus,
)
from windsprite_protocol.model.identifiers import ByKey, ToPartition
from windsprite_protocol.model.messages import (
    Confirmation,
    Confirmations,
    PolledMessages,
    PollMessages,
    SendMessages,
)
from windsprite_protocol.model.outcomes import Evicted, NotNow, Outcome, Refused, Rejected, Success
from windsprite_protocol.model.sessions import (
    EvictionReason,
    LoggedIn,
    LoginAttempt,
    Logout,
)
from windsprite_protocol.model.streams import CreateStream, GetStreams, Stream, StreamDetails
from windsprite_protocol.model.system import Ping
from windsprite_protocol.v0_11.decoder import Frame, FrameDecoder
from windsprite_protocol.v0_11.frames import PROTOCOL_VERSION, is_metadata, is_partition
from windsprite_protocol.v0_11.serving import (
    InadmissibleError,
    admit,
    encode_eviction,
    encode_outcome,
)

CLUSTER_ID = UUID(int=0x57696E64_73707269_74650000_00000001)


# --- Ways to misbehave ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """Close the connection instead of answering.

    Attributes:
        after: How many bytes of the good answer are sent before.
        executed: Whether the request is executed before.
        reset: With RST instead of FIN.
    """

    after: int = 0
    executed: bool = False
    reset: bool = False


@dataclass(frozen=True)
class Silence:
    """Execute nothing and never answer, and nothing that comes on this connection later."""


@dataclass(frozen=True)
class Delay:
    """Wait, then go on as if this had not been there."""

    seconds: float
    then: Any = None


@dataclass(frozen=True)
class Bytes:
    """Send these bytes instead of an answer; the connection stays open."""

    data: bytes


@dataclass(frozen=True)
class Mangled:
    """Send the good answer with some bytes changed."""

    change: Callable[[bytearray], Any]


@dataclass(frozen=True)
class Lost:
    """Execute the request, but answer something else."""

    instead: Outcome


Step: TypeAlias = (
    Outcome | Cut | Silence | Delay | Bytes | Mangled | Lost | Callable[[Any], Any] | None
)


@dataclass
class Stored:
    """What one accepted send holds."""

    partition: int
    payloads: list[bytes]
    ids: list[int]


# --- The cluster ---------------------------------------------------------------------------------


@dataclass
class ScriptedCluster:
    """What the nodes of a cluster share."""

    names_itself: bool = True
    """Whether nodes speak the Windsprite extension of the metadata."""
    tls: ssl.SSLContext | None = None
    password: str = "iggy"
    token: str = "t0ken"
    leader: int | None = 0
    epoch: int = 1
    nodes: list["ScriptedNode"] = field(default_factory=list)
    streams: dict[str, int] = field(default_factory=dict)
    stored: list[Stored] = field(default_factory=list)
    position: int = 0
    sessions: int = 0
    errors: list[BaseException] = field(default_factory=list)
    """What went wrong in the scripts themselves; fails the test."""

    async def start(self, count: int = 1) -> "ScriptedCluster":
        for index in range(count):
            node = ScriptedNode(self, index)
            await node.start()
            self.nodes.append(node)
        return self

    async def __aenter__(self) -> "ScriptedCluster":
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.nodes:
            await node.stop()
        if self.errors:
            raise self.errors[0]

    def elect(self, leader: int | None) -> None:
        """Another leader, or none."""
        self.leader = leader
        if leader is not None:
            self.epoch += 1

    def metadata(self) -> ClusterMetadata:
        nodes = tuple(
            node.described(NodeRole.LEADER if node.index == self.leader else NodeRole.FOLLOWER)
            for node in self.nodes
        )
        if not self.names_itself:
            return ClusterMetadata("scripted", nodes)
        epoch = self.epoch if self.leader is not None else 0
        return ClusterMetadata("scripted", nodes, CLUSTER_ID, epoch)

    @property
    def payloads(self) -> list[bytes]:
        """All that was stored, in order."""
        return [payload for batch in self.stored for payload in batch.payloads]

    def servers(self, *indexes: int) -> str:
        chosen = indexes or range(len(self.nodes))
        return ",".join(f"127.0.0.1:{self.nodes[index].port}" for index in chosen)

    def url(self, *indexes: int, options: str = "") -> str:
        return f"iggy://iggy:{self.password}@{self.servers(*indexes)}" + (
            f"?{options}" if options else ""
        )


class ScriptedNode:
    """One server."""

    def __init__(self, cluster: ScriptedCluster, index: int) -> None:
        self.cluster = cluster
        self.index = index
        self.port = 0
        self.connects: list[float] = []
        self.logins: list[float] = []
        self.requests: list[Any] = []
        self.frames: list[Frame] = []
        self.connections: set[ScriptedConnection] = set()
        self.tell_metadata: Callable[[], ClusterMetadata] | None = None
        self._scripts: dict[type[Any], list[Step]] = defaultdict(list)
        self._rules: dict[type[Any], Step] = {}
        self._server: asyncio.Server | None = None

    # --- For tests ---------------------------------------------------------------------------

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: ScriptedConnection(self), "127.0.0.1", self.port, ssl=self.cluster.tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """As if the process was killed: no more listening, all connections reset."""
        if self._server is not None:
            self._server.close()
            self._server = None
        tasks = []
        for connection in list(self.connections):
            tasks += connection.end(reset=True)
        if tasks:
            await asyncio.wait(tasks)
        for _ in range(3):
            await asyncio.sleep(0)

    def script(self, kind: type[Any], steps: Iterable[Step]) -> None:
        """Answer the next requests of this kind in this way, one step each."""
        self._scripts[kind] += steps

    def always(self, kind: type[Any], step: Step) -> None:
        """Answer all requests of this kind in this way, once their script is over."""
        self._rules[kind] = step

    def count(self, kind: type[Any]) -> int:
        """How many requests of this kind came in."""
        return sum(isinstance(request, kind) for request in self.requests)

    def evict(self, reason: EvictionReason) -> None:
        """End all sessions without being asked."""
        for connection in self.connections:
            connection.send([encode_eviction(reason, client=b"x" * 16, cluster_id=bytes(16))])

    def described(self, role: NodeRole, **changes: Any) -> ClusterNode:
        values = {
            "name": f"node-{self.index}",
            "host": "127.0.0.1",
            "tcp_port": self.port,
            "quic_port": 0,
            "http_port": 0,
            "websocket_port": 0,
            "role": role,
            "status": NodeStatus.HEALTHY,
            "identity": NodeIdentity(self.index, 1, UUID(int=self.index + 1), f"zone-{self.index}")
            if self.cluster.names_itself
            else None,
        }
        return ClusterNode(**{**values, **changes})

    # --- For connections ---------------------------------------------------------------------

    def next_step(self, request: Any) -> Step:
        kind = type(request)
        step = self._scripts[kind].pop(0) if self._scripts[kind] else self._rules.get(kind)
        return step(request) if callable(step) else step

    @property
    def leads(self) -> bool:
        return self.cluster.leader == self.index


class ScriptedConnection(asyncio.Protocol):
    """One client of a node; requests are answered one after the other."""

    def __init__(self, node: ScriptedNode) -> None:
        self.node = node
        self.session = 0
        self._decoder = FrameDecoder()
        self._frames: asyncio.Queue[Frame] = asyncio.Queue()
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Requests that came in and are not begun."""
        return self._frames.qsize()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.node.connections.add(self)
        self.node.connects.append(asyncio.get_running_loop().time())
        self._task = asyncio.create_task(self._serve())
        self._task.add_done_callback(self._served)

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._decoder.feed(data)
        except BadFrameError:
            self.end()
            return
        for frame in frames:
            self._frames.put_nowait(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self.node.connections.discard(self)
        if self._task is not None:
            self._task.cancel()

    def end(self, *, reset: bool = False) -> list[asyncio.Task[None]]:
        """Close the connection; returns what has to end before all is over."""
        if self._transport is not None:
            if reset:
                connection = self._transport.get_extra_info("socket")
                # Linger for no time: the kernel sends RST.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self._transport.abort()
            else:
                self._transport.close()
        return [self._task] if self._task is not None and not self._task.done() else []

    def send(self, parts: list[Any]) -> None:
        assert self._transport is not None
        self._transport.write(b"".join(parts))

    def stop_reading(self) -> None:
        """Leave what comes in where it is."""
        assert self._transport is not None
        self._transport.pause_reading()

    def go_on_reading(self) -> None:
        """Take back `stop_reading`."""
        assert self._transport is not None
        self._transport.resume_reading()

    def _served(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.node.cluster.errors.append(error)
            self.end()

    async def _serve(self) -> None:
        # What is behind a request that ended the connection gets no answer, as the transport would
        # still send one while some of its bytes have not left.
        while self._transport is not None and not self._transport.is_closing():
            await self._answer(await self._frames.get())

    async def _answer(self, frame: Frame) -> None:
        self.node.frames.append(frame)
        try:
            call = admit(frame, bound=bool(self.session))
        except InadmissibleError as error:
            self.send(self._encode(error.header, error.outcome))
            return
        assert call is not None
        request = call.request()
        self.node.requests.append(request)
        step = self.node.next_step(request)
        while isinstance(step, Delay):
            await asyncio.sleep(step.seconds)
            step = step.then(request) if callable(step.then) else step.then
        match step:
            case None:
                self.send(self._encode(call, self._good_answer(request, call.header.operation)))
            case Silence():
                await asyncio.get_running_loop().create_future()  # nor those after it
            case Bytes(data):
                self.send([data])
            case Mangled(change):
                answer = self._good_answer(request, call.header.operation)
                data = bytearray(b"".join(self._encode(call, answer)))
                changed = change(data)
                self.send([changed if isinstance(changed, bytes | bytearray) else data])
            case Cut(after, executed, reset):
                if executed or after:
                    answer = self._good_answer(request, call.header.operation)
                    self.send([b"".join(self._encode(call, answer))[:after]])
                self.end(reset=reset)
            case Lost(instead):
                self._good_answer(request, call.header.operation)
                self.send(self._encode(call, instead))
            case Awaitable():
                self.send(self._encode(call, await step))
            case _:
                self.send(self._encode(call, step))

    def _encode(self, call: Any, outcome: Outcome) -> list[Any]:
        cluster_id = CLUSTER_ID.bytes if self.node.cluster.names_itself else bytes(16)
        return encode_outcome(
            call, outcome, commit=self.node.cluster.position, cluster_id=cluster_id
        )

    def _good_answer(self, request: Any, operation: int) -> Outcome:
        cluster, node = self.node.cluster, self.node
        if (is_metadata(operation) or is_partition(operation)) and not node.leads:
            return NotNow(ErrorCode.TRANSIENT_NOT_ACCEPTED)
        match request:
            case LoginAttempt():
                return self._log_in(request)
            case Logout():
                self.session = 0
                return Success()
            case Ping():
                return Success()
            case GetClusterMetadata():
                return Success((node.tell_metadata or cluster.metadata)())
            case CreateStream(name):
                if name in cluster.streams:
                    return Rejected(ErrorCode.STREAM_NAME_ALREADY_EXISTS)
                cluster.position += 1
                cluster.streams[name] = len(cluster.streams)
                return Success(StreamDetails(self._stream(name), ()))
            case GetStreams():
                return Success(tuple(map(self._stream, cluster.streams)))
            case SendMessages():
                return self._append(request)
            case PollMessages():
                return Success(PolledMessages(request.partition_id or 0, 0, 0, ()))
        return Refused(ErrorCode.FEATURE_UNAVAILABLE)

    def _log_in(self, attempt: LoginAttempt) -> Outcome:
        cluster = self.node.cluster
        if attempt.password is not None:
            if attempt.password.password != cluster.password:
                return Evicted(EvictionReason.INVALID_CREDENTIALS)
        elif attempt.token is None or attempt.token.token != cluster.token:
            return Evicted(EvictionReason.INVALID_TOKEN)
        cluster.sessions += 1
        self.session = cluster.sessions
        self.node.logins.append(asyncio.get_running_loop().time())
        return Success(LoggedIn(0, self.session, PROTOCOL_VERSION, "scripted"))

    def _stream(self, name: str) -> Stream:
        return Stream(self.node.cluster.streams[name], 1, 0, 0, 0, name)

    def _append(self, request: SendMessages) -> Outcome:
        cluster = self.node.cluster
        header = read_header(request.batch)
        partition = 0
        if isinstance(request.partitioning, ToPartition):
            partition = request.partitioning.partition_id
        elif isinstance(request.partitioning, ByKey):
            partition = 1
        messages = Messages([bytes(request.batch)])
        assert len(messages) == header.message_count == request.messages_count
        base = sum(len(batch.payloads) for batch in cluster.stored if batch.partition == partition)
        cluster.stored.append(
            Stored(
                partition,
                [message.payload for message in messages],
                [message.id for message in messages],
            )
        )
        return Success(Confirmations((Confirmation(1, 1, partition, base),)))
