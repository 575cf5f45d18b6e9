"""Session numbers and positions over kills and restarts of the real program (spec 01, 3.2 and 5.5).

A client keeps the highest position that it was told and shows it to other nodes; an old session is
told apart by its number. So both only ever grow, whatever happens to the server.
"""

import asyncio
import random
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from support.server_process import server_process
from support.wire_client import VERSION, evicted, status, success, wire_client
from windsprite_protocol.model.cluster import Attachment, AttachSession
from windsprite_protocol.model.identifiers import (
    Consumer,
    ConsumerKind,
    PollingKind,
    PollingStrategy,
)
from windsprite_protocol.model.messages import GetPollRouting, PollMessages
from windsprite_protocol.model.sessions import Login
from windsprite_protocol.model.streams import CreateStream, GetStream
from windsprite_protocol.model.topics import CreateTopic


async def busy(address: str, life: int, seen: list[int], numbers: list[int]) -> None:
    """Log in and create streams until the server is gone."""
    async with wire_client(address) as client:
        try:
            told = await client.answer_to(Login(VERSION, "iggy", "iggy"))
            numbers.append(int.from_bytes(told.body[8:16], "little"))
            seen.append(told.header.commit)
            client.session = numbers[-1]
            for count in range(1_000_000):
                answer = await client.answer_to(CreateStream(f"{life} {client.session} {count}"))
                assert answer.told.channel == "success"
                seen.append(answer.header.commit)
        except (EOFError, ConnectionError):
            return


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_numbers_and_positions_only_grow(tmp_path: Path, end: signal.Signals) -> None:
    randomness = random.Random(end)
    sessions: list[int] = []
    positions: list[int] = []
    for life in range(4):
        with server_process(tmp_path) as server:
            address = server.wait_ready()["tcp"]
            seen: list[list[int]] = [[] for _ in range(3)]
            numbers: list[int] = []
            work = [asyncio.create_task(busy(address, life, one, numbers)) for one in seen]
            await asyncio.sleep(randomness.uniform(0.3, 0.6))
            server.send(end)
            await asyncio.gather(*work)
            server.wait_end()
        assert numbers
        assert len(set(numbers)) == len(numbers)
        assert min(numbers) > max(sessions, default=0)
        assert max(numbers) < 1 << 63
        sessions += numbers
        for one in seen:
            assert one == sorted(one)
        told = [position for one in seen for position in one]
        assert min(told) >= max(positions, default=0), "an answered write was forgotten"
        positions += told


async def test_nothing_of_an_old_session_is_left_after_a_restart(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        with server_process(tmp_path) as server:
            address = server.wait_ready()["tcp"]
            old = await stack.enter_async_context(wire_client(address))
            await old.login()
            await old.call(CreateStream("s"))
            await old.call(CreateTopic("s", 1, "t"))
            route = await old.call(GetPollRouting(poll()))
            server.send(signal.SIGKILL)
            server.wait_end()
        with server_process(tmp_path) as server:
            new = await stack.enter_async_context(wire_client(server.wait_ready()["tcp"]))
            new.client, new.session = old.client, old.session
            assert await new.told(GetStream("s")) == status(40)
            assert await new.told(CreateStream("new")) == evicted(1)
            # The same client id begins anew: its numbers, its replies, its route.
            told = await new.call(Login(VERSION, "iggy", "iggy"))
            assert told.session > old.session
            new.session, new.next_request = told.session, 1
            assert (await new.told(CreateStream("new"))).channel == "success"
            assert await new.told(AttachSession(route.attachment)) == status(30)
            again = await new.call(GetPollRouting(poll()))
            assert again.attachment.watermark > route.attachment.watermark
            assert await new.told(AttachSession(again.attachment)) == success()
            ahead = Attachment(
                again.attachment.client, again.attachment.session, again.attachment.watermark + 10
            )
            assert await new.told(AttachSession(ahead)) == status(58)


def poll() -> PollMessages:
    consumer = Consumer(ConsumerKind.SINGLE, 1)
    return PollMessages(consumer, "s", "t", 0, PollingStrategy(PollingKind.NEXT), 1, True)
