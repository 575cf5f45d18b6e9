"""A client on the event loop of a test; whoever runs that loop has a fixture for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import windsprite
    from windsprite_server import EmbeddedServer


@asynccontextmanager
async def connected(windsprite_server: EmbeddedServer) -> AsyncIterator[windsprite.Client]:
    """A client, logged in as root."""
    import windsprite  # noqa: PLC0415 - not before a test needs it

    async with windsprite.connect(windsprite_server.connection_string) as client:
        yield client
