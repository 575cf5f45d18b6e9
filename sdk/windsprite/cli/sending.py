"""send: the lines of a file or pipe become messages."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from windsprite import Client, Identifier, NotFound, WindspriteError
from windsprite.cli.arguments import parse_key
from windsprite.cli.blocks import BlockReader, unreadable
from windsprite.cli.conversion import converter, flag
from windsprite.cli.errors import CommandError, UsageError
from windsprite.cli.lines import Batcher, LineSplitter, LineTooLongError
from windsprite.cli.output import dump_json
from windsprite.cli.parameters import CommandContext, StreamName, TopicName, file_option
from windsprite.cli.places import create_missing
from windsprite.cli.progress import Meter
from windsprite.cli.topics import Partitions, find_topic
from windsprite_protocol.batches import MAX_PAYLOAD_BYTES

_STANDARD_INPUT: Final = Path("-")
_BLOCK_SIZE: Final = 1 << 20
_MAX_BATCH_BYTES: Final = 1 << 20
_DEFAULT_BATCH: Final = 1000
_LARGEST_BATCH: Final = 100_000
_LINGER: Final = 0.05
"""Seconds that lines wait for more of them, while the input is slow."""


async def send(
    stream: StreamName,
    topic: TopicName,
    /,
    *,
    file: Annotated[Path, file_option("What to send; - is the standard input.")] = _STANDARD_INPUT,
    key: Annotated[
        bytes | None,
        Parameter(
            converter=converter(parse_key),
            n_tokens=1,
            metavar="KEY",
            help="Send everything to the partition that this key selects.",
        ),
    ] = None,
    partition: Annotated[
        int | None, Parameter(validator=Number(gte=0), help="Send everything to this partition.")
    ] = None,
    batch: Annotated[
        int,
        Parameter(
            validator=Number(gte=1, lte=_LARGEST_BATCH),
            help="Messages of one request at most; a request never takes more than about 1 MiB, "
            "unless a single message does.",
        ),
    ] = _DEFAULT_BATCH,
    create: Annotated[bool, flag("Make the stream and the topic if they are missing.")] = False,
    partitions: Partitions = 1,
    context: CommandContext,
) -> None:
    """Send one message for each line of a file or of the standard input.

    A message is the bytes of a line without its newline, whatever their
    encoding. An empty line is a message without payload, and a last line
    without a newline is a message, too. A line of more than 64,000,000 bytes
    is an error.

    With neither --key nor --partition the server deals requests out to the
    partitions of the topic. Within a partition the order of the lines is
    kept: so they are all in order if there is only one partition.

    At the end the standard error says how many messages were sent, after an
    error, too: as many lines are stored for sure, from the first on. If the
    connection breaks while a request is on its way, nobody can tell whether
    it was stored, and the command ends with an error; with the option
    ?send_retry=at-least-once at the end of the connection string the request
    is sent again instead, and may be stored twice.

    Try these:

    windsprite send orders events --create --file events.txt
    journalctl -f | windsprite send logs journal --create
    """
    if key is not None and partition is not None:
        raise UsageError("send: either --key or --partition, not both")
    if partitions != 1 and not create:
        raise UsageError("send: --partitions is of use with --create only")
    with _opened(file) as descriptor:
        async with context.patient_client() as client:
            if create:
                await create_missing(client, stream, topic, partitions)
            meter = Meter("sent", context.environment, total=_size(descriptor))
            sending = _Sending(client, stream, topic, key=key, partition=partition, meter=meter)
            try:
                with meter:
                    await sending.send_lines(
                        BlockReader(descriptor, _name(file), _BLOCK_SIZE), batch
                    )
            finally:
                if context.is_json:
                    sys.stdout.write(dump_json(sending.to_json()))
                else:
                    sys.stderr.write(f"{meter}\n")


@contextmanager
def _opened(file: Path) -> Iterator[int]:
    """The descriptor of what is to be read."""
    if file == _STANDARD_INPUT:
        if sys.stdin.isatty():
            sys.stderr.write("reading lines from the terminal, up to Ctrl-D\n")
        yield sys.stdin.fileno()
        return
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError as error:
        raise unreadable(_name(file), error) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _name(file: Path) -> str:
    return "the standard input" if file == _STANDARD_INPUT else str(file)


def _size(descriptor: int) -> int | None:
    """Bytes that can be read; None where that cannot be known, as in a pipe."""
    status = os.fstat(descriptor)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


class _Sending:
    """Sends what is read from a file, batch after batch, and keeps count."""

    def __init__(
        self,
        client: Client,
        stream: Identifier,
        topic: Identifier,
        *,
        key: bytes | None,
        partition: int | None,
        meter: Meter,
    ) -> None:
        self._client = client
        self._stream = stream
        self._topic = topic
        self._key = key
        self._partition = partition
        self._meter = meter
        self._offsets: dict[int, tuple[int, int]] = {}

    async def send_lines(self, reader: BlockReader, max_messages: int) -> None:
        """Send all lines; while the input is slow, without waiting for a batch to get full.

        Raises:
            CommandError: The input cannot be read, or a line is too long.
        """
        splitter = LineSplitter(MAX_PAYLOAD_BYTES)
        batcher = Batcher(max_messages, _MAX_BATCH_BYTES)
        while True:
            block = await reader.next(patience=_LINGER)
            if block is None:
                await self._send(batcher.take())
                block = await reader.next()
            if not block:
                break
            for messages in batcher.add(_split(splitter, block)):
                await self._send(messages)
        for messages in batcher.add(splitter.finish()):
            await self._send(messages)
        await self._send(batcher.take())

    async def _send(self, messages: list[bytes]) -> None:
        if not messages:
            return
        try:
            stored = await self._client.send(
                self._stream, self._topic, messages, key=self._key, partition=self._partition
            )
        except NotFound as error:
            raise await self._missing(error) from error
        payload_bytes = sum(map(len, messages))
        self._meter.count(len(messages), payload_bytes, done=payload_bytes + len(messages))
        if stored is not None:
            last = stored.base_offset + len(messages) - 1
            first, _ = self._offsets.get(stored.partition_id, (stored.base_offset, last))
            self._offsets[stored.partition_id] = (first, last)

    async def _missing(self, error: NotFound) -> WindspriteError:
        """What it is that was not found; the server does not tell."""
        try:
            await find_topic(self._client, self._stream, self._topic)
        except NotFound as missing:
            hint = "--create makes the stream and the topic if they are missing"
            return NotFound(missing.sentence, code=error.code, hint=hint)
        except WindspriteError:
            return error
        return NotFound(
            f"the topic {self._topic!r} has no such partition",
            code=error.code,
            hint=f"`windsprite topic get {self._stream} {self._topic}` shows its partitions",
        )

    def to_json(self) -> dict[str, Any]:
        """How far it came, for programs."""
        return {
            "messages": self._meter.messages,
            "payload_bytes": self._meter.payload_bytes,
            "seconds": round(self._meter.seconds, 6),
            "partitions": [
                {"partition": partition, "first_offset": first, "last_offset": last}
                for partition, (first, last) in sorted(self._offsets.items())
            ],
        }


def _split(splitter: LineSplitter, block: bytes) -> list[bytes]:
    try:
        return splitter.feed(block)
    except LineTooLongError as error:
        raise CommandError(
            f"line {error.number:,} has more than the {MAX_PAYLOAD_BYTES:,} bytes "
            "that a message may have"
        ) from error
