"""Tasks that begin immediately, tasks that run concurrently, and threads that cannot start."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lacuna.agent import eager
from lacuna.agent.eager import start
from lacuna.agent.side_by_side import side_by_side
from lacuna.agent.threads import Threads
from tests.doubles.clock import until


async def test_what_never_waits_is_done_without_a_task() -> None:
    done: list[int] = []

    async def work() -> None:
        done.append(1)

    assert start(work(), "w") is None
    assert done == [1]


async def test_what_waits_goes_on_in_a_task_even_if_the_wait_ended_before_it_ran() -> None:
    first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
    seen: list[int] = []

    async def work() -> None:
        seen.append(0)
        seen.append(await first)
        seen.append(await second)

    task = start(work(), "name")
    assert seen == [0]
    assert task is not None
    assert task.get_name() == "name"
    first.set_result(1)
    second.set_result(2)
    await task
    assert seen == [0, 1, 2]


async def test_an_error_that_is_awaited_arrives_where_it_was_awaited() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    caught: list[Exception] = []

    async def work() -> None:
        try:
            await future
        except OSError as error:
            caught.append(error)
        raise KeyError("late")

    task = start(work(), "w")
    assert task is not None
    future.set_exception(OSError("early"))
    with pytest.raises(KeyError, match="late"):
        await task
    assert [str(error) for error in caught] == ["early"]


async def test_cancelling_the_task_cancels_the_wait() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    cleaned: list[bool] = []

    async def work() -> None:
        try:
            await future
        finally:
            cleaned.append(future.cancelled())

    task = start(work(), "w")
    assert task is not None
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == [True]


async def test_cancelling_before_the_tasks_first_turn_is_raised_in_the_work() -> None:
    cleaned: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            # A coroutine that is closed instead of cancelled must not wait any longer.
            await asyncio.sleep(0)
            cleaned.append("waited")
            raise

    task = start(work(), "w")
    assert task is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == ["waited"]


async def test_an_error_before_the_first_wait_is_the_callers() -> None:
    async def work() -> None:
        raise KeyError("now")

    with pytest.raises(KeyError, match="now"):
        start(work(), "w")


async def test_a_bare_turn_of_the_loop_may_be_what_is_awaited() -> None:
    turns: list[int] = []

    async def work() -> None:
        for turn in range(3):
            await asyncio.sleep(0)
            turns.append(turn)

    task = start(work(), "w")
    assert task is not None
    await task
    assert turns == [0, 1, 2]


async def test_only_the_steps_of_timed_work_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    taken: list[float] = []
    monkeypatch.setattr(eager, "perf_counter", lambda: now)
    first, second = (asyncio.get_running_loop().create_future() for _ in range(2))

    async def work() -> None:
        nonlocal now
        now += 1
        await first
        now += 2
        taken.append(timed.take())
        try:
            await second
        finally:
            now += 4

    timed = eager.Timed(work())
    task = start(timed, "w")
    assert task is not None
    now += 100
    first.set_result(None)
    await until(lambda: now >= 103)
    now += 100
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert taken == [3]
    assert timed.take_rest() == 4


async def test_results_are_in_order_and_no_more_run_at_once_than_may() -> None:
    running: set[int] = set()
    seen = []

    def work(number: int) -> Callable[[], Awaitable[int]]:
        async def run() -> int:
            running.add(number)
            seen.append(len(running))
            await asyncio.sleep(0)
            running.discard(number)
            return number

        return run

    assert await side_by_side([work(number) for number in range(10)], 3) == list(range(10))
    assert max(seen) == 3
    assert await side_by_side([work(7)], 3) == [7]
    assert await side_by_side([], 3) == []


async def test_the_first_error_ends_the_others() -> None:
    cancelled = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await side_by_side([waits, fails, waits], 2)
    await asyncio.sleep(0)
    assert cancelled == [True]


def _fail(*_: Any) -> None:
    raise RuntimeError("can't start new thread")


def test_the_work_is_done_by_the_threads_that_have_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy thread does it later. Otherwise, the work would stay in the queue and its future would be lost."""
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
