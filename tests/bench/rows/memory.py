"""Memory that a server takes for what does nothing."""

import asyncio
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import clients
from bench.clients.session import dial, log_in
from bench.contenders import NATS, OURS, REDIS, Contender, running
from bench.processes import System, private_bytes
from bench.rows import Run

_CONNECTIONS = 500
_PARTITIONS = 1000
_STREAMS = 200


@dataclass(frozen=True, slots=True)
class Memory:
    """Private memory of the server's process, before and after, divided by how many there are."""

    name: str = "memory"
    title: str = "memory for an idle connection, an empty partition, a partition in use"
    in_default: bool = True

    def measure(self, run: Run, folder: Path) -> None:
        contenders = run.taking_part(OURS, NATS, REDIS)
        with running(contenders, folder) as systems:
            for contender in contenders:
                system = systems[contender.system]
                self._connections(run, contender, system)
                asyncio.run(self._logs(run, contender, system))

    def _connections(self, run: Run, contender: Contender, system: System) -> None:
        opening = {"raw": _log_in, "nats": _greet_nats, "redis": _greet_redis}[contender.client]
        with ExitStack() as stack:
            stack.enter_context(opening(system.address))
            before = _settled(system.pid)
            for _ in range(_CONNECTIONS):
                stack.enter_context(opening(system.address))
            cost = (_settled(system.pid) - before) / _CONNECTIONS
        self._add(run, cost, "memory of an idle connection", contender)

    async def _logs(self, run: Run, contender: Contender, system: System) -> None:
        client = clients.make(contender.client)
        await client.open(system.address, 1)
        count = _STREAMS if contender.client == "nats" else _PARTITIONS
        before = _settled(system.pid)
        await client.create("idle", count, fsync=False)
        empty = _settled(system.pid)
        if contender.client != "redis":  # a key without entries is not there
            self._add(run, (empty - before) / count, "memory of an empty log", contender)
        batches = [[bytes(1024)]] * count
        if contender.client == "raw":
            await client.producing("idle", 0, batches, 8, logs=count)()
        elif contender.client == "redis":
            for log in range(count):
                await client.publish(f"idle-{log}", [bytes(1024)])
        else:
            await client.close()
            return
        cost = (_settled(system.pid) - before) / count
        self._add(run, cost, "memory of a log with one message of 1 KiB", contender)
        await client.close()

    def _add(self, run: Run, cost: float, title: str, contender: Contender) -> None:
        run.results.add(cost, row=self.name, title=title, contender=contender.title, unit="bytes")


def _log_in(address: str) -> socket.socket:
    return log_in(address).sock


def _greet_nats(address: str) -> socket.socket:
    sock = dial(address)
    sock.recv(4096)
    sock.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
    sock.recv(64)
    return sock


def _greet_redis(address: str) -> socket.socket:
    sock = dial(address)
    sock.sendall(b"PING\r\n")
    sock.recv(64)
    return sock


def _settled(pid: int) -> int:
    """The memory of a process, once it has stopped changing."""
    found = private_bytes(pid)
    for _ in range(20):
        time.sleep(0.1)
        before, found = found, private_bytes(pid)
        if abs(found - before) < 64 * 1024:
            break
    return found


ROWS = [Memory()]
