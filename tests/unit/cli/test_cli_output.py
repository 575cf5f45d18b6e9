import io
import json
from dataclasses import dataclass
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from windsprite import NodeRole
from windsprite.cli.output import (
    Facts,
    Part,
    Size,
    Table,
    bytes_to_json,
    dump_json,
    human_size,
    plain,
    print_tables,
    printable,
    to_json,
)

FACTS = Facts([("name", "orders"), ("size", Size(1536))])
TABLE = Table(("id", "name"), [(7, "a"), (1234567, "two words")])


def on_terminal(*parts: Part) -> str:
    out = io.StringIO()
    print_tables(parts, Console(file=out, width=40, force_terminal=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def test_plain_text_has_tabs_and_exact_numbers() -> None:
    assert plain([FACTS, TABLE]) == (
        "name\torders\nsize\t1536\n\nid\tname\n7\ta\n1234567\ttwo words\n"
    )
    assert plain([Table(("id",), [])]) == "id\n"


def test_a_terminal_gets_aligned_columns() -> None:
    assert on_terminal(FACTS) == "name  orders\nsize  1.5 KiB"
    lines = on_terminal(TABLE).splitlines()
    assert lines[0] == "     id   name"
    assert lines[2:] == ["      7   a", "1234567   two words"]


def test_names_cannot_play_tricks_on_a_terminal() -> None:
    trick = "\x1b[31mred\x1b]0;title\x07\n\tnext[bold]"
    for shown in (on_terminal(Table(("name",), [(trick,)])), plain([Facts([("n", trick)])])):
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert "[bold]" in shown.replace("\n", "")


@given(st.text())
def test_printable_text_is_one_line_without_controls(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    if text.isprintable():
        assert shown == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1_048_576, "1.0 MiB"),
        (999 * 1024, "999.0 KiB"),
        (1001 * 1024, "1.0 MiB"),
        (2**64, "16.0 EiB"),
    ],
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert human_size(size) == text


@dataclass
class Example:
    number: int
    role: NodeRole
    id: UUID
    data: bytes
    inner: tuple[object, ...]


def test_values_become_json() -> None:
    uuid = UUID(int=5)
    value = Example(2**127, NodeRole.LEADER, uuid, b"\xff", (None, True, 1.5, "x", b"text"))
    assert json.loads(dump_json(to_json(value))) == {
        "number": 2**127,
        "role": "leader",
        "id": str(uuid),
        "data": {"base64": "/w=="},
        "inner": [None, True, 1.5, "x", "text"],
    }
    with pytest.raises(TypeError, match="set has no form"):
        to_json(set())


def test_bytes_are_text_where_they_can_be() -> None:
    assert bytes_to_json("ü\x00".encode()) == "ü\x00"
    assert bytes_to_json(b"") == ""
    assert bytes_to_json(b"a\x80") == {"base64": "YYA="}


def test_a_line_of_json_is_one_line() -> None:
    assert dump_json({"a": "ü\n\u2028"}) == '{"a": "ü\\n\u2028"}\n'
