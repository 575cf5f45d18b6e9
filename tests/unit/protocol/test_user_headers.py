import struct

import pytest

from support.batch_examples import USER_HEADERS_B
from windsprite_protocol import user_headers
from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode
from windsprite_protocol.model.typed_values import TypedValue, ValueKind


def raw(size):
    return TypedValue(ValueKind.RAW, bytes(size))


class TestEncode:
    def test_worked_example(self):
        assert user_headers.encode(user_headers.from_python({"color": "red"})) == USER_HEADERS_B

    def test_nothing(self):
        assert user_headers.encode({}) == b""

    def test_order_is_by_kind_then_bytes(self):
        keys = [
            TypedValue(ValueKind.UINT8, b"\1"),
            TypedValue(ValueKind.STRING, b"b"),
            TypedValue(ValueKind.STRING, b"a\xff"),
            TypedValue(ValueKind.STRING, b"a"),
            TypedValue(ValueKind.RAW, b"z"),
        ]
        data = user_headers.encode({key: raw(1) for key in keys})
        assert list(user_headers.decode(data)) == keys[::-1]

    @pytest.mark.parametrize(
        "field",
        [
            raw(0),
            raw(256),
            TypedValue(ValueKind.BOOL, b"\0\0"),
            TypedValue(ValueKind.UINT64, b"\0"),
            TypedValue(ValueKind.FLOAT32, bytes(8)),
        ],
    )
    def test_field_of_a_wrong_size(self, field):
        with pytest.raises(EncodeError) as caught:
            user_headers.encode({field: raw(1)})
        assert caught.value.code is ErrorCode.INVALID_HEADER_KEY
        with pytest.raises(EncodeError) as caught:
            user_headers.encode({raw(1): field})
        assert caught.value.code is ErrorCode.INVALID_HEADER_VALUE

    @pytest.mark.parametrize("kind", [0, 256])
    def test_kind_that_does_not_fit(self, kind):
        with pytest.raises(EncodeError):
            user_headers.encode({TypedValue(kind, b"x"): raw(1)})

    def test_all_together(self):
        # 200 pairs of 10 + 235 + 255 bytes are just allowed.
        headers = {TypedValue(ValueKind.RAW, bytes([n]) * 235): raw(255) for n in range(200)}
        assert len(user_headers.encode(headers)) == 100_000
        headers[raw(235)] = raw(254)
        headers[TypedValue(ValueKind.RAW, b"one more")] = raw(1)
        with pytest.raises(EncodeError) as caught:
            user_headers.encode(headers)
        assert caught.value.code is ErrorCode.TOO_BIG_USER_HEADERS


class TestDecode:
    def test_nothing(self):
        assert user_headers.decode(b"") == {}

    def test_unknown_kinds_stay(self):
        headers = {TypedValue(16, b"k"): TypedValue(255, b"v")}
        assert user_headers.decode(user_headers.encode(headers)) == headers

    def test_the_last_of_a_repeated_key_counts(self):
        data = bytes.fromhex("010100000061 010100000001 010100000061 010100000002")
        assert user_headers.decode(data) == {
            TypedValue(ValueKind.RAW, b"a"): TypedValue(ValueKind.RAW, b"\2")
        }

    @pytest.mark.parametrize(
        "data",
        [
            b"\2",
            USER_HEADERS_B[:-1],
            USER_HEADERS_B + b"\2",
            USER_HEADERS_B[:10],
            b"\0" + USER_HEADERS_B[1:],
            bytes.fromhex("0200000000 0200000000"),
            bytes.fromhex("0100010000") + bytes(256) + bytes.fromhex("010100000000"),
        ],
    )
    def test_malformed(self, data):
        with pytest.raises(DecodeError):
            user_headers.decode(data)


