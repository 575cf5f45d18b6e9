"""Every command survives the way to bytes and back; hot codecs agree with their layouts."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.strategies import damaged, values_of
from windsprite_protocol.body import ConstructCodec, FixedCodec, LeftOut
from windsprite_protocol.errors import DecodeError, EncodeError
from windsprite_protocol.generation import Codec
from windsprite_protocol.model.messages import Confirmations, PolledMessages, SendMessages
from windsprite_protocol.v0_11.layouts import messages, offsets
from windsprite_protocol.v0_11.table import COMMANDS

FEW_EXAMPLES = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
MANY_EXAMPLES = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def bytes_of(codec: Codec[Any], value: Any) -> bytes:
    return b"".join(codec.encode(value))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.code))
@pytest.mark.parametrize("side", ["request", "reply"])
@FEW_EXAMPLES
@given(data=st.data())
def test_round_trip(command, side, data):
    codec = getattr(command, side)
    value = data.draw(values_of(codec))
    body = bytes_of(codec, value)
    assert codec.decode(memoryview(body)) == value
    assert bytes_of(codec, codec.decode(memoryview(body))) == body


class SendByLayout:
    """A send as its construct layout alone reads and writes it."""

    codec = ConstructCodec(messages.SEND_MESSAGES)

    def encode(self, value):
        metadata = {
            "stream": value.stream,
            "topic": value.topic,
            "partitioning": value.partitioning,
            "messages_count": value.messages_count,
        }
        return self.codec.encode({"metadata": metadata, "batch": value.batch})

    def decode(self, body):
        parsed = self.codec.decode(body)
        metadata = parsed.metadata
        return SendMessages(
            metadata.stream,
            metadata.topic,
            metadata.partitioning,
            metadata.messages_count,
            parsed.batch,
        )


class PolledByLayout:
    """The reply to a poll as its construct layout alone reads and writes it."""

    codec = ConstructCodec(messages.POLLED_MESSAGES)

    def encode(self, value):
        head = {
            "partition_id": value.partition_id,
            "current_offset": value.current_offset,
            "messages_count": value.messages_count,
        }
        return self.codec.encode({"head": head, "records": b"".join(value.records)})

    def decode(self, body):
        parsed = self.codec.decode(body)
        records = (parsed.records,) if parsed.records else ()
        head = parsed.head
        return PolledMessages(head.partition_id, head.current_offset, head.messages_count, records)


PAIRS = [
    (messages.SendMessagesCodec(), SendByLayout()),
    (messages.PollMessagesCodec(), ConstructCodec(messages.POLL_MESSAGES)),
    (messages.PolledMessagesCodec(), PolledByLayout()),
    (
        messages.ConfirmationsCodec(),
        LeftOut(ConstructCodec(messages.CONFIRMATIONS, exact=True), Confirmations(())),
    ),
    (offsets.StoreOffsetCodec(), ConstructCodec(offsets.STORE_OFFSET)),
    (FixedCodec(offsets.CONSUMER_OFFSET), ConstructCodec(offsets.CONSUMER_OFFSET)),
]
IDS = [pair[0].cls.__name__ for pair in PAIRS]


@pytest.mark.parametrize(("hot", "layout"), PAIRS, ids=IDS)
@MANY_EXAMPLES
@given(data=st.data())
def test_hot_codecs_write_what_their_layouts_write(hot, layout, data):
    value = data.draw(values_of(hot))
    assert bytes_of(hot, value) == bytes_of(layout, value)


@pytest.mark.parametrize(("hot", "layout"), PAIRS, ids=IDS)
@MANY_EXAMPLES
@given(data=st.data())
def test_hot_codecs_read_what_their_layouts_read(hot, layout, data):
    body = data.draw(damaged(hot))
    assert outcome(hot, body) == outcome(layout, body)


def outcome(codec: Codec[Any], body: bytes) -> Any:
    try:
        return codec.decode(memoryview(body))
    except DecodeError:
        return "malformed"


@pytest.mark.parametrize("hot", [pair[0] for pair in PAIRS], ids=IDS)
@MANY_EXAMPLES
@given(data=st.data())
def test_hot_codecs_refuse_numbers_that_do_not_fit(hot, data):
    value = data.draw(values_of(hot))
    numbers = [name for name in hot.cls.__slots__ if type(getattr(value, name)) is int]
    if not numbers:
        return
    name = data.draw(st.sampled_from(numbers))
    fields = {field: getattr(value, field) for field in hot.cls.__slots__}
    unfit = hot.cls(**{**fields, name: data.draw(st.sampled_from([-1, 2**64]))})
    with pytest.raises(EncodeError):
        hot.encode(unfit)
