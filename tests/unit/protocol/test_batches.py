import struct

import pytest
from xxhash import xxh3_64_intdigest

from support.batch_examples import (
    FRAME_A,
    FRAME_B,
    MESSAGE_A,
    MESSAGE_B,
    MESSAGE_C,
    PRODUCED,
    SLICED_B,
    STAMPED,
)
from windsprite_protocol.batches import (
    BATCH_HEADER,
    MAX_PAYLOAD_BYTES,
    MAX_TIMESTAMP_SPREAD,
    MAX_USER_HEADERS_BYTES,
    BatchHeader,
    NewMessage,
    build_batch,
    check_stored,
    iter_batches,
    read_header,
    slice_batch,
    stamp_batch,
    verify_batch,
)
from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode
from windsprite_protocol.message_frames import FRAME_HEADER

ID = bytes(range(16))


def equal_messages(count):
    """Messages of one size."""
    return [NewMessage(b"%07d" % index, ID, 1_000 + index) for index in range(count)]


def unequal_messages(count):
    """Messages of different sizes."""
    return [NewMessage(b"x" * index, ID, 1_000 + index, b"u" * 3) for index in range(count)]


def seal(batch):
    """Makes all checksums right again, for frames as the frame headers describe them."""
    start, checksums = BATCH_HEADER.size, b""
    while start < len(batch):
        *_, headers_length, payload_length, _ = FRAME_HEADER.unpack_from(batch, start)
        end = start + FRAME_HEADER.size + headers_length + payload_length
        struct.pack_into("<Q", batch, start, xxh3_64_intdigest(batch[start + 8 : end]))
        checksums += batch[start : start + 8]
        start = end
    seal_header(batch, checksums)
    return batch


def seal_header(batch, checksums):
    covered = bytes(batch[0:40] + batch[48:52]) + checksums
    struct.pack_into("<Q", batch, 40, xxh3_64_intdigest(covered))


def refusal(batch, expected_count):
    with pytest.raises(DecodeError) as caught:
        verify_batch(batch, expected_count)
    return caught.value.code


def test_checksums_are_of_the_known_algorithm():
    assert xxh3_64_intdigest(b"") == 0x2D06800538D394C2
    assert xxh3_64_intdigest(b"abc") == 0x78AF5F94892F3950


class TestBuild:
    def test_worked_example(self):
        assert build_batch([MESSAGE_A, MESSAGE_B]) == PRODUCED

    def test_accepts_any_bytes_like_payload(self):
        message = NewMessage(memoryview(b"_hello")[1:], MESSAGE_A.id, MESSAGE_A.origin_timestamp)
        assert build_batch([message]) == build_batch([MESSAGE_A])
        assert build_batch([message._replace(payload=bytearray(b"hello"))]) == build_batch(
            [MESSAGE_A]
        )

    def test_origin_is_the_smallest_timestamp(self):
        batch = build_batch([MESSAGE_B, MESSAGE_A])
        assert read_header(batch).origin_timestamp == MESSAGE_A.origin_timestamp
        assert verify_batch(batch, 2)

    def test_empty_payload(self):
        batch = build_batch([NewMessage(b"", ID, 0)])
        assert len(batch) == BATCH_HEADER.size + FRAME_HEADER.size
        assert verify_batch(batch, 1).header.message_count == 1

    def test_largest_payload_and_user_headers(self):
        largest = NewMessage(bytes(MAX_PAYLOAD_BYTES), ID, 0, bytes(MAX_USER_HEADERS_BYTES))
        assert verify_batch(build_batch([largest]), 1)

    @pytest.mark.parametrize(
        ("messages", "code"),
        [
            ([], ErrorCode.INVALID_MESSAGES_COUNT),
            (
                [NewMessage(bytes(MAX_PAYLOAD_BYTES + 1), ID, 0)],
                ErrorCode.TOO_BIG_MESSAGE_PAYLOAD,
            ),
            (
                [NewMessage(b"", ID, 0, bytes(MAX_USER_HEADERS_BYTES + 1))],
                ErrorCode.TOO_BIG_USER_HEADERS,
            ),
            (
                [NewMessage(b"", ID, 7), NewMessage(b"", ID, 8 + MAX_TIMESTAMP_SPREAD)],
                ErrorCode.INVALID_MESSAGE_TIMESTAMP_DELTA,
            ),
            ([NewMessage(b"", ID[1:], 0)], ErrorCode.INVALID_FORMAT),
            ([NewMessage(b"", ID, -1)], ErrorCode.INVALID_FORMAT),
            ([NewMessage(b"", ID, 1 << 64)], ErrorCode.INVALID_FORMAT),
        ],
    )
    def test_limits(self, messages, code):
        with pytest.raises(EncodeError) as caught:
            build_batch(messages)
        assert caught.value.code is code

    def test_length_fits_32_bits(self):
        payload = bytes(MAX_PAYLOAD_BYTES)
        with pytest.raises(EncodeError) as caught:
            build_batch([NewMessage(payload, ID, 0)] * 68)
        assert caught.value.code is ErrorCode.INVALID_MESSAGES_SIZE

    def test_widest_spread_of_timestamps(self):
        batch = build_batch([NewMessage(b"", ID, 7 + MAX_TIMESTAMP_SPREAD), NewMessage(b"", ID, 7)])
        assert read_header(batch).origin_timestamp == 7


