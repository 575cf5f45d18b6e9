"""The options of topics with the official client (spec 03, 5; spec 07, 11.5)."""

from typing import Any

import pytest
from apache_iggy import Durability, HeaderKey, HeaderValue, IggyClient, IggyExpiry, MaxTopicSize

from support.official_client import fails_with, told
from support.wire_client import WireClient, status
from windsprite_protocol.model.topics import CreateTopic
from windsprite_protocol.model.typed_values import Option, TypedValue, ValueKind

covers = pytest.mark.covers

NEVER = UNLIMITED = 2**64 - 1
DEFAULTS: dict[str, Any] = {
    "compression_algorithm": "none",
    "consumer_offset_durability": "replicated",
    "durability": "replicated",
    "max_topic_size": UNLIMITED,
    "message_expiry": NEVER,
    "messages_required_to_save": 1024,
    "preallocate_segments": False,
    "segment_size": 1 << 30,
    "size_of_messages_required_to_save": 1 << 20,
}
# The client sends these with every topic that it creates.
ALWAYS = {"consumer_offset_durability": "replicated", "durability": "replicated"}
CREATE_ONLY = {
    "segment_size": "1 MiB",
    "durability": "persisted",
    "consumer_offset_durability": "persisted",
    "messages_required_to_save": "10",
    "size_of_messages_required_to_save": "1 KiB",
    "preallocate_segments": "true",
}


async def options(client: IggyClient, stream: str) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """What was set explicitly, and what was derived."""
    topic = await client.get_topic(stream, "t")
    return topic.options.to_scalar_dict(), topic.derived_options.to_scalar_dict()


async def check(client: IggyClient, stream: str, explicit: dict[str, Any]) -> None:
    """These options are explicit, beside those that always are; all others have defaults."""
    explicit = ALWAYS | explicit
    derived = {key: value for key, value in DEFAULTS.items() if key not in explicit}
    assert await options(client, stream) == (explicit, derived)


@covers("create_topic")
async def test_all_options_are_told(client: IggyClient, stream: str) -> None:
    await client.create_topic(stream, "t", 1)
    await check(client, stream, {})


@covers("create_topic", "get_topic", "get_topics", "get_stream")
async def test_the_list_tells_the_same(client: IggyClient, stream: str) -> None:
    await client.create_topic(
        stream, "t", 1, options={"durability": "persisted", "segment_size": "128 MiB"}
    )
    await check(client, stream, {"durability": "persisted", "segment_size": 134_217_728})
    details = await client.get_topic(stream, "t")
    size = HeaderKey.String("segment_size")
    assert details.options[size] == HeaderValue.UnsignedInt64(134_217_728)
    assert HeaderKey.String("durability") not in details.derived_options
    for listed in (
        (await client.get_topics(stream))[0],
        (await client.get_stream(stream)).topics[0],
    ):
        assert listed.options == details.options
        assert listed.derived_options == details.derived_options


@pytest.mark.parametrize(
    ("argument", "value", "told"),
    [
        ("compression_algorithm", "gzip", "gzip"),
        ("message_expiry", IggyExpiry.NeverExpire(), NEVER),
        ("max_topic_size", MaxTopicSize.Custom(1 << 31), 1 << 31),
        ("max_topic_size", MaxTopicSize.Unlimited(), UNLIMITED),
        ("segment_size", 1 << 20, 1 << 20),
        ("segment_size", (1 << 20) + 512, (1 << 20) + 512),
        ("durability", Durability.PERSISTED, "persisted"),
        ("durability", Durability.REPLICATED, "replicated"),
        ("consumer_offset_durability", Durability.PERSISTED, "persisted"),
        ("messages_required_to_save", 1, 1),
        ("messages_required_to_save", 16_777_216, 16_777_216),
        ("size_of_messages_required_to_save", 1, 1),
        ("size_of_messages_required_to_save", 1 << 30, 1 << 30),
        ("preallocate_segments", False, False),
    ],
)
@covers("create_topic")
async def test_an_option_as_an_argument(
    client: IggyClient, stream: str, argument: str, value: Any, told: Any
) -> None:
    await client.create_topic(stream, "t", 1, **{argument: value})
    await check(client, stream, {argument: told})


