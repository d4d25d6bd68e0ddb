"""`lacuna config`: a command's options, their environment variables and their values."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import click

from lacuna.base.setting import Setting, as_text
from lacuna.cli.command_line import argument
from lacuna.cli.config_file import file_of, keys_of, variable_of
from lacuna.cli.configuration import configure, source_of
from lacuna.cli.console import table
from lacuna.cli.entries import LazyGroup
from lacuna.cli.errors import fail


def config(
    context: click.Context,
    command: Annotated[list[str], argument(help="A command, such as `up` or `topics create`.")],
) -> None:
    """Shows a command's options with their variables and values.

    Every option has an environment variable, and a key for the config file that `lacuna --config FILE` or
    LACUNA_CONFIG specifies. The values are those that the command would use now, without further options.
    """
    own = _context(context.find_root(), command)
    table(
        ("option", "key", "variable", "value", "from"),
        [_file(own), *_options(own), *_settings(own)],
    )


def _context(context: click.Context, words: Sequence[str]) -> click.Context:
    """Return the command's context. Raises UserError if the command does not exist."""
    for word in words:
        group = context.command
        if not isinstance(group, click.Group) or word not in group.commands:
            fail(
                f"the command {' '.join(words)} does not exist: `lacuna --help` lists the commands"
            )
        child = group.commands[word]
        if isinstance(group, LazyGroup):
            child = group.entries[word].load(word)
        context = child.make_context(word, [], parent=context, resilient_parsing=True)
    return context


def _options(context: click.Context) -> Iterator[tuple[object, ...]]:
    for key, option in keys_of(context).items():
        value = context.params.get(option.name or "")
        variable = variable_of(option, context)
        yield option.opts[0], key, variable, _shown(value), source_of(option, context)


def _settings(context: click.Context) -> Iterator[tuple[object, ...]]:
    rows: Mapping[str, Setting] = getattr(context.command, "rows", {})
    for key, chosen in configure(context, rows, (), {}).chosen.items():
        row = rows[key]
        yield row.option or "--set", key, row.variable, as_text(chosen.value), chosen.source


def _file(context: click.Context) -> tuple[object, ...]:
    root = context.find_root()
    (option,) = (each for each in root.command.params if each.name == "config")
    assert isinstance(option, click.Option)
    file = file_of(root)
    shown = "" if file is None else file.path
    return option.opts[0], "", variable_of(option, root), shown, source_of(option, root)


def _shown(value: object) -> object:
    if isinstance(value, Path | str | int | float) and not isinstance(value, bool):
        return value
    return "" if value is None else as_text(value)
