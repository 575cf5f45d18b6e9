"""The table of generation 0.11 against the list of codes (spec 01, 2.3 and 2.4)."""

import pytest

from windsprite_protocol.generation import Plane
from windsprite_protocol.model.sessions import Login, LoginWithToken, Logout
from windsprite_protocol.model.streams import CreateStream
from windsprite_protocol.model.system import Ping
from windsprite_protocol.v0_11.table import COMMANDS, GENERATION, LEGACY_LOGIN_CODES

NOT_REPLICATED = 2
CODES = {
    1: ("ping", 2),
    10: ("stats", 2),
    11: ("snapshot", 2),
    12: ("cluster.metadata", 2),
    13: ("options.describe", 2),
    14: ("consumer_session.attach", 2),
    20: ("me", 2),
    21: ("client.get", 2),
    22: ("client.list", 2),
    31: ("user.get", 2),
    32: ("user.list", 2),
    33: ("user.create", 141),
    34: ("user.delete", 143),
    35: ("user.update", 142),
    36: ("user.permissions", 145),
    37: ("user.password", 144),
    38: ("user.login", 2),
    39: ("user.logout", 3),
    40: ("user.login_register", 1),
    41: ("personal_access_token.list", 2),
    42: ("personal_access_token.create", 146),
    43: ("personal_access_token.delete", 147),
    44: ("personal_access_token.login", 2),
    45: ("user.login_register_with_pat", 1),
    100: ("message.poll", 2),
    101: ("message.send", 160),
    102: ("message.flush_unsaved_buffer", 2),
    103: ("message.poll_routing", 2),
    104: ("message.poll_primary", 2),
    120: ("consumer_offset.get", 2),
    121: ("consumer_offset.store", 161),
    122: ("consumer_offset.delete", 162),
    123: ("consumer_offset.routing", 2),
    200: ("stream.get", 2),
    201: ("stream.list", 2),
    202: ("stream.create", 128),
    203: ("stream.delete", 130),
    204: ("stream.update", 129),
    205: ("stream.purge", 131),
    300: ("topic.get", 2),
    301: ("topic.list", 2),
    302: ("topic.create", 132),
    303: ("topic.delete", 134),
    304: ("topic.update", 133),
    305: ("topic.purge", 135),
    402: ("partition.create", 136),
    403: ("partition.delete", 137),
    503: ("segment.delete", 138),
    600: ("consumer_group.get", 2),
    601: ("consumer_group.list", 2),
    602: ("consumer_group.create", 139),
    603: ("consumer_group.delete", 140),
    604: ("consumer_group.join", 148),
    605: ("consumer_group.leave", 149),
    606: ("consumer_group.sync", 2),
}
"""Every code of the specification: its registered name and the operation it travels as."""


def test_every_code_is_a_command_or_a_legacy_login():
    assert {command.code for command in GENERATION} | LEGACY_LOGIN_CODES == set(CODES)
    assert not {command.code for command in GENERATION} & LEGACY_LOGIN_CODES


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_name_and_operation(command):
    assert (command.name, command.operation) == CODES[command.code]


def test_three_operations_change_when_they_are_committed():
    changed = {c.operation: c.committed_operation for c in GENERATION}
    changed = {before: after for before, after in changed.items() if before != after}
    assert changed == {132: 64, 136: 65, 138: 68}


def test_result_sections():
    framed = {command.operation for command in GENERATION if command.framed}
    assert framed == {1, *range(128, 150), 161, 162}


def test_operations_are_distinct_except_for_reads_and_logins():
    operations = [c.operation for c in GENERATION if c.operation not in (NOT_REPLICATED, 1)]
    assert len(operations) == len(set(operations))


def test_planes():
    planes = {command.name: command.plane for command in GENERATION}
    assert planes["user.login_register"] is Plane.SESSION
    assert planes["user.logout"] is Plane.SESSION
    assert planes["segment.delete"] is Plane.METADATA
    assert planes["consumer_group.join"] is Plane.METADATA
    assert planes["message.send"] is Plane.PARTITION
    assert planes["consumer_offset.delete"] is Plane.PARTITION
    assert planes["message.poll"] is Plane.READ


def test_what_is_served_before_login():
    served = {command.code for command in GENERATION if not command.needs_login}
    assert served == {1, 39, 40, 45}


def test_finding_commands():
    assert GENERATION.name == "0.11"
    assert GENERATION.packed_version == 11264
    assert GENERATION.by_code(60000) is None
    assert GENERATION.by_code(38) is None
    for request_type, code in ((Ping, 1), (CreateStream, 202), (Logout, 39), (Login, 40)):
        assert GENERATION.of(request_type).code == code
    assert GENERATION.of(LoginWithToken).code == 45
