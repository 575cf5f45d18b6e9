"""Who takes part: a server, and the client that drives it."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.processes import System
from bench.systems import nats, redis
from bench.systems.machine import Machine
from bench.systems.windsprite import Windsprite
from bench.workload import Workload

OURS = "windsprite, raw client"
SDK = "windsprite, its SDK"
SDK_STREAMS = "windsprite, producer and consumer of its SDK"
IGGY = "windsprite, apache-iggy"
IGGY_PAYLOADS = "windsprite, apache-iggy given payloads"
IGGY_STREAMS = "windsprite, those of apache-iggy"
IGGY_BACKGROUND = "windsprite, those of apache-iggy, background"
NATS = "JetStream, nats-py"
NATS_ATOMIC = "JetStream, atomic batches"
REDIS = "Redis Streams, redis-py"
LOOPBACK = "bare uvloop, same bytes"


@dataclass(frozen=True, slots=True)
class Contender:
    """A server and the client that drives it.

    Attributes:
        title: As the table calls it.
        client: As `clients.make` calls it.
        system: The kind of its server.
        is_limit: Whether it stands for what the machine can do.
    """

    title: str
    client: str
    system: type[Any]
    is_limit: bool = False


ALL = {
    contender.title: contender
    for contender in (
        Contender(LOOPBACK, "machine", Machine, is_limit=True),
        Contender(OURS, "raw", Windsprite),
        Contender(SDK, "sdk", Windsprite),
        Contender(SDK_STREAMS, "sdk-streams", Windsprite),
        Contender(IGGY, "iggy", Windsprite),
        Contender(IGGY_PAYLOADS, "iggy-payloads", Windsprite),
        Contender(IGGY_STREAMS, "iggy-streams", Windsprite),
        Contender(IGGY_BACKGROUND, "iggy-background", Windsprite),
        Contender(NATS, "nats", nats.Nats),
        Contender(NATS_ATOMIC, "nats-batch", nats.Nats),
        Contender(REDIS, "redis", redis.Redis),
    )
}


def why_missing(contender: Contender) -> str | None:
    """What has to be installed before a contender can take part; `None`: nothing."""
    libraries = {"nats": "nats", "redis": "redis", "iggy": "apache_iggy"}
    library = libraries.get(contender.client.partition("-")[0])
    if library is not None and find_spec(library) is None:
        return f"{contender.title}: the Python package {library} is not installed"
    if contender.system is nats.Nats and nats.executable() is None:
        return f"{contender.title}: {nats.MISSING}"
    if contender.system is redis.Redis and redis.executable() is None:
        return f"{contender.title}: {redis.MISSING}"
    return None


@contextmanager
def running(
    contenders: Iterable[Contender], folder: Path, *, fsync: bool = False
) -> Iterator[dict[type[Any], System]]:
    """One server of each kind that is needed, with data of its own; all are killed in the end."""
    with ExitStack() as stack:
        systems: dict[type[Any], System] = {}
        for contender in contenders:
            kind = contender.system
            if kind in systems:
                continue
            data = folder / kind.__name__.lower()
            data.mkdir(parents=True)
            system = kind(data) if kind is Machine else kind(data, fsync=fsync)
            system.start()
            stack.callback(system.kill)
            systems[kind] = system
        yield systems


def load(
    contender: Contender,
    system: System,
    action: str,
    place: str,
    workload: Workload,
    **more: object,
) -> dict[str, Any]:
    """Run a load generator (`bench.load`) and return what it measured.

    Raises:
        RuntimeError: It failed; its output is the message.
    """
    order = {
        "client": contender.client,
        "action": action,
        "address": system.address,
        "server": system.pid,
        "place": place,
        "workload": asdict(workload),
    }
    return run_module("bench.load", json.dumps(order | more))


def run_module(*arguments: str) -> dict[str, Any]:
    """Run a Python module that prints one line of JSON.

    Raises:
        RuntimeError: It failed; its output is the message.
    """
    done = subprocess.run(
        [sys.executable, "-m", *arguments], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result
