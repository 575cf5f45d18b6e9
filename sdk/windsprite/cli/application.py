"""The application: global options, commands, exit codes, and what people see of an error."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, CycloptsError, Group, Parameter

import windsprite
from windsprite.cli.conversion import flag
from windsprite.cli.errors import CommandError, UsageError
from windsprite.cli.exit_codes import ExitCode
from windsprite.cli.output import OutputFormat

_SERVER_VARIABLE: Final = "WINDSPRITE_SERVER"
_FEWEST_COLUMNS: Final = 20

_COMMANDS: Final = (
    ("ping", "system:ping", "See that a server answers, without logging in."),
    ("send", "sending:send", "Send one message for each line of a file or of the standard input."),
    ("poll", "polling:poll", "Read messages and write them to the standard output."),
    ("stream", "streams:application", "List, make, change and delete streams."),
    ("topic", "topics:application", "List, make, change and delete the topics of a stream."),
    ("group", "groups:application", "List, make and delete the consumer groups of a topic."),
    (
        "offset",
        "offsets:application",
        "Show, change and forget how far consumers and consumer groups are.",
    ),
    ("user", "users:application", "List, make, change and delete users, and say what they may do."),
    (
        "token",
        "tokens:application",
        "List, make and delete your own personal access tokens, which programs log in with.",
    ),
    ("client", "clients:application", "Show who is connected."),
    (
        "cluster",
        "system:cluster",
        "Show the cluster: its name and id, its nodes, who leads it and since which epoch.",
    ),
    ("me", "system:me", "Show how the server sees this client: number, user, address."),
    (
        "stats",
        "system:stats",
        "Show the figures of the server: load, memory, disk, and how much it holds.",
    ),
    (
        "options",
        "system:options",
        "List the options that new topics (or streams, or users) may have, and their defaults.",
    ),
    (
        "snapshot",
        "system:snapshot",
        "Save a ZIP archive that describes the state of the server, for whoever helps with it.",
    ),
    ("bench", "bench:application", "Measure how fast messages are sent and read."),
    (
        "completion",
        "completion:completion",
        "Write a script that lets bash, zsh or fish complete commands and options.",
    ),
)
"""Name, place below this package and one line of help of each command; what is listed here is
loaded when it is used, and not before: most commands need the SDK, and `--help` should not."""


def _version() -> str:
    from importlib.metadata import version

    return version("windsprite")


application = App(
    name="windsprite",
    help="""Talk to a Windsprite or Iggy server: streams, topics, messages, groups, users.

Try these:

    windsprite ping
    echo hello | windsprite send greetings all --create
    windsprite poll greetings all --from first --all --raw
    windsprite poll greetings all --group readers --follow
    windsprite --server iggy://ada:secret@10.0.0.1,10.0.0.2:8090 cluster
    windsprite topic list greetings --output json
""",
    help_epilogue="Exit codes: 0 done; 1 the server refused or something failed; 2 bad usage; "
    "130 interrupted by Ctrl-C. A reader that closes the pipe, such as head, ends a command "
    "with 0.",
    help_format="plaintext",
    version=_version,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
application.meta.group_parameters = Group("Global options", sort_key=1)
_NAMES: Final = frozenset(name for name, _, _ in _COMMANDS)
for _order, (_name, _place, _line) in enumerate(_COMMANDS):
    application.command(f"{__package__}.{_place}", name=_name, help=_line, sort_key=_order)


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
            import asyncio

            from windsprite.cli.context import make_context

            bound.arguments["context"] = make_context(server, output)
            asyncio.run(command(*bound.args, **bound.kwargs))
        else:
            command(*bound.args, **bound.kwargs)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _complain(error, application.parse_commands(words)[0])
    return ExitCode.OK


def run(arguments: Sequence[str] | None) -> ExitCode:
    """Run the command line; None takes the arguments of the process.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    _replace_missing_files()
    _widen_terminal()
    use_own_help(arguments)
    if isinstance(sys.stdout, TextIOWrapper):
        # A name that the terminal cannot show is no reason to fail.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = application.meta(arguments, exit_on_error=False, print_error=True)
    except CycloptsError:  # printed already
        return ExitCode.USAGE
    return code if isinstance(code, ExitCode) else ExitCode.OK


def use_own_help(arguments: Sequence[str]) -> None:
    """Let the help of a command be its own, rather than the line with which it is listed."""
    name = next((word for word in arguments if word in _NAMES), None)
    if name is not None and (command := application[name]).default_command is not None:
        command.help = None


def _complain(error: Exception, command: Sequence[str]) -> ExitCode:
    """Tell what went wrong with a command; returns the exit code for it."""
    match error:
        case CommandError():
            sentence, hint = error.sentence, error.hint
        case windsprite.WindspriteError():
            sentence, hint = _as_typed(error.sentence, command), error.hint
        case OSError(strerror=str(reason)):  # such as no room for the output
            sentence, hint = f"cannot go on: {reason}", ""
        case _:
            sentence = f"unexpected: {type(error).__name__}: {error}"
            hint = "this is a mistake in windsprite; --debug shows where"
    sys.stderr.write(f"windsprite: {sentence}\n")
    if hint:
        sys.stderr.write(f"  hint: {hint}\n")
    is_usage = isinstance(error, UsageError | windsprite.InvalidConnectionString)
    return ExitCode.USAGE if is_usage else ExitCode.FAILED


def _as_typed(sentence: str, command: Sequence[str]) -> str:
    """A sentence of the SDK that names the command where it names the method called for it."""
    method = sentence.partition(":")[0].partition(" ")[0]
    if "_" not in method or not hasattr(windsprite.Client, method):
        return sentence
    return " ".join(command) + sentence.removeprefix(method)


def _replace_missing_files() -> None:
    """Whoever starts a program may leave out its standard files; Python then has None for them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - for good
            setattr(sys, name, nothing)


def _widen_terminal() -> None:
    """Give help the room it needs: in no column it fails, and in one or two it never ends."""
    if not os.environ.get("COLUMNS", "").strip("0"):
        os.environ.pop("COLUMNS", None)  # 0: whoever set it did not know
    if shutil.get_terminal_size().columns < _FEWEST_COLUMNS:
        os.environ["COLUMNS"] = str(_FEWEST_COLUMNS)


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
