"""The building blocks of layouts: what they accept, what they refuse, and how they say it."""

from dataclasses import dataclass
from enum import IntEnum

import pytest

from windsprite_protocol.body import ConstructCodec, EmptyBody, FixedCodec, LeftOut, OptionalBody
from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode
from windsprite_protocol.layout import (
    FLAG,
    NAME8,
    STR8,
    STR32,
    U8,
    U32,
    U128,
    Counted,
    Enumerated,
    Headed,
    Present,
    Record,
    Sized,
    UntilEnd,
)


class Colour(IntEnum):
    RED = 1
    BLUE = 3


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Named:
    name: str
    point: Point


@dataclass(frozen=True, slots=True)
class Box:
    points: int
    label: str


@dataclass(frozen=True, slots=True)
class FullBox:
    box: Box
    points: tuple[Point, ...]


POINT = Record(Point, "x" / U8, "y" / U32)
NAMED = Record(Named, "name" / NAME8, "point" / POINT)
FULL_BOX = Headed(
    FullBox, "box" / Record(Box, "points" / U8, "label" / STR8), "points", "points" / POINT
)


def encode(layout, value):
    return b"".join(ConstructCodec(layout).encode(value))


def decode(layout, body, **settings):
    return ConstructCodec(layout, **settings).decode(memoryview(body))


class TestText:
    @pytest.mark.parametrize("text", ["x", "x" * 255, "é" * 127, "日本", "\x00", " "])
    def test_names_of_1_to_255_bytes(self, text):
        body = encode(NAME8, text)
        assert body == bytes((len(text.encode()),)) + text.encode()
        assert decode(NAME8, body) == text

    @pytest.mark.parametrize("text", ["", "x" * 256, "é" * 128, "\ud800"])
    def test_other_names_cannot_be_written(self, text):
        with pytest.raises(EncodeError) as caught:
            encode(NAME8, text)
        assert caught.value.code is ErrorCode.INVALID_FORMAT

    @pytest.mark.parametrize("body", [b"", b"\x00", b"\x02x", b"\x01\xff", b"\x02\xc3("])
    def test_other_names_cannot_be_read(self, body):
        with pytest.raises(DecodeError) as caught:
            decode(NAME8, body)
        assert caught.value.code is ErrorCode.INVALID_COMMAND

    def test_texts_may_be_empty_where_the_layout_says_so(self):
        assert decode(STR8, b"\x00") == ""
        assert encode(STR32, "") == bytes(4)

    def test_a_text_that_is_not_there_is_not_waited_for(self):
        with pytest.raises(DecodeError):
            decode(STR32, b"\xff\xff\xff\xff" + b"x" * 100)

    def test_errors_do_not_repeat_secrets(self):
        with pytest.raises(DecodeError) as caught:
            decode(STR8, b"\x08s3cret\xff\xff")
        assert "s3cret" not in repr(caught.value)
        with pytest.raises(EncodeError) as caught_too:
            encode(STR8, "s3cret" * 50)
        assert "s3cret" not in repr(caught_too.value)


class TestNumbers:
    @pytest.mark.parametrize(("byte", "value"), [(0, False), (1, True), (2, True), (255, True)])
    def test_a_flag_is_true_unless_it_is_zero(self, byte, value):
        assert decode(FLAG, bytes((byte,))) is value

    def test_flags_are_written_as_0_and_1(self):
        assert (encode(FLAG, True), encode(FLAG, False)) == (b"\x01", b"\x00")

    def test_128_bits(self):
        number = int.from_bytes(range(1, 17), "little")
        assert encode(U128, number) == bytes(range(1, 17))
        assert decode(U128, bytes(range(1, 17))) == number

    @pytest.mark.parametrize("number", [-1, 2**32, 1.5, "1", None])
    def test_what_is_no_u32_is_refused(self, number):
        with pytest.raises(EncodeError):
            encode(U32, number)

    def test_members_of_an_enumeration(self):
        colours = Enumerated(U8, Colour)
        assert decode(colours, b"\x03") is Colour.BLUE
        assert encode(colours, Colour.RED) == b"\x01"
        with pytest.raises(DecodeError, match="2 is no Colour"):
            decode(colours, b"\x02")
        with pytest.raises(EncodeError):
            encode(colours, 2)


class TestRecord:
    def test_a_record_of_numbers(self):
        assert encode(POINT, Point(1, 2)) == b"\x01\x02\x00\x00\x00"
        assert decode(POINT, b"\x01\x02\x00\x00\x00") == Point(1, 2)

    @pytest.mark.parametrize("point", [Point(256, 0), Point(0, -1), Point("1", 1), Named("x", 1)])
    def test_a_record_of_numbers_refuses_what_does_not_fit(self, point):
        with pytest.raises(EncodeError):
            encode(POINT, point)

    def test_a_record_of_records(self):
        body = b"\x01n\x01\x02\x00\x00\x00"
        assert encode(NAMED, Named("n", Point(1, 2))) == body
        assert decode(NAMED, body) == Named("n", Point(1, 2))

    def test_errors_say_where(self):
        with pytest.raises(DecodeError, match=r"^point: "):
            decode(NAMED, b"\x01n\x01\x02")
        with pytest.raises(EncodeError, match=r"^name: text of 0 bytes; it takes 1 to 255$"):
            encode(NAMED, Named("", Point(1, 2)))

    def test_another_class_is_refused(self):
        with pytest.raises(EncodeError, match="Box where Named belongs"):
            encode(NAMED, Box(1, "x"))


