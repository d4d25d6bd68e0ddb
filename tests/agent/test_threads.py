"""Threads that cannot start: the work continues with those that have started."""

import threading
from typing import Any

import pytest

from lacuna.agent.threads import Threads


def _fail(*_: Any) -> None:
    raise RuntimeError("can't start new thread")


def test_the_work_is_done_by_the_threads_that_have_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy thread does it later. Otherwise, its future would be lost while it stays in the queue."""
    executor = Threads(4, "test")
    monkeypatch.setattr(threading.Thread, "start", _fail)
    go_on = threading.Event()
    busy = executor.submit(go_on.wait, 60)
    others = [executor.submit(pow, 2, number) for number in range(10)]
    assert not any(each.done() for each in others)
    go_on.set()
    assert [each.result(60) for each in others] == [2**number for number in range(10)]
    assert busy.result(60)
    executor.shutdown()


def test_that_none_can_start_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", _fail)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        Threads(4, "test")
