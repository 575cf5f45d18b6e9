"""The official client's group consumer in a process of its own, to be killed or stopped.

Run as a program it prints partition, offset and payload of each message it is given, one line each,
and `error TEXT` for what goes wrong; it never ends by itself.
"""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta


class ConsumerProcess:
    """A started consumer.

    Attributes:
        found: Partition and offset of each message it said it was given.
        errors: What it said went wrong.
    """

    def __init__(self, address: str, stream: str, topic: str, group: str, *, replays: bool) -> None:
        self.found: list[tuple[int, int]] = []
        self.errors: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-u", __file__, address, stream, topic, group, str(int(replays))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, *rest = line.split(maxsplit=1)
            if word == "error":
                self.errors += rest
            else:
                self.found.append((int(word), int(rest[0])))

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once; afterwards `found` is complete."""
        self._process.kill()
        self._process.wait(10)
        self._reader.join(10)
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextmanager
def consumer_process(
    address: str, stream: str, topic: str, group: str, *, replays: bool = False
) -> Iterator[ConsumerProcess]:
    """A consumer that commits each message after it has printed it.

    Its iterator would not do: that commits a message before it hands it out, so that one that is
    killed in between has committed a message that nobody has seen.

    Args:
        address: Of the server.
        stream: What to read.
        topic: What to read.
        group: Made if it is missing.
        replays: Show and commit again what is delivered again. Without it this client never gets
            past a batch that it has shown but could not commit.
    """
    process = ConsumerProcess(address, stream, topic, group, replays=replays)
    try:
        yield process
    finally:
        process.kill()


async def consume(address: str, stream: str, topic: str, group: str, replays: str) -> None:
    from apache_iggy import AutoCommit, AutoCommitAfter, IggyClient, ReceiveMessage

    client = IggyClient.from_connection_string(f"iggy://iggy:iggy@{address}")
    await client.connect()
    consumer = await client.consumer_group(
        group,
        stream,
        topic,
        batch_length=10,
        auto_commit=AutoCommit.After(AutoCommitAfter.ConsumingEachMessage()),
        polling_retry_interval=timedelta(milliseconds=50),
        poll_interval=timedelta(milliseconds=5),
        allow_replay=replays == "1",
    )

    async def show(message: ReceiveMessage) -> None:
        # One write for each line: whoever kills this process finds whole lines.
        sys.stdout.write(f"{message.partition_id()} {message.offset()}\n")

    while True:
        try:
            await consumer.consume_messages(show, None)
        except RuntimeError as error:
            sys.stdout.write(f"error {error}\n")


if __name__ == "__main__":
    try:
        asyncio.run(consume(*sys.argv[1:]))
    except BrokenPipeError:
        os._exit(1)
