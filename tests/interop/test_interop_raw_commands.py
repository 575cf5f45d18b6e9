"""Commands by their code with the official client (spec 01, 2.4; spec 06, 6.7 and 8.4)."""

import struct

import pytest
from apache_iggy import IggyClient

from support.official_client import fails_with, logged_in, number_of

covers = pytest.mark.covers

NAME = b"\x02\x01a"  # an identifier: the name `a`
NUMBER = b"\x01\x04\xff\xff\xff\xff"  # an identifier: a number that nothing has
TARGET = NAME + NAME

# A poll that commits, of a single consumer, and where an offset of it would be written.
COMMITTING = b"\x01" + NAME + TARGET + bytes(5) + struct.pack("<BQIB", 5, 0, 1, 1)
WRITTEN = b"\x01" + NAME + TARGET + bytes(5)


@pytest.mark.parametrize(
    ("code", "payload", "error"),
    [(14, bytes(32), 30), (103, COMMITTING, 1009), (104, COMMITTING, 40), (123, WRITTEN, 1009)],
)
@covers("send_binary_request")
async def test_routes_of_what_does_not_exist(
    client: IggyClient, code: int, payload: bytes, error: int
) -> None:
    """Those of what exists are in `test_interop_routing`: there the client asks by itself."""
    with fails_with(error):
        await client.send_binary_request(code, payload)
    await client.ping()


@covers("send_binary_request")
async def test_a_ping_and_the_statistics(client: IggyClient) -> None:
    assert await client.send_binary_request(1, b"") == b""
    assert await client.send_binary_request(1, b"ignored") == b""
    stats = await client.send_binary_request(10, b"")
    assert len(stats) >= 156
    assert struct.unpack_from("<I", stats) == ((await client.get_stats()).process_id,)


@pytest.mark.parametrize("code", [38, 39, 40, 44, 45])
@covers("send_binary_request")
async def test_sessions_are_not_opened_and_closed_by_code(client: IggyClient, code: int) -> None:
    with fails_with(3):  # the client itself
        await client.send_binary_request(code, b"")
    await client.get_streams()


@pytest.mark.parametrize("code", [0, 2, 15, 16, 17, 23, 46, 105, 106, 400, 607, 60_000, 2**32 - 1])
@covers("send_binary_request")
async def test_codes_that_nobody_knows(client: IggyClient, code: int) -> None:
    for payload in (b"", b"payload" * 100):
        with fails_with(3):
            await client.send_binary_request(code, payload)
    await client.ping()


@pytest.mark.parametrize(
    "payload", [b"", b"x", TARGET + struct.pack("<IB", 0, 1), NUMBER + NUMBER + bytes(5)]
)
@covers("send_binary_request")
async def test_a_flush_is_refused_whatever_it_says(client: IggyClient, payload: bytes) -> None:
    with fails_with(5):
        await client.send_binary_request(102, payload)


@covers("send_binary_request")
async def test_a_flush_of_what_exists(client: IggyClient, stream: str, topic: str) -> None:
    names = b"".join(b"\x02" + bytes([len(name)]) + name.encode() for name in (stream, topic))
    for fsync in (0, 1):
        with fails_with(5):
            await client.send_binary_request(102, names + struct.pack("<IB", 0, fsync))


@covers("send_binary_request")
async def test_the_cluster(address: str, client: IggyClient) -> None:
    host, _, port = address.rpartition(":")
    reply = await client.send_binary_request(12, b"")

    def text(at: int) -> tuple[str, int]:
        (length,) = struct.unpack_from("<I", reply, at)
        return reply[at + 4 : at + 4 + length].decode(), at + 4 + length

    name, at = text(0)
    assert name
    assert struct.unpack_from("<I", reply, at) == (1,)  # more than one node means other commands
    node, at = text(at + 4)
    assert node
    ip, at = text(at)
    assert ip == host
    ports_role_status = struct.unpack_from("<4H2B", reply, at)
    assert ports_role_status == (int(port), 0, 0, 0, 0, 0)


@covers("send_binary_request")
async def test_who_i_am(address: str) -> None:
    client = await logged_in(address)  # of its own: the shared one may be in groups of other tests
    me = await client.send_binary_request(20, b"")
    number, user, transport, length = struct.unpack_from("<IIBI", me)
    peer = me[13 : 13 + length].decode()
    assert number > 0
    assert (user, transport) == (0, 1)
    assert peer.rpartition(":")[0] == address.rpartition(":")[0]
    assert me[13 + length :] == bytes(4)  # in no group
    assert await client.send_binary_request(21, struct.pack("<I", number)) == me
    assert await client.send_binary_request(21, struct.pack("<I", 2**32 - 1)) == b""
    assert await client.send_binary_request(21, b"") == b""
    assert me[: 13 + length] in await client.send_binary_request(22, b"")
    assert await number_of(client) == number


@covers("send_binary_request")
async def test_writes_by_code(client: IggyClient) -> None:
    created = await client.send_binary_request(202, b"\x06by raw")
    number = int.from_bytes(created[:4], "little")
    stream = await client.get_stream("by raw")
    assert (stream.id, stream.created_at) == (number, int.from_bytes(created[4:12], "little"))
    assert created[12:] == bytes(20) + b"\x06by raw" + bytes(4)
    assert await client.send_binary_request(200, b"\x02\x06by raw") == created
    with fails_with(1012):
        await client.send_binary_request(202, b"\x06by raw")
    by_number = b"\x01\x04" + struct.pack("<I", number)
    topic = await client.send_binary_request(302, by_number + struct.pack("<I", 2) + b"\x01t")
    assert topic[:4] == bytes(4)
    assert await client.send_binary_request(402, by_number + b"\x02\x01t\x01\x00\x00\x00") == b""
    assert (await client.get_topic(number, "t")).partitions_count == 3
    assert await client.send_binary_request(203, by_number) == b""
    assert await client.get_stream("by raw") is None


@pytest.mark.parametrize(
    ("code", "payload"),
    [
        (200, b""),
        (200, b"\x03\x01a"),
        (202, b""),
        (202, b"\x00"),
        (202, b"\x02\xff\xfe"),
        (202, b"\x05abcd"),
        (203, b""),
        (203, b"\x01\x02\x00\x00"),
        (204, NAME),
        (204, NAME + b"\x01b\x02"),  # half an option
        (205, b"\x02\x00"),
        (300, NAME),
        (301, b""),
        (302, NAME + bytes(4)),
        (302, NAME + bytes(4) + b"\x01t\x02\x01"),
        (303, NAME),
        (304, TARGET),
        (305, NAME),
        (402, TARGET + bytes(3)),
        (403, TARGET),
        (100, b""),
        (100, b"\x01" + NAME + TARGET + bytes(5) + b"\x06" + bytes(13)),  # a sixth strategy
        (13, b""),
    ],
)
@covers("send_binary_request")
async def test_bodies_that_cannot_be_read(client: IggyClient, code: int, payload: bytes) -> None:
    with fails_with(3):
        await client.send_binary_request(code, payload)
    await client.ping()


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x16", bytes(4), struct.pack("<I", 2**32 - 1), b"\x04\x00\x00\x00abcd"],
)
@covers("send_binary_request")
async def test_sends_that_cannot_be_read(client: IggyClient, payload: bytes) -> None:
    with pytest.raises(
        RuntimeError, match=r"^(Invalid command|Resource with key:  was not found\.)$"
    ):
        await client.send_binary_request(101, payload)
    await client.ping()
