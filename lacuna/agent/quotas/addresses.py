"""Limits how many connections from one address may be open, and how many may be opened per second (KIP-612).

As in Kafka, both limits apply to each agent. A connection that exceeds the rate is not rejected, but has to wait before
it is served.
"""

from collections import Counter, OrderedDict
from typing import Final

from lacuna.agent.quotas.limits import Limits
from lacuna.agent.quotas.quotas import LONGEST_SECONDS, Bucket

_MOST_BUCKETS: Final = 10_000


class Addresses:
    """The connections from each address. Times are event loop times, in seconds."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: Counter[str] = Counter()
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def open_now(self, address: str) -> int:
        """Return how many open connections an address has."""
        return self._open[address]

    def began(self, address: str) -> None:
        """Count a connection whose TLS handshake begins."""
        self._open[address] += 1

    def opened(self, address: str, now: float) -> float:
        """Count a connection that can be served, and return how long it has to wait first, in seconds."""
        self._open[address] += 1
        rate = self._limits.of_ip(address) if self._limits.are_any else None
        if rate is None:
            return 0.0
        bucket = self._buckets.pop(address, None) or Bucket(rate, now, share=1.0)
        self._buckets[address] = bucket
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        bucket.rate = rate
        # Connections within the rate do not wait, so only the connections before this one are counted.
        delay = bucket.delay(now)
        bucket.spend(1.0, now)
        return min(LONGEST_SECONDS, delay)

    def closed(self, address: str) -> None:
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]
