"""Bootstrap and leader awareness of the client, against scripted servers over real sockets.

Time is virtual: every wait happens, at its time and in its order, but nobody sits through it.

Scenarios that are about the server's settings or need real nodes have their tests elsewhere, once
there are several real nodes: A-16 (addresses by network), A-22 (settings refused at the start),
A-23 (a node that knows no leader yet; what a client makes of it is A-07 here), and the server's
halves of A-10, A-11 and A-12.
"""

import asyncio
import contextlib
import logging
from dataclasses import replace
from typing import Any

import pytest

import windsprite
from support.environment import SeededEnvironment
from support.scripted_server import (
    Bytes,
    Cut,
    Delay,
    Lost,
    Mangled,
    ScriptedCluster,
    Silence,
)
from support.virtual_time import in_virtual_time
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.cluster import (
    ClusterMetadata,
    GetClusterMetadata,
    NodeRole,
    NodeStatus,
)
from windsprite_protocol.model.messages import PollMessages, SendMessages
from windsprite_protocol.model.outcomes import Evicted, NotNow, Refused
from windsprite_protocol.model.sessions import EvictionReason, LoginAttempt
from windsprite_protocol.model.streams import CreateStream, GetStreams
from windsprite_protocol.model.system import Ping

NOT_ACCEPTED = NotNow(ErrorCode.TRANSIENT_NOT_ACCEPTED)
NOT_COMMITTED = NotNow(ErrorCode.TRANSIENT_NOT_COMMITTED)


def connect(url: Any, *, seed: int = 0, **options: Any) -> windsprite.Connecting:
    options = {"reestablish_after": 0.0, **options}
    return windsprite.connect(url, environment=SeededEnvironment(seed), **options)


def now() -> float:
    return asyncio.get_running_loop().time()


def total_connects(cluster: ScriptedCluster) -> int:
    return sum(len(node.connects) for node in cluster.nodes)


# --- Where to go -----------------------------------------------------------------------------


@in_virtual_time
async def test_a01_a_single_node_is_never_left() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        metadata = await client.get_cluster_metadata()
        assert len(metadata.nodes) == 1
        assert metadata.leader == metadata.nodes[0]
        assert total_connects(cluster) == 1


@pytest.mark.parametrize("role", list(NodeRole)[:2])
@pytest.mark.parametrize("status", list(NodeStatus)[:5])
@pytest.mark.parametrize("port", [0, 1])
@in_virtual_time
async def test_a02_a_single_node_may_call_itself_what_it_likes(
    role: NodeRole, status: NodeStatus, port: int
) -> None:
    async with await ScriptedCluster().start() as cluster:
        (node,) = cluster.nodes
        claimed = node.described(role, status=status, tcp_port=port, host="10.0.0.1")
        node.tell_metadata = lambda: replace(cluster.metadata(), nodes=(claimed,))
        began = now()
        async with connect(cluster.url()) as client:
            await client.ping()
        assert total_connects(cluster) == 1
        assert now() == began


@in_virtual_time
async def test_a03_redirect_from_follower() -> None:
    async with await ScriptedCluster().start(2) as cluster:
        leader, follower = cluster.nodes
        async with connect(cluster.url(1)) as client:
            await client.create_stream("orders")
            assert client.server == f"127.0.0.1:{leader.port}"
        assert (len(follower.connects), len(leader.connects)) == (1, 1)
        assert (len(follower.logins), len(leader.logins)) == (1, 1)
        assert leader.count(CreateStream) == 1
        assert not follower.connections
        assert cluster.streams == {"orders": 0}


@in_virtual_time
async def test_a04_the_leader_is_not_left() -> None:
    async with await ScriptedCluster().start(2) as cluster, connect(cluster.url(0)) as client:
        await client.create_stream("orders")
        assert total_connects(cluster) == 1
        assert cluster.nodes[0].count(GetClusterMetadata) == 1


@pytest.mark.parametrize("way", ["password", "token", "connection string", "later"])
@in_virtual_time
async def test_a05_every_way_to_log_in_ends_at_the_leader(way: str) -> None:
    async with await ScriptedCluster().start(2) as cluster, contextlib.AsyncExitStack() as stack:
        for node in cluster.nodes:
            place = f"127.0.0.1:{node.port}"
            if way == "password":
                opening = connect(place, username="iggy", password="iggy")
            elif way == "token":
                opening = connect(f"iggy://{cluster.token}@{place}")
            elif way == "connection string":
                opening = connect(f"iggy://iggy:iggy@{place}")
            else:
                opening = connect(place)
            client = await stack.enter_async_context(opening)
            if way == "later":
                await client.login_with_token(cluster.token)
            assert client.server == f"127.0.0.1:{cluster.nodes[0].port}"
            await client.create_stream(place)


