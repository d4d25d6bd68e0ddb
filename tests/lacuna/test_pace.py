"""Tests when the event loop does short blocking work itself."""

import pytest

from lacuna.base.pace import LoopLoad, MeasuredPace


class Times:
    """Wall time and CPU time in seconds, set by a test."""

    def __init__(self) -> None:
        self.wall = 0.0
        self.cpu = 0.0

    def pass_by(self, seconds: float, busy_share: float) -> None:
        self.wall += seconds
        self.cpu += seconds * busy_share

    def load(self) -> LoopLoad:
        return LoopLoad(lambda: self.wall, lambda: self.cpu)


def test_a_loop_is_taken_for_busy_until_it_was_measured() -> None:
    times = Times()
    load = times.load()
    times.pass_by(0.001, 0.0)
    assert not load.is_idle_mostly()
    times.pass_by(0.1, 0.1)
    assert load.is_idle_mostly()


def test_a_loop_that_becomes_busy_is_noticed() -> None:
    times = Times()
    load = times.load()
    times.pass_by(1.0, 0.1)
    assert load.is_idle_mostly()
    times.pass_by(0.03, 0.95)
    assert not load.is_idle_mostly()
    times.pass_by(0.03, 0.2)
    assert load.is_idle_mostly()


LOOP, OTHER = 1, 2


class Work:
    """Work that takes `seconds`, in the loop or elsewhere, as the pace decides."""

    def __init__(self, seconds: float, seconds_elsewhere: float | None = None) -> None:
        self.times = Times()
        self.seconds = seconds
        self.seconds_elsewhere = seconds if seconds_elsewhere is None else seconds_elsewhere
        self.busy_share = 0.0
        self.thread = LOOP
        self.pace = MeasuredPace(self.times.load(), lambda: self.times.wall, lambda: self.thread)
        self.times.pass_by(1.0, 0.0)

    def do(self) -> bool:
        """Do the work once. Return whether the loop did it."""
        is_here = self.pace.allows()
        self.thread = LOOP if is_here else OTHER
        seconds = self.seconds if is_here else self.seconds_elsewhere
        self.pace.timed(lambda: self.times.pass_by(seconds, self.busy_share))
        self.thread = LOOP
        return is_here

    def shares(self, count: int) -> int:
        """Do the work `count` times. Return how often the loop did it."""
        return sum(self.do() for _ in range(count))


def test_the_first_time_is_a_threads() -> None:
    assert not Work(0.0001).pace.allows()


def test_quick_work_is_done_in_an_idle_loop_and_slow_work_is_not() -> None:
    assert Work(0.0008).shares(100) == 99
    assert Work(0.02).shares(1000) == 0


def test_a_busy_loop_waits_for_what_is_very_quick_only() -> None:
    for seconds, least, most in ((0.0002, 100, 100), (0.0008, 1, 2)):
        work = Work(seconds)
        work.shares(2)
        work.busy_share = 0.9
        work.times.pass_by(10.0, work.busy_share)
        assert least <= work.shares(100) <= most


def test_what_seems_slow_only_in_threads_is_done_in_the_loop() -> None:
    """A thread also waits for the interpreter's lock."""
    assert Work(0.0001, seconds_elsewhere=0.0025).shares(100) == 99


def test_a_disk_that_became_slow_is_given_to_the_thread_until_it_recovers() -> None:
    work = Work(0.0002)
    work.shares(10)
    work.seconds = work.seconds_elsewhere = 0.05
    assert work.shares(1000) == 1
    work.seconds = work.seconds_elsewhere = 0.0002
    work.shares(400)
    assert work.shares(100) == 100


def test_a_single_long_sync_is_soon_forgotten() -> None:
    work = Work(0.0001)
    work.shares(10)
    work.seconds = 0.02
    work.do()
    work.seconds = 0.0001
    work.shares(4 * 65)
    assert work.shares(100) == 100


def test_syncs_of_which_each_fourth_is_long_are_slow_on_average() -> None:
    work = Work(0.0001)
    work.shares(10)
    in_the_loop = 0
    for _ in range(200):
        in_the_loop += work.shares(3)
        work.seconds = work.seconds_elsewhere = 0.008
        in_the_loop += work.shares(1)
        work.seconds = work.seconds_elsewhere = 0.0001
    assert in_the_loop < 100


def test_how_long_failing_took_counts_too() -> None:
    work = Work(0.0001)
    work.shares(10)

    def fail() -> None:
        work.times.pass_by(2.0, 0.0)
        raise OSError

    assert work.pace.allows()
    with pytest.raises(OSError):  # noqa: PT011 - it has no text
        work.pace.timed(fail)
    assert not work.pace.allows()


def test_the_result_and_the_error_of_the_work_are_its_own() -> None:
    pace = Work(0.0).pace
    assert pace.timed(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        pace.timed(lambda: 1 // 0)
