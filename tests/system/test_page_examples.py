"""The Python examples of the pages, run as they stand on a real server."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import windsprite
from support.server_process import server_process

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with server_process(tmp_path) as server:
        yield server.wait_ready()["tcp"]


def run_example(page: str, address: str) -> None:
    """Run the first complete program in a page, pointed at a server of the test."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (program, *_) = [block for block in blocks if "asyncio.run(" in block]
    assert "127.0.0.1:8090" in program
    # In this process: the official client may abort an interpreter that ends soon after a request.
    exec(compile(program.replace("127.0.0.1:8090", address), page, "exec"), {})


def test_the_example_of_the_readme(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_example("README.md", address)
    assert capsys.readouterr().out == "0 b'one'\n1 b'two'\n"


def test_the_example_of_users(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_example("docs/users.md", address)
    assert "username='shop'" in capsys.readouterr().out
    assert asyncio.run(count_messages(address)) == 1


def test_the_example_of_groups(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_example("docs/groups.md", address)
    assert capsys.readouterr().out == "b'one'\nb'two'\n"


async def count_messages(address: str) -> int:
    async with windsprite.connect(f"iggy://iggy:iggy@{address}") as client:
        topic = await client.get_topic("orders", "events")
        assert topic is not None
        return topic.topic.messages_count


def test_the_example_with_an_official_client(address: str) -> None:
    run_example("docs/connecting.md", address)
    assert asyncio.run(count_messages(address)) == 1
