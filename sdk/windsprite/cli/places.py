"""Streams and topics that are made because they are missing."""

from __future__ import annotations

from contextlib import suppress

from windsprite import AlreadyExists, Client, Identifier
from windsprite.cli.errors import CommandError


async def create_missing(
    client: Client, stream: Identifier, topic: Identifier, partitions: int
) -> None:
    """Make the stream and the topic, as far as they are missing; others may do so meanwhile."""
    if await client.get_topic(stream, topic) is not None:
        return
    if await client.get_stream(stream) is None:
        name = _new_name("stream", stream)
        with suppress(AlreadyExists):
            await client.create_stream(name)
    name = _new_name("topic", topic)
    with suppress(AlreadyExists):
        await client.create_topic(stream, name, partitions)


def _new_name(kind: str, identifier: Identifier) -> str:
    if isinstance(identifier, str):
        return identifier
    raise CommandError(
        f"there is no {kind} {identifier}, and numbers cannot be chosen",
        f"give the new {kind} a name; name:{identifier} is the name that looks like the number",
    )
