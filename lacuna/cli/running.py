"""What every command that keeps running shares: readiness, signals, and the end of its parent."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import typer
from rich.logging import RichHandler

from agent.descriptors import raise_limit
from agent.server import run as run_on_uvloop
from lacuna.cli.console import err

READY = "bootstrap: "
CONTROL_READY = "control plane: "

#: Set in the environment of a process whose standard input is a pipe that its parent holds.
SUPERVISED = "LACUNA_SUPERVISED"

#: Containers made and not freed until the collector looks for cycles among the young ones.
_COLLECT_AFTER = 50_000


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs until it ends, or cancels it at Ctrl-C, SIGTERM, or the death of whoever supervises it."""
    _spare_the_collector()
    raise_limit()
    run_on_uvloop(_run(main()))


def _spare_the_collector() -> None:
    """Modules are no garbage and need not be looked at again, and what a request makes is freed by counting.

    A server spent 5 to 14 % of its time on cold small extents looking for cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 50, 100)


async def _run(main: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.get_running_loop()
    working = asyncio.ensure_future(main)

    def stop() -> None:
        # A second Ctrl-C ends the process at once.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        working.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    if os.environ.get(SUPERVISED):
        _watch_parent(loop, stop)
    await asyncio.wait((working,))
    if not working.cancelled():
        working.result()


def _watch_parent(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Calls `stop` when the pipe from the parent closes: it has died, even by SIGKILL."""
    descriptor = sys.stdin.fileno()
    os.set_blocking(descriptor, False)

    def read() -> None:
        if not os.read(descriptor, 1024):
            loop.remove_reader(descriptor)
            stop()

    loop.add_reader(descriptor, read)


async def forever() -> None:
    """Waits to be cancelled."""
    await asyncio.get_running_loop().create_future()


def say(line: str) -> None:
    """One line on the standard output at once, for people and for whoever started us."""
    typer.echo(line)
    sys.stdout.flush()


def log_to_stderr(verbose: bool) -> None:
    """Warnings, and with `verbose` what is done, on the standard error output: in a file a line each."""
    handler: logging.Handler = logging.StreamHandler()
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    if err.is_terminal:
        handler = RichHandler(console=err, show_path=False, rich_tracebacks=False, markup=False)
        form = "%(name)s: %(message)s"
    logging.basicConfig(level=logging.WARNING, format=form, handlers=[handler])
    logging.getLogger("lacuna").setLevel(logging.INFO if verbose else logging.WARNING)
