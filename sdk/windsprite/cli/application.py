"""The application: global options, commands, exit codes, and what people see of an error."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from io import TextIOWrapper
from typing import Annotated, Final

from cyclopts import App, CycloptsError, Group, Parameter

from windsprite import DEFAULT_CONNECTION_STRING, Address, InvalidConnectionString, WindspriteError
from windsprite.cli import polling, sending, streams, system, tokens, topics, users
from windsprite.cli.context import CommandError, Context, OutputFormat, UsageError
from windsprite.cli.exit_codes import ExitCode
from windsprite.cli.parameters import flag
from windsprite.environment import SystemEnvironment

_SERVER_VARIABLE: Final = "WINDSPRITE_SERVER"


application = App(
    name="windsprite",
    help="""Talk to a Windsprite or Iggy server: streams, topics, messages, users.

Try these:

    windsprite ping
    echo hello | windsprite send greetings all --create
    windsprite poll greetings all --from first --all --raw
    windsprite --server iggy://ada:secret@10.0.0.1,10.0.0.2:8090 cluster
    windsprite topic list greetings --output json
""",
    help_epilogue="Exit codes: 0 done; 1 the server refused or something failed; 2 bad usage; "
    "130 interrupted by Ctrl-C. A reader that closes the pipe, such as head, ends a command "
    "with 0.",
    help_format="plaintext",
    version=lambda: version("windsprite"),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
application.meta.group_parameters = Group("Global options", sort_key=1)
application.command(system.ping, sort_key=0)
application.command(sending.send, sort_key=1)
application.command(polling.poll, sort_key=2)
application.command(streams.application)
application.command(topics.application)
application.command(system.cluster, sort_key=5)
application.command(system.me, sort_key=6)
application.command(system.stats, sort_key=7)
application.command(system.snapshot, sort_key=20)
application.command(users.application)
application.command(tokens.application)


@application.meta.default
def launch(
    *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    server: Annotated[
        str | None,
        Parameter(
            env_var=_SERVER_VARIABLE,
            metavar="CONNECTION_STRING",
            help="Where the servers are and who you are: iggy://USER:PASSWORD@HOST[:PORT][,...], "
            "or iggy://TOKEN@... Without it: iggy://iggy:iggy@127.0.0.1:8090.",
        ),
    ] = None,
    output: Annotated[
        OutputFormat, Parameter(help="For people (plain text in a pipe), or for programs.")
    ] = "table",
    debug: Annotated[bool, flag("Show what happens, and where an error comes from.")] = False,
) -> ExitCode:
    """Run a command with the global options."""
    command, bound, ignored = application.parse_args(words, exit_on_error=False, print_error=True)
    _set_up_log(debug=debug)
    try:
        if "context" in ignored:
            address = Address.parse(server or DEFAULT_CONNECTION_STRING)
            bound.arguments["context"] = Context(address, output, SystemEnvironment())
            asyncio.run(command(*bound.args, **bound.kwargs))
        else:
            command(*bound.args, **bound.kwargs)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _complain(error)
    return ExitCode.OK


def run(arguments: Sequence[str] | None) -> ExitCode:
    """Run the command line; None takes the arguments of the process.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        # A name that the terminal cannot show is no reason to fail.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = application.meta(arguments, exit_on_error=False, print_error=True)
    except CycloptsError:  # printed already
        return ExitCode.USAGE
    return code if isinstance(code, ExitCode) else ExitCode.OK


def _complain(error: Exception) -> ExitCode:
    """Tell what went wrong; returns the exit code for it."""
    match error:
        case CommandError() | WindspriteError():
            sentence, hint = error.sentence, error.hint
        case _:
            sentence = f"unexpected: {type(error).__name__}: {error}"
            hint = "this is a mistake in windsprite; --debug shows where"
    sys.stderr.write(f"windsprite: {sentence}\n")
    if hint:
        sys.stderr.write(f"  hint: {hint}\n")
    is_usage = isinstance(error, UsageError | InvalidConnectionString)
    return ExitCode.USAGE if is_usage else ExitCode.FAILED


def _set_up_log(*, debug: bool) -> None:
    """The SDK's log is for --debug; what matters comes as an error anyway."""
    logger = logging.getLogger("windsprite")
    if debug:
        logging.basicConfig(format="%(name)s: %(message)s")
        logger.setLevel(logging.DEBUG)
    else:
        logger.addHandler(logging.NullHandler())


def _forget_stdout() -> None:
    """Let nothing be written to a closed pipe any more, at the end of the process least of all."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
