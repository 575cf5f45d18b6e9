"""The page for those who write clients is the table of commands, in words."""

import dataclasses
import re
from typing import Any

import pytest

from support.pages import load_page_script
from support.permission_table import (
    CREATE_STREAM,
    CREATE_TOPIC,
    MANAGE_STREAM,
    MANAGE_TOPIC,
    MANAGE_USERS,
    READ_MESSAGES,
    READ_STREAM,
    READ_STREAMS,
    READ_TOPIC,
    READ_TOPICS,
    READ_USERS,
    SEND_MESSAGES,
    SERVERS,
)
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.v0_11.table import GENERATION
from windsprite_server.metadata.authorization import Rule

script = load_page_script("protocol_page")

ENOUGH = {
    Rule.SERVERS: SERVERS,
    Rule.READ_USERS: READ_USERS,
    Rule.MANAGE_USERS: MANAGE_USERS,
    Rule.READ_STREAMS: READ_STREAMS,
    Rule.READ_STREAM: READ_STREAM,
    Rule.CREATE_STREAM: CREATE_STREAM,
    Rule.MANAGE_STREAM: MANAGE_STREAM,
    Rule.READ_TOPICS: READ_TOPICS,
    Rule.READ_TOPIC: READ_TOPIC,
    Rule.CREATE_TOPIC: CREATE_TOPIC,
    Rule.MANAGE_TOPIC: MANAGE_TOPIC,
    Rule.POLL: READ_MESSAGES,
    Rule.SEND: SEND_MESSAGES,
}
LEVELS = {"everywhere": "g", "on the stream": "s", "on the topic": "t"}


def test_the_page_is_current() -> None:
    page = script.PAGE.read_text(encoding="utf-8")
    assert page == script.page(), "`make docs-protocol` writes it anew"


def test_there_are_notes_for_each_command_and_for_no_other() -> None:
    assert set(script.NOTES["commands"]) == {str(command.code) for command in GENERATION}


def test_numbers_in_notes_are_numbers_of_errors() -> None:
    for notes in script.NOTES["commands"].values():
        for number in [*notes.get("status", ()), *notes.get("result", ())]:
            assert ErrorCode(number)


def test_notes_are_about_fields_that_there_are() -> None:
    shown = set(re.findall(r"^\| *\d* *\| `([\w.\[\] ]+)` ", script.page(), re.MULTILINE))
    names = {name.removesuffix("[]").rpartition(".")[2] for name in shown}
    noted = set(script.NOTES["fields"]) | {
        field for fields in script.NOTES["fields_of"].values() for field in fields
    }
    assert noted - names == set()


def test_every_field_has_a_meaning() -> None:
    rows = re.findall(r"^\| *\d* *\| `(.+)` \| (.+) \|  \|$", script.page(), re.MULTILINE)
    # Grants are explained together, and blocks where they are.
    assert [(field, form) for field, form in rows if form != "flag" and "-block)" not in form] == []


@pytest.mark.parametrize("rule", Rule, ids=lambda rule: rule.name)
def test_grants_are_those_of_the_rule_table(rule: Rule) -> None:
    told = {
        f"{LEVELS[level]}.{grant}"
        for level, grants in script.grants_of(rule).items()
        for grant in grants
    }
    assert told == ENOUGH[rule]


@pytest.mark.parametrize("command", list(GENERATION), ids=lambda command: command.name)
def test_tables_name_all_fields_of_requests(command: Any) -> None:
    section = script.command_section(command)
    request = section[section.index("**Request.**") : section.index("**Reply")]
    rows = re.findall(r"^\| *\d* *\| `([\w.\[\] ]+)`", request, re.MULTILINE)
    told = {word for row in rows for word in re.findall(r"\w+", row)}
    assert {field.name for field in dataclasses.fields(command.request_type)} <= told
