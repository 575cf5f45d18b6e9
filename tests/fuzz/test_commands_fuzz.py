"""No bytes make a codec do anything but decode or refuse, or take more than they are worth."""

import contextlib
import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.command_examples import EXAMPLES, Example
from support.strategies import damaged
from windsprite_protocol.errors import DecodeError
from windsprite_protocol.generation import Codec
from windsprite_protocol.v0_11.table import COMMANDS

SETTINGS = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NO_MORE_THAN = 60_000
"""Bytes that a codec may take for a body of any size: contexts, messages of errors."""
TIMES = 40
"""And for each byte of the body: the smallest elements are objects of a hundred bytes."""

SMALL = [example for example in EXAMPLES if 0 < len(example.body) <= 100]
LARGE = [example for example in EXAMPLES if len(example.body) > 100]


def decode_or_refuse(codec: Codec[Any], body: bytes) -> None:
    with contextlib.suppress(DecodeError):
        codec.decode(memoryview(body))


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_cut_at_every_byte(example: Example):
    for size in range(len(example.body)):
        decode_or_refuse(example.codec, example.body[:size])


@pytest.mark.parametrize("example", SMALL, ids=str)
def test_every_byte_changed(example: Example):
    for at in range(len(example.body)):
        for byte in (0, 1, 2, 3, 0x7F, 0x80, 0xC3, 0xFE, 0xFF, example.body[at] ^ 0x10):
            body = bytearray(example.body)
            body[at] = byte
            decode_or_refuse(example.codec, bytes(body))


@pytest.mark.parametrize("example", LARGE, ids=str)
def test_bytes_changed_here_and_there(example: Example):
    choices = random.Random(str(example))
    for _ in range(200):
        body = bytearray(example.body)
        for _ in range(choices.randint(1, 4)):
            body[choices.randrange(len(body))] = choices.randrange(256)
        decode_or_refuse(example.codec, bytes(body))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.code))
@pytest.mark.parametrize("side", ["request", "reply"])
@SETTINGS
@given(data=st.data())
def test_damaged_values_and_arbitrary_bytes(command, side, data):
    codec = getattr(command, side)
    decode_or_refuse(codec, data.draw(damaged(codec)))
    decode_or_refuse(codec, data.draw(st.binary(max_size=200)))


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_lengths_that_lie_take_no_memory(example: Example):
    """Every four bytes in turn claim 4 GiB of whatever they count."""
    tracemalloc.start()
    try:
        for at in range(max(0, len(example.body) - 3)):
            body = example.body[:at] + b"\xff\xff\xff\xff" + example.body[at + 4 :]
            assert cost(example.codec, body) <= NO_MORE_THAN + TIMES * len(body)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.code))
@pytest.mark.parametrize("side", ["request", "reply"])
@pytest.mark.parametrize("filler", [b"\x00", b"\x01", b"\x02", b"\xff", b"\x01\x04"])
def test_long_bodies_take_no_more_than_they_are_worth(command, side, filler):
    codec = getattr(command, side)
    body = filler * (50_000 // len(filler))
    tracemalloc.start()
    try:
        assert cost(codec, body) <= NO_MORE_THAN + TIMES * len(body)
    finally:
        tracemalloc.stop()


def cost(codec: Codec[Any], body: bytes) -> int:
    """How many bytes decoding takes at its worst moment."""
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    decode_or_refuse(codec, body)
    return tracemalloc.get_traced_memory()[1] - before
