"""The report that an agent sends with each renewal of its lease, for cluster overviews (adr/0044).

Its size is bounded: only some of the connections are examined, and only the most frequent kinds of clients are
reported.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from lacuna.agent.client import Peer
from lacuna.agent.context import AgentContext
from lacuna.agent.housekeeping.service import HousekeepingMetrics
from lacuna.controlplane.v1.cluster_pb2 import (
    AgentReport,
    ConnectedClients,
    MergeCounts,
    StoreCounts,
)
from lacuna.logstore.objects.store import StoreMetrics

#: The maximum number of connections that are examined, which takes a millisecond.
_LOOKED_AT: Final = 2000
#: The maximum number of client kinds that are reported, and the maximum number of ids and hosts for each.
_KINDS: Final = 20
_EXAMPLES: Final = 5
_MOST_OF_ID: Final = 100


@dataclass(slots=True)
class _Kind:
    """The connections from clients of the same kind and version."""

    connections: int = 0
    client_ids: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)


def report_of(
    context: AgentContext, peers: Sequence[Peer], housekeeping: HousekeepingMetrics | None
) -> AgentReport:
    """Return the report of an agent to which `peers` are connected. `housekeeping` is None if other agents do it."""
    metrics, cache = context.metrics, context.fetch.cache.metrics
    clients = clients_of(islice(peers, _LOOKED_AT))
    return AgentReport(
        connections=metrics.connections_now,
        requests=metrics.requests.total(),
        requests_failed=metrics.requests_failed,
        cache_hits=cache.hits,
        cache_lookups=cache.hits + cache.misses,
        store=_store_counts(context.store.metrics),
        clients=clients,
        connections_left_out=len(peers) - sum(each.connections for each in clients),
        merges=None if housekeeping is None else _merge_counts(housekeeping),
        clock_ms=context.clock.now_ms(),
        store_clock_ms=context.store.metrics.sent.clock_ms(),
    )


def clients_of(peers: Iterable[Peer]) -> list[ConnectedClients]:
    """Count connections by the clients' software, the most frequent first, up to the bound."""
    kinds: dict[tuple[str, str], _Kind] = {}
    for peer in peers:
        kind = kinds.setdefault((peer.software.name, peer.software.version), _Kind())
        kind.connections += 1
        kind.client_ids.add(peer.client_id[:_MOST_OF_ID])
        kind.hosts.add(peer.host)
    most = sorted(kinds.items(), key=lambda item: (-item[1].connections, item[0]))[:_KINDS]
    return [
        ConnectedClients(
            name=name,
            version=version,
            connections=kind.connections,
            client_ids=sorted(kind.client_ids)[:_EXAMPLES],
            hosts=sorted(kind.hosts)[:_EXAMPLES],
            has_more_ids=len(kind.client_ids) > _EXAMPLES,
            has_more_hosts=len(kind.hosts) > _EXAMPLES,
        )
        for (name, version), kind in most
    ]


def _store_counts(metrics: StoreMetrics) -> StoreCounts:
    return StoreCounts(
        puts=metrics.puts,
        gets=metrics.gets,
        heads=metrics.sizes,
        lists=metrics.lists,
        deletes=metrics.deletes,
        bytes_written=metrics.bytes_written,
        bytes_read=metrics.bytes_read,
        dollars=metrics.dollars(),
        prices="" if metrics.sent.prices is None else metrics.sent.prices.source,
    )


def _merge_counts(metrics: HousekeepingMetrics) -> MergeCounts:
    return MergeCounts(
        merges=metrics.merges,
        failures=metrics.merges_failed + metrics.collections_failed,
        last_failure=metrics.last_failure,
        last_failure_ms=metrics.last_failure_ms,
    )
