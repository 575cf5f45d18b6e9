"""For processes that tests trace; imports nothing that takes time."""

import ctypes
import sys

PR_SET_PTRACER = 0x59616D61


def allow_tracing() -> None:
    """Let other processes of this user trace this one, where only parents may by default."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, -1, 0, 0, 0)
