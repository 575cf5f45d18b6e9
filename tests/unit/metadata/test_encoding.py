"""The journaled form of commands: stable, readable and strict."""

import json

import pytest

from support.metadata import AWKWARD_NAMES, FOREVER, option, topic_of
from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from windsprite_protocol.model.topics import Compression
from windsprite_server.metadata import commands as c
from windsprite_server.metadata.commands import Command, PartitionPlace
from windsprite_server.metadata.encoding import COMMAND_TAGS, EncodingError, decode, encode

# What journals on disk hold. A change here means that they can't be read any more.
WRITTEN: dict[str, tuple[Command, str]] = {
    "no_operation": (c.NoOperation(), "{}"),
    "create_stream": (c.CreateStream("orders"), '{"name":"orders"}'),
    "update_stream": (c.UpdateStream(7, "x"), '{"stream":7,"name":"x"}'),
    "delete_stream": (c.DeleteStream("7"), '{"stream":"7"}'),
    "purge_stream": (c.PurgeStream(0), '{"stream":0}'),
    "create_topic": (
        c.CreateTopic(
            "orders", "é", 3, FOREVER, Compression.GZIP, 1, (option("a"),), (option("b", b"\0"),)
        ),
        (
            '{"stream":"orders","name":"é","partitions_count":3,'
            '"message_expiry":18446744073709551615,"compression":2,"max_topic_size":1,'
            '"options":[{"key":"a","value":{"kind":1,"data":"Af8="}}],'
            '"derived_options":[{"key":"b","value":{"kind":1,"data":"AA=="}}]}'
        ),
    ),
    "update_topic": (
        c.UpdateTopic(0, 1, "t"),
        (
            '{"stream":0,"topic":1,"name":"t","options":[],"message_expiry":null,'
            '"compression":null,"max_topic_size":null}'
        ),
    ),
    "delete_topic": (c.DeleteTopic(0, "t"), '{"stream":0,"topic":"t"}'),
    "purge_topic": (c.PurgeTopic(0, "t"), '{"stream":0,"topic":"t"}'),
    "create_partitions": (
        c.CreatePartitions(0, 1, 2),
        '{"stream":0,"topic":1,"partitions_count":2}',
    ),
    "delete_partitions": (
        c.DeletePartitions(0, 1, 2),
        '{"stream":0,"topic":1,"partitions_count":2}',
    ),
    "create_consumer_group": (
        c.CreateConsumerGroup(0, 1, "g"),
        '{"stream":0,"topic":1,"name":"g"}',
    ),
    "delete_consumer_group": (
        c.DeleteConsumerGroup(0, 1, "g"),
        '{"stream":0,"topic":1,"group":"g"}',
    ),
    "create_root": (c.CreateRoot("iggy", "$h"), '{"username":"iggy","password_hash":"$h"}'),
    "create_user": (
        c.CreateUser(
            "bob",
            "$h",
            1,
            Permissions(
                GlobalPermissions(manage_servers=True),
                (StreamPermissions(3, topics=(TopicPermissions(4, send_messages=True),)),),
            ),
        ),
        (
            '{"username":"bob","password_hash":"$h","status":1,"permissions":{"root":{'
            '"manage_servers":true,"read_servers":false,"manage_users":false,"read_users":false,'
            '"manage_streams":false,"read_streams":false,"manage_topics":false,'
            '"read_topics":false,"poll_messages":false,"send_messages":false},"streams":[{'
            '"stream_id":3,"manage_stream":false,"read_stream":false,"manage_topics":false,'
            '"read_topics":false,"poll_messages":false,"send_messages":false,"topics":[{'
            '"topic_id":4,"manage_topic":false,"read_topic":false,"poll_messages":false,'
            '"send_messages":true}]}]}}'
        ),
    ),
    "update_user": (c.UpdateUser(1), '{"user":1,"username":null,"status":null}'),
    "delete_user": (c.DeleteUser("bob"), '{"user":"bob"}'),
    "update_permissions": (c.UpdatePermissions(1, None), '{"user":1,"permissions":null}'),
    "change_password": (
        c.ChangePassword(1, None, "$n"),
        '{"user":1,"verified_hash":null,"password_hash":"$n"}',
    ),
    "create_token": (
        c.CreateToken("t", "ab"),
        '{"name":"t","token_hash":"ab","expiry":0,"limit":null}',
    ),
    "delete_token": (c.DeleteToken("t"), '{"name":"t"}'),
    "delete_expired_tokens": (
        c.DeleteExpiredTokens((c.OwnedToken(1, "t"),)),
        '{"tokens":[{"user_id":1,"name":"t"}]}',
    ),
    "forget_condemned": (
        c.ForgetCondemned((PartitionPlace(1, 2, 3, 4),)),
        '{"places":[{"stream_id":1,"topic_id":2,"partition_id":3,"incarnation":4}]}',
    ),
}


