"""The request budget, which determines how long a flush waits so that PUTs stay within their allowed cost (adr/0070).

The budget, in dollars a month for the whole cluster, is divided equally among the agent processes. A share is a token
bucket, in which each token pays for the PUT of one flush. Tokens accrue evenly, up to a small burst, so an idle cluster
flushes immediately, and a busy one at even intervals. A full flush never waits. It takes a token if there is one, and
incurs no debt otherwise, so the next flush waits for no more than one interval.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from lacuna.agent.produce.settings import ProduceSettings
from lacuna.controlplane.client import ClusterView
from lacuna.logstore.objects.prices import PUT, Prices

log = logging.getLogger("lacuna.agent.produce")

MONTH_SECONDS: Final = 365.25 / 12 * 86_400
#: A shorter wait than this is a rounding error.
_SHORTEST_SECONDS: Final = 1e-6


class Tokens:
    """A bucket that gains one token every `interval` seconds, evenly, up to `burst`. Times are in seconds."""

    __slots__ = ("_at", "_burst", "_level", "interval")

    def __init__(self, interval: float, burst: int, now: float) -> None:
        self.interval = interval
        self._burst = float(burst)
        self._level = self._burst
        self._at = now

    def level(self, now: float) -> float:
        self._level = min(self._burst, self._level + (now - self._at) / self.interval)
        self._at = now
        return self._level

    def wait(self, now: float) -> float:
        """Return the time in seconds until there is a token, or 0 if there is one now."""
        seconds = (1.0 - self.level(now)) * self.interval
        return seconds if seconds > _SHORTEST_SECONDS else 0.0

    def take(self, now: float) -> None:
        self._level = max(0.0, self.level(now) - 1.0)

    def change(self, interval: float, now: float) -> None:
        self.level(now)
        self.interval = interval


class RequestBudget:
    """One process's share of the cluster's budget. `on_change` is called when the share changes.

    The share follows the number of processes in `cluster` until `close` is called. `waits` counts the flushes that have
    waited, and `waited_seconds` is their total waiting time.
    """

    def __init__(
        self,
        settings: ProduceSettings,
        prices: Prices,
        cluster: ClusterView,
        on_change: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._put_dollars = prices.of({PUT: 1})
        self._cluster = cluster
        self._on_change = on_change
        self._processes = max(1, cluster.agent_processes)
        self._waits_since: float | None = None
        self.waits = 0
        self.waited_seconds = 0.0
        self._tokens = Tokens(self._interval(), settings.flush_burst, _now())
        cluster.add_listener(self._follow)

    @property
    def interval(self) -> float:
        """The seconds between two flushes under load."""
        return self._tokens.interval

    @property
    def share(self) -> float:
        """The cost of flushes at the current interval, in dollars a month."""
        return self._put_dollars * MONTH_SECONDS / self.interval

    def level(self) -> float:
        """Return how many flushes may begin without waiting."""
        return self._tokens.level(_now())

    def wait(self) -> float:
        """Return how long, in seconds, a flush that is not full must wait, or 0 if it may begin."""
        now = _now()
        seconds = self._tokens.wait(now)
        if seconds and self._waits_since is None:
            self._waits_since = now
        return seconds

    def take(self) -> None:
        """Pay for a flush that is about to begin."""
        now = _now()
        self._tokens.take(now)
        if self._waits_since is not None:
            self.waits += 1
            self.waited_seconds += now - self._waits_since
            self._waits_since = None

    def close(self) -> None:
        self._cluster.remove_listener(self._follow)

    def _follow(self) -> None:
        processes = max(1, self._cluster.agent_processes)
        if processes == self._processes:
            return
        self._processes = processes
        self._tokens.change(self._interval(), _now())
        self._on_change()

    def _interval(self) -> float:
        """Return the interval that the share pays for, or the longest allowed one if the budget is too small."""
        longest = self._settings.longest_flush_wait_ms / 1000
        wanted = (
            self._put_dollars * MONTH_SECONDS * self._processes / self._settings.requests_budget
        )
        if wanted > longest:
            log.warning(
                "requests.budget ($%d a month) pays for only one flush every %.1f s with %d agent processes, but a "
                "flush never waits longer than %g s, so flushes will exceed the budget; raise it or run fewer "
                "processes",
                self._settings.requests_budget,
                wanted,
                self._processes,
                longest,
            )
        return min(wanted, longest)


def budget_of(
    settings: ProduceSettings,
    prices: Prices | None,
    cluster: ClusterView,
    on_change: Callable[[], None],
) -> RequestBudget | None:
    """Return the budget for flushes to a store with these prices, or None if the store's PUTs cost nothing."""
    if prices is None or not prices.put_per_1000:
        return None
    return RequestBudget(settings, prices, cluster, on_change)


def _now() -> float:
    return asyncio.get_running_loop().time()
