"""Sending several buffers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from windsprite_protocol.model.messages import Buffer


def write_all(transport: asyncio.WriteTransport, buffers: Sequence[Buffer]) -> None:
    """Send several buffers at once; uvloop does so without a copy.

    `writelines` of asyncio's own transports fails if they are closing, from Python 3.12 on, and up
    to 3.12.8 and 3.13.1 it does not pause whoever writes more than the other side reads
    (CVE-2024-12254). Those of uvloop are no instances of `asyncio.Transport`.
    """
    if isinstance(transport, asyncio.Transport):
        transport.write(b"".join(buffers))
    else:
        transport.writelines(buffers)
