"""What the classes of methods have in common."""

from __future__ import annotations

from windsprite.address import RetryMode
from windsprite.caller import Caller
from windsprite.environment import Environment
from windsprite.memberships import Memberships


class Commands:
    """Base of the classes of methods.

    Attributes:
        _caller: Carries out requests.
        _memberships: The consumer groups that the client belongs to.
        _environment: Time and identifiers of messages.
        _send_retry: What becomes of a send whose outcome is unknown, if the call does not say.
    """

    _caller: Caller
    _memberships: Memberships
    _environment: Environment
    _send_retry: RetryMode
