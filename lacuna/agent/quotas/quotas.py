"""Counts how much clients use their quotas, and determines how long they must wait.

A quota is a bucket that fills at its rate, up to the amount for one second. A client's use is subtracted afterwards, so
the bucket's level may fall below zero. While it is below zero, no request that would use more is served for any client
counted under the same key, on any connection. A quota applies to all agents together: this agent's bucket fills at its
share of the rate, which the control plane assigns (sharing.py).
"""

from collections import OrderedDict
from typing import Final

from lacuna.agent.quotas.limits import REQUESTS, Limit, Limits
from lacuna.controlplane.shared.security import Entity, Security

#: The share that is assumed before the control plane has assigned this agent's share.
FIRST_SHARE: Final = 0.25
#: The longest wait, unless it would be longer even if this agent's share were the whole quota, since shares may grow.
#: The client still owes the rest afterwards.
LONGEST_SECONDS: Final = 10.0
#: Kafka's bound for request_percentage: use beyond one second's worth is forgiven.
_DEEPEST_SECONDS: Final = {REQUESTS: 1.0}
#: The shortest wait that an answer can express; shorter ones are ignored.
_SHORTEST_SECONDS: Final = 0.001
#: A bucket that has been unused for this long is dropped once it is full.
_IDLE_SECONDS: Final = 5.0
_MOST_BUCKETS: Final = 10_000


class Bucket:
    """This agent's part of one quota."""

    __slots__ = ("_at", "_deepest", "_level", "_used_at", "rate", "share", "used", "was_short")

    def __init__(
        self,
        rate: float,
        now: float,
        share: float = FIRST_SHARE,
        deepest_seconds: float | None = None,
    ) -> None:
        """If `deepest_seconds` is given, the debt is limited to the amount for that time."""
        self.rate = rate
        self._deepest = deepest_seconds
        self.share = share
        self._level = self.rate * self.share
        self._at = now
        #: The use since the last report, and whether a client has had to wait since then.
        self.used = 0.0
        self.was_short = False
        self._used_at = now

    def spend(self, amount: float, now: float) -> float:
        """Subtract `amount`, and return the time in seconds until the level is above zero again."""
        self.used += amount
        self._used_at = now
        self._fill(now)
        self._level -= amount
        if self._deepest is not None:
            self._level = max(self._level, -self._deepest * self.rate * self.share)
        return self.delay(now)

    def delay(self, now: float) -> float:
        """Return the time in seconds until the level is above zero, or 0 if it is now.

        This is an estimate, since shares change. A client that comes back too early is told to wait again.
        """
        self._fill(now)
        given = self.rate * self.share
        if self._level >= -given * _SHORTEST_SECONDS:
            return 0.0
        self.was_short = True
        longest = max(LONGEST_SECONDS, -self._level / self.rate)
        return min(longest, -self._level / given) if given > 0 else longest

    def is_idle(self, now: float) -> bool:
        """Whether the bucket can be dropped, because it has been unused for a while and nothing is owed."""
        self._fill(now)
        return self._used_at < now - _IDLE_SECONDS and self._level >= self.rate * self.share

    def reported(self) -> None:
        """Restart counting use and waits after they have been reported."""
        self.used = 0.0
        self.was_short = False

    def _fill(self, now: float) -> None:
        given = self.rate * self.share
        self._level = min(given, self._level + (now - self._at) * given)
        self._at = now


class Quotas:
    """The quotas of an agent's clients. Times are event loop times, in seconds."""

    def __init__(self, security: Security) -> None:
        self.limits = Limits(security)
        self.buckets: OrderedDict[tuple[str, Entity], Bucket] = OrderedDict()

    @property
    def are_any(self) -> bool:
        return self.limits.are_any

    def spend(self, key: str, user: str, client_id: str, amount: float, now: float) -> float:
        """Count a client's use of the quota `key`, and return how long the client must wait, in seconds."""
        limit = self.limits.find(key, user, client_id)
        return 0.0 if limit is None else self._bucket(key, limit, now).spend(amount, now)

    def delay(self, key: str, user: str, client_id: str, now: float) -> float:
        """Return how long a client must wait, in seconds, before it may use more of the quota `key`."""
        limit = self.limits.find(key, user, client_id)
        return 0.0 if limit is None else self._bucket(key, limit, now).delay(now)

    def most(self, key: str, user: str, client_id: str) -> float | None:
        """Return the amount that a quota allows per second, or None if there is no quota."""
        limit = self.limits.find(key, user, client_id)
        return None if limit is None else limit.rate

    def _bucket(self, key: str, limit: Limit, now: float) -> Bucket:
        counted = key, limit.entity
        bucket = self.buckets.get(counted)
        if bucket is None:
            bucket = Bucket(limit.rate, now, deepest_seconds=_DEEPEST_SECONDS.get(key))
            self.buckets[counted] = bucket
            if len(self.buckets) > _MOST_BUCKETS:
                self.buckets.popitem(last=False)
        self.buckets.move_to_end(counted)
        bucket.rate = limit.rate
        return bucket
