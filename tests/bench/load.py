"""A load generator in a process of its own, so that it shares no interpreter with a server.

    python -m bench.load '{"client": "raw", "action": "produce", ...}'

prints one line of JSON. See `Order` for what can be asked for.
"""

import asyncio
import gc
import json
import os
import sys
import time
from dataclasses import dataclass, replace
from math import gcd
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from bench import clients
from bench.latency import measure_latency
from bench.processes import processor_ns, recycle_page_cache
from bench.workload import Workload

_PIECE = 1000


@dataclass(frozen=True, slots=True)
class Order:
    """What a load generator is to do.

    Attributes:
        client: A name that `clients.make` knows.
        action: `produce` makes the place first; `consume` reads what `produce` sent and proves
            that it is all there, if the client keeps it; `verify` reads in larger pieces and
            always proves it; `latency` sends at a fixed rate and follows; `round-trips` sends one
            batch after the other; `delete` takes the place away again.
        address: Of the server.
        server: Its process, to be asked what it cost; 0: nobody.
        place: Where the messages go.
        workload: The messages.
        depth: Batches in flight of each connection.
        fsync: Whether acknowledgements wait for the disk.
        logs: Over how many logs one connection spreads its batches; 0: each has its own log.
        create: Whether the place has to be made.
        rate: For `latency`: batches in a second.
        folder: On the disk that the server writes to; empty: page cache is not made ready.
        sync: Whether the time goes on until all that was acknowledged is on the disk.
    """

    client: str
    action: str
    address: str
    server: int
    place: str
    workload: Workload
    depth: int = 1
    fsync: bool = False
    logs: int = 0
    create: bool = True
    rate: float = 0
    folder: str = ""
    sync: bool = False

    @classmethod
    def parse(cls, text: str) -> "Order":
        fields = json.loads(text)
        return cls(**fields | {"workload": Workload(**fields["workload"])})


async def carry_out(order: Order) -> dict[str, Any]:
    """Do it; returns what was measured."""
    client = clients.make(order.client)
    workload = order.workload
    connections = 2 if order.action == "latency" else workload.connections
    await client.open(order.address, connections)
    try:
        if order.create and order.action not in {"consume", "verify", "delete"}:
            logs = order.logs or workload.connections
            await client.create(order.place, logs, fsync=order.fsync)
        match order.action:
            case "produce":
                result = await _produce(client, order)
            case "consume":
                result = await _consume(client, order)
            case "verify":
                result = await _verify(client, order)
            case "round-trips":
                result = await _round_trips(client, order)
            case "latency":
                result = await measure_latency(client, order.place, workload, order.rate)
            case "delete":
                await client.delete(order.place)
                result = {}
            case _:
                message = f"there is no action {order.action!r}"
                raise ValueError(message)
    finally:
        await client.close()
    return result


async def _produce(client: clients.Client, order: Order) -> dict[str, Any]:
    work = [
        client.producing(
            order.place,
            connection,
            order.workload.payloads(connection),
            order.depth,
            logs=order.logs,
        )
        for connection in range(order.workload.connections)
    ]
    if order.folder:
        recycle_page_cache(Path(order.folder), order.workload.stored_bytes)
    return (await _timed(order.server, work, sync=order.sync))[0]


async def _consume(client: clients.Client, order: Order) -> dict[str, Any]:
    work = [
        client.consuming(order.place, connection, order.workload, order.depth)
        for connection in range(order.workload.connections)
    ]
    result, received = await _timed(order.server, work)
    for connection, payloads in enumerate(received):
        if payloads is not None:
            order.workload.check(connection, payloads)
    return result | {"checked": None not in received}


async def _verify(client: clients.Client, order: Order) -> dict[str, Any]:
    work = order.workload
    in_log = work.batches * work.batch
    batch = gcd(in_log, _PIECE)
    pieces = replace(work, batches=in_log // batch, batch=batch)
    for connection in range(work.connections):
        payloads = await client.consuming(order.place, connection, pieces, order.depth)()
        assert payloads is not None, "a client that only counts can prove nothing"
        work.check(connection, payloads)
    return {}


async def _round_trips(client: clients.Client, order: Order) -> dict[str, Any]:
    batches = order.workload.payloads(0)
    nanoseconds = []
    for batch in batches:
        began = time.perf_counter_ns()
        await client.publish(order.place, batch)
        nanoseconds.append(time.perf_counter_ns() - began)
    return {"median_us": median(nanoseconds) / 1000}


async def _timed(
    server: int, work: list[Any], *, sync: bool = False
) -> tuple[dict[str, Any], list[Any]]:
    gc.collect()
    gc.disable()
    cost = processor_ns(server) if server else 0
    own_cost = time.process_time()
    began = time.perf_counter()
    results = await asyncio.gather(*(one() for one in work))
    if sync:
        os.sync()
    seconds = time.perf_counter() - began
    own_cost = time.process_time() - own_cost
    cost = processor_ns(server) - cost if server else 0
    gc.enable()
    return {
        "seconds": seconds,
        "server_seconds": cost / 1e9,
        "client_seconds": own_cost,
    }, results


if __name__ == "__main__":
    print(json.dumps(uvloop.run(carry_out(Order.parse(sys.argv[1])))))
