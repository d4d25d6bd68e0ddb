"""A coroutine that begins at once, and the task that continues it."""

import asyncio

import pytest

from lacuna.agent import eager
from lacuna.agent.eager import start


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
            # A coroutine that is closed instead of cancelled may not wait any more.
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
    while now < 103:
        await asyncio.sleep(0)
    now += 100
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert taken == [3]
    assert timed.take_rest() == 4
