"""Snapshots: the same state, the same bytes; and nothing else is taken for one."""

import json

import pytest

from support.metadata import AWKWARD_NAMES, Machine, image, option, topic_of
from windsprite_protocol.model.permissions import Permissions, StreamPermissions
from windsprite_server.metadata import commands as c
from windsprite_server.metadata import snapshot
from windsprite_server.metadata.authorization import Rule
from windsprite_server.metadata.queries import find_token, is_allowed
from windsprite_server.metadata.state import State

# What a version that wrote format 1 left on disk.
WRITTEN = b"""\
["header",{"format":1,"position":9,"timestamp_us":1700000000000090,"streams":1,"users":1,"condemned":1}]
["stream",{"id":1,"name":"a/b","created_at":5,"topics":[{"id":0,"name":"t","created_at":6,\
"message_expiry":18446744073709551615,"compression":1,"max_topic_size":7,\
"options":[{"key":"k","value":{"kind":1,"data":"_w=="}}],"derived_options":[],\
"partitions":[[6,3,2],[6,4,1]],"groups":[{"id":4,"name":"g"}],"next_group_id":5}]}]
["user",{"id":0,"username":"iggy","created_at":1,"status":1,"password_hash":"$h","permissions":null,\
"tokens":[{"name":"t","token_hash":"ab","expiry":0}]}]
["condemned",{"places":[{"stream_id":0,"topic_id":0,"partition_id":0,"incarnation":2}]}]
"""


def populated() -> Machine:
    machine = Machine()
    for name in AWKWARD_NAMES:
        machine.do(c.CreateStream(name))
        machine.do(topic_of(name, "t", 3, options=(option("z"), option("a"))))
        machine.do(c.CreateConsumerGroup(name, "t", name))
    machine.do(c.PurgeTopic("a/b", "t"))
    machine.do(c.CreatePartitions("a/b", "t", 2))
    machine.do(c.DeleteConsumerGroup("a/b", "t", 0))
    machine.do(c.DeleteStream(3))
    alice = machine.user("alice", Permissions(streams=(StreamPermissions(0, read_stream=True),)))
    machine.user("carol")
    machine.do(c.CreateToken("of alice", "t1", 10**6), alice)
    machine.do(c.DeleteUser("carol"))
    return machine


def test_what_is_on_disk_is_understood_and_written_again_the_same() -> None:
    assert image(snapshot.restore(WRITTEN)) == WRITTEN


def test_an_empty_state_has_a_snapshot() -> None:
    assert image(snapshot.restore(image(State()))) == image(State())


def test_a_restored_state_goes_on_like_the_one_it_was_taken_from() -> None:
    machine = populated()
    before = image(machine.state)
    restored = snapshot.restore(before)
    assert image(restored) == before
    other = Machine(with_root=False)
    other.state = restored
    for each in (machine, other):
        assert each.do(c.CreateStream("new")).stream.id == 3
        assert each.do(c.CreateConsumerGroup("a/b", "t", "new")).group.id == 1
        assert each.user("dora") == 2
        each.do(c.DeletePartitions("a/b", "t", 4))
    assert image(machine.state) == image(other.state)


def test_what_follows_from_the_rest_is_there_again() -> None:
    restored = snapshot.restore(image(populated().state))
    assert is_allowed(restored, 1, Rule.READ_STREAM, 0)
    assert not is_allowed(restored, 1, Rule.READ_STREAM, 1)
    assert is_allowed(restored, 0, Rule.MANAGE_USERS)
    found = find_token(restored, "t1")
    assert found is not None
    assert (found[0].username, found[1].name) == ("alice", "of alice")


def test_a_frozen_state_does_not_move() -> None:
    machine = populated()
    before = image(machine.state)
    frozen = snapshot.freeze(machine.state)
    machine.do(c.PurgeStream("a/b"))
    machine.do(c.DeleteStream("a"))
    machine.do(c.UpdateUser("alice", "eve"))
    machine.do(c.ForgetCondemned(tuple(machine.state.condemned)), user=None)
    assert snapshot.encode(frozen) == before
    assert image(machine.state) != before


def test_the_order_in_which_things_came_to_be_leaves_no_trace() -> None:
    machine = populated()
    lines = image(machine.state).splitlines()
    shuffled = b"\n".join([lines[0], *reversed(lines[1:])])
    assert image(snapshot.restore(shuffled)) == image(machine.state)


def test_many_partitions_take_little_room() -> None:
    machine = Machine()
    machine.do(c.CreateStream("s"))
    machine.do(topic_of("s", "t", 1000))
    small = len(image(machine.state))
    machine.do(c.CreatePartitions("s", "t", 1000))
    assert len(image(machine.state)) < small + 100
    machine.do(c.DeleteTopic("s", "t"))
    lines = image(machine.state).splitlines()
    assert max(len(line) for line in lines) < 100_000


def changed(line: int, **fields: object) -> bytes:
    lines = [json.loads(each) for each in WRITTEN.splitlines()]
    lines[line][1].update(fields)
    return b"\n".join(json.dumps(each).encode() for each in lines)


@pytest.mark.parametrize(
    ("damaged", "complaint"),
    [
        (b"", "line 1"),
        (b"\n" + WRITTEN, "line 1"),
        (WRITTEN.replace(b'["header",', b'["title",'), "line 1"),
        (WRITTEN.split(b"\n", 1)[1], "begins with its header"),
        (WRITTEN + WRITTEN, "second header"),
        (WRITTEN[:-30], "line 4"),
        (WRITTEN[: WRITTEN.index(b'["condemned"')], "header says"),
        (WRITTEN + WRITTEN.splitlines()[2], "header says"),
        (changed(0, users=2) + b"\n" + WRITTEN.splitlines()[2], "twice"),
        (changed(0, format=2), "format 2"),
        (changed(0, streams=2), "header says"),
        (changed(0, colour=1), "colour"),
        (changed(1, id=1 << 20), "id"),
        (changed(1, id=-1), "id"),
        (changed(1, topics=[]) + b"\n" + WRITTEN.splitlines()[1], "header says"),
        (WRITTEN.replace(b"[6,3,2]", b"[6,3,0]"), "partitions"),
        (WRITTEN.replace(b"[6,3,2]", b"[6,3,1000001]"), "partitions"),
        (WRITTEN.replace(b'{"id":4,', b'{"id":4,"name":"h"},{"id":4,'), "twice"),
        (WRITTEN.replace(b'"compression":1', b'"compression":0'), "compression"),
    ],
)
def test_what_is_no_snapshot_is_refused_and_named(damaged: bytes, complaint: str) -> None:
    with pytest.raises(snapshot.SnapshotError, match=complaint):
        snapshot.restore(damaged)