class TestPython:
    @pytest.mark.parametrize(
        ("value", "kind", "data"),
        [
            (b"\0\xff", ValueKind.RAW, b"\0\xff"),
            ("ü", ValueKind.STRING, b"\xc3\xbc"),
            (False, ValueKind.BOOL, b"\0"),
            (True, ValueKind.BOOL, b"\1"),
            (0, ValueKind.UINT8, b"\0"),
            (255, ValueKind.UINT8, b"\xff"),
            (256, ValueKind.UINT16, b"\0\1"),
            (2**16 - 1, ValueKind.UINT16, b"\xff" * 2),
            (2**16, ValueKind.UINT32, b"\0\0\1\0"),
            (2**32 - 1, ValueKind.UINT32, b"\xff" * 4),
            (2**32, ValueKind.UINT64, struct.pack("<Q", 2**32)),
            (2**64 - 1, ValueKind.UINT64, b"\xff" * 8),
            (2**64, ValueKind.UINT128, (2**64).to_bytes(16, "little")),
            (2**128 - 1, ValueKind.UINT128, b"\xff" * 16),
            (-1, ValueKind.INT8, b"\xff"),
            (-(2**7), ValueKind.INT8, b"\x80"),
            (-(2**7) - 1, ValueKind.INT16, struct.pack("<h", -129)),
            (-(2**15), ValueKind.INT16, b"\0\x80"),
            (-(2**15) - 1, ValueKind.INT32, struct.pack("<i", -32769)),
            (-(2**31), ValueKind.INT32, b"\0\0\0\x80"),
            (-(2**31) - 1, ValueKind.INT64, struct.pack("<q", -(2**31) - 1)),
            (-(2**63), ValueKind.INT64, bytes(7) + b"\x80"),
            (-(2**63) - 1, ValueKind.INT128, (-(2**63) - 1).to_bytes(16, "little", signed=True)),
            (-(2**127), ValueKind.INT128, bytes(15) + b"\x80"),
            (1.5, ValueKind.FLOAT32, struct.pack("<f", 1.5)),
            (-0.0, ValueKind.FLOAT32, struct.pack("<f", -0.0)),
            (0.1, ValueKind.FLOAT64, struct.pack("<d", 0.1)),
            (1e300, ValueKind.FLOAT64, struct.pack("<d", 1e300)),
        ],
    )
    def test_narrowest_kind(self, value, kind, data):
        typed = TypedValue.of(value)
        assert typed == TypedValue(kind, data)
        back = typed.to_python()
        assert back == value
        assert type(back) is type(value)

    @pytest.mark.parametrize("kind", ValueKind)
    def test_chosen_kind(self, kind):
        value = {
            ValueKind.RAW: b"1",
            ValueKind.STRING: "1",
            ValueKind.BOOL: True,
            ValueKind.FLOAT32: 1.0,
            ValueKind.FLOAT64: 1.0,
        }.get(kind, 1)
        typed = TypedValue.of(value, kind)
        assert typed.kind is kind
        assert typed.to_python() == value

    @pytest.mark.parametrize(
        ("value", "kind"),
        [
            ("", None),
            (b"", None),
            ("ü" * 128, None),
            (bytes(256), None),
            ("\ud800", None),
            (2**128, None),
            (-(2**127) - 1, None),
            (float("nan"), None),
            (float("inf"), None),
            (None, None),
            ([1], None),
            (256, ValueKind.UINT8),
            (-1, ValueKind.UINT64),
            (128, ValueKind.INT8),
            (0.1, ValueKind.FLOAT32),
            (1e300, ValueKind.FLOAT32),
            (float("nan"), ValueKind.FLOAT64),
            (True, ValueKind.UINT8),
            (1, ValueKind.BOOL),
            (1, ValueKind.FLOAT64),
            (1.0, ValueKind.INT8),
            ("1", ValueKind.RAW),
            (b"1", ValueKind.STRING),
        ],
    )
    def test_value_without_a_typed_form(self, value, kind):
        with pytest.raises(EncodeError) as caught:
            TypedValue.of(value, kind)
        assert caught.value.code is ErrorCode.INVALID_HEADER_VALUE

    @pytest.mark.parametrize(
        ("typed", "code"),
        [
            (TypedValue(16, b"x"), ErrorCode.INVALID_HEADER_KIND),
            (TypedValue(0, b"x"), ErrorCode.INVALID_HEADER_KIND),
            (TypedValue(ValueKind.STRING, b"\xff"), ErrorCode.INVALID_HEADER_VALUE),
            (TypedValue(ValueKind.BOOL, b"\2"), ErrorCode.INVALID_HEADER_VALUE),
            (TypedValue(ValueKind.BOOL, b""), ErrorCode.INVALID_HEADER_VALUE),
            (TypedValue(ValueKind.UINT128, bytes(8)), ErrorCode.INVALID_HEADER_VALUE),
            (TypedValue(ValueKind.FLOAT64, bytes(4)), ErrorCode.INVALID_HEADER_VALUE),
        ],
    )
    def test_malformed_value(self, typed, code):
        with pytest.raises(DecodeError) as caught:
            typed.to_python()
        assert caught.value.code is code

    def test_headers(self):
        plain = {"a": 1, b"b": True, -5: 2.5, True: "x"}
        assert user_headers.to_python(user_headers.from_python(plain)) == plain

    def test_typed_headers_stay(self):
        headers = {TypedValue(ValueKind.INT64, bytes(8)): TypedValue(77, b"?")}
        assert user_headers.from_python(headers) == headers

    def test_key_that_cannot_be_typed(self):
        with pytest.raises(EncodeError) as caught:
            user_headers.from_python({"": 1})
        assert caught.value.code is ErrorCode.INVALID_HEADER_KEY

    def test_value_that_cannot_be_typed(self):
        with pytest.raises(EncodeError) as caught:
            user_headers.from_python({"a": ""})
        assert caught.value.code is ErrorCode.INVALID_HEADER_VALUE

    def test_same_key_typed_and_plain(self):
        with pytest.raises(EncodeError) as caught:
            user_headers.from_python({"a": 1, TypedValue(ValueKind.STRING, b"a"): 2})
        assert caught.value.code is ErrorCode.INVALID_HEADER_KEY

    def test_keys_that_are_equal_in_python(self):
        headers = {TypedValue.of(1): TypedValue.of(1), TypedValue.of(True): TypedValue.of(2)}
        with pytest.raises(DecodeError) as caught:
            user_headers.to_python(headers)
        assert caught.value.code is ErrorCode.INVALID_HEADER_KEY

    @pytest.mark.parametrize(
        ("headers", "code"),
        [
            ({TypedValue(ValueKind.BOOL, b"\2"): raw(1)}, ErrorCode.INVALID_HEADER_KEY),
            ({raw(1): TypedValue(ValueKind.BOOL, b"\2")}, ErrorCode.INVALID_HEADER_VALUE),
            ({TypedValue(16, b"x"): raw(1)}, ErrorCode.INVALID_HEADER_KIND),
        ],
    )
    def test_malformed_headers(self, headers, code):
        with pytest.raises(DecodeError) as caught:
            user_headers.to_python(headers)
        assert caught.value.code is code
