"""The examples of docs/producing.md, all of them, run as they stand on a real server."""

import asyncio
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import windsprite
from support.server_process import server_process

PAGE = Path(__file__).resolve().parents[2] / "docs" / "producing.md"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with server_process(tmp_path) as server:
        yield server.wait_ready()["tcp"]


def test_the_examples_of_producing(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    program, *parts = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert "127.0.0.1:8090" in program
    exec(compile(program.replace("127.0.0.1:8090", address), PAGE, "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"Delivered(partition=0, offset={number})" for number in range(3)]

    assert len(parts) >= 8
    asyncio.run(run_parts(parts, address))
    output = capsys.readouterr().out
    assert "b'a secret' {'card': '1234'}\n" in output
    assert "messages for partition" not in output


async def run_parts(parts: list[str], address: str) -> None:
    """Run parts of a program, each with a client and a producer at hand."""
    async with windsprite.connect(f"iggy://iggy:iggy@{address}") as client:
        for part in parts:
            async with client.producer("orders", "events") as producer:
                source = "async def part(client, producer):\n" + textwrap.indent(part, "    ")
                names = {"asyncio": asyncio, "windsprite": windsprite}
                exec(compile(source, PAGE, "exec"), names)
                await names["part"](client, producer)  # type: ignore[operator]
        messages = [
            message
            for partition in range(3)
            for message in await client.poll(
                "orders", "events", partition=partition, start=windsprite.From.first()
            )
        ]
    payloads = [message.payload for message in messages if len(message.payload) < 100]
    assert sorted(payloads) == [
        b"first",
        b"measurement",
        b"now",
        b"one",
        *(b"order %d" % number for number in range(3)),
        *[b"payload"] * 3,
        b"second",
        b"small",
        b"two",
    ]
