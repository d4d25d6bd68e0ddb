"""The page of the cluster: its agents and control planes, its contents, its load, and the cost of its store."""

from collections import Counter
from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lacuna.console.site import Site, rights_of
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import ListGroups
from lacuna.controlplane.v1.reports_pb2 import AgentReport
from lacuna.controlplane.v1.transactions_pb2 import ListTransactions

_SUMMED = ("puts", "gets", "heads", "lists", "deletes", "bytes_written", "bytes_read", "dollars")


async def page(site: Site, request: Request) -> Response:
    """Answer with the page. Users that may not describe the cluster receive the list of their topics."""
    if not rights_of(request).sees_cluster:
        return RedirectResponse("/topics", 303)
    control = site.sources.control
    sample = await site.sampler.newest()
    rates = site.sampler.rates(sample)
    topics = control.cluster.topics_by_id.values()
    groups = await control.call(Command(list_groups=ListGroups()))
    listing = ListTransactions(duration_ms=-1)
    transactions = await control.call(Command(list_transactions=listing))
    described = await site.sources.describe_cluster()
    leased = {each.agent.node_id for each in described.agents}
    return site.render(
        request,
        "cluster.html",
        agents=described.agents,
        gone=[each for each in control.cluster.hidden_agents if each.node_id not in leased],
        serving=len(control.cluster.agents),
        statuses=await site.sources.status(),
        topics=len(topics),
        partitions=sum(topic.partition_count for topic in topics),
        size=sum(topic.size for topic in sample.topics.values()),
        retained=sum(topic.retained for topic in sample.topics.values()),
        waiting=sum(topic.waiting for topic in sample.topics.values()),
        rate=sum(rates.values()) if rates else None,
        left_out=sample.left_out,
        groups=Counter(group.state for group in groups.groups_listed.groups),
        transactions=Counter(
            topic.state for topic in transactions.transactions_listed.transactions
        ),
        index=described,
        load=load_of(each.report for each in described.agents if each.HasField("report")),
        silent=sum(not each.HasField("report") for each in described.agents),
    )


def load_of(reports: Iterable[AgentReport]) -> AgentReport:
    """Return the sums of the load and of the store's requests over all agents."""
    load = AgentReport()
    for each in reports:
        for name in ("connections", "requests", "requests_failed", "cache_hits", "cache_lookups"):
            setattr(load, name, getattr(load, name) + getattr(each, name))
        for name in _SUMMED:
            setattr(load.store, name, getattr(load.store, name) + getattr(each.store, name))
        load.store.prices = load.store.prices or each.store.prices
    return load
