"""The permission table of the protocol, rule by rule and grant by grant."""

import timeit
from dataclasses import fields, replace

import pytest

from support.metadata import PERMISSION_TABLE, Machine
from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from windsprite_server.metadata.authorization import (
    NOTHING_GRANTED,
    Rule,
    allowed,
    compile_grants,
    normalized,
    without_stream,
    without_topic,
)
from windsprite_server.metadata.queries import is_allowed

STREAM, TOPIC = 3, 5
GLOBAL = tuple(flag.name for flag in fields(GlobalPermissions))
ON_STREAM = (
    "manage_stream",
    "read_stream",
    "manage_topics",
    "read_topics",
    "poll_messages",
    "send_messages",
)
ON_TOPIC = ("manage_topic", "read_topic", "poll_messages", "send_messages")


def one_grant(grant: str) -> Permissions:
    level, name = grant.split(".")
    if level == "g":
        return Permissions(GlobalPermissions(**{name: True}))
    if level == "s":
        return Permissions(streams=(StreamPermissions(STREAM, **{name: True}),))
    topic = TopicPermissions(TOPIC, **{name: True})
    return Permissions(streams=(StreamPermissions(STREAM, topics=(topic,)),))


GRANTS = (
    *(f"g.{name}" for name in GLOBAL),
    *(f"s.{name}" for name in ON_STREAM),
    *(f"t.{name}" for name in ON_TOPIC),
)


@pytest.mark.parametrize("grant", GRANTS)
def test_each_grant_passes_the_rules_that_list_it_and_no_other(grant: str) -> None:
    grants = compile_grants(one_grant(grant))
    passed = {rule for rule in Rule if allowed(grants, rule, STREAM, TOPIC)}
    assert passed == {rule for rule, listed in PERMISSION_TABLE.items() if grant in listed}


def test_the_table_knows_every_rule_and_the_grants_are_those_of_the_protocol() -> None:
    assert set(PERMISSION_TABLE) == set(Rule)
    assert {grant for listed in PERMISSION_TABLE.values() for grant in listed} == set(GRANTS)


@pytest.mark.parametrize("grant", [grant for grant in GRANTS if not grant.startswith("g.")])
def test_a_grant_on_one_stream_or_topic_says_nothing_about_others(grant: str) -> None:
    grants = compile_grants(one_grant(grant))
    for rule in Rule:
        assert not allowed(grants, rule)
        assert not allowed(grants, rule, STREAM + 1, TOPIC)
        if grant.startswith("t."):
            assert not allowed(grants, rule, STREAM)
            assert not allowed(grants, rule, STREAM, TOPIC + 1)


def test_all_grants_but_one_pass_everything_that_the_others_pass() -> None:
    for missing in GLOBAL:
        root = GlobalPermissions(**{name: name != missing for name in GLOBAL})
        grants = compile_grants(Permissions(root))
        for rule, listed in PERMISSION_TABLE.items():
            others = {grant for grant in listed if grant.startswith("g.")} - {f"g.{missing}"}
            assert allowed(grants, rule, STREAM, TOPIC) == bool(others)


def test_nothing_granted_passes_nothing() -> None:
    for grants in (compile_grants(None), compile_grants(Permissions()), NOTHING_GRANTED):
        assert not any(allowed(grants, rule, STREAM, TOPIC) for rule in Rule)


def test_root_passes_every_rule_and_an_unknown_user_none() -> None:
    machine = Machine()
    for rule in Rule:
        assert is_allowed(machine.state, 0, rule, STREAM, TOPIC)
        assert not is_allowed(machine.state, 9, rule, STREAM, TOPIC)


def test_the_last_entry_of_a_repeated_id_counts_and_ids_ascend() -> None:
    stored = normalized(
        Permissions(
            streams=(
                StreamPermissions(7, read_stream=True),
                StreamPermissions(
                    2,
                    topics=(
                        TopicPermissions(4, send_messages=True),
                        TopicPermissions(1),
                        TopicPermissions(4, poll_messages=True),
                    ),
                ),
                StreamPermissions(7, send_messages=True),
            )
        )
    )
    assert stored == Permissions(
        streams=(
            StreamPermissions(
                2, topics=(TopicPermissions(1), TopicPermissions(4, poll_messages=True))
            ),
            StreamPermissions(7, send_messages=True),
        )
    )
    assert normalized(None) is None


def test_taking_away_a_stream_or_a_topic_leaves_the_rest() -> None:
    topics = (TopicPermissions(0, read_topic=True), TopicPermissions(1, read_topic=True))
    both = Permissions(streams=(StreamPermissions(0, topics=topics), StreamPermissions(1)))
    assert without_stream(both, 1) == replace(both, streams=both.streams[:1])
    assert without_topic(both, 0, 0) == Permissions(
        streams=(StreamPermissions(0, topics=topics[1:]), StreamPermissions(1))
    )
    assert without_topic(both, 1, 0) == both


def test_a_check_costs_little_however_much_is_granted() -> None:
    grants = compile_grants(
        Permissions(
            streams=tuple(
                StreamPermissions(
                    number, topics=tuple(TopicPermissions(topic) for topic in range(10))
                )
                for number in range(1000)
            )
        )
    )
    best = min(timeit.repeat(lambda: allowed(grants, Rule.SEND, 999, 9), number=20_000, repeat=5))
    # Well under a microsecond; the bound leaves room for a busy machine.
    assert best / 20_000 < 3e-6
