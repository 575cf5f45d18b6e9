"""What the process says when it ends."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process says when it ends."""

    OK = 0
    FAILED = 1
    USAGE = 2
    INTERRUPTED = 130
