"""The exit codes of the command line."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit code of the process."""

    OK = 0
    FAILED = 1
    USAGE = 2
    INTERRUPTED = 130
