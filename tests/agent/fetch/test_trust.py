"""The age of the views that an answer may use (S7), for an agent that was suspended or lags behind."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lacuna.agent.fetch.answers import READ_UNCOMMITTED, size_of
from lacuna.agent.metrics import AgentMetrics
from lacuna.agent.trust import Trust
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from tests.agent.fetch.log import Log, TestStore, make_batch, open_log, records_of
from tests.agent.harness import ScriptedControl
from tests.doubles.clock import iterations, until

#: How long a view is trusted, how long fetches wait, and a sleep longer than both (seconds). No delay is as long.
TRUSTED, WAIT, SLEEP = 900.0, 600.0, 1400.0


def sleep_through(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Advance the loop's clock while nothing runs, as after SIGSTOP."""
    loop = asyncio.get_running_loop()
    time = loop.time
    monkeypatch.setattr(loop, "time", lambda: time() + seconds)


@contextmanager
def deaf(log: Log) -> Iterator[list[tuple[Any, ...]]]:
    """Hold the control plane's messages back in the socket until the end of the block."""
    unread: list[tuple[Any, ...]] = []
    deliver = log.control.deliver
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log.control, "deliver", lambda *message: unread.append(message))
        yield unread
    for message in unread:
        deliver(*message)


async def await_commit(unread: list[tuple[Any, ...]]) -> None:
    """Wait until the control plane has sent the changes of a commit."""
    await until(lambda: unread, 0.001)


class SlowStore(TestStore):
    """A store whose reads wait for `open`."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()
        self.has_begun = threading.Event()

    def get(self, key: str, position: int, size: int) -> bytearray:
        self.has_begun.set()
        assert self.open.wait(60)
        return super().get(key, position, size)


async def test_s7_a_fetch_that_slept_through_the_lease_asks_before_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its timer runs first, while commits made in the meantime are still unread in the socket."""
    async with open_log() as log:
        log.lease.trust.lasts = TRUSTED
        await log.create_topic("t")
        fetch = asyncio.ensure_future(log.fetch(0, max_wait_ms=int(WAIT * 1000)))
        await iterations()
        with deaf(log) as unread:
            produce = asyncio.ensure_future(log.produce(make_batch(b"a")))
            await await_commit(unread)
            sleep_through(monkeypatch, SLEEP)
            await asyncio.sleep(0.02)
            assert not fetch.done()
        answer = await asyncio.wait_for(fetch, 60)
        assert records_of(answer) == [(0, b"a")]
        assert answer.high_watermark == 1
        await produce


async def test_s7_a_fetch_that_slept_within_its_lease_answers_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_log() as log:
        log.lease.trust.lasts = TRUSTED
        await log.create_topic("t")
        fetch = asyncio.ensure_future(log.fetch(0, max_wait_ms=int(WAIT * 1000)))
        await iterations()
        with deaf(log):
            sleep_through(monkeypatch, WAIT)
            answer = await asyncio.wait_for(fetch, 60)
        assert (answer.error_code, size_of(answer)) == (0, 0)


async def test_s7_bounds_are_those_of_after_a_sleep_in_the_middle_of_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = SlowStore()
    async with open_log(store=store) as log:
        log.lease.trust.lasts = TRUSTED
        await log.create_topic("t")
        await log.produce(make_batch(b"a"))
        fetch = asyncio.ensure_future(log.fetch(0, isolation=READ_UNCOMMITTED))
        await asyncio.to_thread(store.has_begun.wait, 60)
        with deaf(log) as unread:
            produce = asyncio.ensure_future(log.produce(make_batch(b"b")))
            await await_commit(unread)
            sleep_through(monkeypatch, SLEEP)
            store.open.set()
            await asyncio.sleep(0.02)
            assert not fetch.done()
        answer = await asyncio.wait_for(fetch, 60)
        assert records_of(answer) == [(0, b"a")]
        assert answer.high_watermark == 2
        await produce


async def test_s6_a_topic_that_is_deleted_while_it_is_read_is_unknown() -> None:
    """Its view no longer has bounds, so the answer could not have any either."""
    store = SlowStore()
    async with open_log(store=store) as log:
        await log.create_topic("t")
        await log.produce(make_batch(b"a"))
        fetch = asyncio.ensure_future(log.fetch(0, isolation=READ_UNCOMMITTED))
        await asyncio.to_thread(store.has_begun.wait, 60)
        await log.delete_topic()
        store.open.set()
        answer = await asyncio.wait_for(fetch, 60)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert size_of(answer) == 0


class Setup:
    """Ten seconds of trust in a control plane that answers when the test lets it."""

    def __init__(self) -> None:
        self.metrics = AgentMetrics()
        self.control = ScriptedControl()
        self.trust = Trust(self.control, self.metrics)
        self.trust.lasts = 10.0


async def test_before_there_is_a_lease_views_are_trusted() -> None:
    trust = Trust(ScriptedControl(), AgentMetrics())
    assert trust.holds()
    assert not trust.holds(asyncio.get_running_loop().time())


async def test_however_many_wait_one_asks() -> None:
    setup = Setup()
    await asyncio.gather(*(setup.trust.restore() for _ in range(100)))
    assert setup.metrics.views_confirmed == 1
    await setup.trust.restore()
    assert setup.metrics.views_confirmed == len(setup.control.calls) == 1


async def test_what_was_asked_before_is_not_enough() -> None:
    """Neither a call that began before the required time nor one that began before a sleep is enough."""
    setup = Setup()
    loop = asyncio.get_running_loop()
    setup.trust.renew(loop.time() - 1)
    await setup.trust.restore(loop.time())
    assert setup.metrics.views_confirmed == 1
    since = loop.time()
    setup.trust.renew(since)
    await setup.trust.restore(since)
    assert setup.metrics.views_confirmed == 1


async def test_a_reply_that_slept_with_the_agent_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_log() as log:
        trust = log.lease.trust
        with deaf(log):
            asking = asyncio.ensure_future(trust.restore(asyncio.get_running_loop().time()))
            await iterations()
            sleep_through(monkeypatch, SLEEP)
        with deaf(log):
            await iterations()
            assert not asking.done()
        await asyncio.wait_for(asking, 60)
        assert trust.holds()


async def test_who_cannot_ask_says_so() -> None:
    setup = Setup()
    setup.control.otherwise = ControlPlaneUnavailable("away")
    with pytest.raises(ControlPlaneUnavailable):
        await setup.trust.restore()
    setup.control.otherwise = ScriptedControl().otherwise
    await setup.trust.restore()
    assert setup.metrics.views_confirmed == 2


class AwayControl(ScriptedControl):
    """A control plane that answers no calls, and fails them once `gave_up` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.gave_up = asyncio.Event()

    async def call(self, command: Command) -> Reply:
        await self.gave_up.wait()
        raise ControlPlaneUnavailable("away")


async def test_what_nobody_waits_for_any_more_is_not_logged() -> None:
    """The client left before the control plane could be asked, which does not concern operators."""
    control = AwayControl()
    trust = Trust(control, AgentMetrics())
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    waiting = asyncio.create_task(trust.restore(asyncio.get_running_loop().time()))
    await iterations()
    waiting.cancel()
    await iterations()
    control.gave_up.set()
    await iterations()
    gc.collect()
    assert waiting.cancelled()
    assert complaints == []
