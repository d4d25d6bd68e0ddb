"""Counts what clients use, and says how long they have to wait.

A quota is a bucket that fills at its rate, up to what is given in a second. What a client has used is taken out
afterwards, so it may be taken below nothing, and then no request that would use more is served to anybody whose use is
counted together, over whichever connection, before it is above nothing again. A quota holds over all agents: this
agent's bucket fills at the part of the rate that is its share, which the control plane gives (sharing.py).
"""

from collections import OrderedDict
from typing import Final

from lacuna.agent.quotas.limits import REQUESTS, Limit, Limits
from lacuna.controlplane.shared.security import Entity, Security

#: What is given before the control plane has said this agent's share.
FIRST_SHARE: Final = 0.25
#: A client is told to wait for longer than this only if it would have to with the whole quota as its agent's share, as
#: shares may grow meanwhile. What it owes then, it owes on.
LONGEST_SECONDS: Final = 10.0
#: Kafka's bound for request_percentage: what a request took beyond a second's worth is forgiven.
_DEEPEST_SECONDS: Final = {REQUESTS: 1.0}
#: A client is not told to wait for less than clients can be told.
_SHORTEST_SECONDS: Final = 0.001
#: A bucket that nobody has used for this long is forgotten once it is full.
_IDLE_SECONDS: Final = 5.0
_MOST_BUCKETS: Final = 10_000


class Bucket:
    """What this agent may give of one quota."""

    __slots__ = ("_at", "_deepest", "_level", "_used_at", "rate", "share", "used", "was_short")

    def __init__(
        self,
        rate: float,
        now: float,
        share: float = FIRST_SHARE,
        deepest_seconds: float | None = None,
    ) -> None:
        """What is owed is at most what is given in `deepest_seconds`, if that is not None."""
        self.rate = rate
        self._deepest = deepest_seconds
        self.share = share
        self._level = self.rate * self.share
        self._at = now
        #: What was used since it was last reported, and whether somebody had to wait.
        self.used = 0.0
        self.was_short = False
        self._used_at = now

    def spend(self, amount: float, now: float) -> float:
        """Take out what was used; return how long, in seconds, until there is something again."""
        self.used += amount
        self._used_at = now
        self._fill(now)
        self._level -= amount
        if self._deepest is not None:
            self._level = max(self._level, -self._deepest * self.rate * self.share)
        return self.delay(now)

    def delay(self, now: float) -> float:
        """Return how long, in seconds, until there is something again; 0 if there is.

        It may be a guess: shares change. Whoever comes back too early is told again.
        """
        self._fill(now)
        given = self.rate * self.share
        if self._level >= -given * _SHORTEST_SECONDS:
            return 0.0
        self.was_short = True
        longest = max(LONGEST_SECONDS, -self._level / self.rate)
        return min(longest, -self._level / given) if given > 0 else longest

    def is_idle(self, now: float) -> bool:
        """Whether it can be forgotten: nobody has used it for a while, and nothing is owed."""
        self._fill(now)
        return self._used_at < now - _IDLE_SECONDS and self._level >= self.rate * self.share

    def reported(self) -> None:
        """Count anew what is used and who waits."""
        self.used = 0.0
        self.was_short = False

    def _fill(self, now: float) -> None:
        given = self.rate * self.share
        self._level = min(given, self._level + (now - self._at) * given)
        self._at = now


class Quotas:
    """The quotas of an agent's clients. Times are the event loop's, in seconds."""

    def __init__(self, security: Security) -> None:
        self.limits = Limits(security)
        self.buckets: OrderedDict[tuple[str, Entity], Bucket] = OrderedDict()

    @property
    def are_any(self) -> bool:
        """Whether there are quotas at all; without, nothing is counted."""
        return self.limits.are_any

    def spend(self, key: str, user: str, client_id: str, amount: float, now: float) -> float:
        """Count what a client has used of the quota `key`; return how long it waits, in seconds."""
        limit = self.limits.find(key, user, client_id)
        return 0.0 if limit is None else self._bucket(key, limit, now).spend(amount, now)

    def delay(self, key: str, user: str, client_id: str, now: float) -> float:
        """Return how long a client waits, in seconds, before it may use more; 0 if it may now."""
        limit = self.limits.find(key, user, client_id)
        return 0.0 if limit is None else self._bucket(key, limit, now).delay(now)

    def most(self, key: str, user: str, client_id: str) -> float | None:
        """Return what a quota allows in a second, or None."""
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
