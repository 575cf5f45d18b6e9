"""One request after the other: the time until its answer is there."""

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.clients.machine import CONFIRMATION_SIZE, asking
from bench.clients.raw import poll_request, send_request
from bench.clients.session import dial, log_in
from bench.contenders import ALL, IGGY, LOOPBACK, NATS, OURS, REDIS, SDK, load, run_module, running
from bench.rows import Run, turned
from bench.workload import Workload
from windsprite_protocol.model.messages import Buffer
from windsprite_protocol.model.system import Ping
from windsprite_protocol.v0_11.calling import encode_request
from windsprite_protocol.v0_11.frames import HEADER_SIZE, unpack_reply
from windsprite_protocol.v0_11.table import GENERATION

_SIZE = 1024
_BLOCK = 200
_POLLED_SIZE = HEADER_SIZE + 16 + 256 + 48 + _SIZE
"""Bytes of the answer to a poll that finds one message."""


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Requests with one message, beside an echo of the same sizes.

    A blocking socket sends and receives, so that the client costs next to nothing. Blocks of
    requests to the server and to the echo alternate; a value is the median of a block.

    Client and servers are told where to run, since it is the place that decides: to wake somebody
    on an idle processor takes a virtual machine longer than an echo. Left alone, a server may run
    beside the client and the other one not. All on one processor is what is required, as nothing
    but work counts there.
    """

    name: str = "round-trip"
    title: str = "one request at a time: ping, send and poll of one message of 1 KiB"
    in_default: bool = True

    def measure(self, run: Run, folder: Path) -> None:
        ours, echo = ALL[OURS], ALL[LOOPBACK]
        blocks = 10 if run.quick else 40
        with running((ours, echo), folder) as systems:
            servers = systems[ours.system], systems[echo.system]
            for note, client, server in _places():
                for one in servers:
                    _stay_on(server, one.pid)
                addresses = [one.address for one in servers]
                found = run_module(
                    "bench.rows.round_trips", *addresses, str(blocks), str(client), f"from-{client}"
                )
                for request, times in found.items():
                    for contender, values in zip((ours, echo), times, strict=True):
                        writes = contender is ours and request == SEND
                        for value in values:
                            run.results.add(
                                value,
                                row=self.name,
                                title=f"round trip of a {request} (median){note}",
                                contender=contender.title,
                                durability="page cache" if writes else "",
                                unit="us",
                                is_limit=contender is echo,
                            )


def _places() -> Iterator[tuple[str, int, int]]:
    """What the table says of a placement, the processor of the client, that of the servers."""
    if not hasattr(os, "sched_getaffinity"):
        yield "", -1, -1
        return
    first, *others = sorted(os.sched_getaffinity(0))
    yield "", first, first
    if others:
        yield ", client on another processor", others[0], first


def _stay_on(processor: int, pid: int = 0) -> None:
    """Keep the main thread of a process, by default of this one, on a processor; -1: anywhere."""
    if processor >= 0:
        os.sched_setaffinity(pid, {processor})


SEND, POLL = "send of 1 x 1 KiB", "poll of 1 x 1 KiB"


@dataclass(frozen=True, slots=True)
class ClientRoundTrips:
    """One send at a time, through the client libraries."""

    name: str = "round-trip-clients"
    title: str = "one send of 1 KiB at a time through each client library"
    in_default: bool = True

    def measure(self, run: Run, folder: Path) -> None:
        contenders = run.taking_part(SDK, IGGY, NATS, REDIS)
        work = Workload(batches=300 if run.quick else 1000, batch=1, size=_SIZE)
        with running(contenders, folder) as systems:
            for repeat in range(run.repeats_of(3)):
                for contender in turned(contenders, repeat):
                    system = systems[contender.system]
                    place = f"r{repeat}-{contender.client}"
                    found = load(contender, system, "round-trips", place, work)
                    run.results.add(
                        found["median_us"],
                        row=self.name,
                        title="round trip of one message of 1 KiB through a client (median)",
                        contender=contender.title,
                        durability=system.durability,
                        unit="us",
                    )


class _Blocking:
    """Requests one after the other over a blocking socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._buffer = memoryview(bytearray(64 * 1024))

    def median_us(self, requests: Sequence[bytes]) -> float:
        sock, buffer, clock = self._sock, self._buffer, time.perf_counter_ns
        times = []
        for request in requests:
            began = clock()
            sock.sendall(request)
            count = sock.recv_into(buffer)
            while count < HEADER_SIZE or count < unpack_reply(buffer).size:
                count += sock.recv_into(buffer[count:])
            times.append(clock() - began)
            if unpack_reply(buffer).status:
                raise ValueError("the server refused a request")
        return median(times) / 1000


def _main(
    address: str, bare: str, blocks: str, processor: str, place: str
) -> dict[str, tuple[list[float], list[float]]]:
    _stay_on(int(processor))
    session = log_in(address)
    asyncio.run(_create(address, place))
    ours = _Blocking(session.sock)
    echo = _Blocking(dial(bare))
    payload = bytes(_SIZE)
    number = 0

    def sends() -> list[list[Buffer]]:
        nonlocal number
        number += _BLOCK
        first = number - _BLOCK + 1
        return [
            send_request(place, 0, [payload], first + index, session) for index in range(_BLOCK)
        ]

    def polls() -> list[list[Buffer]]:
        request = poll_request(place, 0, 0, 1, session)
        return [request] * _BLOCK

    def pings() -> list[list[Buffer]]:
        request = encode_request(
            GENERATION.of(Ping),
            Ping(),
            client=session.client,
            session=session.number,
            request=1,
            checksum=False,
        )
        return [request] * _BLOCK

    found: dict[str, tuple[list[float], list[float]]] = {}
    for _ in range(int(blocks)):
        for name, make, size in (
            (SEND, sends, CONFIRMATION_SIZE),
            (POLL, polls, _POLLED_SIZE),
            ("ping", pings, HEADER_SIZE),
        ):
            requests = make()
            times = found.setdefault(name, ([], []))
            times[0].append(ours.median_us([b"".join(parts) for parts in requests]))
            times[1].append(echo.median_us([b"".join(asking(p, size)) for p in requests]))
    return found


async def _create(address: str, place: str) -> None:
    from bench.clients.sdk import SdkClient

    client = SdkClient()
    await client.open(address, 1)
    await client.create(place, 1, fsync=False)
    await client.close()


if __name__ == "__main__":
    print(json.dumps(_main(*sys.argv[1:])))