@pytest.mark.parametrize("tag", COMMAND_TAGS)
def test_each_command_is_written_as_journals_on_disk_have_it(tag: str) -> None:
    command, fields = WRITTEN[tag]
    written = f'["{tag}",{fields}]'.encode()
    assert encode(command) == written
    assert decode(written) == command


@pytest.mark.parametrize("name", AWKWARD_NAMES)
def test_any_name_comes_back_as_it_was(name: str) -> None:
    for command in (c.CreateStream(name), c.DeleteStream(name), topic_of(name, name)):
        assert decode(encode(command)) == command


def test_a_field_that_was_added_later_may_be_absent() -> None:
    assert decode(b'["create_token",{"name":"t","token_hash":"ab"}]') == c.CreateToken("t", "ab")


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        (b'["create_planet",{"name":"x"}]', "create_planet"),
        (b'["create_stream",{"name":"x","colour":1}]', "colour"),
        (b'["create_stream",{}]', "name"),
        (b'["create_stream",{"name":7}]', "string"),
        (b'["create_stream",{"name":null}]', "string"),
        (b'["create_stream",{"name":"x"},0]', "2 items"),
        (b'["create_stream"]', "create_stream"),
        (b'["delete_stream",{"stream":true}]', "stream"),
        (b'["delete_stream",{"stream":1.0}]', "stream"),
        (b'["create_partitions",{"stream":0,"topic":0,"partitions_count":"2"}]', "integer"),
        (b'["forget_condemned",{"places":[{"stream_id":1}]}]', "topic_id"),
        (b'["update_permissions",{"user":1,"permissions":{"rot":{}}}]', "rot"),
        (b'{"create_stream":{"name":"x"}}', "tag"),
        (b'"create_stream"', "tag"),
        (b"[]", "tag"),
        (b"[[],{}]", "tag"),
        (b"null", "tag"),
        (b"", "JSON"),
        (b"\xff\xfe", "JSON"),
        (b"[" * 10_000, "JSON"),
        (b'["create_stream",{"name":"\\ud800"}]', "JSON"),
    ],
)
def test_anything_else_is_refused_and_named(written: bytes, complaint: str) -> None:
    with pytest.raises(EncodingError, match=complaint):
        decode(written)


def test_a_compression_that_does_not_exist_is_refused() -> None:
    written = json.loads(encode(topic_of(0, "t")))
    written[1]["compression"] = 3
    with pytest.raises(EncodingError, match="compression"):
        decode(json.dumps(written).encode())


def test_a_refusal_does_not_repeat_what_may_be_secret() -> None:
    with pytest.raises(EncodingError) as caught:
        decode(b'["create_root",{"username":"iggy","password_hash":["$argon2id$secret"]}]')
    assert "secret" not in str(caught.value)


def test_half_a_surrogate_pair_cannot_be_written() -> None:
    with pytest.raises(EncodingError, match="CreateStream"):
        encode(c.CreateStream("\ud800"))
