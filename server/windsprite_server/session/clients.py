"""Which changes of metadata a client asked for and what it was told, so that none is made twice.

Spec 01, 6.3 to 6.5. Clients repeat a request when they cannot know whether it was carried out, with
the number that it had before. Each change is therefore asked for here first (`begin`), and what
became of it is noted (`finish`).
"""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

DEFAULT_MAX_CLIENTS: Final = 8192
DEFAULT_MAX_REPLY_BYTES: Final = 64 * 1024 * 1024
REPLY_OVERHEAD: Final = 450
"""Bytes that a stored reply takes beside its own."""

_REPLIES_OF_CLIENT: Final = 5
_REGISTER: Final = 0

R = TypeVar("R")


class SessionConflictError(Exception):
    """The client id belongs to a session of another user."""


class Step(Enum):
    """What is to be done with a request that changes metadata."""

    EXECUTE = "execute"
    """Carry it out, and then `finish` it in any case."""

    REPLAY = "replay"
    """Give the reply of the first time, which is `reply`."""

    IN_PROGRESS = "in progress"
    """A change of the same client is being carried out; it may ask again."""

    NO_SESSION = "no session"
    """The session was dropped to make room for others."""

    OUTDATED = "outdated"
    """The client id has a newer session, elsewhere."""

    MISMATCH = "mismatch"
    """The number stands for a request with another body."""

    REPLY_FORGOTTEN = "reply forgotten"
    """It was carried out, or passed over; what the reply was is not known any more."""


class _Reply(NamedTuple, Generic[R]):
    checksum: bytes | None
    reply: R
    size: int


class _Entry:
    """What is known of a client id.

    Attributes:
        user_id: Whose session it is.
        session: The number of the newest one.
        watermark: The highest number of a request that was carried out.
        checksum: Of that request, if it had one.
        replies: Numbers of the last requests with a reply; 0 stands for a login.
        is_executing: Whether a request is being carried out.
        has_ended: Whether the session is over; only the request being carried out keeps the entry.
    """

    __slots__ = (
        "checksum", "has_ended", "is_executing", "replies", "session", "user_id", "watermark",
    )  # fmt: skip

    def __init__(self, user_id: int) -> None:
        self.user_id = user_id
        self.session = 0
        self.watermark = 0
        self.checksum: bytes | None = None
        self.replies: list[int] = []
        self.is_executing = False
        self.has_ended = False


