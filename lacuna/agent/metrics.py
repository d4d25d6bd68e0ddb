"""Counters of one agent: plain integers that can be read at any time."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

#: The bounds of the buckets in seconds, each twice the previous one. The last bucket, for longer durations, has no
#: bound.
DURATIONS: Final = tuple(0.0005 * (1 << power) for power in range(17))
_A_SECOND: Final = 2000
_LAST: Final = len(DURATIONS)


class Histogram:
    """The number of durations in each bucket of DURATIONS, and the sum of all durations in seconds."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (_LAST + 1)
        self.seconds = 0.0

    def observe(self, seconds: float) -> None:
        bucket = int(seconds * _A_SECOND).bit_length()
        self.counts[min(_LAST, bucket)] += 1
        self.seconds += seconds


class Durations(dict[int, Histogram]):
    """A histogram of request durations for each API key, from the start of a request until its answer can be sent."""

    def __missing__(self, api_key: int) -> Histogram:
        made = self[api_key] = Histogram()
        return made


#: Called for each request with its API key and version, the client id, and its start and end (`time.perf_counter`).
OnRequest = Callable[[int, int, str, float, float], None]


@dataclass(slots=True, kw_only=True)
class AgentMetrics:
    """Counters, which only increase, and gauges (named `_now`), which increase and decrease.

    `requests` counts by API key, and `errors` by API key and error code. An answer may have several errors.
    """

    connections_now: int = 0
    connections_accepted: int = 0
    connections_refused: int = 0
    connections_closed_idle: int = 0
    connections_closed_malformed: int = 0
    authentications_failed: int = 0
    sessions_expired: int = 0
    authorizations_denied: int = 0
    requests_throttled: int = 0
    connections_throttled: int = 0
    requests: Counter[int] = field(default_factory=Counter)
    durations: Durations = field(default_factory=Durations)
    errors: Counter[tuple[int, int]] = field(default_factory=Counter)
    on_request: OnRequest | None = None
    requests_failed: int = 0
    requests_unavailable: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    request_bytes_now: int = 0
    reading_paused: int = 0
    lease_registrations: int = 0
    views_confirmed: int = 0
    lease_renewals_failed: int = 0
