"""What servers share: readiness, signals, logging, and ending with the parent process."""

import asyncio
import ctypes
import gc
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import click
from rich.logging import RichHandler

from lacuna.agent.descriptors import raise_limit
from lacuna.agent.server import run as run_on_uvloop
from lacuna.cli.console import err
from lacuna.cli.places import JSON, TEXT
from lacuna.logstore.compiled import interpreted

log = logging.getLogger("lacuna")

READY = "bootstrap: "
CONTROL_READY = "control plane: "

#: The state that a service reports to systemd (Type=notify), and the variable with the service manager's socket.
SERVING = "READY=1"
STOPPING = "STOPPING=1"
SOCKET = "NOTIFY_SOCKET"

#: The variable that is set if the parent process holds the other end of this process's standard input, a pipe.
SUPERVISED = "LACUNA_SUPERVISED"

#: The excess of allocated over freed containers at which the collector looks for cycles among the young containers.
_COLLECT_AFTER = 50_000
#: The number of young collections before a collection of the middle generation, and of middle collections before a full
#: one. Each collection is a single step. While a million offsets arrived, a middle collection took 133 ms after 50
#: young collections, but only 31 ms after 10.
_YOUNG = 10
_MIDDLE = 500

#: Parameters of glibc's mallopt (malloc.h).
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
#: Free memory at the end of the heap beyond this size is returned to the kernel.
_KEPT_BYTES = 256 << 20


def run(main: Callable[[], Coroutine[Any, Any, None]], *, reads_much: bool = True) -> None:
    """Runs the coroutine from `main`. Ctrl-C, SIGTERM or the end of the supervisor cancels it.

    With `reads_much`, freed read buffers are kept for reuse.
    """
    _spare_the_collector()
    if reads_much:
        _keep_freed_memory()
    raise_limit()
    run_on_uvloop(_run(main()))


def _spare_the_collector() -> None:
    """Make the garbage collector run rarely, and skip the modules loaded so far.

    Modules are never garbage, and reference counting frees a request's objects. Without this, a server that read cold,
    small extents spent 5 to 14% of its time looking for cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, _YOUNG, _MIDDLE)


def _keep_freed_memory() -> None:
    """Make malloc keep freed read buffers instead of returning them to the kernel.

    The kernel clears each new page, which cost a server under read load a fifth of its CPU time. Only glibc has these
    settings.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


async def _run(main: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.get_running_loop()
    working = asyncio.ensure_future(main)

    def stop() -> None:
        # A second Ctrl-C ends the process immediately.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        notify(STOPPING)
        working.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    if os.environ.get(SUPERVISED):
        _watch_parent(loop, stop)
    await asyncio.wait((working,))
    if not working.cancelled():
        working.result()


def _watch_parent(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Call `stop` when the parent's pipe closes, as it does even if the parent is killed."""
    descriptor = sys.stdin.fileno()
    os.set_blocking(descriptor, False)

    def read() -> None:
        if not os.read(descriptor, 1024):
            loop.remove_reader(descriptor)
            stop()

    loop.add_reader(descriptor, read)


async def forever() -> None:
    """Waits until cancelled."""
    await asyncio.get_running_loop().create_future()


def say_ready(line: str) -> None:
    """Reports that this process is ready: prints `line` for people and parent processes, and notifies systemd."""
    say(line)
    notify(SERVING)


def say(line: str) -> None:
    """Prints and flushes a line, so that a parent process sees it immediately."""
    click.echo(line)
    sys.stdout.flush()


class LinesOfJson(logging.Formatter):
    """Formats each log entry as one line with a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event, ensure_ascii=False)


def log_to_stderr(verbose: bool, log_format: str = TEXT) -> None:
    """Logs warnings and denials to standard error; with `verbose`, also other events.

    Each entry is one line, except on a terminal. If `log_format` is JSON, each entry is a JSON object everywhere.
    """
    handler: logging.Handler = logging.StreamHandler()
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    if log_format == JSON:
        handler.setFormatter(LinesOfJson())
    elif err.is_terminal:
        handler = RichHandler(console=err, show_path=False, rich_tracebacks=False, markup=False)
        form = "%(name)s: %(message)s"
    logging.basicConfig(level=logging.WARNING, format=form, handlers=[handler])
    logging.getLogger("lacuna").setLevel(logging.INFO if verbose else logging.WARNING)
    logging.getLogger("lacuna.authorizer").setLevel(logging.INFO)
    if (slow := interpreted()) and not os.environ.get(SUPERVISED):
        log.warning(
            "%s and %d more modules are not compiled, so this process is much slower: install a C compiler and "
            "reinstall Lacuna, or install a wheel for this platform",
            slow[0],
            len(slow) - 1,
        )


def notify(state: str) -> None:
    """Sends `state` to the service manager, if one started this process (sd_notify)."""
    path = os.environ.get(SOCKET)
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
        manager.sendto(state.encode(), address)
