"""Tests how agents share a quota."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.state.shares import Shares

QUOTA = ("producer_byte_rate", (("user", "a"),))


def rounds(demands: list[float], count: int = 8) -> list[float]:
    """Return the final share of each agent if its clients want this part of the quota per second."""
    shares = Shares()
    given_now = [0.25] * len(demands)
    for number in range(count):
        for agent, demand in enumerate(demands):
            used = min(demand, given_now[agent])
            now_ms = 1000 * number + agent
            is_short = demand > given_now[agent]
            given_now[agent] = shares.ask(QUOTA, agent, used, is_short, now_ms)
            assert number == 0 or sum(given_now) <= 1 + 1e-9, "never more than the quota"
    return given_now


@pytest.mark.parametrize(
    ("demands", "served"),
    [
        ([9.0], [1.0]),
        ([9.0, 9.0], [0.5, 0.5]),
        ([9.0, 0.1], [0.86, 0.1]),
        ([0.1, 9.0, 9.0], [0.1, 0.43, 0.43]),
        ([0.2, 0.2], [0.2, 0.2]),
        ([9.0, 0.0], [0.94, 0.0]),
    ],
)
def test_who_waits_gets_what_the_others_leave(demands: list[float], served: list[float]) -> None:
    found = [min(*each) for each in zip(demands, rounds(demands), strict=True)]
    assert found == pytest.approx(served, abs=0.02)


@given(st.lists(st.floats(0, 3), min_size=1, max_size=6))
def test_nearly_all_of_a_quota_is_used_if_it_is_wanted(demands: list[float]) -> None:
    found = [min(*each) for each in zip(demands, rounds(demands, 12), strict=True)]
    assert sum(found) >= min(1.0, sum(demands)) * 0.75


def test_what_an_agent_had_that_is_gone_is_shared_out_again() -> None:
    shares = Shares()
    for now_ms in range(0, 5000, 1000):
        for agent in range(2):
            shares.ask(QUOTA, agent, 0.5, is_short=True, now_ms=now_ms)
    assert shares.ask(QUOTA, 0, 0.5, is_short=True, now_ms=8000) == pytest.approx(1.0)
