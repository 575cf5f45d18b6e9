"""Records read and write their numbers all at once; what comes of it is as if one by one."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import construct as c
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.strategies import damaged, values_of
from windsprite_protocol.body import ConstructCodec
from windsprite_protocol.errors import DecodeError
from windsprite_protocol.layout import U8, U32, Counted, Enumerated, Record
from windsprite_protocol.v0_11.layouts import (
    cluster,
    groups,
    messages,
    offsets,
    sessions,
    streams,
    system,
    tokens,
    topics,
    users,
)

MODULES = (
    *(cluster, groups, messages, offsets, sessions),
    *(streams, system, tokens, topics, users),
)
FEW_EXAMPLES = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
MANY_EXAMPLES = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
UNFIT = st.sampled_from((-1, 2**64, 2**80, 1.5, "1", b"1", None))


def records_of(module: ModuleType) -> list[Any]:
    found = [(name, value) for name, value in vars(module).items() if isinstance(value, Record)]
    return [
        pytest.param(value, id=f"{module.__name__.split('.')[-1]}.{name}") for name, value in found
    ]


every_record = pytest.mark.parametrize(
    "record", [record for module in MODULES for record in records_of(module)]
)
of_numbers = pytest.mark.parametrize(
    "record",
    [
        pytest.param(topics.PARTITION, id="partition"),
        pytest.param(topics.TOPIC_HEADER, id="topic"),
        pytest.param(messages.CONFIRMATION, id="confirmation"),
        pytest.param(system.MEMBERSHIP, id="membership"),
        pytest.param(system.CLIENT, id="client"),
    ],
)


class OneByOne:
    """A record whose fields construct reads and writes, each by itself."""

    def __init__(self, record: Any) -> None:
        self._record = record
        self._layout = c.Struct(*record.subcons)

    def parse(self, data: bytes) -> Any:
        return self._made(self._layout.parse(data))

    def build(self, value: Any) -> bytes:
        return self._layout.build(self._taken_apart(value))

    def parse_many(self, data: bytes) -> tuple[Any, ...]:
        return tuple(map(self._made, c.PrefixedArray(U8, self._layout).parse(data)))

    def build_many(self, values: tuple[Any, ...]) -> bytes:
        return c.PrefixedArray(U8, self._layout).build(list(map(self._taken_apart, values)))

    def _made(self, parsed: Any) -> Any:
        return self._record.cls(**{name: parsed[name] for name in self._record.names})

    def _taken_apart(self, value: Any) -> dict[str, Any]:
        return {name: getattr(value, name) for name in self._record.names}


def outcome(call: Any, argument: Any) -> Any:
    try:
        return call(argument)
    except (c.ConstructError, DecodeError, ValueError, OverflowError):
        return "refused"


@every_record
@FEW_EXAMPLES
@given(data=st.data())
def test_records_are_those_of_their_fields(record, data):
    value = data.draw(values_of(record))
    body = record.build(value)
    assert body == OneByOne(record).build(value)
    assert record.parse(body) == OneByOne(record).parse(body) == value


@of_numbers
@MANY_EXAMPLES
@given(data=st.data())
def test_any_bytes_are_read_as_the_fields_read_them(record, data):
    body = data.draw(damaged(ConstructCodec(record)))
    assert outcome(record.parse, body) == outcome(OneByOne(record).parse, body)


@of_numbers
@MANY_EXAMPLES
@given(data=st.data())
def test_values_that_do_not_fit_are_refused_by_the_name_of_their_field(record, data):
    numbers = [f.name for f in record.subcons if isinstance(f.subcon, c.FormatField | Enumerated)]
    name = data.draw(st.sampled_from(numbers))
    unfit = replace(data.draw(values_of(record)), **{name: data.draw(UNFIT)})
    for layout in (record, OneByOne(record)):
        with pytest.raises(c.ConstructError) as caught:
            layout.build(unfit)
        assert caught.value.path == f"(building) -> {name}"


@of_numbers
@MANY_EXAMPLES
@given(data=st.data())
def test_lists_of_records_are_those_of_each(record, data):
    counted = Counted(U8, record)
    values = data.draw(values_of(counted))
    body = counted.build(values)
    assert body == OneByOne(record).build_many(values)
    assert counted.parse(body) == values
    other = data.draw(damaged(ConstructCodec(counted)))
    assert outcome(counted.parse, other) == outcome(OneByOne(record).parse_many, other)


def test_a_list_may_hold_nothing_but_its_records():
    partition = topics.Partition(0, 1, 1, 0, 0, 0)
    stranger = messages.Confirmation(0, 0, 0, 0)
    with pytest.raises(c.AdaptationError, match="Confirmation where Partition belongs"):
        Counted(U32, topics.PARTITION).build((partition, stranger))