@covers("create_topic")
async def test_segments_that_reserve_their_space(client: IggyClient, stream: str) -> None:
    await client.create_topic(stream, "t", 2, segment_size=1 << 20, preallocate_segments=True)
    await check(client, stream, {"preallocate_segments": True, "segment_size": 1 << 20})


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        ("compression_algorithm", "GZip", "gzip"),
        ("compression_algorithm", "none", "none"),
        ("message_expiry", "10m", 600_000_000),
        ("message_expiry", "1h 1m 1s", 3_661_000_000),
        ("message_expiry", "1.5h", 5_400_000_000),
        ("message_expiry", "never_expire", NEVER),
        ("message_expiry", "unlimited", NEVER),
        ("max_topic_size", "2 GB", 2_000_000_000),
        ("max_topic_size", "unlimited", UNLIMITED),
        ("segment_size", "128 MiB", 134_217_728),
        ("segment_size", "128Mi", 134_217_728),
        ("segment_size", "128 mib", 16_777_216),  # bits
        ("segment_size", "1048576", 1 << 20),
        ("durability", "persisted", "persisted"),
        ("consumer_offset_durability", "persisted", "persisted"),
        ("messages_required_to_save", "+5", 5),
        ("size_of_messages_required_to_save", "4K", 4000),
        ("size_of_messages_required_to_save", "1.5 KiB", 1536),
        ("size_of_messages_required_to_save", "8 kb", 1000),
        ("preallocate_segments", "false", False),
    ],
)
@covers("create_topic")
async def test_an_option_as_text(
    client: IggyClient, stream: str, key: str, text: str, told: Any
) -> None:
    await client.create_topic(stream, "t", 1, options={key: text})
    await check(client, stream, {key: told})


@pytest.mark.parametrize(
    "given",
    [
        {"options": {"message_expiry": "server_default"}},
        {"options": {"message_expiry": "0"}},
        {"options": {"max_topic_size": "server_default"}},
        {"options": {"max_topic_size": "none"}},
        {"options": {"segment_size": "0"}},
        {"options": {"segment_size": "unlimited"}},
        {"options": {"size_of_messages_required_to_save": "0"}},
        {"message_expiry": IggyExpiry.ServerDefault()},
        {"max_topic_size": MaxTopicSize.ServerDefault()},
        {"segment_size": 0},
        {"size_of_messages_required_to_save": 0},
        {"compression_algorithm": "none"},
    ],
    ids=told,
)
@covers("create_topic")
async def test_a_value_that_says_nothing(
    client: IggyClient, stream: str, given: dict[str, Any]
) -> None:
    await client.create_topic(stream, "t", 1, **given)
    await check(client, stream, {})


@pytest.mark.parametrize(
    "given",
    [
        {"options": {"compression_algorithm": "lz4"}},
        {"options": {"compression_algorithm": " gzip"}},
        {"options": {"message_expiry": "10"}},
        {"options": {"message_expiry": "soon"}},
        {"options": {"message_expiry": "-1s"}},
        {"options": {"max_topic_size": "big"}},
        {"options": {"segment_size": "1 MiB 512"}},
        {"options": {"segment_size": "1048575"}},
        {"options": {"segment_size": "1048577"}},
        {"options": {"segment_size": "2 GiB"}},
        {"segment_size": 512},
        {"segment_size": (1 << 30) + 512},
        {"options": {"messages_required_to_save": "0"}},
        {"options": {"messages_required_to_save": "16777217"}},
        {"options": {"messages_required_to_save": "1k"}},
        {"messages_required_to_save": 0},
        {"messages_required_to_save": 16_777_217},
        {"size_of_messages_required_to_save": (1 << 30) + 1},
        {"options": {"preallocate_segments": "True"}},
        {"options": {"preallocate_segments": "1"}},
        {"preallocate_segments": True, "partitions_count": 65},
        {"options": {"preallocate_segments": "true"}, "partitions_count": 65},
    ],
    ids=str,
)
@covers("create_topic")
async def test_a_value_that_an_option_cannot_have(
    client: IggyClient, stream: str, given: dict[str, Any]
) -> None:
    given = {"partitions_count": 1} | given
    with fails_with(4042):
        await client.create_topic(stream, "t", **given)
    with fails_with(4042):  # asked before whether the stream exists
        await client.create_topic("no such stream", "t", **given)
    assert await client.get_topics(stream) == []


@pytest.mark.parametrize(
    "key", ["x", "enforce_fsync", "partitions_count", "Segment_size", "k" * 255]
)
@covers("create_topic", "update_topic")
async def test_an_option_that_topics_do_not_have(
    client: IggyClient, stream: str, topic: str, key: str
) -> None:
    with fails_with(4041):
        await client.create_topic(stream, "t", 1, options={key: "1"})
    with fails_with(4041):
        await client.create_topic("no such stream", "t", 2000, options={key: "1"})
    with fails_with(4041):
        await client.update_topic(stream, topic, topic, options={key: "1"})
    assert await client.get_topic(stream, "t") is None


@pytest.mark.parametrize(("key", "text"), CREATE_ONLY.items(), ids=CREATE_ONLY)
@covers("update_topic")
async def test_an_option_that_is_fixed_at_creation(
    client: IggyClient, stream: str, key: str, text: str
) -> None:
    await client.create_topic(stream, "t", 1)
    with fails_with(4041):
        await client.update_topic(stream, "t", "new", options={key: text})
    with fails_with(4041):  # before any value is looked at
        await client.update_topic(
            stream, "t", "new", options={"compression_algorithm": "lz4", key: text}
        )
    await check(client, stream, {})


