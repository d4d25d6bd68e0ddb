"""The control plane's time, which makes no jumps (ADR 25)."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.clock import SteadyTime, SystemClock
from tests.doubles.clock import ManualClock

MINUTE_MS = 60_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


def test_a_jump_forwards_is_followed_at_twice_the_pace(clock: ManualClock) -> None:
    """So what has a minute left has half a minute at least, and not none."""
    time = SteadyTime(clock, 0)
    clock.set(20 * MINUTE_MS)
    assert time.now_ms() == 1_000_000
    clock.advance(MINUTE_MS)
    assert time.now_ms() == 1_000_000 + 2 * MINUTE_MS
    clock.advance(40 * MINUTE_MS)
    assert time.now_ms() == clock.now_ms()


def test_a_jump_backwards_is_followed_at_half_the_pace(clock: ManualClock) -> None:
    """So what has a minute left has two minutes at most, and does not wait for the clock."""
    time = SteadyTime(clock, 0)
    clock.set(-20 * MINUTE_MS)
    assert time.now_ms() == 1_000_000
    clock.advance(MINUTE_MS)
    assert time.now_ms() == 1_000_000 + MINUTE_MS // 2
    clock.advance(40 * MINUTE_MS)
    assert time.now_ms() == clock.now_ms()


def test_half_the_pace_is_kept_by_who_asks_often(clock: ManualClock) -> None:
    time = SteadyTime(clock, 0)
    clock.set(-20 * MINUTE_MS)
    for _ in range(1000):
        clock.advance(1)
        time.now_ms()
    assert time.now_ms() == 1_000_500


def test_a_clock_that_was_wrong_before_is_believed_at_once(clock: ManualClock) -> None:
    """A machine that boots without NTP may be decades behind."""
    time = SteadyTime(clock, 0)
    clock.set(61 * MINUTE_MS)
    assert time.now_ms() == clock.now_ms()


def test_while_nobody_decided_the_time_stood_still(caplog: pytest.LogCaptureFixture) -> None:
    """So that a transaction which had half its time left has a part of it when a control plane is back."""
    clock = ManualClock(100 * MINUTE_MS)
    time = SteadyTime(clock, 99 * MINUTE_MS)
    assert time.now_ms() == 99 * MINUTE_MS
    clock.advance(MINUTE_MS)
    assert time.now_ms() == clock.now_ms()
    assert not caplog.records


def test_nobody_is_given_back_more_than_two_minutes() -> None:
    """The last record may be old because there was nothing to decide."""
    clock = ManualClock(100 * MINUTE_MS)
    assert SteadyTime(clock, 60 * MINUTE_MS).now_ms() == 98 * MINUTE_MS
    assert SteadyTime(clock, 39 * MINUTE_MS).now_ms() == 100 * MINUTE_MS


def test_the_time_is_never_behind_the_journal(clock: ManualClock) -> None:
    time = SteadyTime(clock, 1_000_000 + MINUTE_MS)
    assert time.now_ms() == 1_000_000 + MINUTE_MS
    clock.advance(MINUTE_MS)
    assert time.now_ms() == 1_000_000 + MINUTE_MS + MINUTE_MS // 2


def test_a_jump_is_told_once(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    time = SteadyTime(clock, 0)
    with caplog.at_level(logging.WARNING):
        clock.set(20 * MINUTE_MS)
        for _ in range(3):
            clock.advance(1000)
            time.now_ms()
    assert caplog.messages == [
        "the machine's clock was set forwards by 1200 s, which the control plane's time follows at twice the pace"
    ]


@given(st.lists(st.tuples(st.integers(-(10**7), 10**7), st.integers(0, 10**6))))
def test_the_pace_is_kept_whatever_the_clock_does(moves: list[tuple[int, int]]) -> None:
    """Between half and twice, but for a clock that is an hour ahead."""
    clock = ManualClock()
    time = SteadyTime(clock, 0)
    before = time.now_ms()
    for set_by_ms, passed_ms in moves:
        clock.set(set_by_ms)
        clock.advance(passed_ms)
        now = time.now_ms()
        if now != clock.now_ms():
            assert passed_ms // 2 <= now - before <= passed_ms * 2 + 1
        assert now >= before
        before = now


def test_the_machines_clock_agrees_with_itself() -> None:
    clock = SystemClock()
    time = SteadyTime(clock, 0)
    before, passed_ms = clock.now_ms(), clock.passed_ms()
    assert before - 1000 < time.now_ms() < before + 1000
    assert clock.passed_ms() >= passed_ms
