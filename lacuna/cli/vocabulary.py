"""What all commands know together: the keys of config files, and the environment variables. Asking imports them all."""

from collections.abc import Iterator, Mapping

import click

from lacuna.cli.command_line import Option
from lacuna.cli.config_file import keys_of, variable_of
from lacuna.cli.entries import CONTEXT, ENTRIES
from lacuna.cli.tables import TABLES


def all_keys() -> set[str]:
    """The keys of all settings, and of the options of all commands."""
    return {*TABLES["up"], *(key for each in _contexts() for key in keys_of(each))}


def all_variables() -> set[str]:
    """The environment variables of all settings and of the options of all commands."""
    return variables() | {
        variable_of(option, context)
        for context in _contexts()
        for option in keys_of(context).values()
    }


def _contexts() -> Iterator[click.Context]:
    """A context of each command, as if it were called."""
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


def keyed_options() -> Iterator[Option]:
    """The options of the commands with settings that have a key of their own, each key once."""
    seen = set()
    for command in TABLES:
        for option in options_of(ENTRIES[command].load(command)):
            if option.key not in seen:
                seen.add(option.key)
                yield option


def options_of(command: click.Command) -> list[Option]:
    """The options of one command that have a key of their own, which does not begin with the command."""
    return [each for each in command.params if isinstance(each, Option) and each.key]


def variables() -> set[str]:
    """The environment variables of all settings and of the config file."""
    rows = {row.variable for row in TABLES["up"].values()}
    return rows | {str(option.envvar) for option in keyed_options()} | {"LACUNA_CONFIG"}
