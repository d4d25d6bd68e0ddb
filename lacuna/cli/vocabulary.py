"""The keys of config files and the environment variables of all commands. `all_…` imports every command."""

from collections.abc import Iterator, Mapping

import click

from lacuna.cli.config_file import keys_of, variable_of
from lacuna.cli.entries import CONTEXT, ENTRIES
from lacuna.cli.tables import ROWS


def all_keys() -> set[str]:
    """Return the keys of all settings, and of the options of all commands."""
    return {*ROWS, *(key for each in _contexts() for key in keys_of(each))}


def all_variables() -> set[str]:
    """Return the environment variables of all settings and of the options of all commands."""
    return variables() | {
        variable_of(option, context)
        for context in _contexts()
        for option in keys_of(context).values()
    }


def _contexts() -> Iterator[click.Context]:
    """Yield a context of each command."""
    root = click.Context(click.Group("lacuna"), info_name="lacuna", **CONTEXT)
    yield from _contexts_below({name: each.load(name) for name, each in ENTRIES.items()}, root)


def _contexts_below(
    commands: Mapping[str, click.Command], context: click.Context
) -> Iterator[click.Context]:
    for name, command in commands.items():
        below = click.Context(command, parent=context, info_name=name)
        yield below
        if isinstance(command, click.Group):
            yield from _contexts_below(command.commands, below)


def variables() -> set[str]:
    """Return the environment variables of all settings and of the config file."""
    return {*(row.variable for row in ROWS.values()), "LACUNA_CONFIG"}