class TestHeader:
    def test_fields(self):
        assert read_header(STAMPED) == BatchHeader(
            partition_id=3,
            base_offset=10,
            base_timestamp=1_700_000_001_500_000,
            origin_timestamp=1_700_000_000_000_000,
            batch_length=381,
            batch_checksum=0x1F4F92A4F6CC4C67,
            message_count=2,
        )

    def test_at_an_offset(self):
        assert read_header(b"12345" + STAMPED, 5) == read_header(STAMPED)

    def test_does_not_need_the_frames(self):
        assert read_header(STAMPED[:256]) == read_header(STAMPED)

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            STAMPED[:255],
            STAMPED[:32] + struct.pack("<Q", 255) + STAMPED[40:],
            STAMPED[:52] + b"\1" + STAMPED[53:],
            STAMPED[:255] + b"\1" + STAMPED[256:],
        ],
    )
    def test_malformed(self, data):
        with pytest.raises(DecodeError) as caught:
            read_header(data)
        assert caught.value.code is ErrorCode.INVALID_COMMAND

    def test_too_short_at_an_offset(self):
        with pytest.raises(DecodeError):
            read_header(STAMPED, len(STAMPED) - 255)


class TestVerify:
    @pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
    def test_worked_example(self, wrap):
        info = verify_batch(wrap(PRODUCED), 2)
        assert info.header == read_header(PRODUCED)
        assert info.checksums == FRAME_A[:8] + FRAME_B[:8]

    @pytest.mark.parametrize("count", [1, 3, 4, 5, 4096, 4097])
    def test_frames_of_one_size(self, count):
        batch = build_batch(equal_messages(count))
        info = verify_batch(batch, count)
        size = (len(batch) - 256) // count
        assert info.checksums == b"".join(
            batch[256 + size * index : 264 + size * index] for index in range(count)
        )

    @pytest.mark.parametrize("size", range(48, 64))
    def test_frames_of_every_alignment(self, size):
        messages = [NewMessage(bytes([index]) * (size - 48), ID, index) for index in range(9)]
        batch = build_batch(messages)
        verify_batch(batch, 9)
        batch[256 + 6 * size + 30] ^= 1
        assert refusal(batch, 9) is ErrorCode.INVALID_MESSAGE_CHECKSUM

    @pytest.mark.parametrize("size", range(48, 64))
    def test_frames_of_one_size_are_not_walked(self, size, monkeypatch):
        batch = build_batch([NewMessage(bytes(size - 48), ID, index) for index in range(9)])
        expected = verify_batch(batch, 9), slice_batch(batch, 3, 5)
        monkeypatch.delattr("windsprite_protocol.message_frames._walk")
        assert (verify_batch(batch, 9), slice_batch(batch, 3, 5)) == expected

    def test_frames_of_different_sizes(self):
        assert verify_batch(build_batch(unequal_messages(9)), 9).header.message_count == 9

    def test_lengths_that_add_up_to_one_size(self):
        messages = [NewMessage(b"x" * index, ID, 0, b"u" * (8 - index)) for index in range(8)]
        assert verify_batch(build_batch(messages), 8)

    def test_the_view_may_start_anywhere(self):
        batch = memoryview(b"metadata" + build_batch(equal_messages(10)))[8:]
        assert verify_batch(batch, 10)

    def test_values_of_the_server_may_be_there_already(self):
        assert verify_batch(STAMPED, 2).header.base_offset == 10

    @pytest.mark.parametrize("length", [0, 1, 255])
    def test_too_short_for_a_header(self, length):
        assert refusal(PRODUCED[:length], 2) is ErrorCode.INVALID_COMMAND

    def test_length_below_that_of_the_header(self):
        batch = bytearray(PRODUCED)
        struct.pack_into("<Q", batch, 32, 255)
        assert refusal(batch, 2) is ErrorCode.INVALID_COMMAND

    @pytest.mark.parametrize("position", [52, 100, 255])
    def test_reserved_byte_of_the_header(self, position):
        batch = bytearray(PRODUCED)
        batch[position] = 1
        assert refusal(batch, 2) is ErrorCode.INVALID_COMMAND

    def test_longer_than_what_is_there(self):
        assert refusal(PRODUCED[:-1], 2) is ErrorCode.INVALID_COMMAND
        huge = bytearray(PRODUCED)
        struct.pack_into("<Q", huge, 32, (1 << 64) - 1)
        assert refusal(huge, 2) is ErrorCode.INVALID_COMMAND

    @pytest.mark.parametrize("messages", [equal_messages(7), unequal_messages(7)])
    @pytest.mark.parametrize("part", ["checksum", "id", "timestamp", "payload"])
    def test_frame_checksum(self, messages, part):
        batch = build_batch(messages)
        last = (
            len(batch) - FRAME_HEADER.size - len(messages[-1].payload + messages[-1].user_headers)
        )
        position = last + {"checksum": 7, "id": 8, "timestamp": 28, "payload": 48}[part]
        batch[position] ^= 0x80
        assert refusal(batch, 7) is ErrorCode.INVALID_MESSAGE_CHECKSUM

    @pytest.mark.parametrize("messages", [equal_messages(7), unequal_messages(7)])
    def test_reserved_field_of_a_frame(self, messages):
        batch = build_batch(messages)
        batch[256 + 40] = 1
        assert refusal(batch, 7) is ErrorCode.INVALID_COMMAND

    def test_reserved_field_of_all_frames(self):
        batch = build_batch(equal_messages(7))
        size = (len(batch) - 256) // 7
        for start in range(256, len(batch), size):
            batch[start + 40] = 1
        assert refusal(seal(batch), 7) is ErrorCode.INVALID_COMMAND
        with pytest.raises(DecodeError):
            slice_batch(batch, 0, 4)

    def test_a_wrong_checksum_before_a_frame_that_stops_the_walk_decides(self):
        batch = build_batch(equal_messages(7))
        size = (len(batch) - 256) // 7
        batch[256 + size + 40] = 1
        assert refusal(batch, 7) is ErrorCode.INVALID_COMMAND
        batch[256 + 8] ^= 1
        assert refusal(batch, 7) is ErrorCode.INVALID_MESSAGE_CHECKSUM

    def test_a_wrong_checksum_after_a_frame_that_stops_the_walk_is_not_seen(self):
        batch = build_batch(equal_messages(7))
        batch[256 + 40] = 1
        batch[-1] ^= 1
        assert refusal(batch, 7) is ErrorCode.INVALID_COMMAND

    def test_frames_beyond_the_count(self):
        batch = build_batch(equal_messages(8))
        struct.pack_into("<I", batch, 48, 4)
        assert refusal(batch, 4) is ErrorCode.INVALID_COMMAND
        batch[-1] ^= 1
        assert refusal(batch, 4) is ErrorCode.INVALID_MESSAGE_CHECKSUM

    def test_count_beyond_the_frames(self):
        batch = build_batch(equal_messages(8))
        struct.pack_into("<I", batch, 48, 0xFFFF_FFFF)
        assert refusal(batch, 0xFFFF_FFFF) is ErrorCode.INVALID_COMMAND

    def test_rest_that_is_no_frame(self):
        batch = build_batch(equal_messages(8)) + bytes(47)
        struct.pack_into("<Q", batch, 32, len(batch))
        assert refusal(batch, 8) is ErrorCode.INVALID_COMMAND

    def test_frame_that_runs_past_the_end(self):
        batch = bytearray(PRODUCED)
        struct.pack_into("<I", batch, 256 + 53 + 36, 7)
        assert refusal(batch, 2) is ErrorCode.INVALID_COMMAND
        struct.pack_into("<I", batch, 256 + 53 + 36, 0xFFFF_FFFF)
        assert refusal(batch, 2) is ErrorCode.INVALID_COMMAND

    @pytest.mark.parametrize("position", [0, 8, 16, 24, 40])
    def test_batch_checksum(self, position):
        batch = bytearray(PRODUCED)
        batch[position] ^= 1
        assert refusal(batch, 2) is ErrorCode.INVALID_BATCH_CHECKSUM

    def test_no_message(self):
        batch = bytearray(256)
        struct.pack_into("<Q", batch, 32, 256)
        assert refusal(batch, 0) is ErrorCode.INVALID_BATCH_CHECKSUM
        seal_header(batch, b"")
        assert refusal(batch, 0) is ErrorCode.INVALID_COMMAND

    def test_count_of_the_request(self):
        assert refusal(PRODUCED, 1) is ErrorCode.INVALID_COMMAND

    def test_bytes_after_the_batch(self):
        assert refusal(PRODUCED + b"\0", 2) is ErrorCode.INVALID_COMMAND

    @pytest.mark.parametrize("messages", [equal_messages(7), unequal_messages(7)])
    def test_offset_deltas(self, messages):
        batch = build_batch(messages)
        struct.pack_into("<I", batch, 256 + 24, 1)
        assert refusal(seal(batch), 7) is ErrorCode.INVALID_COMMAND

    def test_user_headers_may_be_anything(self):
        batch = build_batch([MESSAGE_B._replace(user_headers=b"encrypted")])
        assert verify_batch(batch, 1)


