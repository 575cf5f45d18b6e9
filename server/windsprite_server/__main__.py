"""The command line `windsprite-server`, also as `python -m windsprite_server`.

It needs the extra `windsprite[server]`.
"""

import sys
from collections.abc import Sequence
from typing import Final

from windsprite_server import EXTRA

_USAGE: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, or say what has to be installed for that.

    Args:
        arguments: Without the program's name; `None` takes those of the process.

    Returns:
        The exit code of the process.
    """
    try:
        from windsprite_server.cli import main as run  # noqa: PLC0415 - may not be possible

        return run(arguments)
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        sys.stderr.write(
            f"windsprite-server: the server needs the package {error.name}\n"
            "  hint: pip install 'windsprite[server]'\n"
        )
        return _USAGE


if __name__ == "__main__":
    sys.exit(main())
