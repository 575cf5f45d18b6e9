"""Streams with the official client (spec 03, 4.1 to 4.6 and 8)."""

import time

import pytest
from apache_iggy import IggyClient

from support.names import NAMES, TOO_LONG
from support.official_client import fails_with, figures, messages, offsets, poll, stored_size
from support.wire_client import WireClient
from windsprite_protocol.model.streams import GetStream

covers = pytest.mark.covers


async def ids(client: IggyClient) -> dict[str, int]:
    return {stream.name: stream.id for stream in await client.get_streams()}


@covers("create_stream", "get_stream")
async def test_a_new_stream(client: IggyClient) -> None:
    before = time.time_ns() // 1000
    await client.create_stream("new")
    after = time.time_ns() // 1000
    stream = await client.get_stream("new")
    assert stream.name == "new"
    assert before <= stream.created_at <= after
    assert figures(stream) == (0, 0)
    assert stream.topics_count == 0
    assert stream.topics == []
    by_number = await client.get_stream(stream.id)
    assert (by_number.id, by_number.name) == (stream.id, "new")
    assert by_number.created_at == stream.created_at


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@covers("create_stream", "get_stream", "delete_stream")
async def test_names_come_back_as_they_are(client: IggyClient, name: str) -> None:
    assert await client.get_stream(name) is None
    await client.create_stream(name)
    stream = await client.get_stream(name)
    assert stream.name == name
    assert (await client.get_stream(stream.id)).name == name
    assert (await ids(client))[name] == stream.id
    with fails_with(1012):
        await client.create_stream(name)
    await client.delete_stream(name)
    assert await client.get_stream(name) is None


@covers("create_stream", "get_streams")
async def test_names_that_look_alike_are_different(client: IggyClient) -> None:
    alike = [NAMES[key] for key in ("case", "lower case", "composed", "decomposed")]
    for name in alike:
        await client.create_stream(name)
    found = await ids(client)
    assert len({found[name] for name in alike}) == len(alike)
    for name in alike:
        await client.delete_stream(name)


@pytest.mark.parametrize("name", ["", *TOO_LONG.values()], ids=["empty", *TOO_LONG])
@covers("create_stream", "update_stream")
async def test_names_that_no_stream_can_have(client: IggyClient, stream: str, name: str) -> None:
    with pytest.raises(RuntimeError):
        await client.create_stream(name)
    with pytest.raises(RuntimeError):
        await client.update_stream(stream, name)
    assert (await client.get_stream(stream)).name == stream


@covers("get_stream", "create_stream")
async def test_a_name_of_digits_is_a_name(client: IggyClient, wire: WireClient) -> None:
    await client.create_stream("4294967290")
    number = (await ids(client))["4294967290"]
    # The client takes such a text for an id, everywhere; the server must not.
    assert await client.get_stream("4294967290") is None
    assert (await wire.call(GetStream("4294967290"))).stream.id == number
    assert await wire.call(GetStream(4294967290)) is None
    await client.delete_stream(number)


@pytest.mark.parametrize("missing", ["no such stream", 999_999, 2**32 - 1])
@covers("get_stream", "update_stream", "delete_stream", "purge_stream")
async def test_a_missing_stream(client: IggyClient, missing: str | int) -> None:
    assert await client.get_stream(missing) is None
    with fails_with(1009):
        await client.update_stream(missing, "other")
    with fails_with(1009):
        await client.delete_stream(missing)
    with fails_with(1009):
        await client.purge_stream(missing)


@pytest.mark.parametrize("wrong", ["", "x" * 256, -1, 2**32, None])
@covers("get_stream")
async def test_what_is_no_identifier_is_not_sent(client: IggyClient, wrong: object) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        await client.get_stream(wrong)  # type: ignore[arg-type]


@covers("get_stream", "get_streams")
async def test_another_connection_sees_it_at_once(
    address: str, client: IggyClient, stream: str
) -> None:
    other = IggyClient(address)
    await other.login_user("iggy", "iggy")
    found = await other.get_stream(stream)
    assert found.id == (await client.get_stream(stream)).id
    await other.update_stream(stream, f"{stream} renamed")
    assert (await client.get_stream(found.id)).name == f"{stream} renamed"
    await other.delete_stream(found.id)
    assert stream not in await ids(client)
    assert await client.get_stream(found.id) is None


@covers("update_stream")
async def test_a_new_name_changes_nothing_else(client: IggyClient, stream: str) -> None:
    await client.create_topic(stream, "events", 1)
    await client.send_messages(stream, "events", 0, messages("a"))
    before = await client.get_stream(stream)
    new = f"{stream}, ünïcode"
    await client.update_stream(stream, new)
    assert await client.get_stream(stream) is None
    after = await client.get_stream(new)
    assert (after.id, after.name, after.created_at) == (before.id, new, before.created_at)
    assert figures(after) == figures(before) == (1, stored_size([1]))
    assert after.topics_count == 1
    assert offsets(await poll(client, new, "events")) == [0]
    await client.update_stream(before.id, stream)
    assert (await client.get_stream(before.id)).name == stream


@covers("update_stream")
async def test_renaming_to_the_name_it_has(client: IggyClient, stream: str) -> None:
    await client.update_stream(stream, stream)
    await client.update_stream(stream, stream)
    assert (await client.get_stream(stream)).name == stream


@covers("update_stream")
async def test_renaming_to_a_name_that_is_taken(client: IggyClient, stream: str) -> None:
    await client.create_stream(f"{stream} other")
    with fails_with(1012):
        await client.update_stream(stream, f"{stream} other")
    assert (await client.get_stream(stream)).name == stream


