"""Why a log refuses something."""

import errno
from typing import Final

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What the operating system says when there is no room, for everybody or for us."""


class LogError(Exception):
    """A log could not do what it was asked; the text is a sentence for people."""


class LogUnavailableError(LogError):
    """The operating system refused a write (disk full, I/O error, read-only file system).

    Nothing of it is visible and nothing of it stays behind; the same request may succeed later.
    """


class DiskFullError(LogUnavailableError):
    """There is no room."""


class LogFailedError(LogError):
    """An earlier fsync failed, so that what the disk holds is not known.

    The log takes no more writes until the server is started anew; what was acknowledged before
    stays readable.
    """


class LogClosedError(LogError):
    """The partition was removed or the store closed."""


class TooManyOffsetsError(LogError):
    """The partition holds as many consumer offsets of this kind as it may."""


def unavailable(what: str, error: OSError) -> LogUnavailableError:
    """What to raise when the operating system refused something.

    Args:
        what: What can't be done now.
        error: Why.
    """
    kind = DiskFullError if error.errno in NO_ROOM else LogUnavailableError
    return kind(f"{what} now: {error.strerror}")
