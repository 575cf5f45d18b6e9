"""Writes to partitions that a client repeats are not carried out again (spec 01, 6.6).

A write is noted as soon as it is carried out, though it may have to wait for the disk. Whoever
repeats it waits for the disk as well, and is then told of a plain success: the reply of the first
time is not kept.
"""

from __future__ import annotations

from typing import TypeAlias

from windsprite_server.log.keys import PartitionKey
from windsprite_server.log.partition import PartitionLog
from windsprite_server.metadata.commands import PartitionPlace
from windsprite_server.session import Connection, Writer

Life: TypeAlias = tuple[int, int, int, int]
"""Of a partition: ends when it is purged or deleted."""


Write: TypeAlias = tuple[Life, Writer, int]
"""What is written where, by whom, and under which number: as `DuplicateWindows` knows it."""


def numbered_write(connection: Connection, log: PartitionLog) -> Write | None:
    """The write that is being served; `None`: its number is no use to recognise it by."""
    session = connection.session
    if session is None or not session.numbers_writes:
        return None
    return life_of(log.key), (session.client, session.user_id), connection.request


def life_of(place: PartitionPlace | PartitionKey) -> Life:
    """What tells a life of a partition from all others; hashed faster than what it comes from."""
    return place.stream_id, place.topic_id, place.partition_id, place.incarnation