@covers("update_stream")
async def test_streams_have_no_options(client: IggyClient, stream: str) -> None:
    with fails_with(4041):
        await client.update_stream(stream, "other", options={"message_expiry": "1h"})
    with fails_with(4041):  # asked before anything else
        await client.update_stream("no such stream", "other", options={"x": "y"})
    assert (await client.get_stream(stream)).name == stream


@covers("delete_stream")
async def test_deleting(client: IggyClient, stream: str) -> None:
    await client.create_topic(stream, "events", 2)
    await client.send_messages(stream, "events", 0, messages("a"))
    number = (await client.get_stream(stream)).id
    await client.delete_stream(number)
    assert await client.get_stream(stream) is None
    assert await client.get_stream(number) is None
    assert await client.get_topic(stream, "events") is None
    assert await client.get_topics(stream) == []
    with fails_with(1009):
        await client.delete_stream(stream)
    with fails_with(1009):
        await client.delete_stream(number)


@covers("create_stream", "delete_stream")
async def test_a_name_that_was_freed_belongs_to_a_new_stream(
    client: IggyClient, stream: str
) -> None:
    await client.create_topic(stream, "events", 1)
    await client.send_messages(stream, "events", 0, messages("a"))
    await poll(client, stream, "events", commit=True)
    old = await client.get_stream(stream)
    await client.delete_stream(stream)
    await client.create_stream(stream)
    new = await client.get_stream(stream)
    assert new.created_at > old.created_at
    assert (new.topics_count, figures(new)) == (0, (0, 0))
    await client.create_topic(stream, "events", 1)
    sent = await client.send_messages(stream, "events", 0, messages("b"))
    assert sent.confirmations[0].base_offset == 0
    assert len(await poll(client, stream, "events")) == 1


@covers("create_stream", "get_streams")
async def test_ids_begin_at_0_and_the_lowest_free_one_is_next(fresh_address: str) -> None:
    client = IggyClient(fresh_address)
    await client.login_user("iggy", "iggy")
    assert await client.get_streams() == []
    for name in ("zero", "one", "two"):
        await client.create_stream(name)
    assert await ids(client) == {"zero": 0, "one": 1, "two": 2}
    await client.delete_stream("one")
    await client.delete_stream("zero")
    assert await ids(client) == {"two": 2}
    for name in ("new zero", "new one", "three"):
        await client.create_stream(name)
    assert await ids(client) == {"two": 2, "new zero": 0, "new one": 1, "three": 3}
    assert [stream.id for stream in await client.get_streams()] == [0, 1, 2, 3]


@covers("get_streams")
async def test_the_list_says_what_the_details_say(client: IggyClient, stream: str) -> None:
    for name, sizes in (("a", [1, 2]), ("b", [3]), ("empty", [])):
        await client.create_topic(stream, name, 2)
        for size in sizes:
            await client.send_messages(stream, name, 1, messages("x" * size))
    details = await client.get_stream(stream)
    assert figures(details) == (3, stored_size([1], [2], [3]))
    assert details.topics_count == 3
    assert [topic.name for topic in details.topics] == ["a", "b", "empty"]
    assert [figures(topic) for topic in details.topics] == [
        (2, stored_size([1], [2])),
        (1, stored_size([3])),
        (0, 0),
    ]
    (listed,) = [entry for entry in await client.get_streams() if entry.name == stream]
    assert figures(listed) == figures(details)
    assert (listed.id, listed.created_at) == (details.id, details.created_at)
    assert listed.topics_count == 3
    await client.delete_topic(stream, "a")
    assert (await client.get_stream(stream)).topics_count == 2
    assert figures(await client.get_stream(stream)) == (1, stored_size([3]))


@covers("get_streams")
async def test_the_list_is_in_the_order_of_ids(client: IggyClient) -> None:
    names = [f"ordered {n}" for n in range(5)]
    for name in reversed(names):
        await client.create_stream(name)
    listed = [stream.id for stream in await client.get_streams()]
    assert listed == sorted(listed)
    assert listed == [stream.id for stream in await client.get_streams()]


@covers("purge_stream")
async def test_purging(client: IggyClient, stream: str) -> None:
    for name in ("a", "b", "empty"):
        await client.create_topic(stream, name, 2)
    for name in ("a", "b"):
        for partition in (0, 1):
            await client.send_messages(stream, name, partition, messages("x", "yy"))
            await poll(client, stream, name, partition=partition, consumer="me", commit=True)
    before = await client.get_stream(stream)
    assert figures(before) == (8, 4 * stored_size([1, 2]))
    for _ in range(2):
        await client.purge_stream(before.id)
        after = await client.get_stream(stream)
        assert (after.id, after.name, after.created_at) == (before.id, stream, before.created_at)
        assert figures(after) == (0, 0)
        assert [figures(topic) for topic in after.topics] == [(0, 0)] * 3
    for name in ("a", "b"):
        details = await client.get_topic(stream, name)
        assert [
            (partition.id, partition.segments_count, partition.current_offset)
            for partition in details.partitions
        ] == [(0, 1, 0), (1, 1, 0)]
        sent = await client.send_messages(stream, name, 0, messages("new"))
        assert sent.confirmations[0].base_offset == 0
        assert offsets(await poll(client, stream, name, consumer="me", count=10)) == [0]


@covers("purge_stream")
async def test_purging_a_stream_without_topics(client: IggyClient, stream: str) -> None:
    await client.purge_stream(stream)
    await client.purge_stream(stream)
    assert figures(await client.get_stream(stream)) == (0, 0)
