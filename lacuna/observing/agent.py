"""The metrics of one agent. Names follow the conventions of Prometheus; docs/metrics.md lists them."""

from importlib.metadata import version
from typing import Final

from lacuna.agent.context import AgentContext
from lacuna.agent.health import why_not_ready
from lacuna.agent.housekeeping import Housekeeping
from lacuna.agent.metrics import DURATIONS
from lacuna.agent.registry import api_names
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.logstore.compiled import interpreted
from lacuna.logstore.objects.prices import DELETE, GET, LIST, PUT, Prices
from lacuna.logstore.objects.store import StoreMetrics
from lacuna.observing.endpoint import Observed
from lacuna.observing.families import Families
from lacuna.operating.agents import RunningAgent

#: Why an agent is not ready at first.
STARTING: Final = "the agent is starting: it has no answer yet from the control plane or its store"


def observe_agent(observed: Observed, running: RunningAgent) -> None:
    """Have a process show an agent, which decides whether the process is ready."""

    async def add(families: Families) -> None:
        add_agent(families, running.context, running.server.budget.taken)
        if running.housekeeping is not None:
            _add_housekeeping(families, running.housekeeping)

    observed.becomes(lambda: why_not_ready(running.context))
    observed.shows(add)


def add_agent(families: Families, context: AgentContext, budget_taken: int) -> None:
    """Add all metrics of an agent; `budget_taken` are the bytes of requests that it holds."""
    lease, cluster = context.lease, context.control.cluster
    families.info(
        "lacuna_agent",
        "The agent, and the cluster that it belongs to.",
        {
            "version": version("lacuna-log"),
            "node_id": str(lease.node_id),
            "address": f"{lease.host}:{lease.port}",
            "zone": context.settings.zone,
            "cluster_id": cluster.cluster_id,
            "kernel": "interpreted" if interpreted() else "compiled",
        },
    )
    families.gauge(
        "lacuna_agent_ready",
        "1 while the agent serves Kafka clients, as in /readyz.",
        not why_not_ready(context),
    )
    _add_connections(families, context, budget_taken)
    _add_requests(families, context)
    _add_produce(families, context)
    _add_fetch(families, context)
    _add_peers(families, context)
    _add_lease(families, context)
    add_store(families, context.store.metrics)


def _add_connections(families: Families, context: AgentContext, budget_taken: int) -> None:
    metrics, settings = context.metrics, context.settings
    families.gauge("lacuna_connections", "Connections of clients.", metrics.connections_now)
    families.gauge(
        "lacuna_connections_limit",
        "The limit of open connections.",
        settings.max_connections,
    )
    families.counter(
        "lacuna_connections_accepted", "Connections accepted.", metrics.connections_accepted
    )
    families.counter(
        "lacuna_connections_refused",
        "Connections rejected because there were too many.",
        metrics.connections_refused,
    )
    families.counter(
        "lacuna_authorizations_denied",
        "Requests or parts of requests that ACLs denied.",
        metrics.authorizations_denied,
    )
    for reason, count in (
        ("idle", metrics.connections_closed_idle),
        ("malformed", metrics.connections_closed_malformed),
    ):
        families.counter(
            "lacuna_connections_closed", "Connections that the agent closed.", count, reason=reason
        )
    families.counter(
        "lacuna_authentications_failed",
        "Clients whose TLS handshake or authentication failed.",
        metrics.authentications_failed,
    )
    families.counter(
        "lacuna_sessions_expired",
        "Connections closed because the client did not authenticate again in time.",
        metrics.sessions_expired,
    )
    families.counter(
        "lacuna_received_bytes", "Bytes received from clients.", metrics.bytes_received
    )
    families.counter("lacuna_sent_bytes", "Bytes sent to clients.", metrics.bytes_sent)
    families.gauge(
        "lacuna_request_memory_bytes",
        "Bytes of unanswered requests and unsent answers.",
        budget_taken,
    )
    families.gauge(
        "lacuna_request_memory_limit_bytes",
        "The limit of these bytes. Beyond it, the agent reads nothing more from clients.",
        settings.max_agent_bytes,
    )
    families.counter(
        "lacuna_reading_paused",
        "How often the agent stopped reading from a client at one of its bounds.",
        metrics.reading_paused,
    )


