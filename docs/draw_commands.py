"""Writes docs/commands.md from the commands themselves: `python docs/draw_commands.py`.

Between `<!-- generated: commands -->` and `<!-- end -->` the page is written by this module; the rest is written by
hand and kept. A test checks that the page is up to date.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from lacuna.cli.app import app
from lacuna.cli.lazy import LazyGroup

PAGE: Final = Path(__file__).with_name("commands.md")
_SECTION: Final = re.compile(r"(<!-- generated: commands -->\n).*?(<!-- end -->)", re.DOTALL)
_HELP: Final = "--help"  # every command has it, which the page says once


def page() -> str:
    """The whole page with its commands described anew."""
    made = "\n".join(_commands(app, click.Context(app, info_name="lacuna"), 2))
    return _SECTION.sub(
        lambda found: f"{found[1]}{made}\n{found[2]}", PAGE.read_text(encoding="utf-8")
    )


def _commands(group: click.Group, context: click.Context, level: int) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.entries[name].load(name) if isinstance(group, LazyGroup) else None
        command = command or group.commands[name]
        below = click.Context(command, parent=context, info_name=name)
        yield from _command(command, below, level)
        if isinstance(command, click.Group):
            yield from _commands(command, below, level + 1)


def _command(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    yield f"{'#' * level} `{context.command_path}`"
    yield ""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield _plain(" ".join(paragraph.split()))
        yield ""
    yield f"    {' '.join(command.get_usage(context).removeprefix('Usage:').split())}"
    yield ""
    rows = [each for each in command.get_params(context) if _HELP not in each.opts]
    if rows:
        yield "| option | value | default | variable | meaning |"
        yield "|---|---|---|---|---|"
        for parameter in rows:
            yield _row(parameter, context)
        yield ""


def _row(parameter: click.Parameter, context: click.Context) -> str:
    value = "" if getattr(parameter, "is_flag", False) else parameter.make_metavar(context)
    name = ", ".join(f"`{each}`" for each in (*parameter.opts, *parameter.secondary_opts))
    extra: dict[str, Any] = {}
    if isinstance(parameter, click.Option):
        extra = dict(parameter.get_help_extra(context))
    elif isinstance(parameter, click.Argument):
        name, value = f"`{_without_brackets(value)}`", ""
    if isinstance(parameter.type, click.Choice):
        value = _without_brackets(value)
    if bounds := extra.get("range"):
        value += f", {bounds}"
    cells = (
        name,
        f"`{value.replace('|', ', ')}`" if value else "",
        _plain(str(extra.get("default", ""))),
        ", ".join(f"`{each}`" for each in extra.get("envvars", ())),
        _plain(getattr(parameter, "help", None) or ""),
    )
    return f"| {' | '.join(cells)} |"


def _without_brackets(value: str) -> str:
    """What click puts into brackets: an argument that may be left out, `[PARTITION]`, and choices, `[one|other]`."""
    return re.sub(r"^\[(.*)\](\.\.\.)?$", r"\1\2", value)


def _plain(text: str) -> str:
    """A text in which nothing is a table's or HTML's."""
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
