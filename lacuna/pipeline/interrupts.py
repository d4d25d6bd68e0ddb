"""Keeps py4j and PySpark from making Ctrl-C noisy, from taking its handler, and from losing it."""

import _thread
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

#: Seconds until an interrupt that was lost is raised again. Callbacks of py4j take microseconds.
_AGAIN: Final = 0.05


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps py4j from logging its own tracebacks in the block, as it would at Ctrl-C."""
    own, level = logging.getLogger("py4j"), logging.getLogger("py4j").level

    def is_wanted(record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts

    logging.getLogger().addFilter(is_wanted)
    own.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        own.setLevel(level)
        logging.getLogger().removeFilter(is_wanted)


@contextmanager
def handler_kept() -> Iterator[None]:
    """Restores the handler of Ctrl-C after the block.

    PySpark installs one that would call the JVM on a connection that is waiting for an answer. It is not needed, since
    a KeyboardInterrupt stops the session, which cancels its jobs.
    """
    handler = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


@contextmanager
def raised_again() -> Iterator[None]:
    """Raises a KeyboardInterrupt again that Python dropped in the block.

    py4j releases each object of the JVM in a callback of the garbage collection, and Python only reports an exception
    that is raised in a callback. Ctrl-C in such a moment would be lost, and the job would go on.
    """
    hook = sys.unraisablehook

    def hear(dropped: "UnraisableHookArgs") -> None:
        if dropped.exc_type is KeyboardInterrupt:
            # Not a threading.Thread, whose locks the main thread may hold, since a callback may run at any moment.
            _thread.start_new_thread(_interrupt, ())
        else:
            hook(dropped)

    sys.unraisablehook = hear
    try:
        yield
    finally:
        sys.unraisablehook = hook


def _interrupt() -> None:
    time.sleep(_AGAIN)
    main = threading.main_thread().ident
    assert main is not None
    # A signal, because it also ends the main thread's wait for an answer of the JVM.
    signal.pthread_kill(main, signal.SIGINT)
