"""Batches: what was built is read again, and no damage and no bytes of strangers surprise."""

import struct
from contextlib import contextmanager, suppress
from functools import partial
from unittest.mock import patch

from hypothesis import assume, example, given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from support.batch_examples import PRODUCED, STAMPED
from windsprite_protocol import message_frames
from windsprite_protocol.batches import (
    BATCH_HEADER,
    BATCH_HEADER_LAYOUT,
    BatchInfo,
    NewMessage,
    begin_to_verify,
    build_batch,
    check_stored,
    iter_batches,
    pass_lone_batches,
    read_header,
    slice_batch,
    stamp_batch,
    verify_batch,
)
from windsprite_protocol.errors import DecodeError, ErrorCode
from windsprite_protocol.message_frames import FRAME_HEADER, FRAME_HEADER_LAYOUT
from windsprite_protocol.messages import Messages

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
IDS = st.binary(min_size=16, max_size=16)
TIMES = st.integers(10**15, 10**15 + 2**32 - 1)


def messages_of(payloads, user_headers):
    message = st.builds(NewMessage, payloads, IDS, TIMES, user_headers)
    return st.lists(message, min_size=1, max_size=12)


EQUAL = st.tuples(st.integers(0, 24), st.integers(0, 8)).flatmap(
    lambda sizes: messages_of(*(st.binary(min_size=size, max_size=size) for size in sizes))
)
MESSAGES = EQUAL | messages_of(st.binary(max_size=24), st.binary(max_size=8))
BATCHES = MESSAGES.map(build_batch)


def reference_check(batch, expected_count):
    """Admission as the text of the protocol has it, one frame at a time; the error, or none."""
    if len(batch) < 256:
        return ErrorCode.INVALID_COMMAND
    *fields, length, checksum, count, reserved = BATCH_HEADER.unpack_from(batch)
    if length < 256 or any(reserved) or length > len(batch):
        return ErrorCode.INVALID_COMMAND
    blob, start, checksums, deltas = batch[256:length], 0, b"", []
    while start < len(blob):
        if len(blob) - start < 48:
            break
        frame_checksum, _, delta, _, headers_length, payload_length, frame_reserved = (
            FRAME_HEADER.unpack_from(blob, start)
        )
        end = start + 48 + headers_length + payload_length
        if frame_reserved or end > len(blob):
            break
        if xxh3_64_intdigest(blob[start + 8 : end]) != frame_checksum:
            return ErrorCode.INVALID_MESSAGE_CHECKSUM
        checksums += blob[start : start + 8]
        deltas.append(delta)
        start = end
    if start != len(blob) or len(deltas) != count:
        return ErrorCode.INVALID_COMMAND
    covered = struct.pack("<5QI", *fields, length, count) + checksums
    if xxh3_64_intdigest(covered) != checksum:
        return ErrorCode.INVALID_BATCH_CHECKSUM
    wrong = count == 0 or count != expected_count or length != len(batch)
    return ErrorCode.INVALID_COMMAND if wrong or deltas != list(range(count)) else None


def check(batch, expected_count):
    try:
        verify_batch(batch, expected_count)
    except DecodeError as error:
        return error.code
    return None


@given(st.tuples(*[U64] * 6, U32, st.binary(min_size=204, max_size=204)))
def test_the_batch_header_is_that_of_its_layout(values):
    data = BATCH_HEADER.pack(*values)
    parsed = BATCH_HEADER_LAYOUT.parse(data)
    assert tuple(value for name, value in parsed.items() if not name.startswith("_")) == values
    assert BATCH_HEADER_LAYOUT.build(parsed) == data
    assert BATCH_HEADER.unpack(data) == values


@given(st.tuples(U64, IDS, U32, U32, U32, U32, U64))
def test_the_frame_header_is_that_of_its_layout(values):
    data = FRAME_HEADER.pack(*values)
    parsed = FRAME_HEADER_LAYOUT.parse(data)
    assert tuple(value for name, value in parsed.items() if not name.startswith("_")) == values
    assert FRAME_HEADER_LAYOUT.build(parsed) == data
    assert FRAME_HEADER.unpack(data) == values


