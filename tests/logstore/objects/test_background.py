"""Tests background work in its own thread, which may fail to start."""

import threading
from typing import Any

import pytest

from lacuna.logstore.objects.background import BackgroundThread


def test_a_thread_that_cannot_start_is_started_by_a_later_wake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The waking Produce succeeds, because its records are already safe."""

    def fail(_thread: Any) -> None:
        raise RuntimeError("can't start new thread")

    ran = threading.Event()
    background = BackgroundThread(ran.set)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        background.wake()
    assert not ran.is_set()
    background.wake()
    assert ran.wait(60)
    background.stop()
