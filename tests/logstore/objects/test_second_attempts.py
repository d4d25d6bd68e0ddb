"""Tests second attempts for slow and unanswered requests, based on recent durations. A script, not a clock, decides
when time is up.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from enum import Enum, auto
from typing import Any

import pytest

from lacuna.logstore.objects import second_attempts
from lacuna.logstore.objects.latencies import Latencies, request_kind
from lacuna.logstore.objects.second_attempts import (
    SILENT,
    SLOW,
    Ended,
    Outcome,
    Request,
    SecondAttempts,
)

KIND = request_kind("get", 1)
LIMIT_SECONDS = 60.0


class RefusedError(Exception):
    pass


class FailedError(Exception):
    pass


class Then(Enum):
    """What happens once all ongoing attempts are held: time runs out, or they succeed."""

    TOO_LATE = auto()
    RELEASED = auto()


class Held:
    """The number of held attempts in a call."""

    def __init__(self) -> None:
        self.attempts = 0
        self.released = threading.Event()


class Service:
    """Holds some attempts and answers others. `then` lists what happens next, in each wait with a time limit."""

    def __init__(self) -> None:
        self.attempts = SecondAttempts(64, _judge)
        self.made: list[str] = []
        self.then: list[Then] = []
        self._lock = threading.Lock()
        self._calls = [Held()]

    def call(self, *answers: Callable[[], str], kind: Any = KIND) -> Ended[str]:
        """Make a call whose attempts get these answers."""
        self._calls.append(Held())
        left = iter(answers)

        def make(how: str) -> str:
            with self._lock:
                self.made.append(how)
                answer = next(left)
            return answer()

        request = Request(lambda: make("another"), lambda: make("new"), 3600.0, kind)
        return self.attempts.call(request)

    def held(self) -> str:
        """Return the answer of an attempt that lasts until RELEASED, or until the test has ended."""
        held = self._calls[-1]
        with self._lock:
            held.attempts += 1
        assert held.released.wait(LIMIT_SECONDS)
        return "held"

    def wait(
        self, calls: set[Future[Any]], timeout: float | None, return_when: str
    ) -> tuple[set[Future[Any]], set[Future[Any]]]:
        assert return_when == FIRST_COMPLETED
        held = self._calls[-1]
        while timeout is not None and self.then:
            if held.attempts == len(calls):
                if self.then.pop(0) is Then.TOO_LATE:
                    return set(), calls
                held.released.set()
                break
            if done := wait(calls, 0.001, return_when).done:
                return done, calls - done
        ended = wait(calls, LIMIT_SECONDS, return_when)
        assert ended.done
        return ended

    def learn(self, calls: int = 64) -> None:
        """Make requests that are answered immediately, so that slow ones can be recognized."""
        for _ in range(calls):
            self.call(answered)

    def close(self) -> None:
        for held in self._calls:
            held.released.set()
        self.attempts.close()


def answered() -> str:
    return "answered"


def refused() -> str:
    raise RefusedError


def failed() -> str:
    raise FailedError


def _judge(error: BaseException) -> Outcome:
    return Outcome.REFUSAL if isinstance(error, RefusedError) else Outcome.FAILURE


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    service = Service()
    monkeypatch.setattr(second_attempts, "wait", service.wait)
    yield service
    service.close()


def test_before_durations_are_known_only_a_silent_request_is_made_again(service: Service) -> None:
    service.then = [Then.TOO_LATE]
    ended = service.call(service.held, answered)
    assert (ended.attempt.result(), ended.reasons) == ("answered", [SILENT])
    assert service.made == ["another", "new"]


def test_a_slow_request_is_made_again_over_another_connection(service: Service) -> None:
    service.learn()
    service.then = [Then.TOO_LATE]
    ended = service.call(service.held, answered)
    assert (ended.attempt.result(), ended.reasons) == ("answered", [SLOW])
    assert service.made[64:] == ["another", "another"]


def test_a_request_without_a_kind_is_never_slow(service: Service) -> None:
    service.learn()
    service.then = [Then.TOO_LATE]
    assert service.call(service.held, answered, kind=None).reasons == [SILENT]


def test_a_request_that_was_slow_can_be_silent_too(service: Service) -> None:
    """Both attempts may have used dead connections from the pool."""
    service.learn()
    service.then = [Then.TOO_LATE, Then.TOO_LATE]
    ended = service.call(service.held, service.held, answered)
    assert (ended.attempt.result(), ended.reasons) == ("answered", [SLOW, SILENT])
    assert service.made[64:] == ["another", "another", "new"]


def test_a_refusal_waits_for_the_attempt_that_is_the_reason(service: Service) -> None:
    service.learn()
    service.then = [Then.TOO_LATE, Then.RELEASED]
    ended = service.call(service.held, refused)
    assert (ended.attempt.result(), ended.reasons) == ("held", [SLOW])


def test_a_refusal_waits_only_until_the_request_is_silent(service: Service) -> None:
    service.learn()
    service.then = [Then.TOO_LATE, Then.TOO_LATE]
    ended = service.call(service.held, refused)
    assert isinstance(ended.attempt.exception(), RefusedError)
    assert ended.reasons == [SLOW]


def test_a_refusal_of_all_attempts_is_one(service: Service) -> None:
    service.learn()
    service.then = [Then.TOO_LATE, Then.RELEASED]

    def late() -> str:
        service.held()
        return refused()

    assert isinstance(service.call(late, failed).attempt.exception(), RefusedError)


def test_a_failure_waits_for_the_other_attempt(service: Service) -> None:
    service.learn()
    service.then = [Then.TOO_LATE, Then.RELEASED]
    assert service.call(service.held, failed).attempt.result() == "held"


def test_slow_requests_are_at_most_a_twentieth_and_leave_what_silent_ones_need(
    service: Service,
) -> None:
    service.learn()
    slow = 0
    for number in range(400):
        if number % 10:
            service.call(answered)
            continue
        # It is slow, but is answered before it counts as silent.
        service.then = [Then.TOO_LATE, Then.RELEASED]
        slow += len(service.call(service.held, answered).reasons)
    assert 20 <= slow <= (64 + 400) / 20
    assert len(service.made) == 64 + 400 + slow
    for _ in range(10):
        service.then = [Then.TOO_LATE]
        assert service.call(service.held, answered, kind=None).reasons == [SILENT]


# Durations


@pytest.mark.parametrize(
    ("sizes", "size_class"),
    [
        ((0,), 0),
        ((1, 64 << 10), 1),
        (((64 << 10) + 1, 128 << 10), 2),
        (((4 << 20) + 1, 8 << 20), 8),
    ],
)
def test_sizes_of_a_class(sizes: tuple[int, ...], size_class: int) -> None:
    assert {request_kind("get", size) for size in sizes} == {("get", size_class)}


def test_kinds_are_estimated_apart() -> None:
    latencies = Latencies()
    small, large = request_kind("put", 1), request_kind("put", 8 << 20)
    for _ in range(64):
        latencies.add(small, 0.04)
        latencies.add(large, 0.4)
    assert latencies.percentile_95(small) == 0.04
    assert latencies.percentile_95(large) == 0.4
    assert latencies.percentile_95(request_kind("get", 1)) is None


def test_an_estimate_needs_64_durations_and_forgets_all_but_256() -> None:
    latencies, kind = Latencies(), request_kind("get", 1)
    for milliseconds in range(100, 0, -1):
        latencies.add(kind, milliseconds / 1000)
        assert (latencies.percentile_95(kind) is None) == (milliseconds > 37)
    for _ in range(12):
        latencies.add(kind, 0.001)
    assert latencies.percentile_95(kind) == 0.095
    for _ in range(256):
        latencies.add(kind, 0.002)
    assert latencies.percentile_95(kind) == 0.002


def test_durations_that_a_second_attempt_shortens_leave_the_estimate_as_it_is() -> None:
    """Each slow call ends soon after the 95th percentile, instead of long after it."""
    latencies, kind = Latencies(), request_kind("get", 1)
    for _ in range(10):
        for milliseconds in range(1, 101):
            latencies.add(kind, min(milliseconds * 37 % 101, 97) / 1000)
    estimate = latencies.percentile_95(kind)
    assert estimate is not None
    assert estimate == pytest.approx(0.096, abs=0.002)
