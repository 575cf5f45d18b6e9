"""Named places where a test can make an operation fail or stop.

Code that touches the disk says where it is: `points.reach("segment.write")`. Nothing happens there
unless a test has armed that name. The object is passed in, so that servers in one process have
points of their own.
"""

from collections.abc import Callable


class FailurePoints:
    """A set of named places, idle unless armed."""

    __slots__ = ("_armed",)

    def __init__(self) -> None:
        self._armed: dict[str, ArmedPoint] = {}

    def reach(self, name: str) -> None:
        """Say that the named place is reached; raises or does what it was armed with."""
        if self._armed and (point := self._armed.get(name)) is not None:
            point.reach()

    def arm(
        self,
        name: str,
        action: Callable[[], None] | Exception,
        *,
        after: int = 0,
        times: int | None = None,
    ) -> "ArmedPoint":
        """Let something happen at a place, until it is disarmed.

        Args:
            name: The place; arming it again replaces what was armed before.
            action: Raised if it is an exception, else called.
            after: How often the place is passed unharmed first.
            times: How often the action happens after that; `None` means every time.

        Returns:
            A record in which a test can see whether the place was reached at all.
        """
        point = self._armed[name] = ArmedPoint(action, after, times)
        return point

    def disarm(self, name: str) -> None:
        """Let the place be idle again."""
        self._armed.pop(name, None)


class ArmedPoint:
    """What was armed at one place, and what came of it.

    Attributes:
        reached: How often the place was reached since it was armed.
        fired: How often the action happened.
    """

    __slots__ = ("_action", "_after", "_times", "fired", "reached")

    def __init__(
        self, action: Callable[[], None] | Exception, after: int, times: int | None
    ) -> None:
        self._action = action
        self._after = after
        self._times = times
        self.reached = 0
        self.fired = 0

    def reach(self) -> None:
        """Count, and act when it is time."""
        self.reached += 1
        if self.reached <= self._after or self.fired == self._times:
            return
        self.fired += 1
        if isinstance(self._action, Exception):
            raise self._action
        self._action()