def _add_requests(families: Families, context: AgentContext) -> None:
    metrics = context.metrics
    names = api_names()
    for key, name in sorted(names.items()):
        if count := metrics.requests.get(key):
            families.counter("lacuna_requests", "Requests by API.", count, api=name)
    for key, histogram in sorted(metrics.durations.items()):
        families.histogram(
            "lacuna_request_duration_seconds",
            "Time from the beginning of a request until its answer is ready. Fetch, JoinGroup and SyncGroup may "
            "wait.",
            DURATIONS,
            histogram.counts,
            histogram.seconds,
            api=names[key],
        )
    for (key, code), count in sorted(metrics.errors.items()):
        families.counter(
            "lacuna_request_errors",
            "Error codes in answers; a request may have several.",
            count,
            api=names[key],
            error=_error_name(code),
        )
    families.counter(
        "lacuna_requests_failed",
        "Requests that failed by a defect, or that the control plane rejected.",
        metrics.requests_failed,
    )
    families.counter(
        "lacuna_requests_unavailable",
        "Requests that failed because no control plane was reachable.",
        metrics.requests_unavailable,
    )
    families.counter(
        "lacuna_requests_throttled",
        "Requests of clients that exceeded a quota and had to wait.",
        metrics.requests_throttled,
    )
    families.counter(
        "lacuna_connections_throttled",
        "Connections that had to wait because their address exceeded its quota.",
        metrics.connections_throttled,
    )


def _add_produce(families: Families, context: AgentContext) -> None:
    flusher, settings = context.produce.flusher, context.produce.settings
    metrics = flusher.metrics
    families.counter("lacuna_flushes", "Flushes that have ended.", metrics.flushes)
    families.counter(
        "lacuna_flushes_failed", "Flushes that failed, wholly or in part.", metrics.flushes_failed
    )
    families.gauge("lacuna_flushes_running", "Flushes that have not ended.", metrics.flushes_now)
    families.gauge(
        "lacuna_flush_puts_limit",
        "The limit of concurrent PUTs of flushes.",
        settings.max_flushes,
    )
    families.counter("lacuna_flushed_batches", "Committed record batches.", metrics.batches)
    families.counter("lacuna_flushed_bytes", "Bytes of committed objects.", metrics.bytes_written)
    families.counter(
        "lacuna_commits_repeated",
        "Commits sent again because their reply was lost.",
        metrics.commits_repeated,
    )
    families.gauge(
        "lacuna_produce_queue_bytes",
        "Bytes of batches that wait for a flush.",
        flusher.queued_bytes,
    )
    families.gauge(
        "lacuna_produce_queue_limit_bytes",
        "The limit of that queue. Beyond it, the agent rejects batches.",
        settings.max_queued_bytes,
    )
    families.gauge(
        "lacuna_produce_waiting_batches",
        "Batches that are being recompressed, or wait for an earlier batch of their producer.",
        context.produce.lanes.waiting,
    )
    families.gauge(
        "lacuna_sequence_gaps",
        "Failed batches of idempotent producers that the clients have not sent again yet.",
        len(flusher.gaps),
    )


def _add_fetch(families: Families, context: AgentContext) -> None:
    fetch = context.fetch
    cache = fetch.cache.metrics
    for outcome, count in (("hit", cache.hits), ("miss", cache.misses)):
        families.counter(
            "lacuna_cache_lookups", "Extents looked up in the cache.", count, outcome=outcome
        )
    families.gauge("lacuna_cache_bytes", "Bytes in the cache.", cache.bytes_now)
    families.gauge(
        "lacuna_cache_limit_bytes", "The size limit of the cache.", fetch.settings.cache_bytes
    )
    families.counter(
        "lacuna_cache_written_through",
        "Batches cached when they were written, for consumers at the end of the log.",
        cache.written_through,
    )
    families.counter("lacuna_cache_reads", "Reads of the store for the cache.", cache.reads)
    families.counter(
        "lacuna_cache_read_bytes", "Bytes that these reads returned.", cache.bytes_read
    )
    families.counter(
        "lacuna_cache_coalesced",
        "Reads that waited for the same read by another fetch.",
        cache.coalesced,
    )
    families.counter("lacuna_corrupt_reads", "Pieces whose checksum did not match.", cache.corrupt)
    sessions = fetch.sessions
    families.gauge("lacuna_fetch_sessions", "Incremental fetch sessions.", len(sessions))
    families.gauge(
        "lacuna_fetch_sessions_limit",
        "The limit of fetch sessions. Beyond it, consumers fetch without a session.",
        fetch.settings.max_sessions,
    )
    families.counter(
        "lacuna_fetch_sessions_evicted",
        "Fetch sessions that ended to make room for others.",
        sessions.evicted,
    )
    if fetch.shared is not None:
        shared = fetch.shared.metrics
        for outcome in ("taken", "missed", "given", "refused", "damaged"):
            families.counter(
                "lacuna_zone_reads",
                "Ranges shared with other agents of the zone.",
                getattr(shared, outcome),
                outcome=outcome,
            )
        connections = fetch.shared.connections()
        for state, count in (("busy", connections.busy), ("idle", connections.idle)):
            families.gauge(
                "lacuna_zone_connections",
                "Connections to other agents of the zone, over which reads are shared.",
                count,
                state=state,
            )
        families.gauge(
            "lacuna_zone_connections_limit",
            "The most of them, for the agents that are connected.",
            connections.most,
        )


