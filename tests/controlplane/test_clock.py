"""Tests the control plane's time, which never jumps (ADR 25)."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.clock import STORE, SteadyTime, SystemClock
from tests.doubles.clock import ManualClock

NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


def test_a_jump_forwards_is_followed_at_twice_the_pace(clock: ManualClock) -> None:
    """A deadline a minute away is still at least half a minute away."""
    time = SteadyTime(clock, 0)
    clock.set(20 * MINUTE_MS)
    assert time.now_ms() == NOW_MS
    clock.advance(MINUTE_MS)
    assert time.now_ms() == NOW_MS + 2 * MINUTE_MS
    clock.advance(40 * MINUTE_MS)
    assert time.now_ms() == clock.now_ms()


def test_a_jump_backwards_is_followed_at_half_the_pace(clock: ManualClock) -> None:
    """A deadline a minute away arrives within two minutes, without waiting for the clock."""
    time = SteadyTime(clock, 0)
    clock.set(-20 * MINUTE_MS)
    assert time.now_ms() == NOW_MS
    clock.advance(MINUTE_MS)
    assert time.now_ms() == NOW_MS + MINUTE_MS // 2
    clock.advance(40 * MINUTE_MS)
    assert time.now_ms() == clock.now_ms()


def test_half_the_pace_is_kept_by_who_asks_often(clock: ManualClock) -> None:
    time = SteadyTime(clock, 0)
    clock.set(-20 * MINUTE_MS)
    for _ in range(1000):
        clock.advance(1)
        time.now_ms()
    assert time.now_ms() == NOW_MS + 500


DAY_MS = 24 * 60 * MINUTE_MS


def test_what_a_single_clock_says_moves_the_time_at_twice_the_pace_at_most(
    clock: ManualClock,
) -> None:
    """The journal stores the time: a jump of 30 days would delete all records of the next 30 days."""
    time = SteadyTime(clock, 0)
    clock.set(30 * DAY_MS)
    clock.advance(10 * MINUTE_MS)
    assert time.now_ms() == NOW_MS + 20 * MINUTE_MS
    assert time.is_doubtful
    clock.set(-30 * DAY_MS)
    clock.advance(20 * MINUTE_MS)
    assert time.now_ms() == clock.now_ms()
    assert not time.is_doubtful


def test_a_leap_is_believed_once_the_other_clocks_have_agreed_for_a_minute(
    clock: ManualClock,
) -> None:
    """A machine that boots without NTP may be decades behind."""
    time = SteadyTime(clock, 0)
    clock.set(61 * MINUTE_MS)
    time.hear(1, clock.now_ms())
    assert time.now_ms() == NOW_MS
    clock.advance(MINUTE_MS)
    assert time.now_ms() == clock.now_ms()
    assert time.take_leap() == 62 * MINUTE_MS
    assert time.take_leap() == 0
    assert time.is_doubtful
    clock.advance(10 * MINUTE_MS)
    time.now_ms()
    assert not time.is_doubtful


def test_after_an_outage_the_other_clocks_are_believed_at_once(clock: ManualClock) -> None:
    time = SteadyTime(clock, NOW_MS - 30 * DAY_MS)
    assert time.now_ms() == NOW_MS - 30 * DAY_MS
    assert time.is_doubtful
    time.hear(1, NOW_MS)
    assert time.now_ms() == NOW_MS


@pytest.mark.parametrize(
    ("agents", "store", "is_believed"),
    [
        ([30], None, True),
        ([0], None, False),
        ([30, 0], None, False),
        ([30, 30, 0], None, True),
        ([30], 0, False),
        ([], 30, True),
    ],
)
def test_a_leap_needs_most_agents_and_the_store(
    clock: ManualClock, agents: list[int], store: int | None, is_believed: bool
) -> None:
    """Each clock is this many days ahead of the journal, and the machine's clock is 30 days ahead."""
    journal_ms = clock.now_ms()
    clock.set(30 * DAY_MS)
    time = SteadyTime(clock, journal_ms)
    for node_id, days in enumerate(agents):
        time.hear(node_id, journal_ms + days * DAY_MS)
    if store is not None:
        time.hear(STORE, journal_ms + store * DAY_MS)
    assert (time.now_ms() == clock.now_ms()) is is_believed
    assert time.is_doubtful is is_believed or time.now_ms() == journal_ms


