"""`lacuna config`: the options of a command, their environment variables, and what they are set to."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import click

from lacuna.cli.command_line import argument
from lacuna.cli.configuration import TABLES, ConfigFile, configure, source_of
from lacuna.cli.console import print_collected, table
from lacuna.cli.errors import fail
from lacuna.cli.lazy import LazyGroup
from lacuna.setting import as_text


def config(
    context: click.Context,
    command: Annotated[
        list[str], argument(help="A command, such as `up` or `topics create`.", show_default=False)
    ],
) -> None:
    """Shows the options of a command with their variables, and what they are set to.

    Every option has an environment variable, and those of `up`, `agent` and `controlplane` a key for a config file,
    which --config or LACUNA_CONFIG names. The values are those that the command would use if it were called now,
    without further options.
    """
    found = _context(context.find_root(), command)
    table(("option", "key", "variable", "value", "from"), [*_options(found), *_settings(found)])
    print_collected()


def _context(context: click.Context, words: Sequence[str]) -> click.Context:
    """The context that a command would have. Raises UserError for a command that does not exist."""
    for word in words:
        group = context.command
        if not isinstance(group, click.Group) or word not in group.commands:
            fail(f"there is no command {' '.join(words)}: `lacuna --help` lists them")
        child = group.commands[word]
        if isinstance(group, LazyGroup):
            child = group.entries[word].load(word)
        context = child.make_context(word, [], parent=context, resilient_parsing=True)
    return context


def _options(context: click.Context) -> Iterator[tuple[object, ...]]:
    file = context.params.get("config")
    settings = {row.option for row in TABLES.get(context.command.name or "", {}).values()}
    for option in context.command.params:
        if not isinstance(option, click.Option) or option.opts[0] in settings:
            continue
        value = context.params.get(option.name or "")
        prefix = context.auto_envvar_prefix
        variable = option.envvar or f"{prefix}_{(option.name or '').upper()}"
        yield (
            option.opts[0],
            getattr(option, "key", ""),
            variable,
            _shown(value),
            source_of(option, context, file if isinstance(file, ConfigFile) else None),
        )


def _settings(context: click.Context) -> Iterator[tuple[object, ...]]:
    rows = TABLES.get(context.command.name or "", {})
    if not rows:
        return
    file = context.params.get("config")
    chosen = configure(context, file, context.params.get("assignments"), {}).chosen
    for key, row in rows.items():
        source = chosen[key].source
        yield row.option or "--set", key, row.variable, as_text(chosen[key].value), source


def _shown(value: object) -> object:
    if isinstance(value, ConfigFile):
        return value.path
    if isinstance(value, Path | str | int | float) and not isinstance(value, bool):
        return value
    return "" if value is None else as_text(value)
