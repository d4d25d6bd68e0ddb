"""Counts what clients use, and says how long they have to wait.

A quota is a bucket that fills at its rate, up to what is given in a second. What a client has used is taken out
afterwards, so it may be taken below nothing, and then nobody whose use is counted together gets an answer read before
it is above nothing again. A quota holds over all agents: this agent's bucket fills at the part of the rate that is its
share, which the control plane gives (sharing.py).
"""

from collections import OrderedDict
from typing import Final

from lacuna.agent.quotas.limits import Limit, Limits
from lacuna.controlplane.shared.security import Entity, Security

#: What is given before the control plane has said this agent's share.
FIRST_SHARE: Final = 0.25
#: A client waits no longer at a time, so that it does not take the agent for dead; what it owes, it owes on.
LONGEST_SECONDS: Final = 10.0
#: A client is not told to wait for less than clients can be told.
_SHORTEST_SECONDS: Final = 0.001
#: A bucket that nobody has used for this long is full, and forgotten.
IDLE_SECONDS: Final = 5.0
_MOST_BUCKETS: Final = 10_000


class Bucket:
    """What this agent may give of one quota."""

    __slots__ = ("_at", "_level", "rate", "share", "used", "used_at", "was_short")

    def __init__(self, rate: float, now: float, share: float = FIRST_SHARE) -> None:
        self.rate = rate
        self.share = share
        self._level = self.rate * self.share
        self._at = now
        #: What was used since it was last reported, when it was last used, and whether somebody had to wait.
        self.used = 0.0
        self.used_at = now
        self.was_short = False

    def spend(self, amount: float, now: float) -> float:
        """Take out what was used; return how long, in seconds, until there is something again."""
        self.used += amount
        self.used_at = now
        self._fill(now)
        self._level -= amount
        return self.delay(now)

    def delay(self, now: float) -> float:
        """Return how long, in seconds, until there is something again; 0 if there is."""
        self._fill(now)
        given = self.rate * self.share
        if self._level >= -given * _SHORTEST_SECONDS:
            return 0.0
        self.was_short = True
        return min(LONGEST_SECONDS, -self._level / given) if given > 0 else LONGEST_SECONDS

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
            bucket = self.buckets[counted] = Bucket(limit.rate, now)
            if len(self.buckets) > _MOST_BUCKETS:
                self.buckets.popitem(last=False)
        self.buckets.move_to_end(counted)
        bucket.rate = limit.rate
        return bucket