def test_a_time_that_is_far_ahead_of_all_clocks_is_in_doubt(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A leader with a correct clock has replaced one whose clock was wrong."""
    time = SteadyTime(clock, clock.now_ms() + 30 * DAY_MS)
    time.now_ms()
    assert time.is_doubtful
    assert "set-time" in caplog.text


def test_a_leader_that_founded_a_cluster_with_a_wrong_clock_is_in_doubt_once_an_agent_speaks(
    clock: ManualClock,
) -> None:
    time = SteadyTime(clock, 0)
    assert not time.is_doubtful
    time.hear(1, clock.now_ms() - 30 * DAY_MS)
    time.now_ms()
    assert time.is_doubtful


def test_a_witness_that_has_been_silent_for_a_minute_does_not_count(clock: ManualClock) -> None:
    time = SteadyTime(clock, 0)
    time.hear(1, clock.now_ms() + 30 * DAY_MS)
    clock.advance(2 * MINUTE_MS)
    clock.set(30 * DAY_MS)
    time.now_ms()
    clock.advance(2 * MINUTE_MS)
    assert time.now_ms() < clock.now_ms() - 29 * DAY_MS


def test_while_nobody_decided_the_time_stood_still(caplog: pytest.LogCaptureFixture) -> None:
    """A transaction that had half its time left thus keeps some of it when a control plane returns."""
    clock = ManualClock(100 * MINUTE_MS)
    time = SteadyTime(clock, 99 * MINUTE_MS)
    assert time.now_ms() == 99 * MINUTE_MS
    clock.advance(MINUTE_MS)
    assert time.now_ms() == clock.now_ms()
    assert not caplog.records


def test_nobody_is_given_back_more_than_two_minutes() -> None:
    """The last record may be old simply because there was nothing to decide."""
    clock = ManualClock(100 * MINUTE_MS)
    assert SteadyTime(clock, 60 * MINUTE_MS).now_ms() == 98 * MINUTE_MS


def test_the_time_is_never_behind_the_journal(clock: ManualClock) -> None:
    time = SteadyTime(clock, NOW_MS + MINUTE_MS)
    assert time.now_ms() == NOW_MS + MINUTE_MS
    clock.advance(MINUTE_MS)
    assert time.now_ms() == NOW_MS + MINUTE_MS + MINUTE_MS // 2


def test_a_jump_is_told_once(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    time = SteadyTime(clock, 0)
    with caplog.at_level(logging.WARNING):
        clock.set(20 * MINUTE_MS)
        for _ in range(3):
            clock.advance(1000)
            time.now_ms()
    assert caplog.messages == [
        "the machine's clock was set forwards by 1200 s; the control plane's time follows it at twice the pace"
    ]


@given(st.lists(st.tuples(st.integers(-(10**7), 10**7), st.integers(0, 10**6))))
def test_the_pace_is_kept_whatever_the_clock_does(moves: list[tuple[int, int]]) -> None:
    """The pace stays between half and double that of the clock."""
    clock = ManualClock()
    time = SteadyTime(clock, 0)
    before = time.now_ms()
    for set_by_ms, passed_ms in moves:
        clock.set(set_by_ms)
        clock.advance(passed_ms)
        now = time.now_ms()
        assert passed_ms // 2 <= now - before <= passed_ms * 2 + 1
        assert now >= before
        before = now


def test_the_machines_clock_agrees_with_itself() -> None:
    clock = SystemClock()
    time = SteadyTime(clock, 0)
    before, passed_ms = clock.now_ms(), clock.passed_ms()
    assert before - 1000 < time.now_ms() < before + 1000
    assert clock.passed_ms() >= passed_ms
