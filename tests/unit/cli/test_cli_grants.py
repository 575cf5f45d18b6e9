"""Permissions as people write them."""

from typing import Any

import pytest

from windsprite import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from windsprite.cli.grants import (
    GLOBAL_FLAGS,
    STREAM_FLAGS,
    TOPIC_FLAGS,
    Grant,
    granted,
    parse_grant,
    permissions_of,
)


@pytest.mark.parametrize(
    ("text", "grant"),
    [
        ("read_streams", Grant(frozenset({"read_streams"}))),
        ("read_users,send_messages", Grant(frozenset({"read_users", "send_messages"}))),
        ("all", Grant(frozenset(GLOBAL_FLAGS))),
        ("orders:read_stream", Grant(frozenset({"read_stream"}), "orders")),
        ("7:all", Grant(frozenset(STREAM_FLAGS), 7)),
        ("name:7:read_stream", Grant(frozenset({"read_stream"}), "7")),
        ("a:b:read_stream", Grant(frozenset({"read_stream"}), "a:b")),
        ("orders/events:all", Grant(frozenset(TOPIC_FLAGS), "orders", "events")),
        ("0/1:read_topic,read_topic", Grant(frozenset({"read_topic"}), 0, 1)),
        ("o/name:7:send_messages", Grant(frozenset({"send_messages"}), "o", "7")),
        ("o/a/b:send_messages", Grant(frozenset({"send_messages"}), "o", "a/b")),
    ],
)
def test_a_grant_says_what_and_where(text: str, grant: Grant) -> None:
    assert parse_grant(text) == grant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "read_stream",
        "read_streams,",
        "READ_STREAMS",
        "orders:read_streams",
        "orders:",
        ":read_stream",
        "/t:read_topic",
        "s/:read_topic",
        "s/t:read_stream",
        "4294967296:read_stream",
        "topic_id",
        "7:stream_id",
        "7:topics",
    ],
)
def test_what_cannot_be_granted_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"granted|name|number"):
        parse_grant(text)


async def test_grants_on_the_same_place_add_up() -> None:
    nobody: Any = None
    grants = [
        parse_grant(text)
        for text in (
            "3/9:read_topic",
            "read_streams",
            "5:send_messages",
            "3:read_stream",
            "3/9:send_messages",
            "3/7:all",
            "read_users",
            "3:poll_messages",
        )
    ]
    assert await permissions_of(nobody, grants) == Permissions(
        GlobalPermissions(read_streams=True, read_users=True),
        (
            StreamPermissions(
                3,
                read_stream=True,
                poll_messages=True,
                topics=(
                    TopicPermissions(7, True, True, True, True),
                    TopicPermissions(9, read_topic=True, send_messages=True),
                ),
            ),
            StreamPermissions(5, send_messages=True),
        ),
    )


def test_flags_are_named_in_the_order_of_the_protocol() -> None:
    assert GLOBAL_FLAGS[0] == "manage_servers"
    assert len(GLOBAL_FLAGS) == 10
    assert len(STREAM_FLAGS) == 6
    assert TOPIC_FLAGS == ("manage_topic", "read_topic", "poll_messages", "send_messages")
    assert granted(TopicPermissions(9, send_messages=True, read_topic=True)) == [
        "read_topic",
        "send_messages",
    ]
    assert granted(StreamPermissions(1)) == []