@given(MESSAGES, U32, st.integers(0, 2**63), U64)
def test_from_producer_to_reader(sent, partition_id, base_offset, base_timestamp):
    batch = build_batch(sent)
    info = verify_batch(batch, len(sent))
    by_walk = bytearray(batch)
    place = {
        "partition_id": partition_id,
        "base_offset": base_offset,
        "base_timestamp": base_timestamp,
    }
    stamp_batch(batch, **place, checksums=info.checksums)
    stamp_batch(by_walk, **place)
    assert batch == by_walk
    assert check_stored(batch).checksums == info.checksums
    read = list(Messages((batch,)))
    assert [(m.payload, m.raw_id, m.origin_timestamp, m.raw_user_headers) for m in read] == sent
    assert [m.offset for m in read] == list(range(base_offset, base_offset + len(sent)))
    assert {(m.partition_id, m.timestamp) for m in read} == {(partition_id, base_timestamp)}


@contextmanager
def pieces_of(frames):
    """Lets checks pause after so few frames."""
    with patch.object(message_frames, "FRAMES_AT_ONCE", frames):
        yield


def finish(verifying):
    """What an admission in pieces finds, and how many pauses it made."""
    pauses = 0
    while not isinstance(verifying, BatchInfo):
        try:
            next(verifying)
            pauses += 1
        except StopIteration as end:
            verifying = end.value
    return verifying, pauses


@given(MESSAGES, st.integers(1, 13))
def test_pieces_find_what_one_look_finds(sent, frames):
    batch = build_batch(sent)
    whole = verify_batch(batch, len(sent))
    with pieces_of(frames):
        info, pauses = finish(begin_to_verify(batch, len(sent)))
        assert pauses == len(info.marks) == (len(sent) - 1) // frames
        assert info[:2] == whole[:2] == check_stored(batch)[:2]
        starts = [0]
        for message in sent:
            starts.append(starts[-1] + 48 + len(message.payload) + len(message.user_headers))
        assert list(info.marks) == starts[:-1][frames::frames]
        for first in range(len(sent)):
            for count in range(1, len(sent) - first + 1):
                marked = slice_batch(batch, first, count, info.marks)
                assert marked == slice_batch(batch, first, count)


@given(BATCHES, st.integers(1, 5), st.data())
def test_pieces_refuse_what_one_look_refuses(batch, frames, data):
    count = BATCH_HEADER.unpack_from(batch)[6]
    for _ in range(data.draw(st.integers(1, 2))):
        position = data.draw(st.integers(0, len(batch) - 1))
        batch[position] ^= data.draw(st.integers(1, 255))
    if data.draw(st.booleans()):
        reseal(batch)
    expected = reference_check(batch, count)
    with pieces_of(frames):
        assert check(batch, count) is expected


def reseal(batch):
    """Makes the checksums of all frames right again, as far as the frames go."""
    start = 256
    while start + 48 <= len(batch):
        *_, headers_length, payload_length, _ = FRAME_HEADER.unpack_from(batch, start)
        end = start + 48 + headers_length + payload_length
        if end > len(batch):
            return
        struct.pack_into("<Q", batch, start, xxh3_64_intdigest(batch[start + 8 : end]))
        start = end


def lone_batches(sent, place):
    """Stored batches of one message each, and where each of them ends."""
    stored, ends = bytearray(), []
    for number, message in enumerate(sent):
        batch = build_batch([message])
        stamp_batch(batch, partition_id=3, base_offset=place + number, base_timestamp=9 + number)
        stored += batch
        ends.append(len(stored))
    return stored, ends


def passed(stored, start, offset, **changes):
    asked = {"partition_id": 3, "stop_offset": 2**63, "timestamp": 8} | changes
    return tuple(pass_lone_batches(memoryview(stored), start, offset=offset, **asked))


