"""The page of the cluster: its agents and control planes, what it holds, what it does, what the store costs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from lacuna.console.site import Site
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import ListGroups
from lacuna.controlplane.v1.transactions_pb2 import ListTransactions


@dataclass(frozen=True, slots=True)
class StoreUse:
    """What a store was asked since the process started: requests by operation, bytes, and what they would cost."""

    requests: Mapping[str, float]
    written: float
    read: float
    dollars: float
    priced: str


async def page(site: Site, request: Request) -> Response:
    """Answer with the page."""
    control = site.sources.control
    sample = await site.sampler.newest()
    rates = site.sampler.rates(sample)
    topics = control.cluster.topics_by_id.values()
    groups = await control.call(Command(list_groups=ListGroups()))
    listing = ListTransactions(duration_ms=-1)
    transactions = await control.call(Command(list_transactions=listing))
    return site.render(
        request,
        "cluster.html",
        agents=sorted(control.cluster.agents, key=lambda agent: agent.node_id),
        hidden=sorted(control.cluster.hidden_agents, key=lambda agent: agent.node_id),
        statuses=await site.sources.status(),
        topics=len(topics),
        partitions=sum(topic.partition_count for topic in topics),
        size=sum(found.size for found in sample.topics.values()),
        retained=sum(found.retained for found in sample.topics.values()),
        waiting=sum(found.waiting for found in sample.topics.values()),
        rate=sum(rates.values()) if rates else None,
        left_out=sample.left_out,
        groups=Counter(group.state for group in groups.groups_listed.groups),
        transactions=Counter(
            found.state for found in transactions.transactions_listed.transactions
        ),
        numbers=await _numbers(site),
    )


async def _numbers(site: Site) -> dict[str, object] | None:
    """What the process counts itself, if it is part of the cluster."""
    observed = site.sources.observed
    if observed is None:
        return None
    values: dict[str, dict[str, float]] = {}
    priced = ""
    for metric in (await observed.families()).collect():
        if metric.name == "lacuna_store_cost_dollars":
            priced = metric.documentation.partition("(")[2].rpartition(")")[0]
        for found in metric.samples:
            label = next(iter(found.labels.values()), "")
            values.setdefault(metric.name, {})[label] = found.value
    single = {name: next(iter(found.values())) for name, found in values.items()}
    store = StoreUse(
        requests=values.get("lacuna_store_requests", {}),
        written=values.get("lacuna_store_bytes", {}).get("written", 0.0),
        read=values.get("lacuna_store_bytes", {}).get("read", 0.0),
        dollars=single.get("lacuna_store_cost_dollars", 0.0),
        priced=priced,
    )
    lookups = values.get("lacuna_cache_lookups", {})
    return {
        "store": store,
        "cache_hits": lookups.get("hit", 0.0),
        "cache_lookups": sum(lookups.values()),
        **{
            name: single.get(f"lacuna_{name}", 0.0)
            for name in (
                "connections",
                "requests_failed",
                "journal_records",
                "journal_pending_records",
                "backlog_commands",
                "sessions",
                "objects",
                "extents",
                "dead_ranges",
                "oldest_transaction_seconds",
                "partitions_blocked",
            )
        },
    }
