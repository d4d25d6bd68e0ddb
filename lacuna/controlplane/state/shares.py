"""Divides a cluster's quotas among its agents. Volatile, since each agent requests its share again every second.

A quota applies to the whole cluster. An agent whose clients wait receives a larger share, up to what the others leave.
An agent whose clients use little keeps slightly more than they use. No part of an agent's share goes to the others
before that agent's next request, so the shares never exceed the quota.
"""

from typing import Final, NamedTuple

from lacuna.controlplane.shared.security import Entity

#: How long an agent keeps its share without requesting it again.
_LIFETIME_MS: Final = 3_000
#: The minimum share of each agent, as a fraction of an equal share, so that its next client can begin.
_LEAST: Final = 0.1
#: The factor by which the share of an agent whose clients do not wait exceeds its use.
_HEADROOM: Final = 1.25
#: Beyond this number, the least recently used quotas are dropped.
_MOST_KEPT: Final = 20_000

#: The key of a quota, and the key under which its use is counted.
Counted = tuple[str, Entity]


class _Share(NamedTuple):
    share: float
    used: float
    is_short: bool
    at_ms: int


class Shares:
    def __init__(self) -> None:
        self._kept: dict[Counted, dict[int, _Share]] = {}

    def ask(
        self, counted: Counted, lease_id: int, used: float, is_short: bool, now_ms: int
    ) -> float:
        """Return an agent's share (0 to 1), given the fraction of the quota used per second and whether
        clients wait.
        """
        shares = self._kept.pop(counted, {})
        self._kept[counted] = shares  # the most recently used one is at the end
        if len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        for other in [
            other_id for other_id, each in shares.items() if each.at_ms + _LIFETIME_MS < now_ms
        ]:
            del shares[other]
        before = shares.pop(lease_id, None)
        wanted = _Share(0.0, used, is_short, now_ms)
        free = max(0.0, 1.0 - sum(each.share for each in shares.values()))
        target = _target(wanted, list(shares.values()))
        if before is None and shares:
            target = max(target, _LEAST / (len(shares) + 1))
        share = min(target, free)
        shares[lease_id] = wanted._replace(share=share)
        return share


def _target(own: _Share, others: list[_Share]) -> float:
    """Return an agent's share as if all agents requested theirs now: those that wait divide what the others leave."""
    count = len(others) + 1
    least = _LEAST / count
    needs = [max(least, each.used * _HEADROOM) for each in others if not each.is_short]
    waiting = 1 + sum(each.is_short for each in others)
    if own.is_short:
        return max(least, (1.0 - sum(needs)) / waiting)
    if waiting > 1:
        return max(least, own.used * _HEADROOM)
    # No client waits. The unneeded part is divided as well, so that some of it is available for a burst.
    needed = max(least, own.used * _HEADROOM)
    return max(least, needed + (1.0 - needed - sum(needs)) / count)