class TestStamp:
    @pytest.mark.parametrize("checksums_given", [True, False])
    def test_worked_example(self, checksums_given):
        batch = bytearray(PRODUCED)
        checksums = verify_batch(batch, 2).checksums if checksums_given else None
        stamp_batch(
            batch,
            partition_id=3,
            base_offset=10,
            base_timestamp=1_700_000_001_500_000,
            checksums=checksums,
        )
        assert batch == STAMPED

    @pytest.mark.parametrize("messages", [equal_messages(9), unequal_messages(9)])
    def test_through_a_view(self, messages):
        body = bytearray(b"metadata") + build_batch(messages)
        stamp_batch(memoryview(body)[8:], partition_id=1, base_offset=2, base_timestamp=3)
        assert check_stored(body[8:]).header[:3] == (1, 2, 3)

    def test_malformed(self):
        with pytest.raises(DecodeError):
            stamp_batch(bytearray(255), partition_id=0, base_offset=0, base_timestamp=0)
        with pytest.raises(DecodeError):
            stamp_batch(bytearray(PRODUCED[:-1]), partition_id=0, base_offset=0, base_timestamp=0)

    def test_message_sent_alone(self):
        batch = build_batch([MESSAGE_C])
        stamp_batch(batch, partition_id=3, base_offset=12, base_timestamp=1_700_000_001_501_000)
        assert len(batch) == 308
        assert batch[256:264] == struct.pack("<Q", 0xF4AC5F849183C39E)
        assert read_header(batch).batch_checksum == 0x235E25A89599A82F


