"""What every command shares: tables, options, and one line for each error."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from typing import Annotated, Any, NoReturn, ParamSpec

import typer
from kio.schema.errors import ErrorCode
from rich.console import Console
from rich.table import Table

from lacuna.kafka import BootstrapUnavailable

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="LACUNA_BOOTSTRAP",
        help="HOST:PORT of any agent; several, separated by commas, are tried in turn.",
    ),
]
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

Parameters = ParamSpec("Parameters")


def fail(message: str) -> NoReturn:
    """Ends the command with one line that says what to do, exit code 1."""
    err.print(f"lacuna: {message}", style="red", markup=False, soft_wrap=True)
    raise typer.Exit(1)


def asynchronous(
    command: Callable[Parameters, Coroutine[Any, Any, None]],
) -> Callable[Parameters, None]:
    """Runs an `async def` command; the errors that a user can mend become one line."""

    @wraps(command)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            asyncio.run(command(*args, **kwargs))
        except (BootstrapUnavailable, ValueError) as error:
            fail(str(error))
        except KeyboardInterrupt:
            raise typer.Exit(130) from None

    return run


def check(error_code: ErrorCode | int, subject: str, message: str | None = None) -> None:
    """Ends the command when a response carries an error, in the words of Kafka's error name."""
    code = ErrorCode(error_code)
    if code is ErrorCode.none:
        return
    fail(f"{subject}: {message or describe(code)}")


def describe(code: ErrorCode) -> str:
    """An error code in words: `unknown topic or partition`."""
    return code.name.replace("_", " ")


def table(
    headings: Iterable[str], rows: Iterable[Iterable[object]], *, title: str | None = None
) -> None:
    """Prints rows under headings; where the output is no terminal, tab-separated for scripts."""
    headings = list(headings)
    if not out.is_terminal and "FORCE_COLOR" not in os.environ:
        typer.echo("\t".join(headings))
        for row in rows:
            typer.echo("\t".join(str(cell) for cell in row))
        return
    rendered = Table(title=title, title_justify="left", header_style="bold")
    for heading in headings:
        rendered.add_column(heading)
    for row in rows:
        rendered.add_row(*(str(cell) for cell in row))
    out.print(rendered)
