"""Printing and the event loop, for commands that print a result and exit."""

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec

import click
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lacuna.cli.output import OUTPUT

out = Console(highlight=False, emoji=False)
err = Console(stderr=True, highlight=False, emoji=False)

#: Cells up to this width are never broken.
_WHOLE: Final = 24
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?: (?:bytes|[KMGT]iB))?|")

#: The key under which a command's context keeps its tables until the command ends.
_COLLECTED: Final = "lacuna.collected"

Parameters = ParamSpec("Parameters")


def asynchronous(
    command: Callable[Parameters, Coroutine[Any, Any, None]],
) -> Callable[Parameters, None]:
    """Runs an `async def` command in an event loop."""

    @wraps(command)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        asyncio.run(command(*args, **kwargs))

    return run


def is_for_people() -> bool:
    """Whether to format output for people, as on a terminal. Otherwise, tables have tab-separated columns."""
    wanted = _wanted()
    return wanted == "table" or (not wanted and out.is_terminal)


def is_for_programs() -> bool:
    """Whether the user chose JSON. Lines are then omitted, and all tables are printed at the end as one JSON value."""
    return _wanted() == "json"


def _wanted() -> str:
    context = click.get_current_context(silent=True)
    return "" if context is None else str(context.meta.get(OUTPUT, ""))


def print_collected() -> None:
    """Prints the command's tables if the user chose JSON: one table as a list, several as an object of lists."""
    context = click.get_current_context(silent=True)
    tables: dict[str, Any] = {} if context is None else context.meta.pop(_COLLECTED, {})
    if tables:
        (value,) = tables.values() if len(tables) == 1 else (tables,)
        click.echo(json.dumps(value, ensure_ascii=False))


def printable(text: object) -> str:
    """Return `text` with control characters escaped, so that it can be printed as one cell.

    Group ids and transactional ids may contain any characters: a tab would start a new cell, and an escape sequence
    would control the terminal.
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in str(text)
    )


def print_line(line: str) -> None:
    """Prints a line without wrapping it, or nothing if the user chose JSON."""
    if is_for_programs():
        return
    out.print(printable(line), markup=False, soft_wrap=True)


def print_done(line: str, **fields: object) -> None:
    """Reports a completed change as a line or, in JSON, as an object with the given fields."""
    if is_for_programs():
        table(list(fields), [fields.values()])
    else:
        print_line(line)


def paragraph(text: str) -> None:
    """Prints text, wrapped between words on a terminal and as one line elsewhere."""
    out.print(printable(text), markup=False, soft_wrap=not is_for_people())


def table(
    headings: Sequence[str],
    rows: Iterable[Iterable[object]],
    *,
    title: str = "",
    styles: Sequence[str] = (),
    name: str = "rows",
) -> None:
    """Prints a table: with `print_table` for people; for scripts, with tab-separated columns and no title.

    In JSON, a table is a list of objects with the headings as keys. A command with several tables prints an object that
    contains each list under its `name`.
    """
    if is_for_programs():
        keys = [heading.replace(" ", "_") for heading in headings]
        collected = click.get_current_context().meta.setdefault(_COLLECTED, {})
        collected[name] = [
            {key: _plain(cell) for key, cell in zip(keys, row, strict=True)} for row in rows
        ]
        return
    if is_for_people():
        print_table(headings, rows, title=title, styles=styles)
        return
    for line in (headings, *rows):
        click.echo("\t".join("" if cell is None else printable(cell) for cell in line))


def _plain(cell: object) -> object:
    return cell if cell is None or isinstance(cell, bool | int | float) else str(cell)


def print_table(
    headings: Sequence[str],
    rows: Iterable[Iterable[object]],
    *,
    title: str = "",
    styles: Sequence[str] = (),
) -> None:
    """Prints rows under headings, with numbers aligned right.

    Numbers and names of ordinary length are never wrapped: if the table is too wide, each row becomes a block of lines.
    `styles` contains one style per row.
    """
    texts = [["" if cell is None else printable(cell) for cell in row] for row in rows]
    if title:
        out.print(title, style="bold", markup=False, soft_wrap=True)
    widths = [
        min(max(map(cell_len, column)), _WHOLE) for column in zip(headings, *texts, strict=True)
    ]
    shown = [*styles] or [""] * len(texts)
    if sum(widths) + 3 * len(widths) + 1 <= out.width:
        _print_grid(headings, texts, widths, shown)
    else:
        _print_blocks(headings, texts, shown)


def _print_grid(
    headings: Sequence[str], lines: list[list[str]], widths: list[int], styles: Sequence[str]
) -> None:
    rendered = Table(header_style="bold")
    for number, heading in enumerate(headings):
        is_number = bool(lines) and all(_NUMBER.fullmatch(line[number]) for line in lines)
        rendered.add_column(
            heading,
            justify="right" if is_number else "left",
            overflow="fold",
            min_width=widths[number],
        )
    for line, style in zip(lines, styles, strict=True):
        rendered.add_row(*map(escape, line), style=style)
    out.print(rendered)


def _print_blocks(headings: Sequence[str], lines: list[list[str]], styles: Sequence[str]) -> None:
    """Print each row as its first cell, followed by lines of as many `heading value` pairs as fit."""
    for line, style in zip(lines, styles, strict=True):
        out.print(f"{headings[0]} {line[0]}", style="bold", markup=False, soft_wrap=True)
        row = ""
        for heading, cell in zip(headings[1:], line[1:], strict=True):
            if not cell:
                continue
            entry = f"{heading} {cell}"
            if row and cell_len(row) + cell_len(entry) + 4 > out.width:
                out.print(f"  {row}", style=style, markup=False, soft_wrap=True)
                row = ""
            row = f"{row}, {entry}" if row else entry
        out.print(f"  {row}", style=style, markup=False, soft_wrap=True)
