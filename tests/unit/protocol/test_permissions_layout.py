"""Permission blocks, in requests and in replies (spec 06, 3.4 and 4.1)."""

from dataclasses import fields, replace

import pytest

from support.command_examples import PERMISSIONS, PERMISSIONS_BYTES
from windsprite_protocol.body import ConstructCodec
from windsprite_protocol.errors import DecodeError, EncodeError
from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from windsprite_protocol.model.users import CreateUser, GetUser, UpdatePermissions
from windsprite_protocol.v0_11.layouts.permissions import MAX_PERMISSIONS_BYTES
from windsprite_protocol.v0_11.layouts.permissions import PERMISSIONS as LAYOUT
from windsprite_protocol.v0_11.table import GENERATION

CODEC = ConstructCodec(LAYOUT, exact=True)
CREATE = GENERATION.of(CreateUser).request
UPDATE = GENERATION.of(UpdatePermissions).request
USER_DETAILS = GENERATION.of(GetUser).reply
BLOCK = bytes.fromhex(PERMISSIONS_BYTES)


def decode(codec, body):
    return codec.decode(memoryview(body))


def test_the_worked_block():
    assert len(BLOCK) == 53
    assert CODEC.encode(PERMISSIONS) == (BLOCK,)
    assert decode(CODEC, BLOCK) == PERMISSIONS


def test_without_streams_a_block_has_11_bytes():
    assert CODEC.encode(Permissions()) == (bytes(11),)
    assert decode(CODEC, bytes(11)) == Permissions()


@pytest.mark.parametrize("name", [field.name for field in fields(GlobalPermissions)])
def test_each_global_flag_has_its_byte(name):
    granted = Permissions(replace(GlobalPermissions(), **{name: True}))
    expected = bytearray(11)
    expected[[field.name for field in fields(GlobalPermissions)].index(name)] = 1
    assert CODEC.encode(granted) == (bytes(expected),)


def test_any_number_but_zero_is_a_grant():
    assert decode(CODEC, b"\x02" + bytes(9) + b"\x00") == Permissions(
        GlobalPermissions(manage_servers=True)
    )
    chained = bytes(10) + b"\x07" + b"\x05\x00\x00\x00" + b"\xff" + bytes(5) + b"\x00\x00"
    assert decode(CODEC, chained) == Permissions(
        streams=(StreamPermissions(5, manage_stream=True),)
    )


def test_order_and_repeated_ids_stay_as_they_came():
    permissions = Permissions(
        streams=(
            StreamPermissions(9, topics=(TopicPermissions(2), TopicPermissions(1))),
            StreamPermissions(3, read_stream=True),
            StreamPermissions(9),
        )
    )
    assert decode(CODEC, CODEC.encode(permissions)[0]) == permissions


def test_a_chain_that_promises_one_more_is_cut():
    with pytest.raises(DecodeError):
        decode(CODEC, BLOCK[:-1] + b"\x01")


class TestInRequests:
    def test_only_a_1_announces_permissions(self):
        assert decode(UPDATE, b"\x02\x01u\x00") == UpdatePermissions("u", None)
        assert decode(UPDATE, b"\x02\x01u\x02") == UpdatePermissions("u", None)

    @pytest.mark.parametrize("length", [0, 10, 52, 54, 2**32 - 1])
    def test_the_length_has_to_match(self, length):
        body = b"\x02\x01u\x01" + length.to_bytes(4, "little") + BLOCK
        with pytest.raises(DecodeError):
            decode(UPDATE, body)

    def test_a_block_of_the_right_length_with_something_left_over(self):
        body = b"\x02\x01u\x01" + (54).to_bytes(4, "little") + BLOCK + b"\x00"
        with pytest.raises(DecodeError, match="left over"):
            decode(UPDATE, body)

    def test_options_follow_the_permissions_of_a_new_user(self):
        user = CreateUser("u", "p", 1, PERMISSIONS)
        (body,) = CREATE.encode(user)
        with pytest.raises(DecodeError):
            decode(CREATE, body + b"\x00")

    def test_grants_on_very_many_topics(self):
        count = MAX_PERMISSIONS_BYTES // 9 - 3
        topics = tuple(TopicPermissions(number, read_topic=True) for number in range(count))
        request = UpdatePermissions(
            "u", Permissions(streams=(StreamPermissions(1, topics=topics),))
        )
        (body,) = UPDATE.encode(request)
        assert decode(UPDATE, body) == request

    def test_too_large_a_block(self):
        count = MAX_PERMISSIONS_BYTES // 9 + 1
        topics = tuple(map(TopicPermissions, range(count)))
        with pytest.raises(EncodeError):
            UPDATE.encode(
                UpdatePermissions("u", Permissions(streams=(StreamPermissions(1, topics=topics),)))
            )
        size = MAX_PERMISSIONS_BYTES + 1
        with pytest.raises(DecodeError):
            decode(UPDATE, b"\x02\x01u\x01" + size.to_bytes(4, "little") + bytes(size))


class TestInReplies:
    HEADER = bytes.fromhex("02 00 00 00 40 82 2f 46 48 47 06 00 02 03 62 6f 62 00 00 00 00")

    def test_nothing_granted_is_four_zero_bytes(self):
        assert decode(USER_DETAILS, self.HEADER + bytes(4)).permissions is None

    @pytest.mark.parametrize("size", range(4))
    def test_fewer_are_a_cut_reply(self, size):
        with pytest.raises(DecodeError):
            decode(USER_DETAILS, self.HEADER + bytes(size))

    def test_granted_permissions_are_announced_by_a_1(self):
        body = self.HEADER + b"\x01" + len(BLOCK).to_bytes(4, "little") + BLOCK
        assert decode(USER_DETAILS, body).permissions == PERMISSIONS
