"""From bytes to frames, with no I/O: the same for servers, clients and tests.

How it works. Bytes arrive in one buffer of fixed size, which is all that an idle connection holds.
Frames that fit into it are copied out of it, a few hundred bytes each, since the next bytes
overwrite them. Once a header announces a larger frame, `get_buffer` hands out the memory of that
frame's body instead: the bytes are received where they stay, and no frame pays for another.

A header is only a promise. Memory in Python is written when it is made, so that a body of 64 MiB
would cost a connection that sends 256 bytes as much as one that sends it all. A body therefore
grows as its bytes arrive, 32-fold at a time: what is set aside is at most 64 KiB or 32 times what
was received. Steps that wide copy little: a frame of 1 MB its first 64 KiB, the largest 2 MiB.

Memory is set aside when `get_buffer` is called and not before, and `pending_bytes` says how much
that will be: who is short of memory need not call.

A buffer that was handed out is never resized, since an event loop may hold on to it while it
reports the bytes that arrived.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from windsprite_protocol.errors import BadFrameError
from windsprite_protocol.model.messages import Buffer
from windsprite_protocol.v0_11.frames import DEFAULT_MAX_FRAME_SIZE, HEADER_SIZE

DEFAULT_BUFFER_SIZE: Final = 64 * 1024
"""Bytes of the buffer that a connection holds."""

_SIZE_OFFSET: Final = 48
_SIZE: Final = struct.Struct("<I")

_FIRST_STEP: Final = 64 * 1024
_GROWTH: Final = 32


@dataclass(slots=True)
class Frame:
    """One frame as it came in.

    Attributes:
        header: 256 bytes.
        body: Writable memory that belongs to this frame alone.
    """

    header: bytes
    body: memoryview


class FrameDecoder:
    """Cuts a stream of bytes into frames.

    Made for `asyncio.BufferedProtocol`: its `get_buffer` is `get_buffer` here, its
    `buffer_updated` calls `received`. Who has plain bytes calls `feed`.

    A size that no frame can have is known once its header is there, and nothing after it can be
    found again: `failure` is set, frames completed before are still returned, and every later call
    raises the failure.

    Args:
        max_frame_size: Bytes of the largest frame that is accepted, header included.
        buffer_size: Bytes of the fixed buffer; larger frames get memory of their own.

    Attributes:
        max_frame_size: May be changed at any time. An unfinished frame in the fixed buffer is
            measured again; one with memory of its own is not.
        failure: Why the stream cannot be read any further, or `None`.
    """

    __slots__ = (
        "_body",
        "_body_end",
        "_body_size",
        "_buffer",
        "_end",
        "_header",
        "_view",
        "failure",
        "max_frame_size",
    )

    def __init__(
        self,
        max_frame_size: int = DEFAULT_MAX_FRAME_SIZE,
        buffer_size: int = DEFAULT_BUFFER_SIZE,
    ) -> None:
        if buffer_size < HEADER_SIZE:
            message = f"a buffer of {buffer_size} bytes cannot hold a header"
            raise ValueError(message)
        self.max_frame_size = max_frame_size
        self.failure: BadFrameError | None = None
        self._buffer = bytearray(buffer_size)
        self._view = memoryview(self._buffer)
        self._end = 0  # the unfinished frame in the buffer always begins at 0
        self._header = b""
        self._body: memoryview | None = None  # of a frame that is larger than the buffer
        self._body_end = 0
        self._body_size = 0

    @property
    def is_inside_frame(self) -> bool:
        """Whether a part of a frame has arrived: the end of the stream would cut it."""
        return self._end > 0 or self._body is not None

    @property
    def wanted(self) -> int:
        """How many more bytes complete the header, or, once it is there, the frame."""
        if self._body is not None:
            return self._body_size - self._body_end
        if self._end < HEADER_SIZE:
            return HEADER_SIZE - self._end
        (size,) = _SIZE.unpack_from(self._buffer, _SIZE_OFFSET)
        return int(size) - self._end

    @property
    def pending_bytes(self) -> int:
        """Bytes that an unfinished frame holds apart from the fixed buffer.

        Those that the next `get_buffer` sets aside are included.
        """
        body = self._body
        if body is None:
            return 0
        return len(body) if self._body_end < len(body) else self._next_step(len(body))

    def enlarge(self, max_frame_size: int, buffer_size: int = DEFAULT_BUFFER_SIZE) -> None:
        """Accepts larger frames from now on, and takes more bytes at a time.

        A frame whose header is there already was judged by the former limit.
        """
        self.max_frame_size = max_frame_size
        if buffer_size > len(self._buffer):
            buffer = bytearray(buffer_size)
            buffer[: self._end] = self._view[: self._end]
            self._buffer = buffer
            self._view = memoryview(buffer)

    def get_buffer(self) -> memoryview:
        """Where the next bytes go: never empty, valid until the next call of any method.

        Raises:
            BadFrameError: The decoder has failed.
        """
        if self.failure is not None:
            raise self.failure
        body = self._body
        if body is None:
            return self._view[self._end :]
        if self._body_end == len(body):
            self._body = memoryview(bytearray(self._next_step(len(body))))
            self._body[: len(body)] = body
            body = self._body
        return body[self._body_end :]

    def received(self, count: int) -> list[Frame]:
        """Takes note that `count` bytes were written to the buffer; returns completed frames.

        Raises:
            BadFrameError: The decoder had failed before.
        """
        if self.failure is not None:
            raise self.failure
        if self._body is None:
            self._end += count
            return self._cut()
        self._body_end += count
        if self._body_end < self._body_size:
            return []
        frame = Frame(self._header, self._body)
        self._body = None
        return [frame]

    def feed(self, data: Buffer) -> list[Frame]:
        """Takes bytes from elsewhere, copying them; returns completed frames.

        What follows a bad header is dropped.

        Raises:
            BadFrameError: The decoder had failed before.
        """
        rest = memoryview(data)
        frames: list[Frame] = []
        while rest:
            buffer = self.get_buffer()
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            frames += self.received(count)
            if self.failure is not None:
                break
            rest = rest[count:]
        return frames

    def _cut(self) -> list[Frame]:
        """Takes complete frames out of the buffer and moves what remains to its front."""
        buffer, view, end = self._buffer, self._view, self._end
        frames: list[Frame] = []
        start = 0
        while end - start >= HEADER_SIZE:
            (size,) = _SIZE.unpack_from(buffer, start + _SIZE_OFFSET)
            if not HEADER_SIZE <= size <= self.max_frame_size:
                self.failure = BadFrameError(
                    f"a frame of {size} bytes; allowed are {HEADER_SIZE}..{self.max_frame_size}"
                )
                break
            stop = start + size
            body = start + HEADER_SIZE
            if stop > end:
                if size > len(buffer):
                    self._begin(view[start:body].tobytes(), view[body:end], size - HEADER_SIZE)
                    start = end
                break
            frames.append(Frame(view[start:body].tobytes(), memoryview(buffer[body:stop])))
            start = stop
        self._end = end - start
        if 0 < start < end:
            view[: self._end] = view[start:end]
        return frames

    def _begin(self, header: bytes, arrived: memoryview, size: int) -> None:
        """Goes on to a body that does not fit into the buffer, and is still in it so far."""
        self._header = header
        self._body_size = size
        self._body_end = len(arrived)
        self._body = arrived

    def _next_step(self, filled: int) -> int:
        return min(self._body_size, max(_FIRST_STEP, _GROWTH * filled))
