"""What the commands that answer and end share: tables, and an event loop."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

out = Console(highlight=False, emoji=False)
err = Console(stderr=True, highlight=False, emoji=False)

Parameters = ParamSpec("Parameters")


def asynchronous(
    command: Callable[Parameters, Coroutine[Any, Any, None]],
) -> Callable[Parameters, None]:
    """Runs an `async def` command."""

    @wraps(command)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        asyncio.run(command(*args, **kwargs))

    return run


def is_for_people() -> bool:
    """Whether somebody looks at the output; else it is tab-separated, for scripts."""
    return out.is_terminal


def printable(text: object) -> str:
    """What a client has named, in one cell: control characters are shown as their escapes.

    Ids of groups and transactions are any text: a tab would begin a cell, an escape sequence speak to the terminal.
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in str(text)
    )


def tell(line: str) -> None:
    """One line on the standard output, as it is."""
    out.print(printable(line), markup=False, soft_wrap=True)


def table(headings: Sequence[str], rows: Iterable[Iterable[object]], *, title: str = "") -> None:
    """Prints rows under headings; numbers to the right. For scripts tab-separated, without the title."""
    lines = [list(row) for row in rows]
    if not is_for_people():
        for line in (headings, *lines):
            typer.echo("\t".join(printable(cell) for cell in line))
        return
    if title:
        out.print(title, style="bold", markup=False, soft_wrap=True)
    rendered = Table(header_style="bold")
    for number, heading in enumerate(headings):
        is_number = bool(lines) and isinstance(lines[0][number], int)
        rendered.add_column(heading, justify="right" if is_number else "left", overflow="fold")
    for line in lines:
        rendered.add_row(*(escape(printable(cell)) for cell in line))
    out.print(rendered)
