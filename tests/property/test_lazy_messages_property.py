"""Messages made on demand are those of a plain walk; batches of payloads those of `build_batch`."""

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windsprite_protocol.batches import (
    NewMessage,
    build_batch,
    read_header,
    slice_batch,
    stamp_batch,
    verify_batch,
)
from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode
from windsprite_protocol.messages import Message, Messages
from windsprite_protocol.payload_batches import build_payload_batch

IDS = st.binary(min_size=16, max_size=16)
PAYLOADS = st.one_of(
    st.lists(st.binary(max_size=40), min_size=1, max_size=12),
    st.integers(0, 20).flatmap(
        lambda size: st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=12)
    ),
)
NEW_MESSAGES = PAYLOADS.flatmap(
    lambda payloads: st.tuples(
        *(
            st.builds(
                NewMessage,
                st.just(payload),
                IDS,
                st.integers(1000, 2000),
                st.sampled_from([b"", b"", b"h", b"headers"]),
            )
            for payload in payloads
        )
    )
)


def stored(messages: tuple[NewMessage, ...], offset: int) -> bytearray:
    batch = build_batch(messages)
    stamp_batch(batch, partition_id=3, base_offset=offset, base_timestamp=77)
    return batch


def walked(record: bytes) -> list[tuple[object, ...]]:
    """What a record holds, one frame after the other (spec 04, 2.2)."""
    header = read_header(record)
    found: list[tuple[object, ...]] = []
    start = 256
    while start < header.batch_length:
        checksum, id_, delta, age, extra, length, _ = struct.unpack_from(
            "<Q16sIIIIQ", record, start
        )
        begin, end = start + 48, start + 48 + length
        found.append(
            (
                header.partition_id,
                header.base_offset + delta,
                header.base_timestamp,
                header.origin_timestamp + age,
                id_,
                checksum,
                record[begin:end],
                record[end : end + extra],
            )
        )
        start = end + extra
    return found


def fields(message: Message) -> tuple[object, ...]:
    return tuple(getattr(message, name) for name in Message.__dataclass_fields__)


@given(st.lists(NEW_MESSAGES, max_size=4), st.data())
def test_on_demand_and_all_at_once_are_the_same(
    batches: list[tuple[NewMessage, ...]], data: st.DataObject
) -> None:
    records: list[bytes] = []
    offset = 10
    for messages in batches:
        record = bytes(stored(messages, offset))
        if data.draw(st.booleans()):
            first = data.draw(st.integers(0, len(messages) - 1))
            count = data.draw(st.integers(1, len(messages) - first))
            record = b"".join(slice_batch(record, first, count))
        records.append(record)
        offset += len(messages)
    expected = [message for record in records for message in walked(record)]
    found = Messages(records)
    assert len(found) == len(expected)
    assert [fields(message) for message in found] == expected
    assert [fields(found[index]) for index in range(len(expected))] == expected
    assert [fields(found[~index]) for index in range(len(expected))] == expected[::-1]
    assert found.payloads() == [message[6] for message in expected]
    part = slice(data.draw(st.integers(-5, 20)), data.draw(st.integers(-5, 20)))
    assert [fields(message) for message in found[part]] == expected[part]
    for index in (len(expected), -len(expected) - 1):
        with pytest.raises(IndexError):
            found[index]


@given(NEW_MESSAGES, st.data())
def test_what_is_malformed_is_found_before_anybody_asks(
    messages: tuple[NewMessage, ...], data: st.DataObject
) -> None:
    record = stored(messages, 0)
    kind = data.draw(st.sampled_from(["cut", "longer", "length", "reserved", "count"]))
    frame = 256
    for message in messages[: data.draw(st.integers(0, len(messages) - 1))]:
        frame += 48 + len(message.payload) + len(message.user_headers)
    match kind:
        case "cut":
            del record[data.draw(st.integers(1, len(record) - 1)) :]
        case "longer":
            record += bytes(data.draw(st.integers(1, 60)))
        case "length":
            last = messages[-1]
            frame = len(record) - 48 - len(last.payload) - len(last.user_headers)
            other = st.integers(0, 2**32 - 1).filter(lambda length: length != len(last.payload))
            struct.pack_into("<I", record, frame + 36, data.draw(other))
        case "reserved":
            record[frame + data.draw(st.integers(40, 47))] = 1
        case "count":
            struct.pack_into("<I", record, 48, len(messages) + data.draw(st.integers(1, 9)))
    with pytest.raises(DecodeError) as failure:
        Messages([bytes(record)])
    assert failure.value.code is ErrorCode.INVALID_MESSAGE_PAYLOAD_LENGTH


@given(PAYLOADS, st.integers(0, 2**64 - 1), st.sampled_from([b"", b"headers"]), st.data())
@example([b"x"] * 300, 5, b"", None)
def test_batches_of_payloads_are_those_of_their_messages(
    payloads: list[bytes], timestamp: int, headers: bytes, data: st.DataObject | None
) -> None:
    ids = [bytes([index % 256]) * 16 for index in range(len(payloads))]
    batch = build_payload_batch(payloads, b"".join(ids), timestamp, headers)
    messages = [
        NewMessage(payload, id_, timestamp, headers)
        for payload, id_ in zip(payloads, ids, strict=True)
    ]
    assert batch == build_batch(messages)
    verify_batch(batch, len(payloads))


@given(PAYLOADS, st.integers(0, 2**63), st.sampled_from([b"", b"headers"]), st.data())
def test_batches_of_payloads_may_have_several_timestamps(
    payloads: list[bytes], origin: int, headers: bytes, data: st.DataObject
) -> None:
    ages = data.draw(
        st.lists(st.sampled_from([0, 1, 2**32 - 1]), min_size=len(payloads), max_size=len(payloads))
    )
    times = [origin + age for age in ages]
    ids = bytearray(range(16)) * len(payloads)
    assert build_payload_batch(payloads, ids, times, headers) == build_batch(
        [
            NewMessage(payload, bytes(range(16)), time, headers)
            for payload, time in zip(payloads, times, strict=True)
        ]
    )
    with pytest.raises(EncodeError) as failure:
        build_payload_batch([*payloads, b""], ids + ids[:16], [*times, max(times) + 2**32])
    assert failure.value.code is ErrorCode.INVALID_MESSAGE_TIMESTAMP_DELTA


@pytest.mark.parametrize("count", [0, 1, 10])
def test_the_limits_are_the_same(count: int) -> None:
    ids = bytes(16 * count)
    cases = [
        ([bytes(64_000_001)] * count, 0, b""),
        ([b"x"] * count, 0, bytes(100_001)),
        ([b"x"] * count, 2**64, b""),
        ([b"x"] * count, -1, b""),
    ]
    for payloads, timestamp, headers in cases:
        with pytest.raises(EncodeError) as ours:
            build_payload_batch(payloads, ids, timestamp, headers)
        with pytest.raises(EncodeError) as theirs:
            build_batch([NewMessage(each, bytes(16), timestamp, headers) for each in payloads])
        assert (ours.value.code, str(ours.value)) == (theirs.value.code, str(theirs.value))
