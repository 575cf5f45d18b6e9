"""Every body of the worked examples, both ways."""

import pytest

from support.command_examples import EXAMPLES, Example
from windsprite_protocol.v0_11.table import GENERATION

SIZES = {
    "202-reply-created": 43,
    "302-request-options": 155,
    "302-reply-created": 469,
    "300-reply-after-a-send": 469,
    "201-reply-two": 85,
    "101-request-to-a-partition": 407,
    "100-request-from-an-offset": 38,
    "100-reply-sliced": 344,
    "100-reply-whole": 397,
    "103-reply-route": 69,
    "120-request-billing": 27,
    "121-request-billing": 36,
    "121-request-of-a-group": 38,
    "122-request-billing": 28,
    "600-reply-two-members": 48,
    "33-request-alice": 75,
    "33-reply-alice": 81,
    "31-reply-root": 38,
    "31-reply-bob": 25,
    "32-reply-three": 66,
    "40-request-iggy": 34,
    "10-reply-no-cache": 186,
    "10-reply-one-cache": 218,
    "20-reply-me": 56,
    "12-reply-stand-alone": 55,
    "12-reply-three-nodes": 141,
}
"""What the specification says about the sizes, to catch slips in the examples themselves."""


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_encodes_to_the_bytes(example: Example):
    assert b"".join(example.codec.encode(example.value)).hex(" ") == example.body.hex(" ")


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_decodes_to_the_value(example: Example):
    assert example.codec.decode(memoryview(example.body)) == example.value


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name):
    example = next(example for example in EXAMPLES if str(example) == name)
    assert len(example.body) == SIZES[name]


@pytest.mark.parametrize("side", ["request", "reply"])
def test_every_command_has_an_example(side):
    covered = {example.code for example in EXAMPLES if example.side == side}
    assert covered == {command.code for command in GENERATION}
