"""Frames and bodies written byte by byte after the layouts of the specification.

Nothing of the packages is used here: a mistake that an encoder shares with its decoder shows.
"""

from __future__ import annotations

import struct
from typing import Final

import xxhash

PROTOCOL: Final = 11 << 10
"""Version 0.11.0, packed (spec 01, 5.1)."""

REGISTER, READ, LOGOUT = 1, 2, 3

OPERATIONS: Final = {
    33: 141,
    34: 143,
    35: 142,
    36: 145,
    37: 144,
    39: LOGOUT,
    40: REGISTER,
    42: 146,
    43: 147,
    45: REGISTER,
    101: 160,
    121: 161,
    122: 162,
    202: 128,
    203: 130,
    204: 129,
    205: 131,
    302: 132,
    303: 134,
    304: 133,
    305: 135,
    402: 136,
    403: 137,
    503: 138,
    602: 139,
    603: 140,
    604: 148,
    605: 149,
}
"""How codes travel (spec 01, 2.3); all others are reads, which carry their code."""

COMMITTED: Final = {132: 64, 136: 65, 138: 68}
"""What replies say instead of some operations (spec 01, 3.3)."""

UNFRAMED: Final = {READ, LOGOUT, 160}
"""Replies that have no result section (spec 01, 2.3)."""


def u8(number: int) -> bytes:
    return struct.pack("<B", number)


def u16(number: int) -> bytes:
    return struct.pack("<H", number)


def u32(number: int) -> bytes:
    return struct.pack("<I", number)


def u64(number: int) -> bytes:
    return struct.pack("<Q", number)


# --- Frames (spec 01, 1 to 4) --------------------------------------------------------------------


def _frame(size: int, kind: int) -> bytearray:
    header = bytearray(256)
    header[48:52] = u32(size)
    header[60] = kind
    return header


def request_frame(
    operation: int,
    body: bytes = b"",
    *,
    client: bytes,
    request: int,
    session: int = 0,
    code: int = 0,
    checksum: int = 0,
    kind: int = 5,
    size: int | None = None,
) -> bytes:
    header = _frame(256 + len(body) if size is None else size, kind)
    header[128:144] = client
    header[144:152] = u64(checksum)
    header[168:176] = u64(request)
    header[176] = operation
    header[184:192] = u64(session)
    header[196:200] = u32(code)
    return bytes(header) + body


def reply_frame(
    request: bytes,
    body: bytes = b"",
    *,
    cluster: bytes,
    commit: int,
    operation: int | None = None,
    status: int = 0,
) -> bytes:
    """The reply to a request, which it echoes."""
    header = _frame(256 + len(body), 8)
    header[32:48] = cluster
    header[128:144] = request[144:160]  # the checksum
    header[160:176] = request[128:144]  # the client
    header[176:184] = u64(commit)
    header[184:192] = u64(commit)
    header[200:208] = request[168:176]
    header[208] = request[176] if operation is None else operation
    header[216:220] = u32(status)
    return bytes(header) + body


def eviction_frame(request: bytes, reason: int, *, cluster: bytes) -> bytes:
    header = _frame(256, 13)
    header[32:48] = cluster
    header[128:144] = request[128:144]
    if reason == 14:
        header[144:152] = u32(PROTOCOL) + u32(PROTOCOL)
    header[255] = reason
    return bytes(header)


def checksum(body: bytes) -> int:
    return xxhash.xxh3_64_intdigest(body)


# --- What bodies are made of (spec 03, 1; spec 04; spec 06, 1) -----------------------------------


def name(text: str) -> bytes:
    """A text with its length in one byte."""
    return u8(len(text.encode())) + text.encode()


def long_text(text: str) -> bytes:
    """A text with its length in four bytes."""
    return u32(len(text.encode())) + text.encode()


def ident(identifier: int | str) -> bytes:
    if isinstance(identifier, str):
        return u8(2) + name(identifier)
    return u8(1) + u8(4) + u32(identifier)


def single(identifier: int | str) -> bytes:
    """A consumer by itself."""
    return u8(1) + ident(identifier)


def group(identifier: int | str) -> bytes:
    """A consumer group as a consumer."""
    return u8(2) + ident(identifier)


def partition(number: int | None) -> bytes:
    """A partition that may be left out."""
    return u8(0) + u32(0) if number is None else u8(1) + u32(number)


def option(key: str, kind: int, value: bytes) -> bytes:
    encoded = key.encode()
    return u8(2) + u32(len(encoded)) + encoded + u8(kind) + u32(len(value)) + value


def flags(count: int, *indexes: int) -> bytes:
    """So many bytes, 1 at some places and 0 elsewhere."""
    return bytes(index in indexes for index in range(count))


def version_info(version: int = PROTOCOL) -> bytes:
    return u32(version) + name("by hand") + name("1.0")


def login(username: str, password: str, version: int = PROTOCOL) -> bytes:
    return version_info(version) + name(username) + name(password) + long_text("")


def token_login(token: str, version: int = PROTOCOL) -> bytes:
    return version_info(version) + name(token) + long_text("")


