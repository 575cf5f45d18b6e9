"""The examples of the pages, run as they stand on real servers."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import windsprite
from support.examples import NOT_RUN, PYTHON, REMARKS, SHELL, Reader, is_not_run
from support.pages import ROOT, blocks, name_of, pages

# What does not come from a script, has examples that are to run, or says why they are not.
ELSEWHERE = {
    "docs/consuming.md": "test_consumer_pages.py",
    "docs/producing.md": "test_producer_page.py",
}
"""Pages whose examples need more than those of others, and the tests that run them."""

WITH_EXAMPLES = [
    page
    for page in pages()
    if name_of(page) not in ELSEWHERE
    and any(block.language in (PYTHON, SHELL) and not is_not_run(block) for block in blocks(page))
]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.close()


def read(reader: Reader, page: str) -> list[str]:
    return reader.read(list(blocks(ROOT / page)))


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name_of)
def test_the_examples_of_a_page_run(page: Path, reader: Reader) -> None:
    assert reader.read(list(blocks(page))) != []


def test_the_examples_of_users(reader: Reader) -> None:
    (output, *_) = read(reader, "docs/users.md")
    assert "username='shop'" in output


def test_the_example_with_an_official_client(reader: Reader) -> None:
    page = blocks(ROOT / "docs" / "connecting.md")
    reader.read([block for block in page if "from apache_iggy" in block.text])
    assert asyncio.run(count_messages(reader.address)) == 1


async def count_messages(address: str) -> int:
    async with windsprite.connect(f"iggy://iggy:iggy@{address}") as client:
        topic = await client.get_topic("devices", "signals")
        assert topic is not None
        return topic.topic.messages_count


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_there_are_tests_of_the_others(page: str, test: str) -> None:
    assert (ROOT / page).exists()
    assert Path(page).name in Path(__file__).with_name(test).read_text(encoding="utf-8")


# --- What the pages are held to ------------------------------------------------------------------


def test_every_example_can_be_told_apart() -> None:
    """A block says its language; what is not run says why; and no remark is misspelt."""
    wrong = [
        f"{block.page}:{block.line}: {problem}"
        for page in pages()
        for block in blocks(page)
        for problem in (
            *(["no language"] if not block.language else []),
            *(
                f"unknown remark: {remark}"
                for remark in block.remarks
                if remark not in REMARKS and not remark.startswith(NOT_RUN)
            ),
        )
    ]
    assert wrong == []


MAKES = re.compile(
    r"\bcreate_(stream|user)\(\s*\"([^\"]+)\"|\bwindsprite (stream|user) create (\S+)"
)
"""What can be made once: a stream or a user."""


def test_whoever_reads_page_after_page_can_run_all_examples_on_one_server() -> None:
    """No two make the same: the second would be told that it is there already."""
    made = Counter(
        "{0}{2} {1}{3}".format(*names)
        for page in pages()
        for block in blocks(page)
        if block.language in (PYTHON, SHELL) and not is_not_run(block)
        for names in MAKES.findall(block.text)
    )
    assert made["stream orders"] == 1
    assert [name for name, times in made.items() if times > 1] == []