@given(MESSAGES, st.integers(0, 2**40), st.binary(max_size=300), st.data())
def test_lone_batches_are_passed_up_to_any_bound(sent, place, cut, data):
    stored, ends = lone_batches(sent, place)
    assert passed(stored + cut, 0, place) == (ends[-1], place + len(sent), 8 + len(sent))
    count = data.draw(st.integers(0, len(sent)))
    stop = (ends[count - 1] if count else 0, place + count, 8 + count)
    assert passed(stored, 0, place, stop_offset=place + count) == stop
    missing = data.draw(st.integers(1, 300))
    whole = sum(end <= len(stored) - missing for end in ends)
    stop = (ends[whole - 1] if whole else 0, place + whole, 8 + whole)
    assert passed(stored[:-missing], 0, place) == stop


@given(MESSAGES, st.data())
def test_no_damaged_batch_is_passed(sent, data):
    stored, ends = lone_batches(sent, 5)
    position = data.draw(st.integers(0, len(stored) - 1))
    stored[position] ^= data.draw(st.integers(1, 255))
    before = sum(end <= position for end in ends)
    start = ends[before - 1] if before else 0
    assert passed(stored, 0, 5) == (start, 5 + before, 8 + before)


def test_batches_that_do_not_follow_are_not_passed():
    message = NewMessage(b"payload", bytes(16), 10**15)
    stored, ends = lone_batches([message, message], 5)
    assert passed(stored, 0, 5) == (ends[1], 7, 10)
    assert passed(stored, ends[0], 6, timestamp=9) == (ends[1], 7, 10)
    for change in ({"offset": 4}, {"offset": 6}, {"partition_id": 2}, {"timestamp": 9}):
        asked = {"offset": 5} | change
        assert passed(stored, 0, **asked) == (0, asked["offset"], change.get("timestamp", 8))
    several = build_batch([message, message])
    stamp_batch(several, partition_id=3, base_offset=5, base_timestamp=9)
    assert passed(several, 0, 5) == (0, 5, 8)


@given(MESSAGES, st.data())
def test_a_slice_holds_just_its_messages_and_can_be_sliced_again(sent, data):
    batch = build_batch(sent)
    stamp_batch(batch, partition_id=1, base_offset=100, base_timestamp=5)
    first = data.draw(st.integers(0, len(sent) - 1))
    count = data.draw(st.integers(1, len(sent) - first))
    header, frames = slice_batch(batch, first, count)
    assert check_stored(header + bytes(frames)).header.message_count == count
    expected = list(Messages((batch,)))[first : first + count]
    read = list(Messages((header, frames)))
    assert [(m.offset, m.payload, m.timestamp) for m in read] == [
        (m.offset, m.payload, m.timestamp) for m in expected
    ]

    again = data.draw(st.integers(0, count - 1))
    rest = data.draw(st.integers(1, count - again))
    header_again, frames_again = slice_batch(header + bytes(frames), again, rest)
    direct_header, direct_frames = slice_batch(batch, first + again, rest)
    assert header_again == direct_header
    assert frames_again == direct_frames


@given(st.lists(BATCHES, max_size=4))
def test_batches_back_to_back(batches):
    assert [bytes(batch) for _, batch in iter_batches(b"".join(batches))] == batches


@given(BATCHES, st.data())
def test_every_flipped_bit_is_found(batch, data):
    count = read_header(batch).message_count
    position = data.draw(st.integers(0, len(batch) - 1))
    batch[position] ^= 1 << data.draw(st.integers(0, 7))
    code = check(batch, count)
    assert code is not None
    assert code is reference_check(batch, count)
    if position < 32 or 40 <= position < 48:
        assert code is ErrorCode.INVALID_BATCH_CHECKSUM
    elif 32 <= position < 40 or 52 <= position < 256:
        assert code in {ErrorCode.INVALID_COMMAND, ErrorCode.INVALID_MESSAGE_CHECKSUM}


@given(BATCHES, st.data())
def test_any_cut_is_found(batch, data):
    count = read_header(batch).message_count
    cut = batch[: data.draw(st.integers(0, len(batch) - 1))]
    assert check(cut, count) is ErrorCode.INVALID_COMMAND


