"""The metrics of one agent, named according to Prometheus's conventions. docs/metrics.md lists them."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Final

from lacuna.agent.fetch.service import FetchService
from lacuna.agent.fetch.shared import SharedReads
from lacuna.agent.health import why_not_ready
from lacuna.agent.housekeeping import Housekeeping
from lacuna.agent.metrics import DURATIONS, AgentMetrics
from lacuna.agent.produce.budget import RequestBudget
from lacuna.agent.produce.service import ProduceService
from lacuna.agent.registry import api_names
from lacuna.agent.share_sessions import MOST_SESSIONS, ShareSessions
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.logstore.compiled import interpreted
from lacuna.logstore.objects.store import StoreMetrics
from lacuna.observing.endpoint import Observed
from lacuna.observing.families import Families
from lacuna.observing.metric import Metric, counter, counters, gauge, gauges, histograms, info
from lacuna.operating.agents import RunningAgent

#: Why a new agent is not ready.
STARTING: Final = "the agent is starting: neither the control plane nor the store has answered yet"


def observe_agent(observed: Observed, running: RunningAgent) -> None:
    """Make a process report an agent's metrics, and the agent's readiness as its own."""

    async def add(families: Families) -> None:
        context = running.context
        await families.add(_AGENT, running)
        await families.add(_CLIENTS, context.metrics)
        await families.add(_PRODUCE, context.produce)
        await families.add(_FETCH, context.fetch)
        await families.add(_SHARES, context.shares)
        if context.fetch.shared is not None:
            await families.add(_ZONE, context.fetch.shared)
        if running.housekeeping is not None:
            await families.add(_HOUSEKEEPING, running.housekeeping)
        await families.add(STORE, context.store.metrics)

    observed.becomes(lambda: why_not_ready(running.context))
    observed.shows(add)


def _about(agent: RunningAgent) -> tuple[str, ...]:
    context = agent.context
    return (
        version("lacuna-log"),
        str(context.lease.node_id),
        f"{context.lease.host}:{context.lease.port}",
        context.settings.zone,
        context.control.cluster.cluster_id,
        "interpreted" if interpreted() else "compiled",
    )


_AGENT: Final[tuple[Metric[RunningAgent], ...]] = (
    info(
        "lacuna_agent",
        "The identity of the agent and its cluster.",
        ("version", "node_id", "address", "zone", "cluster_id", "kernel"),
        _about,
    ),
    gauge(
        "lacuna_agent_ready",
        "1 while the agent serves Kafka clients, as reported by /readyz.",
        lambda agent: not why_not_ready(agent.context),
    ),
    gauge(
        "lacuna_connections_limit",
        "The limit on open connections.",
        lambda agent: agent.context.settings.max_connections,
    ),
    gauge(
        "lacuna_request_memory_bytes",
        "Bytes of unanswered requests and unsent responses.",
        lambda agent: agent.server.budget.taken,
    ),
    gauge(
        "lacuna_request_memory_limit_bytes",
        "The limit on bytes of unanswered requests and unsent responses. Beyond it, the agent stops reading requests.",
        lambda agent: agent.context.settings.max_agent_bytes,
    ),
    gauge(
        "lacuna_peer_lines",
        "Connections to other agents, used to notice when one of them fails.",
        lambda agent: agent.context.lines.counts().open,
    ),
    gauge(
        "lacuna_peer_lines_limit",
        "The expected number of connections to other agents: one for each of them.",
        lambda agent: agent.context.lines.counts().wanted,
    ),
    gauge(
        "lacuna_agent_journal_position",
        "The journal position up to which this agent has received changes.",
        lambda agent: agent.context.control.journal_position,
    ),
)


def _requests(metrics: AgentMetrics) -> list[tuple[str, int]]:
    names = sorted(api_names().items())
    return [(name, count) for key, name in names if (count := metrics.requests.get(key))]


def _durations(metrics: AgentMetrics) -> list[tuple[tuple[str], list[int], float]]:
    names, items = api_names(), sorted(metrics.durations.items())
    return [((names[key],), each.counts, each.seconds) for key, each in items]


def _errors(metrics: AgentMetrics) -> list[tuple[str, str, int]]:
    names, items = api_names(), sorted(metrics.errors.items())
    return [(names[key], _error_name(code), count) for (key, code), count in items]


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


_CLIENTS: Final[tuple[Metric[AgentMetrics], ...]] = (
    gauge("lacuna_connections", "Connections of clients.", lambda metrics: metrics.connections_now),
    counter(
        "lacuna_connections_accepted",
        "Connections accepted.",
        lambda metrics: metrics.connections_accepted,
    ),
    counter(
        "lacuna_connections_refused",
        "Connections rejected because too many were open.",
        lambda metrics: metrics.connections_refused,
    ),
    counter(
        "lacuna_connections_throttled",
        "Connections that had to wait because their address exceeded its quota.",
        lambda metrics: metrics.connections_throttled,
    ),
    counters(
        "lacuna_connections_closed",
        "Connections that the agent closed.",
        ("reason",),
        lambda metrics: (
            ("idle", metrics.connections_closed_idle),
            ("malformed", metrics.connections_closed_malformed),
        ),
    ),
    counter(
        "lacuna_authentications_failed",
        "Clients whose TLS handshake or authentication failed.",
        lambda metrics: metrics.authentications_failed,
    ),
    counter(
        "lacuna_authorizations_denied",
        "Requests, or parts of requests, that ACLs denied.",
        lambda metrics: metrics.authorizations_denied,
    ),
    counter(
        "lacuna_sessions_expired",
        "Connections closed because the client did not authenticate again in time.",
        lambda metrics: metrics.sessions_expired,
    ),
    counter(
        "lacuna_received_bytes",
        "Bytes received from clients.",
        lambda metrics: metrics.bytes_received,
    ),
    counter("lacuna_sent_bytes", "Bytes sent to clients.", lambda metrics: metrics.bytes_sent),
    counter(
        "lacuna_reading_paused",
        "How often reading from a client was paused because its connection or the whole agent held "
        "too many requests or bytes.",
        lambda metrics: metrics.reading_paused,
    ),
    counters("lacuna_requests", "Requests by API.", ("api",), _requests),
    histograms(
        "lacuna_request_duration_seconds",
        "Time from the start of a request until its response is ready. Fetch, JoinGroup and SyncGroup requests may "
        "wait.",
        ("api",),
        DURATIONS,
        _durations,
    ),
    counters(
        "lacuna_request_errors",
        "Error codes in responses; a response may have several.",
        ("api", "error"),
        _errors,
    ),
    counter(
        "lacuna_requests_failed",
        "Requests that failed because of a bug, or because the control plane rejected them.",
        lambda metrics: metrics.requests_failed,
    ),
    counter(
        "lacuna_requests_unavailable",
        "Requests that failed because no control plane was reachable.",
        lambda metrics: metrics.requests_unavailable,
    ),
    counter(
        "lacuna_requests_throttled",
        "Requests that had to wait because their client exceeded a quota.",
        lambda metrics: metrics.requests_throttled,
    ),
    counter(
        "lacuna_lease_registrations",
        "Leases that the agent has taken.",
        lambda metrics: metrics.lease_registrations,
    ),
    counter(
        "lacuna_lease_renewals_failed",
        "Renewals that failed.",
        lambda metrics: metrics.lease_renewals_failed,
    ),
    counter(
        "lacuna_views_confirmed",
        "Confirmations by the control plane that this agent's views are current.",
        lambda metrics: metrics.views_confirmed,
    ),
)


def _of_budget(read: Callable[[RequestBudget], float]) -> Callable[[ProduceService], float]:
    """Return a function that reads a value from the request budget, or returns 0 if there is no budget."""

    def value(produce: ProduceService) -> float:
        budget = produce.flusher.budget
        return 0.0 if budget is None else read(budget)

    return value


_PRODUCE: Final[tuple[Metric[ProduceService], ...]] = (
    counter(
        "lacuna_flushes",
        "Flushes that have ended.",
        lambda produce: produce.flusher.metrics.flushes,
    ),
    counter(
        "lacuna_flushes_failed",
        "Flushes that failed, wholly or in part.",
        lambda produce: produce.flusher.metrics.flushes_failed,
    ),
    gauge(
        "lacuna_flushes_running",
        "Flushes in progress.",
        lambda produce: produce.flusher.metrics.flushes_now,
    ),
    gauge(
        "lacuna_flush_puts_limit",
        "The limit on concurrent PUTs by flushes.",
        lambda produce: produce.settings.max_flushes,
    ),
    counter(
        "lacuna_flushed_batches",
        "Committed record batches.",
        lambda produce: produce.flusher.metrics.batches,
    ),
    counter(
        "lacuna_flushed_bytes",
        "Bytes of committed objects.",
        lambda produce: produce.flusher.metrics.bytes_written,
    ),
    counter(
        "lacuna_hot_flushes",
        "Flushes that became hot segments, without a PUT.",
        lambda produce: produce.flusher.metrics.hot_flushes,
    ),
    counter(
        "lacuna_hot_copies",
        "Hot segments that were copied to the bucket, where they show how far the journal has progressed.",
        lambda produce: produce.flusher.copies.copied,
    ),
    counter(
        "lacuna_hot_copies_failed",
        "Copies of hot segments that the store did not accept.",
        lambda produce: produce.flusher.copies.failed,
    ),
    counter(
        "lacuna_commits_repeated",
        "Commits sent again because their reply was lost.",
        lambda produce: produce.flusher.metrics.commits_repeated,
    ),
    gauge(
        "lacuna_produce_queue_bytes",
        "Bytes of batches that are waiting for a flush.",
        lambda produce: produce.flusher.queued_bytes,
    ),
    gauge(
        "lacuna_produce_queue_limit_bytes",
        "The limit on bytes of waiting batches. Beyond it, the agent rejects batches.",
        lambda produce: produce.settings.max_queued_bytes,
    ),
    gauge(
        "lacuna_produce_waiting_batches",
        "Batches that are being recompressed, or are waiting for an earlier batch from their producer.",
        lambda produce: produce.lanes.waiting,
    ),
    counter(
        "lacuna_flush_waits",
        "Flushes that the request budget has delayed.",
        _of_budget(lambda budget: budget.waits),
    ),
    counter(
        "lacuna_flush_wait_seconds",
        "Seconds by which the request budget has delayed flushes.",
        _of_budget(lambda budget: budget.waited_seconds),
    ),
    gauge(
        "lacuna_flush_tokens",
        "Flushes that the request budget allows without delay.",
        _of_budget(lambda budget: budget.level()),
    ),
    gauge(
        "lacuna_flush_budget_dollars",
        "The monthly budget for the PUTs of this process's flushes, in dollars. 0 means that there is "
        "no budget, because the store charges nothing or --flush-ms is set.",
        _of_budget(lambda budget: budget.share),
    ),
    gauge(
        "lacuna_sequence_gaps",
        "Failed batches from idempotent producers that the clients have not resent yet.",
        lambda produce: len(produce.flusher.gaps),
    ),
)

_SHARES: Final[tuple[Metric[ShareSessions], ...]] = (
    gauge("lacuna_share_sessions", "Sessions of share group members.", len),
    gauge(
        "lacuna_share_sessions_limit",
        "The limit on share sessions. Beyond it, members receive SHARE_SESSION_LIMIT_REACHED.",
        lambda _: MOST_SESSIONS,
    ),
)

_FETCH: Final[tuple[Metric[FetchService], ...]] = (
    counters(
        "lacuna_cache_lookups",
        "Extents looked up in the cache.",
        ("outcome",),
        lambda fetch: (("hit", fetch.cache.metrics.hits), ("miss", fetch.cache.metrics.misses)),
    ),
    gauge("lacuna_cache_bytes", "Bytes in the cache.", lambda fetch: fetch.cache.metrics.bytes_now),
    gauge(
        "lacuna_cache_limit_bytes",
        "The size limit of the cache, in bytes.",
        lambda fetch: fetch.settings.cache_bytes,
    ),
    counter(
        "lacuna_cache_written_through",
        "Batches cached as they were written, for consumers at the end of the log.",
        lambda fetch: fetch.cache.metrics.written_through,
    ),
    counter(
        "lacuna_cache_reads",
        "Reads from the store into the cache.",
        lambda fetch: fetch.cache.metrics.reads,
    ),
    counter(
        "lacuna_cache_read_bytes",
        "Bytes read from the store into the cache.",
        lambda fetch: fetch.cache.metrics.bytes_read,
    ),
    counter(
        "lacuna_cache_coalesced",
        "Reads that waited for an identical read by another fetch.",
        lambda fetch: fetch.cache.metrics.coalesced,
    ),
    counter(
        "lacuna_corrupt_reads",
        "Pieces whose checksum did not match.",
        lambda fetch: fetch.cache.metrics.corrupt,
    ),
    gauge(
        "lacuna_fetch_sessions", "Incremental fetch sessions.", lambda fetch: len(fetch.sessions)
    ),
    gauge(
        "lacuna_fetch_sessions_limit",
        "The limit on fetch sessions. Beyond it, consumers fetch without a session.",
        lambda fetch: fetch.settings.max_sessions,
    ),
    counter(
        "lacuna_fetch_sessions_evicted",
        "Fetch sessions that were ended to make room for others.",
        lambda fetch: fetch.sessions.evicted,
    ),
)

_ZONE: Final[tuple[Metric[SharedReads], ...]] = (
    counters(
        "lacuna_zone_reads",
        "Ranges shared with other agents in the zone.",
        ("outcome",),
        lambda shared: [
            (outcome, getattr(shared.metrics, outcome))
            for outcome in ("taken", "missed", "given", "refused", "damaged")
        ],
    ),
    gauges(
        "lacuna_zone_connections",
        "Connections to other agents in the zone, over which reads are shared.",
        ("state",),
        lambda shared: (("busy", shared.connections().busy), ("idle", shared.connections().idle)),
    ),
    gauge(
        "lacuna_zone_connections_limit",
        "The limit on connections to other agents in the zone, given the current number of agents.",
        lambda shared: shared.connections().most,
    ),
)

_HOUSEKEEPING: Final[tuple[Metric[Housekeeping], ...]] = (
    counter("lacuna_merges", "Merges completed.", lambda keeping: keeping.metrics.merges),
    counter(
        "lacuna_merges_failed", "Merges that failed.", lambda keeping: keeping.metrics.merges_failed
    ),
    counters(
        "lacuna_merged_partitions",
        "Partitions merged. A merge is rejected if the extents have changed, and fails if an object cannot be read.",
        ("outcome",),
        lambda keeping: (
            ("replaced", keeping.metrics.partitions_merged),
            ("refused", keeping.metrics.partitions_refused),
            ("failed", keeping.metrics.partitions_failed),
        ),
    ),
    counters(
        "lacuna_merged_extents",
        "Extents before and after merges.",
        ("side",),
        lambda keeping: (
            ("before", keeping.metrics.extents_before),
            ("after", keeping.metrics.extents_after),
        ),
    ),
    counters(
        "lacuna_merge_bytes",
        "Bytes that merges read and wrote.",
        ("direction",),
        lambda keeping: (
            ("written", keeping.metrics.bytes_written),
            ("read", keeping.metrics.bytes_read),
        ),
    ),
    counter(
        "lacuna_cleans",
        "Passes over partitions of compacted topics.",
        lambda keeping: keeping.cleaner.metrics.passes,
    ),
    counter(
        "lacuna_cleans_cut",
        "Passes that left out part of a partition because an object could not be read or the extents kept changing.",
        lambda keeping: keeping.cleaner.metrics.passes_cut,
    ),
    counter(
        "lacuna_cleans_failed",
        "Passes that failed.",
        lambda keeping: keeping.metrics.cleanings_failed,
    ),
    counters(
        "lacuna_clean_records",
        "Records dropped from compacted topics: superseded records (dropped by merges or passes) and tombstones "
        "(dropped by passes).",
        ("kind", "by"),
        lambda keeping: (
            ("superseded", "merge", keeping.metrics.records_superseded),
            ("superseded", "pass", keeping.cleaner.metrics.superseded),
            ("tombstone", "pass", keeping.cleaner.metrics.tombstones),
        ),
    ),
    counters(
        "lacuna_clean_bytes",
        "Bytes that passes read and wrote.",
        ("direction",),
        lambda keeping: (
            ("read", keeping.cleaner.metrics.bytes_read),
            ("written", keeping.cleaner.metrics.bytes_written),
        ),
    ),
    gauge(
        "lacuna_clean_memory_bytes",
        "Memory used for the keys of the current pass.",
        lambda keeping: keeping.cleaner.metrics.memory_bytes,
    ),
    counters(
        "lacuna_collected_objects",
        "Deleted objects, either replaced or never committed.",
        ("kind",),
        lambda keeping: (
            ("replaced", keeping.metrics.objects_deleted),
            ("uncommitted", keeping.metrics.uncommitted_deleted),
        ),
    ),
    counter(
        "lacuna_burials_failed",
        "Failed attempts to write dead letters, which will be retried.",
        lambda keeping: keeping.metrics.burials_failed,
    ),
    counter(
        "lacuna_collections_failed",
        "Failed searches for objects to delete.",
        lambda keeping: keeping.metrics.collections_failed,
    ),
    counter(
        "lacuna_deletions_failed",
        "Objects that collection could not delete, and expired leases whose objects it could not delete.",
        lambda keeping: keeping.metrics.deletions_failed,
    ),
    gauges(
        "lacuna_housekeeping_set_aside",
        "Objects and ended leases that merging or collection skips for a while after a failure.",
        ("task",),
        lambda keeping: keeping.set_aside().items(),
    ),
)


def _second_attempts(store: StoreMetrics) -> list[tuple[str, str, int]]:
    return [(*key, count) for key, count in sorted(store.sent.second_attempts.items())]


STORE: Final[tuple[Metric[StoreMetrics], ...]] = (
    counters(
        "lacuna_store_requests",
        "Requests to the object store that succeeded.",
        ("operation",),
        lambda store: (
            ("put", store.puts),
            ("get", store.gets),
            ("head", store.sizes),
            ("list", store.lists),
            ("delete", store.deletes),
        ),
    ),
    counters(
        "lacuna_store_bytes",
        "Bytes written to and read from the store.",
        ("direction",),
        lambda store: (("written", store.bytes_written), ("read", store.bytes_read)),
    ),
    counter(
        "lacuna_store_unwanted_bytes",
        "Bytes read in the gaps between requested ranges.",
        lambda store: store.bytes_between,
    ),
    counters(
        "lacuna_store_second_attempts",
        "Requests repeated over another connection because they were slower than 95% of such requests, or received "
        "nothing for a second.",
        ("operation", "reason"),
        _second_attempts,
    ),
    gauge(
        "lacuna_store_connections_in_use",
        "Connections to the object store that are carrying a request.",
        lambda store: store.sent.connections_in_use,
    ),
    gauge(
        "lacuna_store_connections_limit",
        "Connections kept open for the next request; 0 for a store without connections.",
        lambda store: store.sent.connections_kept,
    ),
    counter(
        "lacuna_store_cost_dollars",
        "The cost of requests to the object store at the service's list prices; 0 for a folder.",
        StoreMetrics.dollars,
    ),
)

METRICS: Final[tuple[Metric[Any], ...]] = (
    *_AGENT,
    *_CLIENTS,
    *_PRODUCE,
    *_FETCH,
    *_ZONE,
    *_HOUSEKEEPING,
    *STORE,
)
"""The metrics of an agent, one row each."""