class TestMany:
    def test_counted(self):
        layout = Counted(U8, POINT)
        body = b"\x02" + b"\x01\x02\x00\x00\x00" * 2
        assert decode(layout, body) == (Point(1, 2), Point(1, 2))
        assert encode(layout, (Point(1, 2), Point(1, 2))) == body

    def test_more_than_the_count_can_say(self):
        with pytest.raises(EncodeError):
            encode(Counted(U8, U8), tuple(range(256)))

    @pytest.mark.timeout(5)
    def test_a_count_that_lies_ends_at_the_first_missing_element(self):
        with pytest.raises(DecodeError):
            decode(Counted(U32, U8), b"\xff\xff\xff\xff" + bytes(10))

    def test_until_the_end(self):
        layout = UntilEnd(POINT)
        assert decode(layout, b"") == ()
        assert decode(layout, b"\x01\x02\x00\x00\x00") == (Point(1, 2),)
        assert encode(layout, ()) == b""
        with pytest.raises(DecodeError):
            decode(layout, b"\x01\x02\x00\x00\x00\x01")

    def test_a_head_that_counts_its_items(self):
        full = FullBox(Box(2, "b"), (Point(1, 0), Point(2, 0)))
        body = b"\x02\x01b\x01\x00\x00\x00\x00\x02\x00\x00\x00\x00"
        assert encode(FULL_BOX, full) == body
        assert decode(FULL_BOX, body) == full
        with pytest.raises(EncodeError, match="points is 2, found 1"):
            encode(FULL_BOX, FullBox(Box(2, "b"), (Point(1, 0),)))


class TestPresence:
    def test_sized_content_takes_all_of_its_size(self):
        layout = Sized(U32, POINT, maximum=100)
        body = b"\x05\x00\x00\x00\x01\x02\x00\x00\x00"
        assert decode(layout, body) == Point(1, 2)
        assert encode(layout, Point(1, 2)) == body
        with pytest.raises(DecodeError, match="1 bytes of 6 left over"):
            decode(layout, b"\x06\x00\x00\x00\x01\x02\x00\x00\x00\x00")
        with pytest.raises(DecodeError):
            decode(layout, b"\x04\x00\x00\x00\x01\x02\x00\x00\x00")

    def test_sized_content_has_a_maximum(self):
        layout = Sized(U32, STR8, maximum=10)
        assert decode(layout, encode(layout, "x" * 9)) == "x" * 9
        with pytest.raises(EncodeError):
            encode(layout, "x" * 10)
        with pytest.raises(DecodeError):
            decode(layout, b"\x0b\x00\x00\x00\x0a" + b"x" * 10)

    def test_only_a_1_announces_a_value(self):
        layout = Present(U8)
        assert decode(layout, b"\x01\x07") == 7
        assert decode(layout, b"\x00\x07") is None
        assert decode(layout, b"\x02\x07") is None
        assert encode(layout, 7) == b"\x01\x07"
        assert encode(layout, None) == b"\x00"
        with pytest.raises(DecodeError):
            decode(layout, b"\x01")


class TestBodies:
    def test_what_follows_is_ignored_unless_the_body_is_exact(self):
        assert decode(POINT, b"\x01\x02\x00\x00\x00more") == Point(1, 2)
        with pytest.raises(DecodeError, match="4 bytes left over"):
            decode(POINT, b"\x01\x02\x00\x00\x00more", exact=True)

    def test_the_code_of_a_malformed_body(self):
        with pytest.raises(DecodeError) as caught:
            decode(POINT, b"", code=ErrorCode.INVALID_FORMAT)
        assert caught.value.code is ErrorCode.INVALID_FORMAT

    def test_an_empty_body_has_one_value(self):
        codec = EmptyBody(Point(0, 0))
        assert codec.decode(memoryview(b"whatever")) == Point(0, 0)
        assert codec.encode(Point(0, 0)) == ()

    def test_an_optional_body(self):
        codec = OptionalBody(ConstructCodec(POINT))
        assert codec.decode(memoryview(b"")) is None
        assert codec.encode(None) == ()
        assert codec.decode(memoryview(b"\x01\x02\x00\x00\x00")) == Point(1, 2)
        with pytest.raises(DecodeError):
            codec.decode(memoryview(b"\x01"))

    def test_a_body_that_may_be_left_out(self):
        codec = LeftOut(ConstructCodec(Counted(U8, U8)), ())
        assert codec.decode(memoryview(b"")) == ()
        assert b"".join(codec.encode(())) == b"\x00"

    def test_a_fixed_body(self):
        codec = FixedCodec(POINT)
        assert codec.encode(Point(1, 2)) == (b"\x01\x02\x00\x00\x00",)
        assert codec.decode(memoryview(b"\x01\x02\x00\x00\x00more")) == Point(1, 2)
        with pytest.raises(DecodeError):
            codec.decode(memoryview(b"\x01\x02"))
        with pytest.raises(EncodeError):
            codec.encode(Point(-1, 2))
        with pytest.raises(TypeError):
            FixedCodec(NAMED)
