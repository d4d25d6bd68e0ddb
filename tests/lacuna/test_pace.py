"""When the event loop does short blocking work itself."""

import pytest

from lacuna.pace import LoopLoad, MeasuredPace


class Times:
    """Wall time and CPU time, in seconds, as a test moves them."""

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


def paced(times: Times, seconds: float) -> MeasuredPace:
    """Work that has just taken so long, on an idle loop."""
    pace = MeasuredPace(times.load(), lambda: times.wall)
    pace.timed(lambda: times.pass_by(seconds, 0.0))
    times.pass_by(1.0, 0.0)
    return pace


def test_what_was_never_done_is_not_done_in_the_loop() -> None:
    times = Times()
    pace = MeasuredPace(times.load(), lambda: times.wall)
    times.pass_by(1.0, 0.0)
    assert not pace.allows()


def test_quick_work_is_done_in_an_idle_loop_and_slow_work_is_not() -> None:
    assert paced(Times(), 0.0008).allows()
    assert not paced(Times(), 0.02).allows()


def test_a_busy_loop_waits_for_what_is_very_quick_only() -> None:
    for seconds, is_allowed in ((0.0002, True), (0.0008, False)):
        times = Times()
        pace = paced(times, seconds)
        times.pass_by(10.0, 0.9)
        assert pace.allows() is is_allowed


def test_a_disk_that_became_slow_is_given_to_the_thread_until_it_recovers() -> None:
    times = Times()
    pace = paced(times, 0.0002)
    pace.timed(lambda: times.pass_by(0.05, 0.0))
    assert not pace.allows()
    for _ in range(100):
        pace.timed(lambda: times.pass_by(0.0002, 0.0))
    assert pace.allows()


def test_the_result_and_the_error_of_the_work_are_its_own() -> None:
    pace = paced(Times(), 0.0)
    assert pace.timed(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        pace.timed(lambda: 1 // 0)
