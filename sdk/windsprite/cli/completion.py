"""completion: scripts that let shells complete commands and options."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], Parameter(name="SHELL", help="For which shell.")
    ],
    /,
) -> None:
    """Write a script that lets bash, zsh or fish complete commands and options.

    For this shell, and for all later ones:

    bash   source <(windsprite completion bash)
           windsprite completion bash > ~/.local/share/bash-completion/completions/windsprite
    zsh    windsprite completion zsh > ~/.zfunc/_windsprite
           with fpath=(~/.zfunc $fpath) before compinit in ~/.zshrc
    fish   windsprite completion fish | source
           windsprite completion fish > ~/.config/fish/completions/windsprite.fish

    The script belongs to this release: write it anew after an upgrade.
    """
    from windsprite.cli.application import application

    sys.stdout.write(application.generate_completion(prog_name="windsprite", shell=shell))
