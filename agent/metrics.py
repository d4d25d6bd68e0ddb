"""Counters of one agent: plain integers that can be read at any time."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class AgentMetrics:
    """Counters that only go up, and gauges (named `_now`) that go up and down. `requests` counts by API key."""

    connections_now: int = 0
    connections_accepted: int = 0
    connections_refused: int = 0
    connections_closed_idle: int = 0
    connections_closed_malformed: int = 0
    requests: Counter[int] = field(default_factory=Counter)
    requests_failed: int = 0
    requests_unavailable: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    request_bytes_now: int = 0
    reading_paused: int = 0
    lease_registrations: int = 0
    views_confirmed: int = 0
    lease_renewals_failed: int = 0