def _add_housekeeping(families: Families, housekeeping: Housekeeping) -> None:
    metrics = housekeeping.metrics
    families.counter("lacuna_merges", "Merges completed.", metrics.merges)
    families.counter("lacuna_merges_failed", "Merges that failed.", metrics.merges_failed)
    for outcome, count in (
        ("replaced", metrics.partitions_merged),
        ("refused", metrics.partitions_refused),
        ("failed", metrics.partitions_failed),
    ):
        families.counter(
            "lacuna_merged_partitions",
            "Partitions merged; rejected if their extents have changed, failed if an object cannot be read.",
            count,
            outcome=outcome,
        )
    for side, count in (("before", metrics.extents_before), ("after", metrics.extents_after)):
        families.counter(
            "lacuna_merged_extents", "Extents before and after merges.", count, side=side
        )
    for direction, size in (("written", metrics.bytes_written), ("read", metrics.bytes_read)):
        families.counter(
            "lacuna_merge_bytes",
            "Bytes that merges read and wrote.",
            size,
            direction=direction,
        )
    for kind, count in (
        ("replaced", metrics.objects_deleted),
        ("uncommitted", metrics.uncommitted_deleted),
    ):
        families.counter(
            "lacuna_collected_objects",
            "Deleted objects: replaced ones, and ones that were never committed.",
            count,
            kind=kind,
        )
    families.counter(
        "lacuna_collections_failed",
        "Searches for objects to delete that failed.",
        metrics.collections_failed,
    )
    families.counter(
        "lacuna_deletions_failed",
        "Objects, and ended leases with objects, that collection could not delete.",
        metrics.deletions_failed,
    )
    for task, count in housekeeping.set_aside().items():
        families.gauge(
            "lacuna_housekeeping_set_aside",
            "Objects and ended leases that merging or collection skips for a while after a failure.",
            count,
            task=task,
        )


def _add_peers(families: Families, context: AgentContext) -> None:
    lines = context.lines.counts()
    families.gauge(
        "lacuna_peer_lines",
        "Connections to other agents, by which this agent detects their death.",
        lines.open,
    )
    families.gauge("lacuna_peer_lines_limit", "One for each other agent.", lines.wanted)


def _add_lease(families: Families, context: AgentContext) -> None:
    metrics = context.metrics
    families.counter(
        "lacuna_lease_registrations",
        "Leases that the agent has taken.",
        metrics.lease_registrations,
    )
    families.counter(
        "lacuna_lease_renewals_failed", "Renewals that failed.", metrics.lease_renewals_failed
    )
    families.counter(
        "lacuna_views_confirmed",
        "How often the control plane confirmed that this agent's views are current.",
        metrics.views_confirmed,
    )
    families.gauge(
        "lacuna_agent_journal_position",
        "Journal position up to which this agent has received changes.",
        context.control.journal_position,
    )


def add_store(families: Families, store: StoreMetrics, prices: Prices | None = None) -> None:
    """Add the requests of an object store, and what they cost."""
    counts = {
        "put": store.puts,
        "get": store.gets,
        "head": store.sizes,
        "list": store.lists,
        "delete": store.deletes,
    }
    for operation, count in counts.items():
        families.counter(
            "lacuna_store_requests",
            "Requests to the object store that succeeded.",
            count,
            operation=operation,
        )
    for direction, size in (("written", store.bytes_written), ("read", store.bytes_read)):
        families.counter(
            "lacuna_store_bytes",
            "Bytes written to and read from the store.",
            size,
            direction=direction,
        )
    families.counter(
        "lacuna_store_unwanted_bytes",
        "Bytes read between the wanted ranges.",
        store.bytes_between,
    )
    families.counter(
        "lacuna_store_second_attempts",
        "Requests repeated over a new connection because the first one got no answer in time.",
        store.second_attempts,
    )
    families.gauge(
        "lacuna_store_connections_in_use",
        "Connections to the object store that carry a request.",
        store.connections_in_use,
    )
    families.gauge(
        "lacuna_store_connections_limit",
        "How many connections stay open for the next request; 0 for a store without connections.",
        store.connections_kept,
    )
    prices = prices or Prices()
    dollars = prices.of(
        {PUT: store.puts, GET: store.gets + store.sizes, LIST: store.lists, DELETE: store.deletes}
    )
    families.counter(
        "lacuna_store_cost_dollars",
        f"What these requests to a bucket would cost ({prices.source}); 0 for a folder.",
        dollars if store.is_bucket else 0,
    )


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