# --- Messages (spec 04, 2 and 4) -----------------------------------------------------------------


def message(payload: bytes, index: int = 0) -> bytes:
    """A message of a batch, without headers of its user."""
    rest = struct.pack("<QQIIIIQ", index + 1, 0, index, 0, 0, len(payload), 0) + payload
    return u64(checksum(rest)) + rest


def sealed(
    frames: list[bytes], *, origin: int = 0, partition_id: int = 0, offset: int = 0, time: int = 0
) -> bytes:
    """A batch of these messages, as producers make it or as the server serves it."""
    length = 256 + sum(map(len, frames))
    hashed = struct.pack("<QQQQQI", partition_id, offset, time, origin, length, len(frames))
    checksums = b"".join(frame[:8] for frame in frames)
    head = struct.pack(
        "<QQQQQQI",
        partition_id,
        offset,
        time,
        origin,
        length,
        checksum(hashed + checksums),
        len(frames),
    )
    return head + bytes(204) + b"".join(frames)


def batch(*payloads: bytes, first: int = 0) -> bytes:
    """A batch as a producer makes it."""
    return sealed([message(payload, index) for index, payload in enumerate(payloads, first)])


BALANCED: Final = u8(1) + u8(0)


def to_partition(number: int) -> bytes:
    return u8(2) + u8(4) + u32(number)


def by_key(key: bytes) -> bytes:
    return u8(3) + u8(len(key)) + key


def send(
    stream: int | str, topic: int | str, partitioning: bytes, count: int, messages: bytes
) -> bytes:
    metadata = ident(stream) + ident(topic) + partitioning + u32(count)
    return u32(len(metadata)) + metadata + messages


OFFSET, TIMESTAMP, FIRST, LAST, NEXT = 1, 2, 3, 4, 5


def poll(
    consumer: bytes,
    stream: int | str,
    topic: int | str,
    partition_id: int | None,
    *,
    strategy: int = FIRST,
    value: int = 0,
    count: int = 10,
    commit: int = 0,
) -> bytes:
    target = consumer + ident(stream) + ident(topic) + partition(partition_id)
    return target + u8(strategy) + u64(value) + u32(count) + u8(commit)


def polled(partition_id: int, current_offset: int, count: int = 0, records: bytes = b"") -> bytes:
    return u32(partition_id) + u64(current_offset) + u32(count) + records


# --- What replies tell about resources (spec 03, 2; spec 05, 3; spec 06, 3 and 6) ----------------


def stream_header(
    number: int, created_at: int, title: str, topics: int = 0, size: int = 0, messages: int = 0
) -> bytes:
    counts = u32(topics) + u64(size) + u64(messages)
    return u32(number) + u64(created_at) + counts + name(title) + u32(0)


def topic_header(
    number: int,
    created_at: int,
    title: str,
    partitions: int,
    *,
    expiry: int = 2**64 - 1,
    compression: int = 1,
    max_size: int = 2**64 - 1,
    size: int = 0,
    messages: int = 0,
    explicit: bytes = b"",
    derived: bytes,
) -> bytes:
    fixed = u32(partitions) + u64(expiry) + u8(compression) + u64(max_size)
    options = u32(len(explicit)) + explicit + u32(len(derived)) + derived
    counts = u64(size) + u64(messages)
    return u32(number) + u64(created_at) + fixed + counts + name(title) + options


TOPIC_OPTIONS: Final = {
    "compression_algorithm": (2, b"none"),
    "consumer_offset_durability": (2, b"replicated"),
    "durability": (2, b"replicated"),
    "max_topic_size": (12, b"\xff" * 8),
    "message_expiry": (12, b"\xff" * 8),
    "messages_required_to_save": (11, u32(1024)),
    "preallocate_segments": (3, b"\x00"),
    "segment_size": (12, u64(1 << 30)),
    "size_of_messages_required_to_save": (12, u64(1 << 20)),
}
"""All keys with the kind and the bytes of their defaults (spec 03, 5.1)."""


def derived_options(*chosen: str) -> bytes:
    """The options that the server fills in where a client chose only these."""
    return b"".join(
        option(key, *default) for key, default in TOPIC_OPTIONS.items() if key not in chosen
    )


def partition_entry(
    number: int,
    created_at: int,
    *,
    segments: int = 1,
    offset: int = 0,
    size: int = 0,
    messages: int = 0,
) -> bytes:
    counts = u32(segments) + u64(offset) + u64(size) + u64(messages)
    return u32(number) + u64(created_at) + counts


def group_header(number: int, partitions: int, members: int, title: str) -> bytes:
    return u32(number) + u32(partitions) + u32(members) + name(title)


def member(slot: int, *partitions: int) -> bytes:
    return u32(slot) + u32(len(partitions)) + b"".join(map(u32, partitions))


def user_header(number: int, created_at: int, username: str, status: int = 1) -> bytes:
    return u32(number) + u64(created_at) + u8(status) + name(username) + u32(0)


def client_header(number: int, user: int, address: str, groups: int = 0) -> bytes:
    return u32(number) + u32(user) + u8(1) + long_text(address) + u32(groups)
