"""Writes docs/command-line.md from what `--help` says.

`make docs-command-line` runs it; a test compares the file with what it would write.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console

from windsprite.cli.application import application, use_own_help

PAGE: Final = Path(__file__).resolve().parent / "command-line.md"

INTRODUCTION: Final = """\
# Command line

`windsprite` comes with the extra `[cli]`, and with `[server]`.

```sh
windsprite ping
printf 'one\\ntwo\\n' | windsprite send greetings all --create
windsprite poll greetings all --from first --all --raw
```

## Where the server is

The option `--server` or the variable `WINDSPRITE_SERVER` holds a connection string with one or more
servers and who you are; without them it is `iggy://iggy:iggy@127.0.0.1:8090`. The variable keeps a
password out of the list of processes. Options of the client stand behind a `?`, as in
`iggy://...@host?request_timeout=5s`.

## What comes out

Results are tables on a terminal and lines with tabs in a pipe. With `--output json` they are JSON:
one document, or one line for each message of `poll`. `bench` writes JSON whenever its output is no
terminal. Progress, errors and hints go to the standard error; progress only if that is a terminal.

```sh
windsprite topic list greetings --output json
windsprite poll greetings all --all --output json
```

## Exit codes

| code | means |
|---|---|
| 0 | done; also if the reader of a pipe had enough, such as `head` |
| 1 | the server refused, nobody answered, or something else failed; the standard error says what |
| 2 | the command line or the connection string makes no sense |
| 130 | interrupted by Ctrl-C, the way to end `poll --follow`: what was written is complete |

## Completion

```sh
source <(windsprite completion bash)
```

The same for zsh; `windsprite completion fish | source` for fish.
[For later shells](#windsprite-completion) the script goes into a file.

## All commands

"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The text of the page."""
    sections = [
        f"### windsprite {path}\n\n```console\n{help_of(path)}\n```\n" for path in commands()
    ]
    return INTRODUCTION + "\n".join(sections)


def commands() -> Iterator[str]:
    """All commands, as they are typed."""
    for name in application:
        if not name.startswith("-"):
            command = application[name]
            below = [each for each in command if not each.startswith("-")]
            yield from (f"{name} {each}" for each in below) if below else [name]


def help_of(path: str) -> str:
    """What `--help` says of a command, but for the options that all have."""
    out = io.StringIO()
    words = path.split()
    use_own_help(words)
    application.help_print(words, console=Console(file=out, width=100, color_system=None))
    text, _, _ = out.getvalue().partition("╭─ Global options")
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


if __name__ == "__main__":
    main()
