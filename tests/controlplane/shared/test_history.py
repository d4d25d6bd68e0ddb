"""Compares the history of a last stable offset with one that keeps every move."""

from bisect import bisect_left
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.shared.history import (
    MOST_ENTRIES,
    REACH,
    WIDTHS,
    History,
    common_second,
    known_from,
    next_second_ms,
)

BEGIN_MS = 1_764_000_000_123


@dataclass
class Log:
    """A partition's last stable offset, with its history and all its moves."""

    now_ms: int = BEGIN_MS
    stable: int = 0
    history: History = field(default_factory=lambda: History(next_second_ms(BEGIN_MS)))
    moved_ms: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=lambda: [0])

    def change(self, after_ms: int, offsets: int = 1) -> None:
        """Change the partition, which moves the last stable offset (by 0 if a transaction is open)."""
        self.now_ms += after_ms
        if self.now_ms >= self.history.settled_ms:
            self.history.note(self.stable, self.now_ms)
        self.stable += offsets
        self.moved_ms.append(self.now_ms)
        self.offsets.append(self.stable)

    def visible(self, at_ms: int) -> int:
        """Return which offset was stable before that moment."""
        return self.offsets[bisect_left(self.moved_ms, at_ms)]

    def at(self, second: int) -> int:
        return self.history.at(second, self.stable)


def test_the_answer_is_exact_at_each_whole_second() -> None:
    log = Log()
    for after_ms in (1_000, 10, 400, 5_000, 0, 999, 1, 60_000):
        log.change(after_ms, 7)
    first = known_from([log.history])
    assert first == BEGIN_MS // 1000 + 1
    for second in range(first, log.now_ms // 1000 + 10):
        assert log.at(second) == log.visible(second * 1000), second


def test_what_moved_within_the_second_is_not_shown_before_its_end() -> None:
    log = Log(now_ms=5_000, history=History(4_000))
    log.change(0, 1)
    log.change(700, 1)
    assert common_second([log.history], 5_999) == 5
    assert log.at(5) == 0
    assert log.at(6) == 2


def test_what_does_not_move_costs_no_entry() -> None:
    log = Log()
    log.change(5_000, 3)
    for _ in range(100):
        log.change(2_000, 0)
    assert list(log.history.offsets) == [0, 3]
    assert log.at(log.now_ms // 1000) == 3


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 300, 999, 1_000, 1_001, 7_777, 3_600_000, 86_400_000]),
            st.integers(0, 3),
            st.integers(1, 400),
        ),
        max_size=12,
    ),
    st.lists(st.integers(-100, 1 << 40), max_size=20),
)
def test_it_never_shows_what_was_not_visible(
    phases: list[tuple[int, int, int]], ages_ms: list[int]
) -> None:
    log = Log()
    for after_ms, offsets, times in phases:
        for _ in range(times):
            log.change(after_ms, offsets)
    assert len(log.history.seconds) < MOST_ENTRIES
    known = known_from([log.history])
    inside = [known * 1000 + age % max(log.now_ms - known * 1000, 1) for age in ages_ms]
    for at_ms in [*inside, known * 1000, log.now_ms, log.now_ms + 10_000]:
        if at_ms < known * 1000:
            continue  # all of it is younger than a second
        second = common_second([log.history], at_ms)
        assert known <= second <= at_ms // 1000
        assert log.at(second) == log.visible(second * 1000)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0, 255])
def test_a_busy_partition_reaches_far_back_with_few_entries(spread: int) -> None:
    log = Log(history=History(next_second_ms(BEGIN_MS), spread))
    for _ in range(200_000):
        log.change(1_000)
    for _ in range(3_000):
        log.change(86_400_000)
    assert len(log.history.seconds) < MOST_ENTRIES
    ages = [2**power for power in range(28)]
    for age in ages:
        at_ms = log.now_ms - age * 1000
        second = common_second([log.history], at_ms)
        width = next(width for width in WIDTHS if width * REACH >= age)
        assert at_ms // 1000 - second < width
        assert log.at(second) == log.visible(second * 1000)


def test_several_partitions_answer_for_one_time() -> None:
    """The busy partition has dropped some of its many entries. The idle one has them all. Some changes move both."""
    busy, idle = Log(), Log()
    for number in range(3_000):
        busy.change(1_000)
        if number % 100 == 0:
            idle.change(busy.now_ms - idle.now_ms)
    both = [busy.history, idle.history]
    assert busy.history.thinned_at
    assert not idle.history.thinned_at
    for at_ms in range(known_from(both) * 1000, busy.now_ms, 37_000):
        second = common_second(both, at_ms)
        assert busy.at(second) == busy.visible(second * 1000)
        assert idle.at(second) == idle.visible(second * 1000)


def test_what_is_below_the_log_start_is_dropped_but_the_newest() -> None:
    log = Log()
    for _ in range(10):
        log.change(1_000, 10)
    assert list(log.history.offsets) == [*range(0, 100, 10)]
    log.history.drop_below(35)
    assert list(log.history.offsets) == [*range(30, 100, 10)]
    log.history.drop_below(200)
    assert list(log.history.offsets) == [90]
    known = known_from([log.history])
    assert log.at(known) == log.visible(known * 1000) == 90


def test_of_a_partition_that_was_added_nothing_could_be_seen_before() -> None:
    log = Log()
    log.history.begin_empty(0)
    log.change(10_000, 5)
    assert known_from([log.history]) == 0
    assert log.at(1) == log.at(log.now_ms // 1000) == 0
    assert log.at(log.now_ms // 1000 + 1) == 5


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 3)), max_size=2_000))
def test_a_message_has_all_of_it(moves: list[tuple[int, int]]) -> None:
    log = Log()
    for after_ms, offsets in moves:
        log.change(after_ms, offsets)
    again = History.of(log.history.message())
    assert again.message() == log.history.message()
    assert (again.seconds, again.offsets) == (log.history.seconds, log.history.offsets)
