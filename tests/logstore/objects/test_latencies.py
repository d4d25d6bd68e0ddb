"""The recent durations of each kind of request."""

import pytest

from lacuna.logstore.objects.latencies import Latencies, kind_of


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
    assert {kind_of("get", size) for size in sizes} == {("get", size_class)}


def test_kinds_are_estimated_apart() -> None:
    latencies = Latencies()
    small, large = kind_of("put", 1), kind_of("put", 8 << 20)
    for _ in range(64):
        latencies.add(small, 0.04)
        latencies.add(large, 0.4)
    assert latencies.percentile_95(small) == 0.04
    assert latencies.percentile_95(large) == 0.4
    assert latencies.percentile_95(kind_of("get", 1)) is None


def test_an_estimate_needs_64_durations_and_forgets_all_but_256() -> None:
    latencies, kind = Latencies(), kind_of("get", 1)
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
    latencies, kind = Latencies(), kind_of("get", 1)
    for _ in range(10):
        for milliseconds in range(1, 101):
            latencies.add(kind, min(milliseconds * 37 % 101, 97) / 1000)
    estimate = latencies.percentile_95(kind)
    assert estimate is not None
    assert estimate == pytest.approx(0.096, abs=0.002)
