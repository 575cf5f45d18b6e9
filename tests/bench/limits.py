"""What the disk can do with the same bytes, in a process of its own.

python -m bench.limits write FOLDER '{"batches": ...}' FSYNC SYNC
python -m bench.limits replay FOLDER CHUNK
"""

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

from bench.clients.raw import stored_batches
from bench.processes import recycle_page_cache
from bench.workload import Workload


def sequential_write(folder: Path, workload: Workload, *, fsync: bool, sync: bool) -> float:
    """Seconds to write the batches of a workload to one file, one `write` for each.

    Args:
        folder: Where.
        workload: What.
        fsync: Whether each of them is followed by `fdatasync`.
        sync: Whether the time goes on until all is on the disk; else page cache is made ready.
    """
    batches = [
        batch
        for connection in range(workload.connections)
        for batch in stored_batches(workload.payloads(connection))
    ]
    path = folder / "sequential"
    if not sync:
        recycle_page_cache(folder, workload.stored_bytes)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        began = time.perf_counter()
        for batch in batches:
            os.write(descriptor, batch)
            if fsync:
                os.fdatasync(descriptor)
        if sync:
            os.sync()
        return time.perf_counter() - began
    finally:
        os.close(descriptor)
        path.unlink()


def read_and_send(folder: Path, chunk: int) -> tuple[float, int]:
    """Read files sequentially and send them over the loopback; returns seconds and bytes.

    Nothing overlaps but what the kernel does ahead and behind.
    """
    paths = sorted(path for path in folder.rglob("*.log") if path.is_file())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    drain = threading.Thread(target=_drain, args=(receiver,))
    drain.start()
    total = 0
    began = time.perf_counter()
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while data := file.read(chunk):
                sender.sendall(data)
                total += len(data)
    sender.close()
    drain.join()
    return time.perf_counter() - began, total


def _drain(sock: socket.socket) -> None:
    buffer = bytearray(1024 * 1024)
    with sock:
        while sock.recv_into(buffer):
            pass


def main(kind: str, folder: str, *arguments: str) -> dict[str, float]:
    if kind == "write":
        workload = Workload(**json.loads(arguments[0]))
        fsync, sync = (argument == "True" for argument in arguments[1:])
        seconds = sequential_write(Path(folder), workload, fsync=fsync, sync=sync)
        return {"seconds": seconds}
    seconds, size = read_and_send(Path(folder), int(arguments[0]))
    return {"seconds": seconds, "bytes": size}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
