"""Latency from end to end at a fixed rate.

Batches are due at fixed times, whatever became of those before (open loop). A message carries the
time at which it was due, and its latency counts from then until a consumer has it: a stall of the
server, or of the client itself, is seen by all messages that were due meanwhile.
"""

import asyncio
import time
from contextlib import suppress
from typing import Any

from hdrh.histogram import HdrHistogram

from bench.clients import Client
from bench.workload import Workload

_HIGHEST_US = 60_000_000
_WARM_UP = 0.1  # of all batches
_DRAIN_SECONDS = 20


async def measure_latency(
    client: Client, place: str, workload: Workload, rate: float
) -> dict[str, Any]:
    """Send a workload, batch by batch, at a rate; the first tenth is not counted.

    Args:
        client: With two connections: one sends, one follows.
        place: Where to.
        workload: The messages; of a single connection.
        rate: Batches in a second.
    """
    histogram = HdrHistogram(1, _HIGHEST_US, 3)
    measured_from = 0
    left = workload.messages
    done = asyncio.Event()

    def receive(payload: bytes) -> None:
        nonlocal left
        due = int.from_bytes(payload[:8], "big")
        if due >= measured_from:
            histogram.record_value(max(1, (time.perf_counter_ns() - due) // 1000))
        left -= 1
        if not left:
            done.set()

    follower = asyncio.create_task(client.follow(place, receive))
    await asyncio.sleep(0.3)
    tail = bytes(workload.size - 8)
    interval = 1e9 / rate
    began = time.perf_counter_ns() + 10_000_000
    measured_from = began + int(interval * workload.batches * _WARM_UP)
    sends = set()
    for number in range(workload.batches):
        due = began + int(number * interval)
        # The loop goes on turning: timers are not exact enough.
        while time.perf_counter_ns() < due:
            await asyncio.sleep(0)
        payloads = [due.to_bytes(8, "big") + tail] * workload.batch
        send = asyncio.create_task(client.publish(place, payloads))
        sends.add(send)
        send.add_done_callback(sends.discard)
    offered = (time.perf_counter_ns() - began) / 1e9
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            await done.wait()
    follower.cancel()
    for send in tuple(sends):
        send.cancel()
    await asyncio.gather(follower, *sends, return_exceptions=True)
    return {
        "offered_seconds": offered,
        "lost": left,
        "p50": histogram.get_value_at_percentile(50),
        "p99": histogram.get_value_at_percentile(99),
        "p99.9": histogram.get_value_at_percentile(99.9),
        "max": histogram.get_max_value(),
    }
