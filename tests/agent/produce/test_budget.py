"""The request budget: how long flushes wait, for any sequence of loads and shares (adr/0070)."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from lacuna.agent.produce.budget import MONTH_SECONDS, Tokens, budget_of
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.controlplane.client.views import ClusterView
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from lacuna.logstore.objects.prices import AMAZON_S3, PUT, Prices
from tests.agent.fetch.log import Log, TestStore, make_batch, open_log
from tests.agent.harness import NoFeed
from tests.doubles.clock import until

BURST = 8
#: The largest rounding error of the property tests, in tokens.
ERROR = 1e-3
GAPS = st.floats(0.0, 3.0)
#: Steps: the time until a flush is wanted, whether it is full, and the interval from then on.
STEPS = st.lists(
    st.tuples(GAPS, st.booleans(), st.sampled_from((0.02, 0.25, 1.0))), min_size=1, max_size=80
)


@given(STEPS)
def test_flushes_cost_the_budget_and_a_burst_and_wait_one_interval(
    steps: list[tuple[float, bool, float]],
) -> None:
    tokens = Tokens(0.25, BURST, 0.0)
    now, accrued, paid = 0.0, float(BURST), 0
    for gap, is_full, interval in steps:
        accrued += gap / tokens.interval
        now += gap
        tokens.change(interval, now)
        wait = 0.0 if is_full else tokens.wait(now)
        assert 0.0 <= wait <= interval
        accrued += wait / interval
        now += wait
        assert is_full or tokens.wait(now) == 0.0
        tokens.take(now)
        paid += not is_full
        assert paid <= accrued + ERROR


@given(st.floats(0.001, 2.0), st.integers(BURST, 50))
def test_under_load_the_intervals_after_the_burst_are_even(interval: float, count: int) -> None:
    tokens = Tokens(interval, BURST, 0.0)
    now, waits = 0.0, []
    for _ in range(count):
        waits.append(wait := tokens.wait(now))
        now += wait
        tokens.take(now)
    assert waits[:BURST] == [0.0] * BURST
    assert waits[BURST:] == pytest.approx([interval] * (count - BURST), rel=ERROR)


@given(st.lists(st.floats(1.0, 100.0), min_size=1))
def test_a_load_below_the_budget_never_waits(gaps: list[float]) -> None:
    tokens = Tokens(0.25, BURST, 0.0)
    now = 0.0
    for gap in gaps:
        now += gap
        assert tokens.wait(now) == 0.0
        tokens.take(now)


def _agents(cluster: ClusterView, processes: int) -> None:
    cluster.apply(ClusterDelta(has_agents=True, agent_processes=processes))


async def test_the_default_is_what_250_ms_cost_two_processes() -> None:
    cluster = ClusterView(NoFeed())
    _agents(cluster, 2)
    settings = ProduceSettings()
    changes: list[int] = []
    budget = budget_of(settings, AMAZON_S3, cluster, lambda: changes.append(1))
    assert budget is not None
    assert changes == [], "the flusher is not complete yet"
    assert budget.interval == pytest.approx(0.25, rel=0.01)
    assert settings.requests_budget == round(2 * 4 * MONTH_SECONDS * AMAZON_S3.of({PUT: 1}))


async def test_a_share_follows_the_processes_of_agents() -> None:
    cluster = ClusterView(NoFeed())
    changes: list[int] = []
    budget = budget_of(ProduceSettings(), AMAZON_S3, cluster, lambda: changes.append(1))
    assert budget is not None
    alone = budget.share
    for processes in (1, 4, 2):
        _agents(cluster, processes)
        assert budget.share == pytest.approx(alone / processes)
    assert len(changes) == 2
    budget.close()
    _agents(cluster, 8)
    assert budget.share == pytest.approx(alone / 2)


async def test_a_budget_that_is_too_small_is_reported_and_exceeded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = ClusterView(NoFeed())
    with caplog.at_level(logging.WARNING):
        budget = budget_of(ProduceSettings(requests_budget=1), AMAZON_S3, cluster, lambda: None)
    assert budget is not None
    assert budget.interval == 5.0
    assert "requests.budget ($1 a month) pays for only one flush every 13.1 s" in caplog.text


@pytest.mark.parametrize("prices", [None, Prices(source="a service without fees")])
async def test_a_store_without_prices_has_no_budget(prices: Prices | None) -> None:
    assert budget_of(ProduceSettings(), prices, ClusterView(NoFeed()), lambda: None) is None


def _paid_store() -> TestStore:
    store = TestStore()
    store.metrics.prices = AMAZON_S3
    return store


async def _waits(log: Log) -> None:
    """Let batches arrive, and return once the flusher waits for a token, or would have begun without waiting."""
    flusher = log.produce_service.flusher
    await until(lambda: flusher.queued_bytes)
    for _ in range(20):
        await asyncio.sleep(0)
    assert flusher.queued_bytes


#: With a burst of one flush, all others wait a minute.
SLOW = ProduceSettings(
    requests_budget=1, flush_burst=1, longest_flush_wait_ms=60_000, flush_bytes=3000
)


async def _gather_until_full() -> None:
    async with open_log(store=_paid_store(), produce=SLOW) as log:
        await log.create_topic("t")
        assert (await log.produce(make_batch(b"first"))).error_code == 0
        assert log.store.metrics.puts == 1
        second = asyncio.ensure_future(log.produce(make_batch(b"x" * 1000)))
        await _waits(log)
        assert log.store.metrics.puts == 1
        rest = [asyncio.ensure_future(log.produce(make_batch(b"x" * 1000))) for _ in range(2)]
        await asyncio.wait_for(second, 30)
        assert log.store.metrics.puts == 2
        budget = log.produce_service.flusher.budget
        assert budget is not None
        assert budget.waits == 1
        assert budget.level() < 1
        await log.produce_service.close()
        assert [(await each).error_code for each in rest] == [0, 0]


async def _go_on_after_the_burst() -> None:
    settings = ProduceSettings(requests_budget=1_000, flush_burst=1)
    async with open_log(store=_paid_store(), produce=settings) as log:
        await log.create_topic("t")
        for _ in range(5):
            answer = await asyncio.wait_for(log.produce(make_batch(b"record")), 60)
            assert answer.error_code == 0
        assert log.store.metrics.puts == 5


@pytest.mark.parametrize("work", [_gather_until_full, _go_on_after_the_burst])
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_flushes_wait_for_tokens_and_full_ones_do_not(
    new_loop: Callable[[], asyncio.AbstractEventLoop], work: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """This applies to the event loop of the tests and to that of the commands."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(work())


