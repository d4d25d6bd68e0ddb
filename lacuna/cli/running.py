"""What every command that keeps running shares: readiness, signals, and errors in one line."""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import typer
from rich.logging import RichHandler

from agent.server import run as run_on_uvloop
from controlplane.client import CommandRefused, ControlPlaneUnavailable
from controlplane.journal.journal import JournalError
from lacuna.cli.console import err, fail
from logstore.objects import ObjectStoreError
from logstore.segments import ForeignStoreError

READY = "bootstrap: "

#: What an operator can mend; anything else is our own mistake and shows its trace.
MENDABLE = (
    CommandRefused,
    ControlPlaneUnavailable,
    ForeignStoreError,
    JournalError,
    ObjectStoreError,
    OSError,
    ValueError,
)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs until it ends or Ctrl-C; an error that an operator can mend becomes one line."""
    try:
        run_on_uvloop(main())
    except MENDABLE as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


async def until_stopped(failed: Coroutine[Any, Any, None] | None = None) -> None:
    """Returns at Ctrl-C or SIGTERM; raises what `failed` raises."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(stopped.wait())]
    if failed is not None:
        tasks.append(asyncio.ensure_future(failed))
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def say(line: str) -> None:
    """One line on the standard output at once, for people and for whoever started us."""
    typer.echo(line)


def log_to_stderr(verbose: bool) -> None:
    """Warnings, and with `verbose` what is done, on the standard error output."""
    handler = RichHandler(console=err, show_path=False, rich_tracebacks=False, markup=False)
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", handlers=[handler])
    logging.getLogger("lacuna").setLevel(logging.INFO if verbose else logging.WARNING)
