"""Throttles requests: measures their use, and tells clients how long to wait (KIP-219).

An answer is sent immediately and specifies how long the client must wait. In the meantime, no more requests are served
on that connection, nor on any other connection that is counted under the same key. Clients that have not authenticated
are not counted, since the name and client id that they give may belong to another client.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from lacuna.agent.client import Peer
from lacuna.agent.quotas.limits import CONSUMED, PRODUCED, REQUESTS
from lacuna.agent.quotas.quotas import Quotas
from lacuna.wire.layout import Buffer

_THROTTLE_TIME: Final = "throttle_time_ms"
#: request_percentage counts the time of one agent's event loop; a whole second is 100.
_PERCENT: Final = 100.0


def is_counted(peer: Peer, quota: str | None) -> bool:
    """Return whether a request's use is counted: its API must use a quota, and its client must have authenticated."""
    return quota is not None and peer.session.has_authenticated


def owed(quotas: Quotas, peer: Peer, quota: str | None, now: float) -> float:
    """Return how long a request with this quota must wait because of earlier use, in seconds."""
    user, client_id = peer.session.principal.name, peer.client_id
    delay = quotas.delay(REQUESTS, user, client_id, now)
    if quota in (PRODUCED, CONSUMED):
        delay = max(delay, quotas.delay(quota, user, client_id, now))
    return delay


def spend_bytes(
    quotas: Quotas, peer: Peer, quota: str | None, size: int, body: Sequence[Buffer], now: float
) -> float:
    """Count the bytes of a request or its answer if the quota covers them. Return the client's wait in seconds."""
    if quota == PRODUCED:
        used = size
    elif quota == CONSUMED:
        used = sum(map(len, body))
    else:
        return 0.0
    return quotas.spend(quota, peer.session.principal.name, peer.client_id, used, now)


def spend_seconds(quotas: Quotas, peer: Peer, seconds: float, now: float) -> float:
    """Count event loop time, and return how long the client must wait, in seconds."""
    user, client_id = peer.session.principal.name, peer.client_id
    return quotas.spend(REQUESTS, user, client_id, seconds * _PERCENT, now)


def told(response: Any, seconds: float) -> Any:
    """Return the answer with the time that the client must wait, if such answers have a field for it."""
    if _THROTTLE_TIME not in response._fields:
        return response
    return response._replace(throttle_time_ms=min(math.ceil(seconds * 1000), (1 << 31) - 1))
