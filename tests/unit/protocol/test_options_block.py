"""Option blocks and typed fields (spec 03, 1.3)."""

import pytest

from support.command_examples import flag, text, u64
from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode
from windsprite_protocol.model.streams import CreateStream
from windsprite_protocol.model.typed_values import Option, TypedValue, ValueKind
from windsprite_protocol.tlv import (
    MAX_OPTIONS,
    MAX_OPTIONS_BYTES,
    decode_options,
    decode_reported_options,
    encode_fields,
    encode_options,
    iter_fields,
    iter_pairs,
)
from windsprite_protocol.v0_11.table import GENERATION

VECTOR = bytes.fromhex(
    """
    02 14 00 00 00 70 72 65 61 6c 6c 6f 63 61 74 65 5f 73 65 67 6d 65 6e 74 73 03 01 00 00 00 01
    02 0c 00 00 00 73 65 67 6d 65 6e 74 5f 73 69 7a 65 0c 08 00 00 00 00 00 00 40 00 00 00 00
    02 0a 00 00 00 64 75 72 61 62 69 6c 69 74 79 02 09 00 00 00 70 65 72 73 69 73 74 65 64
    """
)
OPTIONS = (
    flag("preallocate_segments", True),
    u64("segment_size", 1024**3),
    text("durability", "persisted"),
)


def field(kind: int, data: bytes) -> bytes:
    return bytes((kind,)) + len(data).to_bytes(4, "little") + data


def test_the_vector_that_all_sdks_share():
    assert len(VECTOR) == 90
    assert encode_options(OPTIONS) == VECTOR
    assert decode_options(VECTOR) == OPTIONS
    assert decode_reported_options(memoryview(VECTOR)) == OPTIONS


def test_nothing_is_no_options():
    assert encode_options(()) == b""
    assert decode_options(b"") == ()


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(VECTOR[:-1], id="cut"),
        pytest.param(VECTOR + b"\x02", id="followed"),
        pytest.param(field(2, b"k"), id="key without value"),
        pytest.param(field(2, b"k") + field(2, b"v") + field(2, b"l"), id="odd number of fields"),
        pytest.param(field(1, b"k") + field(2, b"v"), id="key of another kind"),
        pytest.param(field(0, b"k") + field(2, b"v"), id="key of kind 0"),
        pytest.param(field(2, b"k") + field(0, b"v"), id="value of kind 0"),
        pytest.param(field(2, b"") + field(2, b"v"), id="empty key"),
        pytest.param(field(2, b"k") + field(2, b""), id="empty value"),
        pytest.param(field(2, b"k" * 256) + field(2, b"v"), id="long key"),
        pytest.param(field(2, b"k") + field(2, b"v" * 256), id="long value"),
        pytest.param(field(2, b"\xff") + field(2, b"v"), id="key that is not UTF-8"),
        pytest.param((field(2, b"k") + field(2, b"v")) * 2, id="key given twice"),
        pytest.param(b"\x02\xff\xff\xff\xffk", id="length that lies"),
    ],
)
@pytest.mark.parametrize("read", [decode_options, decode_reported_options])
def test_structural_rules(read, block):
    with pytest.raises(DecodeError) as caught:
        read(block)
    assert caught.value.code is ErrorCode.INVALID_COMMAND


def test_every_byte_after_the_name_is_an_option():
    create = GENERATION.of(CreateStream).request
    assert create.decode(memoryview(b"\x01s" + VECTOR)) == CreateStream("s", OPTIONS)
    with pytest.raises(DecodeError):
        create.decode(memoryview(b"\x01s\x00"))


