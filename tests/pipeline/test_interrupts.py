"""Tests that Ctrl-C ends a job at any moment."""

import socket
import sys
import weakref

import pytest

from lacuna.pipeline.interrupts import raised_again


class Garbage:
    """An object whose callback gets what the main thread was sent."""


def interrupt(_: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_in_a_callback_of_the_garbage_collection_is_not_lost() -> None:
    one, other = socket.socketpair()
    with one, other, raised_again():
        garbage = Garbage()
        callback = weakref.ref(garbage, interrupt)
        del garbage
        assert callback() is None
        with pytest.raises(KeyboardInterrupt):
            one.recv(1)  # as the main thread waits for the JVM


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_other_errors_are_reported_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[sys.UnraisableHookArgs] = []
    monkeypatch.setattr("sys.unraisablehook", told.append)
    with raised_again():
        garbage = Garbage()
        callback = weakref.ref(garbage, lambda _: 1 / 0)
        del garbage
        assert callback() is None
    assert [each.exc_type for each in told] == [ZeroDivisionError]
