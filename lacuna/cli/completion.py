"""`lacuna completion`: prints a shell's completion script."""

from typing import Annotated

import click
from click.shell_completion import get_completion_class

from lacuna.cli.command_line import argument
from lacuna.cli.errors import fail
from lacuna.cli.running import say

_VARIABLE = "_LACUNA_COMPLETE"
_SHELLS = ("bash", "zsh", "fish")


def completion(
    context: click.Context,
    shell: Annotated[str, argument(help="bash, zsh or fish.")],
) -> None:
    """Prints the script that lets a shell complete commands and options.

    For bash, put `eval "$(lacuna completion bash)"` into ~/.bashrc; for zsh, put the same line with zsh instead of bash
    into ~/.zshrc; for fish, write the output to ~/.config/fish/completions/lacuna.fish.
    """
    completer = get_completion_class(shell) if shell in _SHELLS else None
    if completer is None:
        fail(f"{shell} is not a supported shell: choose one of {', '.join(_SHELLS)}")
    root = context.find_root().command
    say(completer(root, {}, "lacuna", _VARIABLE).source())
