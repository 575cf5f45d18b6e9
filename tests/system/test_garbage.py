"""What a server makes of bytes that nobody should send, while others are served as always."""

import asyncio
import itertools
import random
import signal
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from support.command_examples import EXAMPLES
from support.frames import frame
from support.server_process import ServerProcess, server_process
from support.wire_client import Told, WireClient, evicted, status, success
from windsprite_protocol.model.identifiers import (
    Consumer,
    ConsumerKind,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import PollMessages, SendMessages
from windsprite_protocol.model.sessions import EvictionReason
from windsprite_protocol.model.streams import CreateStream
from windsprite_protocol.model.system import GetMe, Ping
from windsprite_protocol.model.topics import CreateTopic
from windsprite_protocol.v0_11.frames import OPERATIONS
from windsprite_protocol.v0_11.table import GENERATION

KIB = 1024
MIB = 1024 * KIB
MAX_FRAME = 64 * MIB
MAX_FRAME_BEFORE_LOGIN = 64 * KIB
INVALID_COMMAND = status(3)
ALL_IS_WELL = {"listening", "connected", "disconnected"}


@dataclass
class Target:
    process: ServerProcess
    host: str
    port: int
    pid: int

    def client(self) -> WireClient:
        return WireClient(self.host, self.port)

    @property
    def resident(self) -> int:
        """Bytes of memory."""
        return psutil.Process(self.pid).memory_info().rss

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[WireClient]:
        async with self.client() as client:
            await client.login()
            yield client


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A server that waits only a second for the rest of a frame."""
    folder = tmp_path_factory.mktemp("server")
    environment = {"WINDSPRITE_LIMITS__FRAME_TIMEOUT": "1 s"}
    with server_process(folder, environment=environment) as process:
        ready = process.wait_ready()
        host, _, port = ready["tcp"].rpartition(":")
        yield Target(process, host, int(port), ready["pid"])
        assert process.stop() == 0
        assert "Traceback" not in process.output
        assert [event for event in process.events if event["level"] == "error"] == []


@pytest.fixture
async def bystander(target: Target) -> AsyncIterator[None]:
    """Somebody who works with the server all the while and must not notice anything."""
    done = 0
    over = asyncio.Event()
    everyone = Consumer(ConsumerKind.SINGLE, 1)

    async def work(client: WireClient, name: str) -> None:
        nonlocal done
        batch = next(
            one.value.batch for one in EXAMPLES if one.code == 101 and one.side == "request"
        )
        while not over.is_set():
            await client.call(Ping())
            assert (await client.call(GetMe())).info.user_id == 0
            send = SendMessages(name, name, ToPartition(0), 2, batch)
            (stored,) = (await client.call(send)).items
            assert stored.base_offset == 2 * done
            poll = PollMessages(
                everyone, name, name, 0, PollingStrategy.offset(stored.base_offset), 5, False
            )
            assert (await client.call(poll)).messages_count == 2
            done += 1
            await asyncio.sleep(0.001)

    async with target.admin() as client:
        name = f"bystander {client.session}"
        await client.call(CreateStream(name))
        await client.call(CreateTopic(name, 1, name))
        working = asyncio.create_task(work(client, name))
        yield
        at_the_end = done
        async with asyncio.timeout(10):
            while done < at_the_end + 3 and not working.done():
                await asyncio.sleep(0.001)
        over.set()
        await working


pytestmark = pytest.mark.usefixtures("bystander")


async def is_well(target: Target) -> bool:
    async with target.client() as client:
        await client.send(frame())
        return (await client.receive()).told.channel == "success"


# --- Before a login -----------------------------------------------------------------------------


def tls_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context()
    connection = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        connection.do_handshake()
    return outgoing.read()


HTTP = b"GET / HTTP/1.1\r\nHost: localhost:8090\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n"
CLOSED = {
    "an HTTP request": HTTP + b"Cookie: " + b"c" * 300 + b"\r\n\r\n",
    "a TLS hello": tls_hello(),
    "a megabyte of random bytes": random.Random(1).randbytes(MIB),
    "a megabyte of ones": b"\xff" * MIB,
    "only zeros": bytes(1000),
    **{
        f"a frame of {size}": frame(size=size)
        for size in (0, 1, 255, MAX_FRAME_BEFORE_LOGIN + 1, MAX_FRAME, 1 << 31, 0xFFFF_FFFF)
    },
    "a classic frame": (12).to_bytes(4, "little") + bytes(300),
}
UNFINISHED = {
    "a short HTTP request": HTTP + b"\r\n",
    "eight zero bytes": bytes(8),
    "half a header": frame()[:128],
    "a header and then silence": frame(size=1000),
    "a frame without its last byte": frame(bytes(5000))[:-1],
}


@pytest.mark.parametrize("garbage", CLOSED.values(), ids=CLOSED)
async def test_bug_32_what_is_no_frame_ends_its_own_connection(
    target: Target, garbage: bytes
) -> None:
    async with target.client() as client:
        sending = asyncio.create_task(client.send(garbage))
        assert await client.is_closed()
        await asyncio.wait([sending])
        if not sending.cancelled():
            sending.exception()
    assert await is_well(target)


async def test_what_is_not_finished_is_waited_for_and_then_closed(target: Target) -> None:
    async def begin(garbage: bytes) -> bool:
        async with target.client() as client:
            await client.send(garbage)
            return await client.is_silent(0.5) and await client.is_closed(5)

    ended = await asyncio.gather(*map(begin, UNFINISHED.values()))
    assert dict(zip(UNFINISHED, ended, strict=True)) == dict.fromkeys(UNFINISHED, True)


async def test_the_rest_of_a_frame_that_came_while_the_server_stood_still_is_in_time(
    target: Target,
) -> None:
    async with target.client() as client:
        whole = frame()
        await client.send(whole[:100])
        await asyncio.sleep(0.1)
        target.process.send(signal.SIGSTOP)
        await client.send(whole[100:])
        await asyncio.sleep(2.5)
        target.process.send(signal.SIGCONT)
        assert (await client.receive()).told == success()


async def test_frames_of_the_smallest_and_largest_sizes_are_served(target: Target) -> None:
    async with target.client() as client:
        for size in (256, 257, MAX_FRAME_BEFORE_LOGIN):
            await client.send(frame(bytes(size - 256)))
            assert (await client.receive()).told.channel == "success"
        await client.login()
        for size in (MAX_FRAME_BEFORE_LOGIN + 1, MAX_FRAME):
            await client.send(frame(bytes(size - 256)))
            assert (await client.receive()).told.channel == "success"
        await client.send(frame(size=MAX_FRAME + 1))
        assert await client.is_closed()


async def test_every_kind_of_frame_but_a_request(target: Target) -> None:
    async with target.client() as client:
        await client.send(b"".join(frame(b"x", kind=kind) for kind in range(30) if kind != 5))
        await client.send(frame())
        assert (await client.receive()).told.channel == "success"
        assert await client.is_silent(0.05)
    for kind in range(30, 256):
        async with target.client() as client:
            await client.send(frame(request=1) + frame(b"x", kind=kind) + frame(request=2))
            assert [reply.number for reply in await client.receive_many(5)] == [1]


async def test_each_bad_connection_is_worth_one_line(target: Target) -> None:
    before = len(target.process.events)
    for garbage in (frame(size=0), b"\xff" * (256 * KIB), HTTP * 5):
        async with target.client() as client:
            with suppress(OSError):
                await client.send(garbage)
            await client.is_closed()
    await asyncio.sleep(0.1)
    lines = target.process.events[before:]
    assert [line["event"] for line in lines] == ["connection closed: bad frame"] * 3
    assert {line["level"] for line in lines} == {"info"}


# --- Requests of all kinds ----------------------------------------------------------------------


def numbered(count: int, **fields: Any) -> Iterator[bytes]:
    bodies = random.Random(count)
    for number in range(1, count + 1):
        body = bodies.randbytes(bodies.choice([0, 1, 4, 20, 300]))
        yield frame(body, request=number, **fields)


async def answers(client: WireClient, requests: list[bytes]) -> list[Told]:
    """One answer for each request, in their order, on a connection that stays."""
    sending = asyncio.create_task(client.send(b"".join(requests)))
    told = []
    for data in requests:
        answer = await client.receive()
        if answer.told.channel != "eviction":
            assert answer.number == int.from_bytes(data[168:176], "little")
        told.append(answer.told)
    await sending
    return told


async def test_every_operation_with_random_bodies_before_a_login(target: Target) -> None:
    async with target.client() as client:
        for operation in range(256):
            outcomes = set(await answers(client, [*numbered(20, operation=operation, session=1)]))
            if operation in (0, 1) or operation not in OPERATIONS:
                assert outcomes == {INVALID_COMMAND}
            elif operation in (2, 3):
                assert outcomes == {success()}
            else:
                assert outcomes == {evicted(EvictionReason.NO_SESSION)}


async def test_random_logins(target: Target) -> None:
    async with target.client() as client:
        random_bodies = random.Random(3)
        requests = [
            frame(random_bodies.randbytes(size), operation=1, request=0) for size in range(300)
        ]
        requests += [
            frame(b"\x00\x2c\0\0\x01a\x01b" + random_bodies.randbytes(size), operation=1, request=0)
            for size in range(300)
        ]
        kinds = {told.channel for told in await answers(client, requests)}
        assert kinds == {"eviction"}


async def test_every_operation_with_random_bodies_after_a_login(target: Target) -> None:
    requests = [
        data
        for operation in range(256)
        if operation != 3
        for data in numbered(20, operation=operation, session=1, code=operation)
    ]
    async with target.admin() as client:
        outcomes = await answers(client, requests)
        for data, outcome in zip(requests, outcomes, strict=True):
            operation = data[176]
            if operation == 0 or operation not in OPERATIONS:
                assert outcome == INVALID_COMMAND
            elif 64 <= operation < 128:
                assert outcome == evicted(EvictionReason.INVALID_REQUEST_OPERATION)
        await client.call(GetMe())


async def test_every_code_with_random_bodies(target: Target) -> None:
    codes = [*range(700), 9000, 9099, 9100, 1 << 31, 0xFFFF_FFFF]
    requests = [data for code in codes for data in numbered(3, operation=2, code=code, session=1)]
    legacy = {38, 44}
    for logged_in in (False, True):
        async with target.client() as client:
            if logged_in:
                await client.login()
            outcomes = await answers(client, requests)
        for data, outcome in zip(requests, outcomes, strict=True):
            code = int.from_bytes(data[196:200], "little")
            if code in legacy:
                assert outcome == evicted(EvictionReason.MALFORMED_LOGIN)
            elif not logged_in and code != 1:
                assert outcome == status(40)
            elif GENERATION.by_code(code) is None:
                assert outcome == INVALID_COMMAND


# --- Damaged requests ---------------------------------------------------------------------------


def examples() -> Iterator[tuple[int, bytes]]:
    for example in EXAMPLES:
        if example.side == "request":
            yield example.code, example.body


def request_of(code: int, body: bytes, number: int) -> bytes:
    command = GENERATION.by_code(code)
    assert command is not None
    if command.operation == 1:
        return frame(body, operation=1, request=0)
    coded = command.operation == 2
    return frame(
        body,
        operation=command.operation,
        code=code if coded else 0,
        session=1,
        request=number,
    )


async def served_or_refused(target: Target, bodies: list[tuple[int, bytes]]) -> None:
    """Send bodies from a connection that is logged in, again after a logout."""
    numbers = itertools.count(1)
    async with target.admin() as client:
        for code, group in itertools.groupby(bodies, key=lambda one: one[0]):
            requests = [request_of(code, body, next(numbers)) for _, body in group]
            await answers(client, requests)
            await client.send(request_of(39, b"", next(numbers)))
            assert (await client.receive()).told.channel == "success"
            await client.login()


async def test_bug_33_every_command_cut_at_every_byte(target: Target) -> None:
    cut = [(code, body[:size]) for code, body in examples() for size in range(len(body))]
    assert len(cut) > 2000
    await served_or_refused(target, cut)


async def test_bug_33_every_command_with_flipped_bits(target: Target) -> None:
    flips = random.Random(5)
    damaged = []
    for code, body in examples():
        for _ in range(min(15, 4 * len(body))):
            changed = bytearray(body)
            for _ in range(flips.choice([1, 1, 1, 2, 8])):
                changed[flips.randrange(len(body))] ^= 1 << flips.randrange(8)
            damaged.append((code, bytes(changed)))
    assert len(damaged) > 600
    await served_or_refused(target, damaged)


async def test_random_headers(target: Target) -> None:
    """Everything but size and kind of a header may hold anything."""
    headers = random.Random(11)
    async with target.admin() as client:
        requests = []
        for _ in range(3000):
            header = bytearray(headers.randbytes(256))
            header[48:52] = (256).to_bytes(4, "little")
            header[60] = 5
            if header[176] == 3:
                header[176] = 2
            requests.append(bytes(header))
        await answers(client, requests)
        await client.call(GetMe())


# --- Memory -------------------------------------------------------------------------------------


async def storm(target: Target) -> None:
    """Much of the above, at once."""
    garbage = [*CLOSED.values(), *UNFINISHED.values()]

    async def throw(data: bytes) -> None:
        async with target.client() as client:
            try:
                await client.send(data)
            except OSError:
                return
            await client.is_closed()

    await asyncio.gather(*[throw(data) for data in garbage * 4])
    async with target.admin() as client:
        requests = [data for code in range(300) for data in numbered(10, code=code, session=1)]
        await answers(client, requests)


async def test_memory_stays_flat(target: Target) -> None:
    await storm(target)
    before = target.resident
    for _ in range(3):
        await storm(target)
    assert target.resident - before < 16 * MIB


async def test_announced_bytes_cost_nothing_until_they_come(target: Target) -> None:
    async with target.admin() as admin:
        await admin.call(Ping())
        before = target.resident
        clients = []
        try:
            for _ in range(40):
                client = await target.client().__aenter__()
                clients.append(client)
                await client.login()
                await client.send(frame(size=MAX_FRAME))
            await asyncio.sleep(0.2)
            assert target.resident - before < 40 * 256 * KIB + 16 * MIB
        finally:
            for client in clients:
                client.sock.close()
