"""Prevents py4j and PySpark from logging tracebacks on Ctrl-C, replacing its handler, or losing the interrupt."""

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

#: Seconds after which a lost interrupt is raised again. py4j's callbacks take microseconds.
_AGAIN: Final = 0.05
#: A script's background processes ignore SIGINT; commands that run as services turn SIGTERM into KeyboardInterrupt.
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def quiet() -> Iterator[None]:
    """Prevents py4j from logging its own tracebacks during the block, as it does on Ctrl-C."""
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
    """Restores the handler for Ctrl-C after the block.

    PySpark's own handler would call the JVM on a connection that is waiting for a reply. It is not needed: a
    KeyboardInterrupt stops the session, which cancels its jobs.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def raised_again() -> Iterator[None]:
    """Raises a KeyboardInterrupt again if Python dropped it during the block.

    py4j releases JVM objects in garbage-collection callbacks. Python merely reports exceptions raised in callbacks, so
    Ctrl-C at such a moment would be lost, and the job would continue.
    """
    hook = sys.unraisablehook
    dropped = 0

    def hear(unraisable: "UnraisableHookArgs") -> None:
        nonlocal dropped
        number = _interrupting()
        if unraisable.exc_type is KeyboardInterrupt and number is not None:
            dropped += 1
            # Not threading.Thread: a callback can run at any moment, even while the main thread holds that module's
            # locks.
            _thread.start_new_thread(interrupt, (number,))
        else:
            hook(unraisable)

    def interrupt(number: int) -> None:
        nonlocal dropped
        time.sleep(_AGAIN)
        main = threading.main_thread().ident
        assert main is not None
        # A signal, because that also interrupts the main thread while it waits for a response from the JVM.
        signal.pthread_kill(main, number)
        dropped -= 1

    sys.unraisablehook = hear
    try:
        yield
    finally:
        try:
            # An interrupt that was dropped at the end of the block is raised here rather than after the block.
            while dropped and threading.current_thread() is threading.main_thread():
                time.sleep(_AGAIN)
        finally:
            if sys.unraisablehook is hear:
                sys.unraisablehook = hook


def _interrupting() -> int | None:
    """Returns a signal that raises a KeyboardInterrupt, or None."""
    return next((each for each in _SIGNALS if callable(signal.getsignal(each))), None)
