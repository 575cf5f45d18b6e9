import struct

import pytest

from support.batch_examples import (
    MESSAGE_A,
    MESSAGE_B,
    MESSAGE_C,
    SLICED_B,
    STAMPED,
    USER_HEADERS_B,
)
from windsprite_protocol.batches import build_batch, slice_batch, stamp_batch
from windsprite_protocol.errors import DecodeError, ErrorCode
from windsprite_protocol.messages import Message, Messages
from windsprite_protocol.model.typed_values import TypedValue, ValueKind


def with_headers(raw):
    return Message(0, 0, 0, 0, bytes(16), 0, b"", raw)


def test_whole_batch():
    a, b = Messages([STAMPED])
    assert (a.partition_id, a.offset, a.timestamp) == (3, 10, 1_700_000_001_500_000)
    assert (b.partition_id, b.offset, b.timestamp) == (3, 11, 1_700_000_001_500_000)
    assert (a.id, a.payload, a.origin_timestamp) == (1, b"hello", MESSAGE_A.origin_timestamp)
    assert (b.payload, b.origin_timestamp) == (b"world!", MESSAGE_B.origin_timestamp)
    assert b.id == int.from_bytes(bytes(range(16)), "little")
    assert (a.checksum, b.checksum) == (0xB9BFBDDB9EA55C8E, 0x477565C345B44D5E)
    assert (a.raw_user_headers, b.raw_user_headers) == (b"", USER_HEADERS_B)
    assert (a.headers, b.headers) == ({}, {"color": "red"})


def test_two_records_in_one_reply():
    record = build_batch([MESSAGE_C])
    stamp_batch(record, partition_id=3, base_offset=12, base_timestamp=1_700_000_001_501_000)
    reply = SLICED_B + bytes(record)
    assert len(reply) == 652 - 16
    b, c = Messages([reply])
    assert (b.offset, b.payload, b.origin_timestamp) == (11, b"world!", 1_700_000_000_000_250)
    assert (c.offset, c.payload, c.timestamp) == (12, b"next", 1_700_000_001_501_000)


def test_header_and_frames_in_buffers_of_their_own():
    records = [*slice_batch(STAMPED, 0, 1), *slice_batch(STAMPED, 1, 1)]
    assert [m.payload for m in Messages(records)] == [b"hello", b"world!"]


def test_no_record():
    assert list(Messages([])) == []
    assert list(Messages([b""])) == []


def test_messages_do_not_keep_the_buffer():
    buffer = bytearray(STAMPED)
    messages = list(Messages([memoryview(buffer)]))
    buffer[:] = bytes(len(buffer))
    assert [m.payload for m in messages] == [b"hello", b"world!"]


def test_repr_does_not_show_what_is_in_it():
    assert repr(Messages([STAMPED])[1]) == "<Message partition=3 offset=11 payload=6 bytes>"


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.pop(),
        lambda record: record.extend(bytes(10)),
        lambda record: record.__setitem__(100, 1),
        lambda record: record.__setitem__(256 + 40, 1),
        lambda record: struct.pack_into("<Q", record, 32, 100),
        lambda record: struct.pack_into("<Q", record, 32, 1000),
        lambda record: struct.pack_into("<Q", record, 32, 256 + 53 + 20),
        lambda record: struct.pack_into("<I", record, 256 + 36, 6),
        lambda record: struct.pack_into("<I", record, 256 + 36, 0xFFFF_FFFF),
        lambda record: struct.pack_into("<I", record, 48, 1),
        lambda record: struct.pack_into("<I", record, 48, 3),
    ],
)
def test_malformed_record(change):
    record = bytearray(STAMPED)
    change(record)
    with pytest.raises(DecodeError) as caught:
        Messages([record])
    assert caught.value.code is ErrorCode.INVALID_MESSAGE_PAYLOAD_LENGTH


def test_user_headers_that_are_encrypted_or_malformed():
    message = with_headers(b"\x00encrypted")
    assert message.user_headers == {}
    assert message.headers == {}
    assert message.raw_user_headers == b"\x00encrypted"


def test_user_headers_without_a_plain_value():
    message = with_headers(bytes.fromhex("0201000000 61  6301000000 00"))
    assert message.user_headers == {TypedValue(ValueKind.STRING, b"a"): TypedValue(99, b"\0")}
    with pytest.raises(DecodeError) as caught:
        _ = message.headers
    assert caught.value.code is ErrorCode.INVALID_HEADER_KIND
