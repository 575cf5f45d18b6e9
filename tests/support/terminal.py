"""A program in a terminal of a given width."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading

_LONGEST = 60


def run_in_terminal(module: str, *arguments: str, columns: int, said: str | None = None) -> int:
    """Run a module to its end; returns its exit code, negative if it did not come to one.

    Args:
        module: What `python -m` runs.
        arguments: Those of its command line.
        columns: How wide the terminal is.
        said: How wide the environment says that it is, if it says so.
    """
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    if said is not None:
        environment["COLUMNS"] = said
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
        )
    finally:
        os.close(theirs)
    with process:
        guard = threading.Timer(_LONGEST, process.kill)
        guard.start()
        try:
            while os.read(ours, 65_536):
                pass
        except OSError:  # the last one has closed it
            pass
        finally:
            code = process.wait()
            guard.cancel()
            os.close(ours)
    return code