class TestCheckStored:
    @pytest.mark.parametrize("batch", [PRODUCED, STAMPED, SLICED_B])
    def test_sound(self, batch):
        assert check_stored(batch).header == read_header(batch)

    @pytest.mark.parametrize(
        ("position", "code"),
        [
            (8, ErrorCode.INVALID_BATCH_CHECKSUM),
            (60, ErrorCode.INVALID_COMMAND),
            (304, ErrorCode.INVALID_MESSAGE_CHECKSUM),
        ],
    )
    def test_damage(self, position, code):
        batch = bytearray(STAMPED)
        batch[position] ^= 1
        with pytest.raises(DecodeError) as caught:
            check_stored(batch)
        assert caught.value.code is code

    @pytest.mark.parametrize("batch", [STAMPED[:-1], STAMPED + b"\0", STAMPED[:100]])
    def test_must_fill_the_buffer(self, batch):
        with pytest.raises(DecodeError):
            check_stored(batch)


class TestSlice:
    def test_end_of_the_worked_example(self):
        header, frames = slice_batch(STAMPED, 1, 1)
        assert header + frames == SLICED_B

    def test_begin_of_the_worked_example(self):
        header, frames = slice_batch(STAMPED, 0, 1)
        assert frames == FRAME_A
        assert read_header(header) == read_header(STAMPED)._replace(
            batch_length=309, message_count=1, batch_checksum=0xFB6EA0D073EE3233
        )

    def test_all_of_it(self):
        header, frames = slice_batch(STAMPED, 0, 2)
        assert header + frames == STAMPED

    def test_frames_are_not_copied(self):
        batch = bytearray(STAMPED)
        _, frames = slice_batch(batch, 1, 1)
        assert frames.obj is batch

    def test_what_follows_is_not_looked_at(self):
        header, frames = slice_batch(STAMPED + b"more", 1, 1)
        assert header + frames == SLICED_B

    @pytest.mark.parametrize(("first", "count"), [(0, 0), (-1, 1), (0, 3), (2, 1), (1, 2)])
    def test_no_such_run(self, first, count):
        with pytest.raises(ValueError, match="frames from"):
            slice_batch(STAMPED, first, count)

    @pytest.mark.parametrize("position", [256 + 35, 256 + 39, 256 + 43])
    @pytest.mark.parametrize("messages", [equal_messages(9), unequal_messages(9)])
    def test_malformed_frame(self, messages, position):
        batch = build_batch(messages)
        batch[position] ^= 0x80
        with pytest.raises(DecodeError):
            slice_batch(batch, 3, 3)

    def test_count_beyond_the_frames(self):
        batch = build_batch(unequal_messages(3))
        struct.pack_into("<I", batch, 48, 9)
        with pytest.raises(DecodeError):
            slice_batch(batch, 1, 8)

    def test_cut_batch(self):
        with pytest.raises(DecodeError):
            slice_batch(STAMPED[:-1], 0, 1)


class TestIterate:
    def test_batches_back_to_back(self):
        batches = list(iter_batches(STAMPED + SLICED_B))
        assert [(header, bytes(batch)) for header, batch in batches] == [
            (read_header(STAMPED), STAMPED),
            (read_header(SLICED_B), SLICED_B),
        ]

    def test_nothing(self):
        assert list(iter_batches(b"")) == []

    @pytest.mark.parametrize("rest", [b"\0", SLICED_B[:256], SLICED_B[:-1]])
    def test_cut(self, rest):
        batches = iter_batches(STAMPED + rest)
        next(batches)
        with pytest.raises(DecodeError):
            next(batches)
