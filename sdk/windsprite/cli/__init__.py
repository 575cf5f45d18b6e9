"""The command line `windsprite`, for people and scripts; it needs the extra `windsprite[cli]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from windsprite.cli.exit_codes import ExitCode

_EXTRA: Final = frozenset({"cyclopts", "rich"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Without the program's name; None takes those of the process.

    Returns:
        The exit code of the process, an `ExitCode`.
    """
    try:
        from windsprite.cli.application import run

        return run(arguments)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        sys.stderr.write(
            f"windsprite: the command line needs the package {error.name}\n"
            "  hint: pip install 'windsprite[cli]'\n"
        )
        return ExitCode.USAGE
