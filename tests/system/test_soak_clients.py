"""Many clients at once, which die in every way and come back; a real server that stays the same.

The clients are processes of their own (`support.soak_clients`). Here the server is watched, and
what only the knowledge of all clients can tell is checked: every acknowledged message is there once
and in its place, every partition of a group has one owner, nothing is left of clients that went.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.server_process import server_process
from support.soak_clients import (
    COUNTED,
    GROUPS,
    RESIZED,
    STREAM,
    TOPICS,
    Assigned,
    Delivered,
    Plan,
    Sent,
    read_payload,
)
from support.wire_client import WireClient, wire_client
from windsprite_protocol.messages import Messages
from windsprite_protocol.model.groups import CreateConsumerGroup, GetConsumerGroup
from windsprite_protocol.model.identifiers import Consumer, ConsumerKind, PollingStrategy
from windsprite_protocol.model.messages import PollMessages
from windsprite_protocol.model.offsets import GetConsumerOffset
from windsprite_protocol.model.permissions import GlobalPermissions, Permissions
from windsprite_protocol.model.streams import CreateStream
from windsprite_protocol.model.system import GetClients
from windsprite_protocol.model.tokens import CreateToken
from windsprite_protocol.model.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    GetTopic,
)
from windsprite_protocol.model.typed_values import Option, TypedValue, ValueKind
from windsprite_protocol.model.users import CreateUser

PROGRAMS = 2
PASSWORD = "secret of a worker"
REBALANCING = 2.0
OPEN_FILES = 32
MIB = 1 << 20

SETTINGS = {
    # What is kept of messages and clients is full soon: from then on memory has no reason to grow.
    "WINDSPRITE_STORAGE__TAIL_MEMORY": "8 MiB",
    "WINDSPRITE_STORAGE__OPEN_FILES": str(OPEN_FILES),
    "WINDSPRITE_PARTITION__DEDUP_CLIENTS": "64",
    "WINDSPRITE_LIMITS__LOGIN_THREADS": "1",
    "WINDSPRITE_ROOT__USERNAME": "iggy",
    "WINDSPRITE_ROOT__PASSWORD": "iggy",
    "WINDSPRITE_CONSUMER_GROUP__REBALANCING_TIMEOUT": f"{REBALANCING} s",
}
MAY_BE_LOGGED = {
    "listening",
    "stopping",
    "stopped",
    "connection closed: bad frame",
}
WORKER = Permissions(GlobalPermissions(manage_topics=True, poll_messages=True, send_messages=True))


class Watch:
    """Looks at a process again and again."""

    def __init__(self, pid: int, root: WireClient) -> None:
        self._process = psutil.Process(pid)
        self._root = root
        self._begun = time.monotonic()
        self.memory: list[int] = []
        """Bytes that are resident, twice a second."""

    async def look(self) -> None:
        while True:
            self.memory.append(self._process.memory_info().rss)
            if len(self.memory) % 10 == 0:
                clients = await self._root.call(GetClients())
                print(
                    f"{time.monotonic() - self._begun:5.0f} s: {len(clients) - 1:4} connections, "
                    f"{self.memory[-1] / MIB:4.0f} MiB, {self.open_files} files, "
                    f"{self._process.num_threads()} threads",
                    flush=True,
                )
            await asyncio.sleep(0.5)

    @property
    def open_files(self) -> int:
        return self._process.num_fds()

    @property
    def sockets(self) -> int:
        return len(self._process.net_connections("tcp"))

    @property
    def growth(self) -> int:
        """How many bytes more are resident in the last quarter of the time than in the second."""
        quarter = len(self.memory) // 4
        before, after = self.memory[quarter : 2 * quarter], self.memory[3 * quarter :]
        return round(statistics.median(after) - statistics.median(before))


class Program:
    """A process of clients."""

    def __init__(self, plan: Plan) -> None:
        self._report = Path(plan.report)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.soak_clients", json.dumps(asdict(plan))],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def rest(self) -> None:
        """Wait until its clients have nothing more to do."""
        assert self._process.stdout is not None
        line = await asyncio.to_thread(self._process.stdout.readline)
        assert line == "resting\n", "the clients did not come to rest"

    async def finish(self) -> dict[str, Any]:
        """Let its clients go; returns the report."""
        await asyncio.to_thread(self._process.communicate, "end\n", 30)
        assert self._process.returncode == 0
        report: dict[str, Any] = json.loads(self._report.read_text(encoding="utf-8"))
        return report

    def end(self) -> None:
        """Make sure that nothing is left of it."""
        self._process.kill()
        with self._process:
            pass


async def soak(
    folder: Path, *, clients: int, seconds: float, pause: float, max_growth: int | None = None
) -> None:
    """Let clients live for a while.

    Args:
        folder: For all files.
        clients: How many of them.
        seconds: How long.
        pause: Seconds between two requests of a client, on average.
        max_growth: Bytes that the server's memory may grow by; `None`: the time is too short for
            it to have come to rest.
    """
    with server_process(folder, environment=SETTINGS) as server:
        ready = server.wait_ready()
        address = ready["tcp"]
        async with wire_client(address) as root, wire_client(address) as meddler:
            await root.login()
            await meddler.login()
            token = await set_up(root, address)
            watch = Watch(ready["pid"], root)
            files_before = watch.open_files
            plans = [
                Plan(
                    address=address,
                    number=number,
                    clients=clients // PROGRAMS,
                    seconds=seconds,
                    pause=pause,
                    token=token,
                    username="worker",
                    password=PASSWORD,
                    report=str(folder / f"report-{number}"),
                )
                for number in range(PROGRAMS)
            ]
            reports = await run_programs(plans, root, meddler, watch)
            done = sum((Counter(report["done"]) for report in reports), Counter())
            for what, often in sorted(done.items()):
                print(f"{often:8} {what}")
            assert [report["errors"] for report in reports] == [{}] * PROGRAMS
            await check_that_nothing_is_left(root, watch, files_before)
            await check_messages(root, reports)
            await check_deliveries(root, reports)
            check_assignments(reports)
            print(f"memory: {watch.memory[-1] / MIB:.0f} MiB, grown by {watch.growth / MIB:.1f}")
            assert max_growth is None or watch.growth < max_growth
        assert server.stop() == 0
        assert [event for event in server.events if event["event"] not in MAY_BE_LOGGED] == []


async def set_up(root: WireClient, address: str) -> str:
    """Make what the clients work with; returns the token that they log in with."""
    small = Option("segment_size", TypedValue.of(MIB, ValueKind.UINT64))
    synced = Option("durability", TypedValue.of("persisted"))
    await root.call(CreateStream(STREAM))
    await root.call(CreateTopic(STREAM, TOPICS["plain"], "plain", (small,)))
    await root.call(CreateTopic(STREAM, TOPICS["synced"], "synced", (small, synced)))
    await root.call(CreateTopic(STREAM, 3, RESIZED))
    for topic, group in GROUPS:
        await root.call(CreateConsumerGroup(STREAM, topic, group))
    await root.call(CreateUser("worker", PASSWORD, permissions=WORKER))
    async with wire_client(address) as worker:
        await worker.login("worker", PASSWORD)
        secret: str = (await worker.call(CreateToken("soak", 0))).token
    return secret


async def run_programs(
    plans: list[Plan], root: WireClient, meddler: WireClient, watch: Watch
) -> list[dict[str, Any]]:
    """Run all clients; check the groups while they rest, still connected."""
    programs = [Program(plan) for plan in plans]
    try:
        background = [
            asyncio.create_task(watch.look()),
            asyncio.create_task(meddle(meddler, plans[0].seconds)),
        ]
        try:
            await asyncio.gather(*(program.rest() for program in programs))
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
        assert len(await root.call(GetClients())) == 2 + sum(plan.clients for plan in plans)
        await until_groups_are_fair(root)
        return list(await asyncio.gather(*(program.finish() for program in programs)))
    finally:
        for program in programs:
            program.end()


async def meddle(root: WireClient, seconds: float) -> None:
    """Change the numbers of partitions, so that groups have to share them out anew."""
    await asyncio.sleep(seconds / 2)
    await root.call(CreatePartitions(STREAM, "plain", 1))
    for number in itertools.count():
        change = (CreatePartitions, DeletePartitions)[number % 2]
        await root.call(change(STREAM, RESIZED, 2))
        await asyncio.sleep(seconds / 20)


async def until_groups_are_fair(root: WireClient) -> None:
    """Every partition has one owner at any time; at rest, shares differ by one at most."""
    deadline = time.monotonic() + REBALANCING + 3
    for topic, group in GROUPS:
        while True:
            details = await root.call(GetConsumerGroup(STREAM, topic, group))
            owned = [number for member in details.members for number in member.partitions]
            assert sorted(owned) == list(range(details.group.partitions_count)), (topic, group)
            shares = [len(member.partitions) for member in details.members]
            if max(shares) - min(shares) <= 1:
                print(f"{topic}/{group}: {len(owned)} partitions, {len(shares)} members")
                break
            assert time.monotonic() < deadline, f"{topic}/{group} is shared out as {shares}"
            await asyncio.sleep(0.1)


async def check_that_nothing_is_left(root: WireClient, watch: Watch, files_before: int) -> None:
    """No connections, no members, no open files but those that logs may keep open."""
    deadline = time.monotonic() + 5
    while len(await root.call(GetClients())) > 2:
        assert time.monotonic() < deadline, "there are still connections"
        await asyncio.sleep(0.05)
    for topic, group in GROUPS:
        details = await root.call(GetConsumerGroup(STREAM, topic, group))
        assert details.members == ()
    assert watch.sockets == 3  # the listening one, and two of ours
    assert watch.open_files <= files_before + OPEN_FILES


async def check_messages(root: WireClient, reports: list[dict[str, Any]]) -> None:
    """What was acknowledged is where it was said to be, and nothing is there twice."""
    stored = {topic: await read_all(root, topic) for topic in TOPICS}
    everything = [each for logs in stored.values() for log in logs for each in log]
    assert len(everything) == len(set(everything)), "a message is there twice"
    acknowledged = [Sent(*row) for report in reports for row in report["sent"]]
    for sent in acknowledged:
        log = stored[sent.topic][sent.partition]
        numbers = range(sent.first, sent.first + sent.count)
        found = log[sent.base_offset : sent.base_offset + sent.count]
        assert found == [(sent.producer, number) for number in numbers], sent
    count = sum(sent.count for sent in acknowledged)
    print(f"{len(everything)} messages, {len(everything) - count} of them not acknowledged")
    assert count > 0


async def read_all(root: WireClient, topic: str) -> list[list[tuple[str, int]]]:
    """Who sent the messages of each partition, in the order of their offsets."""
    details = await root.call(GetTopic(STREAM, topic))
    logs = []
    for partition in details.partitions:
        log: list[tuple[str, int]] = []
        while len(log) < partition.messages_count:
            polled = await root.call(
                PollMessages(
                    Consumer(ConsumerKind.SINGLE, 1),
                    STREAM,
                    topic,
                    partition.id,
                    PollingStrategy.offset(len(log)),
                    10_000,
                    auto_commit=False,
                )
            )
            messages = Messages(polled.records)
            assert messages
            assert [message.offset for message in messages] == list(
                range(len(log), len(log) + len(messages))
            )
            log += [read_payload(message.payload) for message in messages]
        logs.append(log)
    return logs


async def check_deliveries(root: WireClient, reports: list[dict[str, Any]]) -> None:
    """The group that commits with each poll got every message once, up to what is stored."""
    delivered: dict[tuple[str, int], list[Delivered]] = {}
    for report in reports:
        for row in report["delivered"]:
            delivery = Delivered(*row)
            delivered.setdefault((delivery.topic, delivery.partition), []).append(delivery)
    assert delivered
    for (topic, partition), deliveries in delivered.items():
        consumer = Consumer(ConsumerKind.GROUP, COUNTED)
        stored = await root.call(GetConsumerOffset(consumer, STREAM, topic, partition))
        expected = 0
        for delivery in sorted(deliveries, key=lambda delivery: delivery.first):
            assert delivery.first == expected, f"{delivery} does not begin at {expected}"
            expected = delivery.last + 1
        assert stored.stored_offset == expected - 1


def check_assignments(reports: list[dict[str, Any]]) -> None:
    """In no generation of a group a partition was assigned to two members."""
    owners: dict[tuple[str, str, int, int], str] = {}
    for row in (row for report in reports for row in report["assigned"]):
        assigned = Assigned(*row)
        for partition in assigned.partitions:
            key = assigned.topic, assigned.group, assigned.generation, partition
            assert owners.setdefault(key, assigned.member) == assigned.member, key
    assert owners


async def test_clients_come_and_go(tmp_path: Path) -> None:
    await soak(tmp_path, clients=40, seconds=5, pause=0.02)


@pytest.mark.soak
async def test_two_hundred_clients_come_and_go_for_a_minute(tmp_path: Path) -> None:
    await soak(tmp_path, clients=200, seconds=60, pause=0.05, max_growth=16 * MIB)
