"""Prints a command's help page: usage, description, and panels of options."""

import inspect
from collections.abc import Iterable
from typing import Any

import click
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from lacuna.cli.console import out


def print_help(command: click.Command, context: click.Context) -> None:
    out.print(Padding(Text(command.get_usage(context), style="bold"), (1, 1, 0, 1)))
    for number, paragraph in enumerate(inspect.cleandoc(command.help or "").split("\n\n")):
        text = _marked(" ".join(paragraph.split()), "dim" if number else "")
        out.print(Padding(text, (1, 1, 0, 1)))
    out.print()
    for title, parameters in _panels(command.get_params(context)).items():
        _print_panel(title, (_row(each, context) for each in parameters))
    if isinstance(command, click.Group):
        listed = ((name, command.commands[name]) for name in command.list_commands(context))
        rows = ((Text(name, style="bold cyan"), _marked(_line(each))) for name, each in listed)
        _print_panel("Commands", rows)


def _panels(parameters: Iterable[click.Parameter]) -> dict[str, list[click.Parameter]]:
    """Group the parameters by panel: arguments, then options without a panel, then the other panels."""
    panels: dict[str, list[click.Parameter]] = {"Arguments": [], "Options": []}
    for each in parameters:
        panels.setdefault(getattr(each, "panel", "Options"), []).append(each)
    return {title: members for title, members in panels.items() if members}


def _print_panel(title: str, rows: Iterable[Iterable[Text]]) -> None:
    table = Table(box=None, show_header=False, expand=True, padding=(0, 2, 0, 0), pad_edge=False)
    for row in rows:
        table.add_row(*row)
    for column in table.columns[:-1]:
        column.no_wrap = True
    table.columns[-1].ratio = 1
    out.print(Panel(table, title=title, title_align="left", border_style="dim"))


def _row(parameter: click.Parameter, context: click.Context) -> tuple[Text, Text, Text, Text]:
    metavar = parameter.make_metavar(context)
    if isinstance(parameter, click.Argument):
        return Text(metavar, style="bold cyan"), Text(), Text(), _help(parameter, context)
    names = [*parameter.opts, *parameter.secondary_opts]
    long = ", ".join(name for name in names if name.startswith("--"))
    short = ", ".join(name for name in names if not name.startswith("--"))
    value = "" if getattr(parameter, "is_flag", False) else metavar
    return (
        Text(long, style="bold cyan"),
        Text(short, style="bold green"),
        Text(value, style="yellow"),
        _help(parameter, context),
    )


def _help(parameter: Any, context: click.Context) -> Text:
    """Return the parameter's help and, on the next line, its environment variable, default and range."""
    text = _marked(parameter.help or "")
    row = getattr(parameter, "row", None)
    notes = []
    if isinstance(parameter, click.Option):
        extra = parameter.get_help_extra(context)
        # All other options also have a variable, named after the command and the option. `lacuna config` shows it.
        if parameter.envvar or row is not None:
            notes += [f"env var: {name}" for name in extra.get("envvars", ())]
        notes += [f"default: {extra['default']}"] if "default" in extra else []
        notes += ["required"] if parameter.required else []
    elif isinstance(parameter.default, int):
        notes.append(f"default: {parameter.default}")
    if bounds := _range(parameter.type) if row is None else row.bounds:
        notes.append(bounds)
    if notes:
        text.append(f"\n[{'; '.join(notes)}]", style="dim")
    return text


def _range(kind: Any) -> str:
    if not isinstance(kind, click.IntRange | click.FloatRange):
        return ""
    if kind.min is not None and kind.max is not None:
        return f"{kind.min} to {kind.max}"
    return f"at least {kind.min}" if kind.min is not None else f"at most {kind.max}"


def _line(command: click.Command) -> str:
    return inspect.cleandoc(command.help or "").partition("\n")[0]


def _marked(line: str, style: str = "") -> Text:
    """Style the line, with the parts between backticks as code."""
    text = Text(style=style)
    for number, part in enumerate(line.split("`")):
        text.append(part, style="bold cyan" if number % 2 else "")
    return text
