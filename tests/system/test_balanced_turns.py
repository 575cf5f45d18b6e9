"""Balanced sends take the partitions of a topic in turn (spec 04, 4.3)."""

from pathlib import Path

import pytest

from support.batch_examples import PRODUCED
from support.real_server import real_server
from support.wire_client import WireClient
from windsprite_protocol.model.identifiers import Balanced
from windsprite_protocol.model.messages import SendMessages
from windsprite_protocol.model.streams import CreateStream, DeleteStream
from windsprite_protocol.model.topics import CreateTopic, DeleteTopic


async def chosen(client: WireClient, count: int) -> list[int]:
    """The partitions that balanced sends go to."""
    send = SendMessages("s", "t", Balanced(), 2, PRODUCED)
    return [(await client.call(send)).items[0].partition_id for _ in range(count)]


@pytest.mark.parametrize("deletion", [DeleteTopic("s", "t"), DeleteStream("s")])
async def test_a_topic_with_an_id_that_was_used_before_begins_anew(
    tmp_path: Path, deletion: DeleteTopic | DeleteStream
) -> None:
    async with real_server(tmp_path) as server, server.client("iggy", "iggy") as client:
        await client.call(CreateStream("s"))
        await client.call(CreateTopic("s", 3, "t"))
        assert await chosen(client, 5) == [0, 1, 2, 0, 1]
        await client.call(deletion)
        if isinstance(deletion, DeleteStream):
            await client.call(CreateStream("s"))
        await client.call(CreateTopic("s", 3, "t"))
        assert await chosen(client, 2) == [0, 1]