@pytest.mark.parametrize(
    ("key", "text", "field"),
    [
        ("compression_algorithm", "gzip", "gzip"),
        ("message_expiry", "10m", 600_000_000),
        ("max_topic_size", "2 GB", 2_000_000_000),
    ],
)
@covers("update_topic")
async def test_an_update_by_text(
    client: IggyClient, stream: str, key: str, text: str, field: Any
) -> None:
    await client.create_topic(stream, "t", 1)
    await client.update_topic(stream, "t", "t", options={key: text})
    topic = await client.get_topic(stream, "t")
    told = {
        "compression_algorithm": lambda: topic.compression_algorithm,
        "message_expiry": lambda: topic.message_expiry.duration.total_seconds() * 1_000_000,
        "max_topic_size": lambda: topic.max_topic_size.bytes,
    }[key]()
    assert told == field
    explicit, derived = await options(client, stream)
    assert explicit.keys() == ALWAYS.keys() | {key}
    assert key not in derived
    assert explicit.keys() | derived.keys() == DEFAULTS.keys()


@pytest.mark.parametrize(
    ("key", "text"),
    [("compression_algorithm", "lz4"), ("message_expiry", "soon"), ("max_topic_size", "big")],
)
@covers("update_topic")
async def test_an_update_to_a_value_that_an_option_cannot_have(
    client: IggyClient, stream: str, key: str, text: str
) -> None:
    await client.create_topic(stream, "t", 1)
    with fails_with(4042):
        await client.update_topic(stream, "t", "new", options={key: text})
    await check(client, stream, {})


@pytest.mark.parametrize("key", ["durability", "consumer_offset_durability"])
@covers("create_topic")
async def test_how_a_durability_is_spelt(
    client: IggyClient, wire: WireClient, stream: str, key: str
) -> None:
    # The client reads this text in any case, and sends what it read.
    await client.create_topic(stream, "t", 1, options={key: "Persisted"})
    await check(client, stream, {key: "persisted"})
    with pytest.raises(RuntimeError, match=f"Invalid option value for key: {key}"):
        await client.create_topic(stream, "u", 1, options={key: "quorum"})
    for text in ("Persisted", "quorum", "none", "persisted "):
        option = Option(key, TypedValue(ValueKind.STRING, text.encode()))
        assert await wire.told(CreateTopic(stream, 1, "u", (option,))) == status(4042)
    assert len(await client.get_topics(stream)) == 1


@covers("create_topic")
async def test_a_durability_given_twice_is_not_sent(client: IggyClient, stream: str) -> None:
    with pytest.raises(RuntimeError, match="Invalid option value for key: durability"):
        await client.create_topic(
            stream, "t", 1, durability=Durability.PERSISTED, options={"durability": "replicated"}
        )
    # Of other options given twice, the client sends the argument.
    await client.create_topic(
        stream, "t", 1, segment_size=1 << 20, options={"segment_size": "2 MiB"}
    )
    await check(client, stream, {"segment_size": 1 << 20})


@covers("describe_options")
async def test_the_catalog_of_topics(client: IggyClient) -> None:
    specs = {spec.key: spec for spec in await client.describe_options("topic")}
    assert {key: spec.kind for key, spec in specs.items()} == {
        "compression_algorithm": "string",
        "message_expiry": "uint64",
        "max_topic_size": "uint64",
        "segment_size": "uint64",
        "durability": "string",
        "consumer_offset_durability": "string",
        "messages_required_to_save": "uint32",
        "size_of_messages_required_to_save": "uint64",
        "preallocate_segments": "bool",
    }
    assert {key: spec.default_value for key, spec in specs.items()} == {
        "compression_algorithm": HeaderValue.String("none"),
        "message_expiry": HeaderValue.UnsignedInt64(NEVER),
        "max_topic_size": HeaderValue.UnsignedInt64(UNLIMITED),
        "segment_size": HeaderValue.UnsignedInt64(1 << 30),
        "durability": HeaderValue.String("replicated"),
        "consumer_offset_durability": HeaderValue.String("replicated"),
        "messages_required_to_save": HeaderValue.UnsignedInt32(1024),
        "size_of_messages_required_to_save": HeaderValue.UnsignedInt64(1 << 20),
        "preallocate_segments": HeaderValue.Bool(False),
    }
    assert all(spec.description for spec in specs.values())


@pytest.mark.parametrize("scope", ["stream", "user"])
@covers("describe_options")
async def test_streams_and_users_have_no_options(client: IggyClient, scope: str) -> None:
    assert await client.describe_options(scope) == []


@covers("describe_options")
async def test_a_scope_that_nobody_knows(client: IggyClient) -> None:
    with pytest.raises(ValueError, match="unknown options scope"):
        await client.describe_options("partition")
    for payload in (b"", b"\x00", b"\x04"):
        with fails_with(3):
            await client.send_binary_request(13, payload)
