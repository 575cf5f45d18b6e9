"""completion: scripts that let shells complete commands and options."""

from __future__ import annotations

import sys
from typing import Annotated, Final, Literal

from cyclopts import Parameter

_END_FOR_ZSH: Final = """
if (( ${+compstate} )); then
  _cyclopts_windsprite "$@"
else
  compdef _cyclopts_windsprite windsprite
fi
"""
"""cyclopts writes nothing but a function. zsh runs a file of its `fpath` to complete a command, so
the file has to call it; where the script is sourced, zsh has to be told what it is for."""


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], Parameter(name="SHELL", help="For which shell.")
    ],
    /,
) -> None:
    """Write a script that lets bash, zsh or fish complete commands and options.

    For this shell:

    source <(windsprite completion bash)
    source <(windsprite completion zsh)
    windsprite completion fish | source

    For all later ones, let the script be a file in a directory that exists:

    bash   ~/.local/share/bash-completion/completions/windsprite
    zsh    ~/.zfunc/_windsprite, if ~/.zshrc has, before compinit,
           fpath=(~/.zfunc $fpath)
    fish   ~/.config/fish/completions/windsprite.fish

    The script belongs to this release: write it anew after an upgrade.
    """
    from windsprite.cli.application import application

    sys.stdout.write(application.generate_completion(prog_name="windsprite", shell=shell))
    if shell == "zsh":
        sys.stdout.write(_END_FOR_ZSH)