@st.composite
def damaged_batches(draw):
    """Batches with some fields overwritten, checksums of frames possibly made right again."""
    batch = draw(BATCHES)
    small = st.integers(0, 300) | U32
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(0, (len(batch) - 4) // 4)) * 4
        struct.pack_into("<I", batch, position, draw(small))
    if draw(st.booleans()):
        start, checksums = 256, b""
        while len(batch) - start >= 48:
            *_, headers_length, payload_length, _ = FRAME_HEADER.unpack_from(batch, start)
            end = start + 48 + headers_length + payload_length
            struct.pack_into("<Q", batch, start, xxh3_64_intdigest(batch[start + 8 : end]))
            checksums += batch[start : start + 8]
            start = end
        covered = bytes(batch[0:40] + batch[48:52]) + checksums
        struct.pack_into("<Q", batch, 40, xxh3_64_intdigest(covered))
    return batch


@given(damaged_batches(), st.integers(0, 12))
def test_admission_agrees_with_a_walk_over_the_frames(batch, expected_count):
    assert check(batch, expected_count) is reference_check(batch, expected_count)
    count = int.from_bytes(batch[48:52], "little")
    assert check(batch, count) is reference_check(batch, count)


@st.composite
def nearly_lone_batches(draw):
    """A batch of one message with a field that may be wrong, and its checksums right or not."""
    message = NewMessage(draw(st.binary(max_size=24)), bytes(16), 10**15)
    batch = build_batch([message])
    offset = draw(st.sampled_from((0, 8, 16, 24, 32, 48, 52, 252, 256, 264, 280, 288, 292, 296)))
    struct.pack_into("<I", batch, offset, draw(st.integers(0, 400)))
    if draw(st.booleans()):
        struct.pack_into("<Q", batch, 256, xxh3_64_intdigest(batch[264:]))
    if draw(st.booleans()):
        covered = bytes(batch[0:40] + batch[48:52] + batch[256:264])
        struct.pack_into("<Q", batch, 40, xxh3_64_intdigest(covered))
    return batch + draw(st.sampled_from((b"", b"", b"x")))


@given(nearly_lone_batches(), st.sampled_from((1, 1, 0, 2)))
def test_lone_messages_are_admitted_as_any_others(batch, expected_count):
    assert check(batch, expected_count) is reference_check(batch, expected_count)


@given(MESSAGES)
def test_what_is_told_of_a_batch_is_the_same_for_one_message_as_for_many(sent):
    for batch in (build_batch(sent), build_batch(sent[:1])):
        header = read_header(batch)
        info = verify_batch(batch, header.message_count)
        assert type(info.header) is type(header)
        assert info == check_stored(batch)


HEADERS = st.sampled_from((b"", bytes(256), STAMPED[:256]))


@given(HEADERS, st.binary(max_size=600), U32, st.integers(0, 3))
@example(PRODUCED, b"", 2, 0)
@example(STAMPED, b"", 2, 1)
def test_strange_bytes_end_in_a_value_or_the_error_of_the_protocol(header, data, count, first):
    buffer = bytearray(header + data)
    if header:
        struct.pack_into("<Q", buffer, 32, len(buffer))
    for function in (
        read_header,
        check_stored,
        partial(verify_batch, expected_count=count),
        partial(stamp_batch, partition_id=0, base_offset=0, base_timestamp=0),
        lambda data: list(iter_batches(data)),
        lambda data: list(Messages((data,))),
    ):
        with suppress(DecodeError):
            function(buffer)
    with suppress(DecodeError):
        if first < read_header(buffer).message_count:
            slice_batch(buffer, first, read_header(buffer).message_count - first)


@given(damaged_batches(), st.data())
def test_a_damaged_batch_cannot_upset_a_slice(batch, data):
    with suppress(DecodeError):
        assume(read_header(batch).message_count)
        stop = data.draw(st.integers(1, min(read_header(batch).message_count, 20)))
        first = data.draw(st.integers(0, stop - 1))
        header, frames = slice_batch(batch, first, stop - first)
        assert read_header(header).batch_length == 256 + len(frames)
        assert read_header(header).message_count == stop - first