class TestLimits:
    @staticmethod
    def entries(count: int, value: bytes = b"v") -> tuple[Option, ...]:
        return tuple(Option(f"{number:04}", TypedValue(2, value)) for number in range(count))

    def test_1024_options(self):
        options = self.entries(MAX_OPTIONS)
        assert decode_options(encode_options(options)) == options

    def test_1025_options(self):
        with pytest.raises(EncodeError) as caught:
            encode_options(self.entries(MAX_OPTIONS + 1))
        assert caught.value.code is ErrorCode.OPTIONS_BLOCK_TOO_LARGE
        block = b"".join(
            field(2, f"{number:04}".encode()) + field(2, b"v") for number in range(MAX_OPTIONS + 1)
        )
        with pytest.raises(DecodeError):
            decode_options(block)

    def test_100_000_bytes(self):
        # 371 entries of 269 bytes, and one that fills the rest.
        options = self.entries(371, b"v" * 255)
        rest = MAX_OPTIONS_BYTES - len(encode_options(options)) - 11
        full = (*options, Option("z", TypedValue(1, b"x" * rest)))
        block = encode_options(full)
        assert len(block) == MAX_OPTIONS_BYTES
        assert decode_options(block) == full

    def test_100_001_bytes(self):
        options = self.entries(371, b"v" * 255)
        rest = MAX_OPTIONS_BYTES - len(encode_options(options)) - 10
        over = (*options, Option("z", TypedValue(1, b"x" * rest)))
        with pytest.raises(EncodeError) as caught:
            encode_options(over)
        assert caught.value.code is ErrorCode.OPTIONS_BLOCK_TOO_LARGE
        block = encode_options(options) + field(2, b"z") + field(1, b"x" * rest)
        assert len(block) == MAX_OPTIONS_BYTES + 1
        with pytest.raises(DecodeError):
            decode_options(block)


class TestKindsOfValues:
    def test_a_request_may_carry_any_kind_and_size(self):
        block = field(2, b"k") + field(200, b"?") + field(2, b"l") + field(ValueKind.UINT64, b"1")
        assert decode_options(block) == (
            Option("k", TypedValue(200, b"?")),
            Option("l", TypedValue(ValueKind.UINT64, b"1")),
        )

    def test_a_reader_of_replies_skips_kinds_it_does_not_know(self):
        block = field(2, b"k") + field(16, b"?") + field(2, b"l") + field(2, b"v")
        assert decode_reported_options(block) == (text("l", "v"),)

    def test_a_skipped_option_counts_as_given(self):
        block = field(2, b"k") + field(16, b"?") + field(2, b"k") + field(2, b"v")
        with pytest.raises(DecodeError):
            decode_reported_options(block)

    @pytest.mark.parametrize(
        ("kind", "size"),
        [(3, 2), (4, 2), (5, 1), (6, 8), (7, 4), (8, 8), (12, 4), (13, 255), (14, 8), (15, 4)],
    )
    def test_a_reader_of_replies_refuses_sizes_that_the_kind_does_not_have(self, kind, size):
        with pytest.raises(DecodeError):
            decode_reported_options(field(2, b"k") + field(kind, bytes(size)))


class TestWriting:
    @pytest.mark.parametrize(
        "option",
        [
            Option("", TypedValue(2, b"v")),
            Option("k" * 256, TypedValue(2, b"v")),
            Option("\ud800", TypedValue(2, b"v")),
            Option("k", TypedValue(2, b"")),
            Option("k", TypedValue(2, b"v" * 256)),
            Option("k", TypedValue(0, b"v")),
            Option("k", TypedValue(256, b"v")),
        ],
    )
    def test_what_does_not_fit_is_refused(self, option):
        with pytest.raises(EncodeError):
            encode_options((option,))

    def test_a_key_twice_is_refused(self):
        with pytest.raises(EncodeError):
            encode_options((text("k", "1"), text("k", "2")))


class TestFields:
    FIELDS = (TypedValue(2, b"color"), TypedValue(2, b"red"))
    BYTES = bytes.fromhex("02 05 00 00 00 63 6f 6c 6f 72 02 03 00 00 00 72 65 64")

    def test_the_worked_pair(self):
        assert encode_fields(self.FIELDS) == self.BYTES
        assert tuple(iter_fields(self.BYTES)) == self.FIELDS
        assert list(iter_pairs(memoryview(self.BYTES))) == [self.FIELDS]

    def test_fields_are_given_out_before_a_later_one_is_found_malformed(self):
        fields = iter_fields(self.BYTES + b"\x00")
        assert (next(fields), next(fields)) == self.FIELDS
        with pytest.raises(DecodeError):
            next(fields)