@pytest.mark.parametrize("names_itself", [True, False])
@in_virtual_time
async def test_a06_redirect_loop_ends(names_itself: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with await ScriptedCluster(names_itself=names_itself).start(2) as cluster:
        one, two = cluster.nodes

        def naming(leader: Any) -> ClusterMetadata:
            roles = [
                node.described(NodeRole.LEADER if node is leader else NodeRole.FOLLOWER)
                for node in cluster.nodes
            ]
            return replace(cluster.metadata(), nodes=tuple(roles))

        one.tell_metadata = lambda: naming(two)
        two.tell_metadata = lambda: naming(one)
        with caplog.at_level(logging.WARNING, "windsprite"):
            async with connect(cluster.url(0)) as client:
                assert total_connects(cluster) == 4
                assert len(one.connections) + len(two.connections) == 1
                assert len([r for r in caplog.records if "redirects" in r.message]) == 1
                # Sense comes back: the count of hops begins anew.
                one.tell_metadata = two.tell_metadata = None
                for node in cluster.nodes:
                    for connection in list(node.connections):
                        connection.end()
                await asyncio.sleep(2)
                await client.create_stream("orders")
                assert client.server == f"127.0.0.1:{one.port}"


@in_virtual_time
async def test_a07_wait_for_the_end_of_an_election() -> None:
    async with await ScriptedCluster(leader=None).start(2) as cluster:
        began = now()
        asyncio.get_running_loop().call_later(3, cluster.elect, 1)
        async with connect(cluster.url(0)) as client:
            assert client.server == f"127.0.0.1:{cluster.nodes[1].port}"
        assert now() - began == pytest.approx(3, abs=0.3)
        assert cluster.nodes[0].count(GetClusterMetadata) == pytest.approx(13, abs=1)


@in_virtual_time
async def test_a07_stay_if_the_election_does_not_end(caplog: pytest.LogCaptureFixture) -> None:
    async with await ScriptedCluster(leader=None).start(2) as cluster:
        began = now()
        with caplog.at_level(logging.WARNING, "windsprite"):
            async with connect(cluster.url(0)) as client:
                assert client.server == f"127.0.0.1:{cluster.nodes[0].port}"
                await client.get_streams()
        assert now() - began == pytest.approx(5, abs=0.3)
        assert len(caplog.records) == 1
        # Not more often than four times a second (bug report 26).
        assert cluster.nodes[0].count(GetClusterMetadata) <= 5 / 0.25 + 1


@in_virtual_time
async def test_a08_the_leader_is_lost_and_found() -> None:
    async with await ScriptedCluster().start(3) as cluster:
        async with connect(cluster.url(0)) as client:
            await client.send("s", "t", [b"one"])
            await cluster.nodes[0].stop()
            cluster.elect(None)
            asyncio.get_running_loop().call_later(2, cluster.elect, 1)
            began = now()
            await client.send("s", "t", [b"two"])
            assert now() - began < 10
            assert client.server == f"127.0.0.1:{cluster.nodes[1].port}"
        assert cluster.payloads == [b"one", b"two"]
        assert total_connects(cluster) <= 1 + 2 * 3


@in_virtual_time
async def test_a09_the_bootstrap_list_is_never_forgotten() -> None:
    async with (
        await ScriptedCluster().start(1) as other,
        await ScriptedCluster().start(2) as cluster,
    ):
        (gone,) = other.nodes
        await gone.stop()  # a bootstrap server that is not there for now
        address = f"iggy://iggy:iggy@{cluster.servers(0)},{other.servers(0)}"
        async with connect(address, request_timeout=10) as client:
            for node in cluster.nodes:
                await node.stop()
            with pytest.raises(windsprite.ConnectionFailed) as failure:
                await client.ping()
            tried = {place for place, _ in failure.value.attempts}
            assert tried == {f"127.0.0.1:{node.port}" for node in (*cluster.nodes, *other.nodes)}
            await gone.start()
            await client.ping()
            assert client.server == f"127.0.0.1:{gone.port}"


@in_virtual_time
async def test_a10_a_write_that_the_server_does_not_accept_goes_to_the_leader() -> None:
    async with await ScriptedCluster().start(2) as cluster:
        async with connect(cluster.url(0)) as client:
            cluster.elect(1)  # without a word to the client: node 0 refuses from now on
            await client.send("s", "t", [b"one"])
            assert client.server == f"127.0.0.1:{cluster.nodes[1].port}"
        assert cluster.payloads == [b"one"]


@in_virtual_time
async def test_a11_reads_are_served_where_the_client_is() -> None:
    async with await ScriptedCluster(leader=None).start(2) as cluster:
        async with connect(cluster.url(1)) as client:
            assert len(await client.poll("s", "t")) == 0
            assert await client.get_streams() == ()
        assert not cluster.nodes[0].requests


@in_virtual_time
async def test_a12_unknown_outcome_is_repeated_only_in_its_session() -> None:
    async with await ScriptedCluster().start(2) as cluster:
        node = cluster.nodes[0]
        node.script(CreateStream, [NOT_COMMITTED, NOT_COMMITTED, None])
        async with connect(cluster.url(0)) as client:
            await client.create_stream("orders")
        sent = [frame for frame in node.frames if frame.header[176] == 128]
        assert len(sent) == 3
        assert len({(frame.header, bytes(frame.body)) for frame in sent}) == 1


@in_virtual_time
async def test_a12_unknown_outcome_never_moves() -> None:
    async with await ScriptedCluster().start(2) as cluster:
        old, new = cluster.nodes
        async with connect(cluster.url(0)) as client:
            old.script(SendMessages, [Lost(NOT_COMMITTED)])
            old.always(SendMessages, NOT_ACCEPTED)
            cluster.elect(1)
            with pytest.raises(windsprite.OutcomeUnknown):
                await client.send("s", "t", [b"one"])
        assert new.count(SendMessages) == 0


@in_virtual_time
async def test_a13_an_old_leader_is_not_believed() -> None:
    async with await ScriptedCluster(epoch=4).start(3) as cluster:
        old, new, behind = cluster.nodes
        outdated = cluster.metadata()
        cluster.elect(1)
        async with connect(cluster.url(2)) as client:
            assert client.server == f"127.0.0.1:{new.port}"
            # Node 2 has fallen behind, and still sends everybody to node 0.
            behind.tell_metadata = lambda: outdated
            await old.stop()
            await new.stop()
            await client.get_streams()
            assert client.server == f"127.0.0.1:{behind.port}"
            await old.start()
            with pytest.raises(windsprite.Unavailable):
                await client.send("s", "t", [b"one"])
            assert client.server == f"127.0.0.1:{behind.port}"
        assert behind.count(GetClusterMetadata) > 2
        assert not old.connects


@in_virtual_time
async def test_a14_zones_arrive_and_do_not_matter_for_the_leader() -> None:
    async with await ScriptedCluster().start(3) as cluster, connect(cluster.url(2)) as client:
        metadata = await client.get_cluster_metadata()
        assert [node.identity.zone for node in metadata.nodes if node.identity] == [
            "zone-0",
            "zone-1",
            "zone-2",
        ]
        assert client.server == f"127.0.0.1:{cluster.nodes[0].port}"


@in_virtual_time
async def test_a15_many_clients_do_not_come_back_at_once() -> None:
    clients = 200
    async with await ScriptedCluster().start(2) as cluster, contextlib.AsyncExitStack() as stack:
        for seed in range(clients):
            opening = connect(cluster.url(0), seed=seed, heartbeat_interval=60)
            await stack.enter_async_context(opening)
        lost = now()
        cluster.elect(1)
        await cluster.nodes[0].stop()
        await asyncio.sleep(10)
        back = [when - lost for when in cluster.nodes[1].logins]
        assert len(back) == clients
        # Full jitter over one second: no tenth of it sees a third of the clients.
        tenths = [int(when * 10) for when in back]
        assert max(tenths.count(tenth) for tenth in set(tenths)) < clients / 3
        assert max(back) - min(back) > 0.5
        assert cluster.nodes[1].count(GetClusterMetadata) <= clients * 2


@pytest.mark.parametrize("dialled", ["localhost", "LOCALHOST", "127.0.0.1", "[::ffff:127.0.0.1]"])
@in_virtual_time
async def test_a17_one_address_has_many_spellings(dialled: str) -> None:
    async with await ScriptedCluster(names_itself=False).start(2) as cluster:
        url = f"iggy://iggy:iggy@{dialled}:{cluster.nodes[0].port}"
        async with connect(url) as client:
            await client.ping()
        assert total_connects(cluster) == 1


@in_virtual_time
async def test_a17_a_node_is_known_by_its_id_under_another_address() -> None:
    async with await ScriptedCluster().start(2) as cluster:
        leader, follower = cluster.nodes
        # The leader tells another address of itself than the follower does.
        known_as = leader.described(NodeRole.LEADER, host="leader.internal")
        leader.tell_metadata = lambda: replace(
            cluster.metadata(), nodes=(known_as, follower.described(NodeRole.FOLLOWER))
        )
        async with connect(cluster.url(1)) as client:
            await client.ping()
            assert client.server == f"127.0.0.1:{leader.port}"
        assert total_connects(cluster) == 2


@in_virtual_time
async def test_a18_no_tcp_no_move(caplog: pytest.LogCaptureFixture) -> None:
    async with await ScriptedCluster().start(2) as cluster:
        leader, follower = cluster.nodes
        hidden = leader.described(NodeRole.LEADER, tcp_port=0)
        follower.tell_metadata = lambda: replace(
            cluster.metadata(), nodes=(hidden, follower.described(NodeRole.FOLLOWER))
        )
        with caplog.at_level(logging.WARNING, "windsprite"):
            async with connect(cluster.url(1)) as client:
                await client.ping()
        assert total_connects(cluster) == 1
        assert len(caplog.records) == 1


@in_virtual_time
async def test_a19_metadata_needs_a_login() -> None:
    async with (
        await ScriptedCluster().start(2) as cluster,
        connect(cluster.servers(1)) as client,
    ):
        await client.ping()
        with pytest.raises(windsprite.AuthenticationError):
            await client.get_cluster_metadata()
        await client.ping()
        assert total_connects(cluster) == 1
        await client.login("iggy", "iggy")
        assert (await client.get_cluster_metadata()).leader is not None
        await client.create_stream("orders")


@in_virtual_time
async def test_a20_metadata_that_is_cut_short_changes_nothing() -> None:
    async with await ScriptedCluster(names_itself=False).start(2) as cluster:
        leader, follower = cluster.nodes
        size: list[int] = []
        follower.script(GetClusterMetadata, [Mangled(lambda data: size.append(len(data)))])
        async with connect(cluster.url(1)):
            pass
        assert len(leader.connects) == 1
        for length in range(256, size[0]):

            def cut(data: bytearray, length: int = length) -> bytearray:
                data[48:52] = length.to_bytes(4, "little")
                return data[:length]

            follower.script(GetClusterMetadata, [Mangled(cut)])
            async with connect(cluster.url(1)) as client:
                await client.ping()
        assert len(leader.connects) == 1


@pytest.mark.parametrize(
    ("offset", "change"),
    [
        (256 + 4 + 8, b"\xff\xff\xff\xff"),  # 2^32-1 nodes
        (256 + 4 + 8 + 4 + 4, b"\xff\xfe"),  # a name that is not UTF-8
    ],
)
@in_virtual_time
async def test_a20_lying_metadata_changes_nothing(offset: int, change: bytes) -> None:
    async with await ScriptedCluster().start(2) as cluster:
        follower = cluster.nodes[1]

        def lie(data: bytearray) -> None:
            data[offset : offset + len(change)] = change

        follower.script(GetClusterMetadata, [Mangled(lie)])
        async with connect(cluster.url(1)) as client:
            await client.ping()
            assert client.server == f"127.0.0.1:{follower.port}"


@in_virtual_time
async def test_a20_no_nodes_at_all() -> None:
    async with await ScriptedCluster().start(2) as cluster:
        follower = cluster.nodes[1]
        follower.tell_metadata = lambda: ClusterMetadata("empty", ())
        async with connect(cluster.url(1)) as client:
            await client.ping()
            assert client.server == f"127.0.0.1:{follower.port}"


@in_virtual_time
async def test_a21_calls_during_a_move_are_made_at_the_new_place_in_order() -> None:
    async with await ScriptedCluster().start(2) as cluster:
        async with connect(cluster.url(0)) as client:
            cluster.elect(1)
            names = [f"stream-{number}" for number in range(20)]
            results = await asyncio.gather(*map(client.create_stream, names))
            assert [details.stream.name for details in results] == names
        made = [r.name for r in cluster.nodes[1].requests if isinstance(r, CreateStream)]
        assert made == names
        assert len(cluster.nodes[1].connects) == 1


@in_virtual_time
async def test_a24_ten_changes_of_the_leader() -> None:
    async with await ScriptedCluster().start(3) as cluster:
        acknowledged = []
        longest = 0.0
        async with connect(cluster.url(), request_timeout=60) as client:
            for change in range(10):
                for number in range(5):
                    payload = f"{change}-{number}".encode()
                    began = now()
                    await client.send("s", "t", [payload], partition=0)
                    longest = max(longest, now() - began)
                    acknowledged.append(payload)
                cluster.elect((change + 1) % 3)
        assert cluster.payloads == acknowledged
        assert longest < 5


# --- What breaks -----------------------------------------------------------------------------

BREAKS = {
    "before the answer": Cut(),
    "in the header": Cut(after=100),
    "between header and body": Cut(after=256),
    "in the body": Cut(after=258),
    "reset": Cut(after=100, reset=True),
    "no frame": Bytes(b"HTTP/1.1 400 Bad Request\r\n" * 30),
    "a frame of another kind": Bytes(bytes(48) + b"\0\1\0\0" + bytes(8) + b"\x06" + bytes(195)),
    "an impossible size": Bytes(b"\xff" * 256),
}


@pytest.mark.parametrize("breaks", BREAKS)
@in_virtual_time
async def test_bug_28_a_read_survives_every_broken_socket(breaks: str) -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        cluster.nodes[0].script(GetStreams, [BREAKS[breaks]])
        if isinstance(BREAKS[breaks], Cut):
            assert await client.get_streams() == ()
        else:
            with pytest.raises(windsprite.ProtocolViolation):
                await client.get_streams()
        assert await client.get_streams() == ()
        assert len(cluster.nodes[0].connects) == 2


@pytest.mark.parametrize("breaks", BREAKS)
@in_virtual_time
async def test_bug_28_a_write_is_not_repeated_after_any_broken_socket(breaks: str) -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        node = cluster.nodes[0]
        node.script(SendMessages, [BREAKS[breaks]])
        with pytest.raises(windsprite.OutcomeUnknown):
            await client.send("s", "t", [b"one"])
        assert node.count(SendMessages) == 1
        await client.send("s", "t", [b"two"])
        assert cluster.payloads[-1] == b"two"


@pytest.mark.parametrize("executed", [True, False])
@in_virtual_time
async def test_a_send_is_repeated_for_those_who_want_it(executed: bool) -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        cluster.nodes[0].script(SendMessages, [Cut(executed=executed)])
        confirmation = await client.send("s", "t", [b"one"], retry="at-least-once")
        assert confirmation is not None
        assert cluster.payloads == [b"one"] * (2 if executed else 1)
        assert len({id_ for batch in cluster.stored for id_ in batch.ids}) == 1


@in_virtual_time
async def test_a_producer_goes_on_by_itself_when_the_server_is_restarted() -> None:
    async with await ScriptedCluster().start() as cluster:
        (node,) = cluster.nodes
        acknowledged: list[bytes] = []

        async def produce(client: windsprite.Client) -> None:
            for number in range(200):
                payload = str(number).encode()
                await client.send("s", "t", [payload], partition=0)
                acknowledged.append(payload)
                await asyncio.sleep(0.1)

        async with connect(cluster.url(), send_retry="at-least-once") as client:
            task = asyncio.create_task(produce(client))
            await asyncio.sleep(5.05)
            node.script(SendMessages, [Delay(1)])
            await asyncio.sleep(0.1)
            await node.stop()
            await asyncio.sleep(4)
            await node.start()
            await task
        assert len(acknowledged) == 200
        seen = list(dict.fromkeys(cluster.payloads))
        assert seen == acknowledged


@in_virtual_time
async def test_bug_25_refusals_are_not_answered_by_a_flood() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        node = cluster.nodes[0]
        node.always(SendMessages, NOT_ACCEPTED)
        asyncio.get_running_loop().call_later(10, node.always, SendMessages, None)
        await client.send("s", "t", [b"one"])
        assert node.count(SendMessages) < 10 / 0.05
        assert node.count(GetClusterMetadata) <= 1 + 10 / 2
        assert cluster.payloads == [b"one"]


@in_virtual_time
async def test_bug_26_without_a_leader_the_metadata_is_asked_for_at_a_pace() -> None:
    async with await ScriptedCluster().start(2) as cluster:
        cluster.elect(None)
        asyncio.get_running_loop().call_later(4.9, cluster.elect, 1)
        async with connect(cluster.url(), max_in_flight=8) as client:
            await asyncio.gather(*(client.ping() for _ in range(8)))
            assert client.server == f"127.0.0.1:{cluster.nodes[1].port}"
        asked = sum(node.count(GetClusterMetadata) for node in cluster.nodes)
        assert asked <= 5 / 0.25 + 2


@in_virtual_time
async def test_bug_27_the_first_reconnect_is_random_too() -> None:
    async with await ScriptedCluster().start() as cluster, contextlib.AsyncExitStack() as stack:
        for seed in range(50):
            await stack.enter_async_context(connect(cluster.url(), seed=seed))
        lost = now()
        (node,) = cluster.nodes
        await node.stop()
        await node.start()
        del node.connects[:]
        await asyncio.sleep(3)
        waits = [when - lost for when in node.connects]
        assert len(waits) == 50
        assert max(waits) - min(waits) > 0.7
        assert len({round(wait, 3) for wait in waits}) > 40


@in_virtual_time
async def test_bug_30_an_advertised_address_that_nobody_reaches(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with await ScriptedCluster().start(2) as cluster:
        leader, follower = cluster.nodes
        await leader.stop()
        with caplog.at_level(logging.WARNING, "windsprite"):
            async with connect(cluster.url(1)) as client:
                await client.get_streams()
                assert client.server == f"127.0.0.1:{follower.port}"
        assert len(follower.connects) == 1
        assert "cannot connect to" in caplog.text


@pytest.mark.parametrize(
    "reason",
    [EvictionReason.NO_SESSION, EvictionReason.SESSION_TOO_LOW, EvictionReason.SESSION_ERROR],
)
@in_virtual_time
async def test_a_write_without_session_was_not_executed(reason: EvictionReason) -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        cluster.nodes[0].script(CreateStream, [Evicted(reason)])
        await client.create_stream("orders")
        assert len(cluster.nodes[0].logins) == 2


@in_virtual_time
async def test_a_stale_client_does_not_know_what_became_of_its_write() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        cluster.nodes[0].script(CreateStream, [Evicted(EvictionReason.STALE_CLIENT)])
        with pytest.raises(windsprite.OutcomeUnknown):
            await client.create_stream("orders")
        cluster.nodes[0].script(GetStreams, [Evicted(EvictionReason.STALE_CLIENT)])
        assert await client.get_streams() == ()


@in_virtual_time
async def test_an_eviction_out_of_the_blue() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        cluster.nodes[0].evict(EvictionReason.STALE_CLIENT)
        await asyncio.sleep(2)
        assert len(cluster.nodes[0].logins) == 2
        await client.create_stream("orders")


@in_virtual_time
async def test_endless_loss_of_the_session_ends() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        cluster.nodes[0].always(GetStreams, Refused(ErrorCode.UNAUTHENTICATED))
        with pytest.raises(windsprite.AuthenticationError):
            await client.get_streams()
        assert len(cluster.nodes[0].logins) <= 5


@in_virtual_time
async def test_a_lost_answer_to_a_committing_poll_is_told() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        node = cluster.nodes[0]
        node.script(PollMessages, [Cut(executed=True)])
        with pytest.raises(windsprite.OutcomeUnknown):
            await client.poll("s", "t", auto_commit=True)
        node.script(PollMessages, [Cut(executed=True)])
        await client.poll("s", "t")


@in_virtual_time
async def test_a_silent_server_costs_the_time_of_the_call_and_then_its_connection() -> None:
    async with await ScriptedCluster().start() as cluster:
        (node,) = cluster.nodes
        async with connect(cluster.url(), request_timeout=30) as client:
            node.script(GetStreams, [Silence()])
            began = now()
            with pytest.raises(windsprite.RequestTimedOut):
                await client.get_streams()
            assert now() - began == pytest.approx(30, abs=0.1)
            assert await client.get_streams() == ()
            assert len(node.connects) == 2


@in_virtual_time
async def test_a_caller_that_gives_up_leaves_the_connection_in_order() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        (node,) = cluster.nodes
        node.script(GetStreams, [Delay(3), Delay(3)])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await client.get_streams()
        began = now()
        await client.ping()  # waits for the answer that nobody wants any more
        assert now() - began == pytest.approx(2, abs=0.1)
        node.script(Ping, [Delay(3)])
        with pytest.raises(windsprite.Unavailable):
            await client.ping(timeout=1)
        assert await client.get_streams() == ()
        assert len(node.connects) == 1


@in_virtual_time
async def test_a_write_that_is_given_up_while_waiting_was_not_done() -> None:
    async with (
        await ScriptedCluster().start() as cluster,
        connect(cluster.url(), max_in_flight=1) as client,
    ):
        cluster.nodes[0].script(GetStreams, [Delay(10)])
        slow = asyncio.create_task(client.get_streams())
        await asyncio.sleep(1)
        with pytest.raises(windsprite.RequestTimedOut):
            await client.send("s", "t", [b"one"], timeout=2)
        await slow
        assert cluster.payloads == []


@in_virtual_time
async def test_the_heartbeat_finds_a_dead_server() -> None:
    async with await ScriptedCluster().start() as cluster:
        (node,) = cluster.nodes
        async with connect(cluster.url(), heartbeat_interval=5, request_timeout=7):
            await asyncio.sleep(21)
            assert 3 <= node.count(Ping) <= 5
            node.script(Ping, [Silence()])
            await asyncio.sleep(20)
            assert len(node.connects) == 2


@in_virtual_time
async def test_wrong_credentials_are_told_at_once() -> None:
    async with await ScriptedCluster().start(2) as cluster:
        began = now()
        with pytest.raises(windsprite.AuthenticationError) as failure:
            await connect(f"iggy://iggy:secret-word@{cluster.servers()}")
        assert failure.value.code is ErrorCode.INVALID_CREDENTIALS
        assert "secret-word" not in str(failure.value)
        with pytest.raises(windsprite.AuthenticationError):
            await connect(f"iggy://secret-word@{cluster.servers()}")
        assert now() == began


@in_virtual_time
async def test_a_refused_login_leaves_the_client_as_it_was() -> None:
    async with await ScriptedCluster().start(2) as cluster, connect(cluster.url()) as client:
        with pytest.raises(windsprite.AuthenticationError):
            await client.login("iggy", "wrong")
        await client.create_stream("orders")
        for node in cluster.nodes:
            for connection in list(node.connections):
                connection.end()
        await asyncio.sleep(2)
        await client.create_stream("more")


@in_virtual_time
async def test_a_login_that_the_server_cannot_do_now_is_repeated() -> None:
    async with await ScriptedCluster().start() as cluster:
        (node,) = cluster.nodes
        node.script(LoginAttempt, [NOT_ACCEPTED, NOT_COMMITTED, NOT_ACCEPTED])
        async with connect(cluster.url()) as client:
            await client.ping()
        logins = [frame for frame in node.frames if frame.header[176] == 1]
        assert len(logins) == 4
        assert len({(frame.header, bytes(frame.body)) for frame in logins}) == 1


@in_virtual_time
async def test_a_server_that_cannot_log_in_is_left_for_another() -> None:
    async with await ScriptedCluster(leader=None).start(2) as cluster:
        cluster.nodes[0].always(LoginAttempt, NOT_ACCEPTED)
        began = now()
        async with connect(cluster.url(), connect_timeout=60) as client:
            assert client.server == f"127.0.0.1:{cluster.nodes[1].port}"
        assert now() - began < 15


@in_virtual_time
async def test_another_generation_is_told_at_once() -> None:
    async with await ScriptedCluster().start() as cluster:
        cluster.nodes[0].always(LoginAttempt, Evicted(EvictionReason.INCOMPATIBLE_PROTOCOL))
        began = now()
        with pytest.raises(windsprite.IncompatibleServer, match=r"0\.11\.0"):
            await connect(cluster.url())
        assert now() == began


@in_virtual_time
async def test_nobody_there() -> None:
    async with await ScriptedCluster().start(2) as cluster:
        url = cluster.url()
        for node in cluster.nodes:
            await node.stop()
        began = now()
        with pytest.raises(windsprite.ConnectionFailed) as failure:
            await connect(url, connect_timeout=12)
        assert now() - began == pytest.approx(12, abs=0.1)
        assert {place for place, _ in failure.value.attempts} == set(cluster.servers().split(","))
        assert all(
            sentence == f"cannot connect to {place}: Connection refused"
            for place, sentence in failure.value.attempts
        )
        began = now()
        with pytest.raises(windsprite.ConnectionFailed):
            await connect(url, reconnection_retries=0)
        assert now() == began


@in_virtual_time
async def test_nobody_at_any_address_of_a_name() -> None:
    async with await ScriptedCluster().start() as cluster:
        port = cluster.nodes[0].port
        await cluster.nodes[0].stop()
        with pytest.raises(windsprite.ConnectionFailed) as failure:
            await connect(f"iggy://iggy:iggy@localhost:{port}", reconnection_retries=0)
        assert failure.value.sentence == f"cannot connect to localhost:{port}: Connection refused"


@in_virtual_time
async def test_a_dead_server_in_the_list_is_skipped() -> None:
    async with await ScriptedCluster().start() as cluster:
        for seed in range(10):
            url = f"iggy://iggy:iggy@127.0.0.1:1,{cluster.servers()}"
            async with connect(url, seed=seed) as client:
                assert client.server == cluster.servers()


@in_virtual_time
async def test_the_same_server_is_not_dialled_again_too_soon() -> None:
    async with await ScriptedCluster().start() as cluster:
        (node,) = cluster.nodes
        async with connect(cluster.url(), reestablish_after=5) as client:
            for connection in list(node.connections):
                connection.end()
            await client.get_streams()
        first, second = node.connects
        assert second - first >= 5


@in_virtual_time
async def test_closing_ends_what_is_under_way() -> None:
    async with await ScriptedCluster().start() as cluster:
        cluster.nodes[0].script(GetStreams, [Silence()])
        async with connect(cluster.url(), max_in_flight=1) as client:
            reading = asyncio.create_task(client.get_streams())
            sending = asyncio.create_task(client.send("s", "t", [b"one"]))
            await asyncio.sleep(1)
        for task in (reading, sending):
            with pytest.raises(windsprite.ClientClosed):
                await task
        with pytest.raises(windsprite.ClientClosed):
            await client.ping()
        await client.close()


@in_virtual_time
async def test_logging_out_and_in_again() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        await client.logout()
        await client.ping()
        with pytest.raises(windsprite.AuthenticationError):
            await client.get_streams()
        await client.login("iggy", "iggy")
        assert await client.get_streams() == ()


@in_virtual_time
async def test_a_plain_iggy_server_is_fine() -> None:
    async with await ScriptedCluster(names_itself=False).start(2) as cluster:
        async with connect(cluster.url(1)) as client:
            metadata = await client.get_cluster_metadata()
            assert metadata.cluster_id is None
            assert metadata.leader_epoch is None
            await client.create_stream("orders")
        assert cluster.streams == {"orders": 0}


@in_virtual_time
async def test_an_answer_to_another_request_ends_the_connection() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        (node,) = cluster.nodes

        def renumber(data: bytearray) -> None:
            data[200:208] = (99).to_bytes(8, "little")

        for kind, call in (
            (GetStreams, client.get_streams),
            (Ping, client.ping),
        ):
            node.script(kind, [Mangled(renumber)])
            with pytest.raises(windsprite.ProtocolViolation, match="another request"):
                await call()
            await client.ping()
        node.script(CreateStream, [Mangled(renumber)])
        with pytest.raises(windsprite.OutcomeUnknown):
            await client.create_stream("orders")
        assert len(node.connects) == 3


@in_virtual_time
async def test_requests_are_numbered_as_the_protocol_wants_it() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        (node,) = cluster.nodes
        await client.create_stream("one")
        await client.send("one", "t", [b"x"])
        await client.get_streams()
        await client.get_streams()
        await client.create_stream("two")
        node.script(CreateStream, [Evicted(EvictionReason.NO_SESSION)])
        await client.create_stream("three")
        seen = [
            (frame.header[176], int.from_bytes(frame.header[168:176], "little"))
            for frame in node.frames
        ]
        register, read, create, send = 1, 2, 128, 160
        assert seen == [
            *((register, 0), (read, 1), (create, 1), (send, 2), (read, 3), (read, 3), (create, 3)),
            *((create, 4), (register, 0), (read, 1), (create, 1)),
        ]
        assert len({bytes(frame.header[128:144]) for frame in node.frames}) == 2


@in_virtual_time
async def test_a_new_round_takes_a_new_number() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        (node,) = cluster.nodes
        node.always(CreateStream, NOT_ACCEPTED)
        asyncio.get_running_loop().call_later(3, node.always, CreateStream, None)
        await client.create_stream("one")
        numbers = [
            int.from_bytes(frame.header[168:176], "little")
            for frame in node.frames
            if frame.header[176] == 128
        ]
        assert numbers == sorted(numbers)
        assert set(numbers) == {1, 2}


@pytest.mark.parametrize("stuck", ["login", "election"])
@pytest.mark.parametrize("seconds", [0, 0.001, 1, 4])
@in_virtual_time
async def test_closing_in_the_middle_leaves_nothing_behind(stuck: str, seconds: float) -> None:
    async with await ScriptedCluster(leader=None).start(2) as cluster:
        (node, _) = cluster.nodes
        if stuck == "login":
            node.always(LoginAttempt, Silence())

        async def use() -> None:
            async with connect(cluster.url(0)) as client:
                await client.ping()

        connecting = asyncio.create_task(use())
        await asyncio.sleep(seconds)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        await asyncio.sleep(0.1)
        assert not node.connections
