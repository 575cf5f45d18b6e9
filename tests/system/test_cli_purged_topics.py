"""Reading a topic that is purged meanwhile, on a real server."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import pytest

import windsprite
import windsprite.sync
from support.server_process import server_process
from windsprite import Client, ReceivedMessage
from windsprite.cli.arguments import Start, StartKind
from windsprite.cli.group_reading import GroupReading
from windsprite.cli.reading import Place, Reading, Span
from windsprite.environment import SystemEnvironment


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server_process(tmp_path_factory.mktemp("server")) as process:
        yield f"iggy://iggy:iggy@{process.wait_ready()['tcp']}"


@pytest.fixture
async def client(url: str) -> AsyncIterator[Client]:
    async with windsprite.connect(url) as client:
        await client.create_stream("orders")
        await client.create_topic("orders", "events")
        await client.send("orders", "events", [b"one", b"two", b"three"])
        yield client
        await client.delete_stream("orders")


class Purging:
    """Writes messages nowhere; before their offset is stored, somebody purges the topic."""

    def __init__(self, url: str) -> None:
        self.payloads: list[bytes] = []
        self._url = url

    def write(self, messages: Sequence[ReceivedMessage]) -> None:
        self.payloads += [message.payload for message in messages]
        with windsprite.sync.connect(self._url) as another:
            another.purge_topic("orders", "events")


def of_a_consumer(client: Client, place: Place, span: Span, sink: Purging) -> Reading:
    return Reading(client, place, span, sink, SystemEnvironment(), consumer="reader")


def of_a_group(client: Client, place: Place, span: Span, sink: Purging) -> GroupReading:
    return GroupReading(client, place, span, sink, SystemEnvironment(), group="readers")


@pytest.mark.parametrize("reading", [of_a_consumer, of_a_group])
async def test_offsets_that_a_purge_took_away_need_not_be_stored(
    url: str, client: Client, reading: Callable[..., Reading | GroupReading]
) -> None:
    place = Place("orders", "events", {0: 2})
    sink = Purging(url)
    span = Span(Start(StartKind.FIRST), count=None, is_endless=False)
    await reading(client, place, span, sink).run()
    assert sink.payloads == [b"one", b"two", b"three"]
