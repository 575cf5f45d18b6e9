"""The command line `windsprite-server`: run, config, check.

Each command imports what it needs when it runs, so that `--help` answers at once.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from enum import IntEnum
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import App, CycloptsError, Parameter

if TYPE_CHECKING:
    from windsprite_server.settings import Settings


_STDERR: Final = 2
_FEWEST_COLUMNS: Final = 20


class ExitCode(IntEnum):
    """The exit code of the process."""

    STOPPED = 0
    FAILED = 1
    USAGE = 2
    DATA_DIRECTORY = 3


application = App(
    name="windsprite-server",
    help="A message streaming server: streams, topics and partitions behind the protocol of "
    "Apache Iggy.",
    help_epilogue="Exit codes: 0 stopped as asked; 1 failed while running; 2 bad command line or "
    "settings; 3 data directory unusable (in use, newer format, damaged).",
    version=lambda: version("windsprite"),
    result_action="return_value",
)

ConfigFile = Annotated[
    Path | None, Parameter(name="--config", help="TOML file with settings. Without it, none.")
]


@application.command(sort_key=0)
def run(
    *,
    config: ConfigFile = None,
    data_dir: Annotated[
        str | None, Parameter(help="Directory that holds everything; made if missing.")
    ] = None,
    tcp_address: Annotated[
        str | None,
        Parameter(help="Where clients connect, as HOST:PORT. Port 0 takes a free one."),
    ] = None,
    ready_file: Annotated[
        Path | None,
        Parameter(help="JSON file to write once clients can connect: pid, tcp, cluster_id, node."),
    ] = None,
    log_format: Annotated[
        Literal["console", "json"] | None, Parameter(help="Lines for people, or for machines.")
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        Parameter(help="The lowest level that is logged."),
    ] = None,
) -> int:
    """Run the server until SIGTERM or SIGINT; a second one of them stops it at once.

    SIGHUP, as from a terminal that is closed, stops it too, unless nohup started it. With TLS it
    reads the certificate and its key again instead.

    Settings come from the defaults, then the TOML file, then the environment (WINDSPRITE_ and the
    key in capitals, with two underscores for each dot: WINDSPRITE_TCP__ADDRESS), then these
    options; what comes later wins. `windsprite-server config` shows the result.
    """
    given = {
        "data_dir": data_dir,
        "tcp.address": tcp_address,
        "log.format": log_format,
        "log.level": log_level,
    }
    settings = _load(config, {key: value for key, value in given.items() if value is not None})
    if settings is None:
        return ExitCode.USAGE

    from windsprite_server.app import run as run_server
    from windsprite_server.core.data_directory import DataDirectoryError
    from windsprite_server.transport.certificate import CertificateError

    try:
        return run_server(settings, ready_file=ready_file)
    except CertificateError as error:
        _complain(str(error))
        return ExitCode.USAGE
    except DataDirectoryError as error:
        _complain(str(error))
        return ExitCode.DATA_DIRECTORY


@application.command(sort_key=1)
def config(
    *,
    config: ConfigFile = None,
    output: Annotated[
        Literal["toml", "json"],
        Parameter(name="--format", help="A TOML file to start from, or JSON for programs."),
    ] = "toml",
) -> int:
    """Show the effective settings and where each comes from; secrets are not shown."""
    settings = _load(config, {})
    if settings is None:
        return ExitCode.USAGE

    from windsprite_server.settings import render_json, render_toml

    render = render_json if output == "json" else render_toml
    return _print(render(settings.effective()), ExitCode.STOPPED)


@application.command(sort_key=2, help_epilogue="")
def check(
    directory: Annotated[Path, Parameter(name="DIR", help="A data directory, or a copy of one.")],
    /,
    *,
    output: Annotated[
        Literal["text", "json"], Parameter(name="--format", help="For people, or for programs.")
    ] = "text",
) -> int:
    """Read everything in a data directory, verify all checksums, and report; changes nothing.

    Only while no server has it open: stop the server first, or check a copy. Metadata is read from
    a copy in the directory for temporary files.

    Exit codes: 0 sound; 1 some of what was stored cannot be read; 3 unusable: no server starts on
    it, or one has it open.
    """
    from windsprite_server.checking.bar import show_progress
    from windsprite_server.checking.check import check as look_through
    from windsprite_server.checking.report import Verdict
    from windsprite_server.checking.text import render_json, render_text
    from windsprite_server.core.data_directory import (
        DataDirectoryError,
        DirectoryInUseError,
        keep_servers_out,
    )

    try:
        with keep_servers_out(directory), show_progress(sys.stderr) as progress:
            report = look_through(directory, progress)
    except DirectoryInUseError as error:
        _complain(f"{error}: stop it first, or check a copy")
        return ExitCode.DATA_DIRECTORY
    except DataDirectoryError as error:
        _complain(str(error))
        return ExitCode.DATA_DIRECTORY
    if report is None:
        unused = "null" if output == "json" else f"{directory}: no server has used it yet"
        return _print(f"{unused}\n", ExitCode.STOPPED)
    if isinstance(sys.stdout, TextIOWrapper):
        # A name that the terminal cannot show is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    codes = {
        Verdict.SOUND: ExitCode.STOPPED,
        Verdict.DAMAGED: ExitCode.FAILED,
        Verdict.UNUSABLE: ExitCode.DATA_DIRECTORY,
    }
    text = render_json(report) if output == "json" else render_text(report)
    return _print(text, codes[report.verdict])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Without the program's name; `None` takes those of the process.

    Returns:
        The exit code of the process.
    """
    _replace_missing_files()
    _widen_terminal()
    try:
        code = application(arguments, exit_on_error=False, print_error=True)
    except CycloptsError:  # printed already
        return ExitCode.USAGE
    return code if isinstance(code, int) else ExitCode.STOPPED


def _replace_missing_files() -> None:
    """Whoever starts a program may leave out its standard files.

    Python has `None` for them, and others would get their numbers: files with data.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for good


def _widen_terminal() -> None:
    """Give help the room it needs: in no column it fails, and in one or two it never ends."""
    if not os.environ.get("COLUMNS", "").strip("0"):
        os.environ.pop("COLUMNS", None)  # 0: whoever set it did not know
    if shutil.get_terminal_size().columns < _FEWEST_COLUMNS:
        os.environ["COLUMNS"] = str(_FEWEST_COLUMNS)


def _load(file: Path | None, command_line: dict[str, object]) -> "Settings | None":
    """The settings; `None` if there was something to complain about."""
    from windsprite_server.settings import SettingsError, load_settings

    try:
        return load_settings(file=file, environment=os.environ, command_line=command_line)
    except SettingsError as error:
        for problem in error.problems:
            _complain(problem)
        return None


def _print(text: str, code: ExitCode) -> ExitCode:
    """Write to standard output; returns the code to end with, another one if that fails."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        pass  # whoever reads has seen enough
    except OSError as error:
        _complain(f"cannot write to standard output: {error.strerror}")
        code = ExitCode.FAILED
    else:
        return code
    # Or Python would try once more at its end, and say so.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _complain(sentence: str) -> None:
    sys.stderr.write(f"windsprite-server: {sentence}\n")
