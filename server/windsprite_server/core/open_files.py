"""How many files and sockets the process may have open at a time."""

import resource
from contextlib import suppress


def allow_open_files(wanted: int) -> int:
    """Raise the limit of this process to `wanted`, as far as the system lets it.

    Most systems start processes with a low (soft) limit, 1024 as a rule, and let them raise it.

    Returns:
        The limit now in force, which may be lower than `wanted`. It is never lowered.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited or soft >= wanted:
        return wanted if soft == unlimited else soft
    allowed = wanted if hard == unlimited else min(wanted, hard)
    with suppress(ValueError, OSError):  # some systems have a lower limit of their own
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        return allowed
    return soft
