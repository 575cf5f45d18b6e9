"""Where bodies of commands have rules of their own: ends, flags, lengths, codes of errors."""

from dataclasses import replace

import pytest

from support.command_examples import EVENTS, POLL, RUST_SDK, TOKEN
from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode
from windsprite_protocol.model.groups import GroupAssignment, SyncConsumerGroup
from windsprite_protocol.model.identifiers import (
    Balanced,
    ByKey,
    Consumer,
    ConsumerKind,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import (
    Confirmations,
    GetPollRouting,
    PolledMessages,
    PollMessages,
    PollPrimary,
    SendMessages,
)
from windsprite_protocol.model.offsets import GetConsumerOffset, StoreConsumerOffset
from windsprite_protocol.model.sessions import Login, LoginWithToken
from windsprite_protocol.model.streams import GetStream, GetStreams, Stream, StreamDetails
from windsprite_protocol.model.system import DescribeOptions, GetClients, Ping
from windsprite_protocol.model.topics import GetTopics, TopicDetails
from windsprite_protocol.v0_11.layouts.sessions import decode_login_shapes
from windsprite_protocol.v0_11.table import COMMANDS, GENERATION


def encode(value, side="request"):
    return b"".join(getattr(GENERATION.of(type(value)), side).encode(value))


def decode(request_type, body, side="request"):
    return getattr(GENERATION.of(request_type), side).decode(memoryview(body))


class TestIdentifiers:
    @pytest.mark.parametrize(
        "body",
        [
            "00 04 00 00 00 00",
            "03 04 00 00 00 00",
            "01 03 00 00 00",
            "01 05 00 00 00 00 00",
            "01 04 00 00 00",
            "02 00",
            "02 02 61",
            "02 01 ff",
            "02",
            "",
        ],
    )
    @pytest.mark.parametrize("prefix", [(GetStream, ""), (PollMessages, "01")])
    def test_what_is_none(self, prefix, body):
        request_type, before = prefix
        with pytest.raises(DecodeError) as caught:
            decode(request_type, bytes.fromhex(before + body))
        assert caught.value.code is ErrorCode.INVALID_COMMAND

    @pytest.mark.parametrize("identifier", ["", "x" * 256, "é" * 128, -1, 2**32])
    @pytest.mark.parametrize(
        "request_of",
        [
            GetStream,
            lambda identifier: SendMessages(identifier, 1, Balanced(), 1, b""),
            lambda identifier: StoreConsumerOffset(
                Consumer(ConsumerKind.GROUP, identifier), 1, 1, 0, 0
            ),
        ],
    )
    def test_what_cannot_be_one(self, request_of, identifier):
        with pytest.raises(EncodeError) as caught:
            encode(request_of(identifier))
        assert caught.value.code is ErrorCode.INVALID_IDENTIFIER

    def test_digits_in_a_name_stay_a_name(self):
        assert decode(GetStream, encode(GetStream("7"))) == GetStream("7")
        assert decode(GetStream, encode(GetStream(7))) == GetStream(7)


class TestEnds:
    @pytest.mark.parametrize(
        ("request_type", "body"),
        [
            (GetStream, "01 04 00 00 00 00"),
            (GetTopics, "01 04 00 00 00 00"),
            (DescribeOptions, "01"),
            (GetStreams, ""),
            (GetClients, ""),
            (Ping, ""),
        ],
    )
    def test_bytes_after_a_request_are_ignored(self, request_type, body):
        plain = bytes.fromhex(body)
        assert decode(request_type, plain + b"more") == decode(request_type, plain)

    def test_bytes_after_a_poll_or_a_store_are_ignored(self):
        assert decode(PollMessages, encode(POLL) + b"more") == POLL
        store = StoreConsumerOffset(POLL.consumer, 1, 2, 3, 4)
        assert decode(StoreConsumerOffset, encode(store) + b"more") == store

    def test_an_assignment_is_read_exactly(self):
        body = bytes.fromhex("03 00 00 00 00 00 00 00 01 00 00 00 02 00 00 00")
        assert decode(SyncConsumerGroup, body, "reply") == GroupAssignment(3, (2,))
        with pytest.raises(DecodeError):
            decode(SyncConsumerGroup, body + bytes(4), "reply")

    def test_a_missing_list_of_topics_is_empty(self):
        assert decode(GetTopics, b"", "reply") == ()

    def test_a_list_ends_with_the_body(self):
        header = Stream(1, 2, 3, 4, 5, "s")
        (body,) = GENERATION.of(GetStreams).reply.encode((header,))
        with pytest.raises(DecodeError):
            decode(GetStreams, body + b"\x00", "reply")

    @pytest.mark.parametrize(
        "command",
        [command for command in COMMANDS if command.code in (20, 40, 103, 123, 10, 12, 13)],
        ids=lambda command: command.name,
    )
    def test_replies_that_have_to_say_something(self, command):
        with pytest.raises(DecodeError):
            command.reply.decode(memoryview(b""))

    def test_an_empty_login_reply_has_a_wrong_format(self):
        with pytest.raises(DecodeError) as caught:
            decode(Login, b"", "reply")
        assert caught.value.code is ErrorCode.INVALID_FORMAT

    def test_counts_have_to_match(self):
        details = StreamDetails(Stream(0, 0, 2, 0, 0, "s"), (EVENTS,))
        with pytest.raises(EncodeError):
            GENERATION.of(GetStream).reply.encode(details)
        with pytest.raises(EncodeError):
            GENERATION.by_code(300).reply.encode(TopicDetails(EVENTS, ()))


class TestSending:
    def test_the_batch_is_never_copied(self):
        batch = bytearray(b"a batch")
        send = SendMessages(1, 2, ToPartition(3), 1, batch)
        parts = GENERATION.of(SendMessages).request.encode(send)
        assert parts[-1] is batch
        body = memoryview(b"".join(parts))
        decoded = GENERATION.of(SendMessages).request.decode(body)
        assert isinstance(decoded.batch, memoryview)
        assert decoded.batch.obj is body.obj
        assert decoded.batch == batch

    @pytest.mark.parametrize("length", [0, 21, 23, 2**32 - 1])
    def test_the_length_of_the_metadata_has_to_match(self, length):
        body = encode(SendMessages(1, 2, ToPartition(3), 1, b"batch"))
        assert body[0] == 22
        with pytest.raises(DecodeError):
            decode(SendMessages, length.to_bytes(4, "little") + body[4:])

    @pytest.mark.parametrize(
        "partitioning",
        ["00 00", "01 01 00", "02 00", "02 03 00 00 00", "02 05 00 00 00 00 00", "03 00", "04 00"],
    )
    def test_what_is_no_partitioning(self, partitioning):
        metadata = bytes.fromhex(
            "01 04 01 00 00 00 01 04 02 00 00 00" + partitioning + "01 00 00 00"
        )
        with pytest.raises(DecodeError):
            decode(SendMessages, len(metadata).to_bytes(4, "little") + metadata)

    def test_the_longest_place_and_others_after_it(self):
        first = SendMessages("s" * 255, "t" * 255, ByKey(b"k" * 255), 1, b"batch")
        for send in (first, replace(first, messages_count=2, batch=b"x"), replace(first, topic=3)):
            assert decode(SendMessages, encode(send)) == send

    @pytest.mark.parametrize("key", [b"", b"k" * 256])
    def test_keys_that_cannot_travel(self, key):
        with pytest.raises(EncodeError) as caught:
            encode(SendMessages(1, 2, ByKey(key), 1, b""))
        assert caught.value.code is ErrorCode.INVALID_KEY_VALUE_LENGTH

    def test_an_empty_reply_confirms_without_offsets(self):
        assert decode(SendMessages, b"", "reply") == Confirmations(())

    @pytest.mark.parametrize(
        "body",
        [b"\x00", b"\x01\x00\x00\x00", bytes(5), b"\x01\x00\x00\x00" + bytes(21), b"\xff" * 44],
    )
    def test_confirmations_fill_the_reply(self, body):
        with pytest.raises(DecodeError):
            decode(SendMessages, body, "reply")


class TestPolling:
    def test_the_longest_place_and_others_after_it(self):
        consumer = Consumer(ConsumerKind.GROUP, "c" * 255)
        next_ = PollingStrategy.next()
        first = PollMessages(consumer, "s" * 255, "t" * 255, 7, next_, 1, auto_commit=True)
        for poll in (first, replace(first, count=2), replace(first, partition_id=None)):
            assert decode(PollMessages, encode(poll)) == poll
            assert decode(PollMessages, encode(poll) + b"what follows is ignored" * 100) == poll

    @pytest.mark.parametrize("size", range(16))
    def test_a_short_reply(self, size):
        with pytest.raises(DecodeError) as caught:
            decode(PollMessages, bytes(size), "reply")
        assert caught.value.code is ErrorCode.INVALID_NUMBER_ENCODING

    def test_records_are_never_copied(self):
        first, second = b"first record", memoryview(b"second record")
        polled = PolledMessages(1, 2, 3, (first, second))
        parts = GENERATION.of(PollMessages).reply.encode(polled)
        assert parts[1] is first
        assert parts[2] is second
        body = memoryview(b"".join(parts))
        decoded = GENERATION.of(PollMessages).reply.decode(body)
        assert [record.obj is body.obj for record in decoded.records] == [True]
        assert decoded.records[0] == b"first recordsecond record"

    @pytest.mark.parametrize(("flag", "value"), [(0, None), (1, 7), (2, None), (255, None)])
    def test_only_a_1_announces_a_partition(self, flag, value):
        poll = PollMessages(
            Consumer(ConsumerKind.SINGLE, 1), 1, 2, 7, PollingStrategy.first(), 1, auto_commit=False
        )
        body = bytearray(encode(poll))
        assert body[19] == 1
        body[19] = flag
        assert decode(PollMessages, body).partition_id == value
        prefix = bytes(body[:24])
        assert decode(GetConsumerOffset, prefix).partition_id == value

    def test_an_absent_partition_is_five_zero_bytes(self):
        poll = PollMessages(
            Consumer(ConsumerKind.SINGLE, 1),
            1,
            2,
            None,
            PollingStrategy.first(),
            1,
            auto_commit=True,
        )
        assert encode(poll)[19:24] == bytes(5)

    @pytest.mark.parametrize("kind", [0, 3, 255])
    def test_other_kinds_of_consumers(self, kind):
        body = bytes((kind,)) + encode(POLL)[1:]
        for request_type in (PollMessages, PollPrimary, StoreConsumerOffset, GetConsumerOffset):
            with pytest.raises(DecodeError):
                decode(request_type, body)

    @pytest.mark.parametrize("kind", [0, 6, 255])
    def test_other_kinds_of_strategies(self, kind):
        body = bytearray(encode(POLL))
        body[24] = kind
        with pytest.raises(DecodeError):
            decode(PollMessages, bytes(body))

    def test_any_flag_but_zero_commits(self):
        body = encode(POLL)[:-1] + b"\x09"
        assert decode(PollMessages, body).auto_commit is True

    def test_only_a_poll_that_commits_is_routed(self):
        body = encode(POLL)[:-1]
        assert decode(GetPollRouting, body + b"\x01") == GetPollRouting(POLL)
        with pytest.raises(DecodeError) as caught:
            decode(GetPollRouting, body + b"\x00")
        assert caught.value.code is ErrorCode.INVALID_COMMAND

    @pytest.mark.parametrize("level", [2, 255])
    def test_other_levels_of_acknowledgement(self, level):
        body = encode(StoreConsumerOffset(POLL.consumer, 1, 2, 3, 4))[:-1] + bytes((level,))
        with pytest.raises(DecodeError):
            decode(StoreConsumerOffset, body)


class TestLoginShapes:
    def test_a_password(self):
        login = Login(RUST_SDK, "iggy", "secret")
        assert decode_login_shapes(memoryview(encode(login))) == (RUST_SDK, login, None)

    def test_a_token(self):
        login = LoginWithToken(RUST_SDK, TOKEN)
        assert decode_login_shapes(memoryview(encode(login))) == (RUST_SDK, None, login)

    def test_an_empty_password_can_be_read_as_a_token(self):
        login = Login(RUST_SDK, "iggy", "")
        client, password, token = decode_login_shapes(memoryview(encode(login)))
        assert client == RUST_SDK
        assert password == login
        assert token == LoginWithToken(RUST_SDK, "iggy")

    def test_neither(self):
        version = encode(LoginWithToken(RUST_SDK, ""))[:-5]
        assert decode_login_shapes(memoryview(version)) == (RUST_SDK, None, None)

    def test_no_version(self):
        with pytest.raises(DecodeError):
            decode_login_shapes(memoryview(b"\x00\x2c\x00\x00\x00"))

    def test_bytes_after_it_are_ignored(self):
        login = Login(RUST_SDK, "iggy", "secret", "context")
        assert decode_login_shapes(memoryview(encode(login) + b"more"))[1] == login

    def test_secrets_do_not_show(self):
        for login in (Login(RUST_SDK, "iggy", "hidden"), LoginWithToken(RUST_SDK, "hidden")):
            assert "hidden" not in repr(login)