class ClientTable(Generic[R]):
    """The session table: one entry for each client id with a session.

    An entry ends with its session. A client id that logs in again before that, on another
    connection, keeps its entry under a new session number.

    Two bounds hold whatever clients do. Beyond `max_clients` the client that got a reply longest
    ago loses its session for changes of metadata, though not its watermark: it has to log in
    again, and no old number of it is carried out again. Beyond `max_reply_bytes` the oldest
    replies of all clients are forgotten. Memory: `max_reply_bytes`, and some 400 bytes for each
    connection that is logged in; a client has at most five replies.

    What a reply is, is no concern of the table: whoever stores it reads it.
    """

    def __init__(
        self,
        max_clients: int = DEFAULT_MAX_CLIENTS,
        max_reply_bytes: int = DEFAULT_MAX_REPLY_BYTES,
    ) -> None:
        """The table is empty.

        Args:
            max_clients: How many clients may have a session that can change metadata; at least 2.
            max_reply_bytes: The replies of all clients together take no more memory.
        """
        self._max_clients = max_clients
        self._max_reply_bytes = max_reply_bytes
        self._entries: dict[bytes, _Entry] = {}
        # Those that were not dropped; the one whose newest reply is oldest comes first.
        self._kept: OrderedDict[bytes, None] = OrderedDict()
        self._replies: OrderedDict[tuple[bytes, int], _Reply[R]] = OrderedDict()
        self._reply_bytes = 0

    @property
    def reply_bytes(self) -> int:
        """Bytes that all replies take, each with what it takes beside its own."""
        return self._reply_bytes

    def __len__(self) -> int:
        """Clients that may change metadata."""
        return len(self._kept)

    # Sessions begin and end

    def register(self, client: bytes, user_id: int, session: int) -> None:
        """Note a new session of a client id.

        Args:
            client: The client id.
            user_id: Whose session it is.
            session: Its number, greater than all before.

        Raises:
            SessionConflictError: The client id belongs to a session of another user.
        """
        entry = self._entries.get(client)
        if entry is None:
            entry = self._entries[client] = _Entry(user_id)
        elif entry.user_id != user_id:
            raise SessionConflictError
        entry.session = session
        entry.has_ended = False
        if client not in self._kept and len(self._kept) >= self._max_clients:
            self._drop(next(iter(self._kept)))
        self._kept[client] = None
        self._note_reply(client, entry, _REGISTER)

    def end(self, client: bytes, session: int) -> None:
        """Forget a client id whose session is over; nothing happens if it has a newer one."""
        entry = self._entries.get(client)
        if entry is None or entry.session != session:
            return
        entry.has_ended = True
        if not entry.is_executing:
            self._forget(client)

    # Requests

    def begin(self, client: bytes, session: int, request: int, checksum: bytes | None) -> Step:
        """Decide what to do with a request that may be carried out as far as it can be told alone.

        Args:
            client: Of the session of the connection.
            session: Its number.
            request: The number of the request; at least 1.
            checksum: Of its body; `None`: the client did not say.
        """
        entry = self._entries.get(client)
        if entry is not None and entry.is_executing:
            return Step.IN_PROGRESS
        if entry is None or client not in self._kept:
            return Step.NO_SESSION
        if session != entry.session:
            return Step.OUTDATED
        if request > entry.watermark:
            entry.is_executing = True
            return Step.EXECUTE
        stored = self._replies.get((client, request))
        known = entry.checksum if request == entry.watermark else stored and stored.checksum
        if known is not None and checksum is not None and known != checksum:
            return Step.MISMATCH
        return Step.REPLY_FORGOTTEN if stored is None else Step.REPLAY

    def reply(self, client: bytes, request: int) -> R:
        """The reply of a request that is to be replayed."""
        return self._replies[client, request].reply

    def abandon(self, client: bytes) -> None:
        """Note that a request that began was not carried out: its number may come again."""
        entry = self._entries.get(client)
        if entry is not None:
            entry.is_executing = False
            if entry.has_ended:
                self._forget(client)

    def finish(
        self, client: bytes, request: int, checksum: bytes | None, reply: R, size: int
    ) -> None:
        """Note that a request that began was carried out, and what its client is told.

        Args:
            client: Of the session that it began with.
            request: Its number.
            checksum: Of its body.
            reply: What the client is told, now and if it asks again.
            size: Bytes of the reply.
        """
        entry = self._entries.get(client)
        if entry is not None:
            entry.watermark = request
            entry.checksum = checksum
            if client in self._kept:
                stored = self._replies[client, request] = _Reply(
                    checksum, reply, size + REPLY_OVERHEAD
                )
                self._reply_bytes += stored.size
                self._note_reply(client, entry, request)
        self.abandon(client)

    # Helpers

    def _note_reply(self, client: bytes, entry: _Entry, request: int) -> None:
        self._kept.move_to_end(client)
        entry.replies.append(request)
        if len(entry.replies) > _REPLIES_OF_CLIENT:
            self._forget_reply(client, entry.replies.pop(0))
        while self._reply_bytes > self._max_reply_bytes:
            self._forget_reply(*next(iter(self._replies)))

    def _forget_reply(self, client: bytes, request: int) -> None:
        stored = self._replies.pop((client, request), None)
        if stored is not None:
            self._reply_bytes -= stored.size

    def _drop(self, client: bytes) -> None:
        """Take the session from a client, but not what it has done."""
        del self._kept[client]
        replies = self._entries[client].replies
        for request in replies:
            self._forget_reply(client, request)
        replies.clear()

    def _forget(self, client: bytes) -> None:
        if client in self._kept:
            self._drop(client)
        del self._entries[client]
