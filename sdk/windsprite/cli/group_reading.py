"""Reading as a member of a consumer group."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from windsprite import (
    AlreadyExists,
    Client,
    From,
    Identifier,
    PartitionNotOwned,
    ReceivedMessage,
    WindspriteError,
)
from windsprite.cli.arguments import Start, StartKind
from windsprite.cli.cursors import Cursor
from windsprite.cli.groups import find_group
from windsprite.cli.reading import Pauses, Place, Sink, Span, show_progress, unless_purged
from windsprite.environment import Environment

_PATIENCE_WHEN_LEAVING: Final = 2.0
"""Seconds; the end of the connection ends the membership as well."""


class GroupReading:
    """Reads the partitions that a member of a group has, as long as it has them.

    Args:
        client: The member.
        place: What the group reads.
        span: From where to where. It begins there in a partition that the member gets for the
            first time; what comes back to it, it reads behind the stored offset. The count is
            that of all partitions together.
        sink: Where messages go.
        environment: The clock.
        group: Of which group.
    """

    def __init__(
        self,
        client: Client,
        place: Place,
        span: Span,
        sink: Sink,
        environment: Environment,
        *,
        group: Identifier,
    ) -> None:
        self._client = client
        self._where = (place.stream, place.topic)
        self._newest = place.newest
        self._group = group
        self._span = span
        self._left = span.count
        self._sink = sink
        self._environment = environment
        self._cursors: dict[int, Cursor] = {}
        self._seen: set[int] = set()

    async def run(self) -> None:
        """Join, read, and leave."""
        await self._create()
        await self._client.join_consumer_group(*self._where, self._group)
        try:
            await (self._follow() if self._span.is_endless else self._drain())
        finally:
            with suppress(WindspriteError, TimeoutError):
                async with asyncio.timeout(_PATIENCE_WHEN_LEAVING):
                    await self._client.leave_consumer_group(*self._where, self._group)

    async def _create(self) -> None:
        """Make the group if it is missing; others may do so meanwhile."""
        if isinstance(self._group, int):
            await find_group(self._client, *self._where, self._group)
        elif await self._client.get_consumer_group(*self._where, self._group) is None:
            with suppress(AlreadyExists):
                await self._client.create_consumer_group(*self._where, self._group)

    async def _drain(self) -> None:
        """Read until there is nothing more to be had."""
        with show_progress(self._environment) as meter:
            while True:
                found = await self._round()
                meter.count(found, 0, done=found)
                is_done = all(cursor.is_done for cursor in self._cursors.values())
                if self._left == 0 or is_done:
                    return

    async def _follow(self) -> None:
        """Read for ever; in quiet times, ask less and less often."""
        pauses = Pauses(self._environment)
        while True:
            await pauses.after(await self._round())

    async def _round(self) -> int:
        """Poll each partition once; returns how many messages there were."""
        assignment = await self._client.sync_consumer_group(*self._where, self._group)
        if assignment is None:
            await self._client.join_consumer_group(*self._where, self._group)
            assignment = await self._client.sync_consumer_group(*self._where, self._group)
        partitions = () if assignment is None else assignment.partitions
        known = self._cursors
        self._cursors = {number: known.get(number) or self._begin(number) for number in partitions}
        found = 0
        for cursor in tuple(self._cursors.values()):
            if not cursor.is_done and self._left != 0:
                found += len(await self._step(cursor))
        return found

    def _begin(self, partition: int) -> Cursor:
        start = Start(StartKind.NEXT) if partition in self._seen else self._span.start
        self._seen.add(partition)
        newest = self._newest.get(partition)
        return Cursor(
            partition,
            start,
            newest=newest,
            count=self._left,
            follow=self._span.is_endless,
            again=From.next(),
        )

    async def _step(self, cursor: Cursor) -> Sequence[ReceivedMessage]:
        """Poll once, write what comes of it, and store how far it goes."""
        messages: Sequence[ReceivedMessage] = ()
        count = cursor.count if self._left is None else min(cursor.count, self._left)
        try:
            batch = await self._client.poll(
                *self._where,
                partition=cursor.partition,
                start=cursor.start,
                count=count,
                group=self._group,
            )
            messages = cursor.take(batch)
            if messages:
                self._sink.write(messages)
                with unless_purged():
                    await self._client.store_consumer_offset(
                        *self._where,
                        messages[-1].offset,
                        partition=cursor.partition,
                        group=self._group,
                    )
        except PartitionNotOwned:
            # It went to another member, which begins behind what is stored.
            del self._cursors[cursor.partition]
        if self._left is not None:
            self._left -= len(messages)
        return messages
