"""Passwords that are typed or read: never a part of the command line, which everybody can see."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Final

from windsprite.cli.blocks import unreadable
from windsprite.cli.errors import UsageError

_STANDARD_INPUT: Final = Path("-")
_LONGEST_LINE: Final = 4096


def read_password(file: Path | None, what: str, *, is_new: bool = False) -> str:
    """A password: the first line of a file, what is typed on a terminal, or a line of a pipe.

    Call it before anything else goes on: it waits for whoever types.

    Args:
        file: Where it is; `-` is the standard input. None: it is asked for on a terminal, and
            else the next line of the standard input.
        what: What to ask for, such as `password of 'ada'`.
        is_new: Ask twice on a terminal, since nobody sees what is typed.

    Raises:
        UsageError: There is no password, or it is no UTF-8, or it was typed in two ways.
        CommandError: The file cannot be read.
    """
    if file is None and sys.stdin.isatty():
        return _typed(what, is_new=is_new)
    if file is None or file == _STANDARD_INPUT:
        line = sys.stdin.buffer.readline(_LONGEST_LINE)
    else:
        try:
            with file.open("rb") as opened:
                line = opened.readline(_LONGEST_LINE)
        except OSError as error:
            raise unreadable(str(file), error) from error
    try:
        password = line.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageError(f"the {what} is no UTF-8") from None
    if not password:
        raise UsageError(
            f"there is no {what}", "write it to the standard input, or name a file that holds it"
        )
    return password


def _typed(what: str, *, is_new: bool) -> str:
    try:
        password = getpass.getpass(f"{what}: ")
        if is_new and getpass.getpass(f"{what}, again: ") != password:
            raise UsageError(f"the {what} was typed in two ways")
    except EOFError:
        raise UsageError(f"there is no {what}") from None
    return password