async def test_a_flush_that_waits_begins_earlier_once_the_share_has_grown() -> None:
    settings = ProduceSettings(flush_burst=1, longest_flush_wait_ms=600_000)
    async with open_log(store=_paid_store(), produce=settings) as log:
        await log.create_topic("t")
        cluster = log.control.cluster
        _agents(cluster, 1_000)
        await log.produce(make_batch(b"first"))
        waiting = asyncio.ensure_future(log.produce(make_batch(b"second")))
        await _waits(log)
        assert not waiting.done()
        _agents(cluster, 1)
        assert (await asyncio.wait_for(waiting, 60)).error_code == 0


@pytest.mark.parametrize("interval_ms", [0, 60_000])
async def test_a_fixed_interval_takes_the_place_of_the_budget(interval_ms: int) -> None:
    settings = replace(SLOW, flush_interval_ms=interval_ms)
    async with open_log(store=_paid_store(), produce=settings) as log:
        await log.create_topic("t")
        assert log.produce_service.flusher.budget is None
        waiting = asyncio.ensure_future(log.produce(make_batch(b"first")))
        if interval_ms:
            await _waits(log)
            assert log.store.metrics.puts == 0
            rest = asyncio.ensure_future(log.produce(make_batch(b"x" * 3000)))
            assert (await asyncio.wait_for(rest, 30)).error_code == 0
        assert (await asyncio.wait_for(waiting, 30)).error_code == 0
        assert log.store.metrics.puts == (2 if interval_ms else 1)
