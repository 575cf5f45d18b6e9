"""What a client tells about its connection."""

import asyncio
import logging

import pytest

import windsprite
from support.environment import SeededEnvironment
from support.scripted_server import Cut, ScriptedCluster
from support.virtual_time import in_virtual_time
from windsprite.events import Events
from windsprite_protocol.model.streams import GetStreams


def connect(url: str, on_event: windsprite.OnEvent | None = None) -> windsprite.Connecting:
    return windsprite.connect(
        url, environment=SeededEnvironment(), reestablish_after=0, on_event=on_event
    )


@in_virtual_time
async def test_the_life_of_a_connection() -> None:
    events: list[windsprite.ClientEvent] = []
    async with await ScriptedCluster().start(2) as cluster:
        one, two = (f"127.0.0.1:{node.port}" for node in cluster.nodes)
        async with connect(cluster.url(0), events.append) as client:
            cluster.nodes[0].script(GetStreams, [Cut()])
            await client.get_streams()
            cluster.elect(1)
            await client.create_stream("orders")
            await client.logout()
            await client.login("iggy", "iggy")
    assert events == [
        windsprite.Connected(one, 1),
        windsprite.SignedIn(0),
        windsprite.Disconnected(one, "the server closed the connection"),
        windsprite.Connected(one, 2),
        windsprite.SignedIn(0),
        windsprite.LeaderChanged(two),
        windsprite.Connected(two, 3),
        windsprite.SignedIn(0),
        windsprite.SignedOut(),
        windsprite.Connected(two, 4),
        windsprite.SignedIn(0),
        windsprite.Closed(),
    ]


@in_virtual_time
async def test_streams_of_events_begin_now_and_end_with_the_client() -> None:
    async with await ScriptedCluster().start() as cluster:
        async with connect(cluster.url()) as client:
            events = client.events()
            reader = asyncio.create_task(anext(events))
            await asyncio.sleep(0)
            await client.logout()
            assert await reader == windsprite.SignedOut()
        assert [event async for event in events] == [windsprite.Closed()]
        assert [event async for event in client.events()] == [windsprite.Closed()]
        with pytest.raises(windsprite.InvalidRequest):
            client.events(0)


@in_virtual_time
async def test_who_does_not_read_loses_the_oldest() -> None:
    events = Events()
    stream = events.stream(2)
    for number in range(5):
        events.emit(windsprite.Connected("h:1", number))
    assert stream.dropped == 3
    events.emit(windsprite.Closed())
    events.emit(windsprite.SignedOut())
    assert [event async for event in stream] == [
        windsprite.Connected("h:1", 4),
        windsprite.Closed(),
    ]
    assert stream.dropped == 4


@in_virtual_time
async def test_a_callback_that_raises_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: windsprite.ClientEvent) -> None:
        raise ValueError(event)

    async with await ScriptedCluster().start() as cluster:
        with caplog.at_level(logging.ERROR, "windsprite"):
            async with connect(cluster.url(), fail) as client:
                cluster.nodes[0].script(GetStreams, [Cut()])
                assert await client.get_streams() == ()
    assert caplog.text.count("on_event raised") == 6
