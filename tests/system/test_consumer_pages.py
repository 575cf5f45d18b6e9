"""Every block of code of the page about consumers, run on a real server."""

import asyncio
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windsprite
from support.server_process import server_process

PAGE = Path(__file__).resolve().parents[2] / "docs" / "consuming.md"
BLOCKS = re.findall(
    r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server_process(tmp_path_factory.mktemp("pages")) as server:
        yield f"iggy://iggy:iggy@{server.wait_ready()['tcp']}"


@pytest.mark.parametrize("block", BLOCKS)
async def test_a_block_of_the_page(url: str, block: str) -> None:
    handled: list[int] = []

    async def handle(message: windsprite.ReceivedMessage) -> None:
        handled.append(message.offset)

    namespace: dict[str, Any] = {"asyncio": asyncio, "windsprite": windsprite, "handle": handle}
    exec(f"async def example(client):\n{textwrap.indent(block, '    ')}", namespace)
    async with windsprite.connect(url) as client:
        await client.create_stream("orders")
        await client.create_topic("orders", "events")
        await client.create_topic("orders", "failed")
        await client.send("orders", "events", [b"one", b"two", b"three"])
        running = asyncio.create_task(namespace["example"](client))
        async with asyncio.timeout(30):
            while len(handled) < 3 and not running.done():
                await asyncio.sleep(0.005)
        if not running.done():
            await asyncio.wait({running}, timeout=0.2)
        if running.done():
            await running
        running.cancel()
        await asyncio.wait({running})
        await client.delete_stream("orders")
    assert handled in ([0, 1, 2], [0, 1])


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 6
