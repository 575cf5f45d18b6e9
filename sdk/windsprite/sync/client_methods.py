"""The methods of `Client`, blocking; written by docs/sync_modules.py."""

from __future__ import annotations

from windsprite.client import Client as Target
from windsprite.events import DEFAULT_CAPACITY
from windsprite.sync.base import Blocking
from windsprite.sync.events import EventStream


class ClientMethods(Blocking[Target]):
    """A connection to a cluster; made by `connect`.

    Streams, topics, consumers, groups and users are named by their number (`int`) or their name
    (`str`): `7` and `"7"` are different. All methods raise a `WindspriteError`, and every one of
    them takes at most `request_timeout`, or `timeout` seconds where it is given.

    A lost connection is replaced, and the client goes where the leader is, without further ado;
    what had been asked for meanwhile is done then, if that cannot do anything twice.

    Of calls that are made at the same time, up to `max_in_flight` are on their way together, if the
    server is a Windsprite server. Their order:

    - Sends that may go to the same partition are carried out in the order in which the calls were
      made, each one after the outcome of the one before is known, with all repeats and on whatever
      connection. A send that fails is over by then: later ones neither overtake it nor wait for it
      to be tried again. Sends with a key, and those for which the server chooses, may go to any
      partition of their topic. `send(..., ordered=False)` waits for no other send, and none waits
      for it.
    - The same holds for changes of stored offsets, and polls that commit, of one partition.
    - Whatever changes streams, topics, groups, users, memberships or the login begins when all
      calls before it have ended, and all calls after it begin when it has ended.
    - Other reads are in no order.

    A send whose outcome is unknown (`OutcomeUnknown`), or that was cancelled or timed out on its
    way, may still be stored at any time. A partition is known by its names: the number and the name
    of one topic count as two topics.
    """

    def events(self, capacity: int = DEFAULT_CAPACITY) -> EventStream:
        """What happens to the connection from now on; ends when the client is closed.

        Args:
            capacity: How many events are kept for whoever reads them, at least 1. The oldest ones
                are dropped for newer ones, and counted in `dropped`.

        Raises:
            InvalidRequest: There is no capacity.
        """
        return EventStream(self._thread, self._thread.call(lambda: self._target.events(capacity)))

    def login(self, username: str, password: str, *, timeout: float | None = None) -> None:
        """Log in, or become somebody else; also used for later reconnects.

        The client joins the consumer groups that it belongs to again, as this user.

        Raises:
            AuthenticationError: The server refused; the client remains who it was.
        """
        self._thread.run(self._target.login(username, password, timeout=timeout))

    def login_with_token(self, token: str, *, timeout: float | None = None) -> None:
        """Log in with a personal access token; also used for later reconnects.

        The client joins the consumer groups that it belongs to again, as this user.

        Raises:
            AuthenticationError: The server refused; the client remains who it was.
        """
        self._thread.run(self._target.login_with_token(token, timeout=timeout))

    def logout(self, *, timeout: float | None = None) -> None:
        """End the session and all memberships of consumer groups, and forget the credentials.

        `login` works afterwards.
        """
        self._thread.run(self._target.logout(timeout=timeout))
