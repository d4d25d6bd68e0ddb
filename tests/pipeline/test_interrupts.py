"""Tests that Ctrl-C ends a job at any moment."""

import signal
import socket
import sys
import weakref
from collections.abc import Callable, Iterator

import pytest

from lacuna.pipeline.interrupts import raised_again


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Garbage:
    """An object with a weak reference whose callback raises an error."""


def collect(callback: Callable[[object], object]) -> None:
    """Run a callback as the garbage collector does, which lets no exception out."""
    garbage = Garbage()
    reference = weakref.ref(garbage, callback)
    del garbage
    assert reference() is None


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def collect_and_wait() -> None:
    """Lose an interrupt, and then wait as the main thread waits for the JVM."""
    one, other = socket.socketpair()
    one.settimeout(60)
    with one, other:
        collect(interrupt)
        one.recv(1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_in_a_callback_is_not_lost(number: signal.Signals) -> None:
    if number is signal.SIGTERM:  # a service in the background of a script
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, interrupt)
    with raised_again(), pytest.raises(KeyboardInterrupt):
        collect_and_wait()


def test_an_interrupt_at_the_end_of_the_block_is_raised_in_it() -> None:
    with pytest.raises(KeyboardInterrupt), raised_again():
        collect(interrupt)


@pytest.mark.parametrize(
    ("callback", "error"), [(lambda _: 1 / 0, ZeroDivisionError), (interrupt, KeyboardInterrupt)]
)
def test_what_cannot_be_raised_again_is_reported(
    callback: Callable[[object], object],
    error: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    told: list[type[BaseException]] = []

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        told.append(unraisable.exc_type)

    monkeypatch.setattr("sys.unraisablehook", hook)
    with raised_again():
        collect(callback)
    assert told == [error]
    assert sys.unraisablehook is hook
