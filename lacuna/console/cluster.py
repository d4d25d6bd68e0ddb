"""The pages for the cluster as a whole, its merges, its importers, and the search."""

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lacuna.console import limits
from lacuna.console.rights import Rights
from lacuna.console.site import Paging, Site, link, rights_of
from lacuna.controlplane.shared.ids import show_id
from lacuna.controlplane.shared.topic_configs import MIRROR_SOURCE
from lacuna.controlplane.v1.cluster_pb2 import AgentReport
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import DescribeMerges
from lacuna.operating import questions

_SUMMED = ("puts", "gets", "heads", "lists", "deletes", "bytes_written", "bytes_read", "dollars")


async def page(site: Site, request: Request) -> Response:
    """Return the page, or just a list of topics for a user who may not describe the cluster."""
    if not rights_of(request).sees_cluster:
        return RedirectResponse("/topics", 303)
    control = site.sources.control
    sample = await site.sampler.newest()
    rates = site.sampler.rates(sample)
    topics = control.cluster.topics_by_id.values()
    groups = await questions.groups(control)
    transactions = await questions.transactions(control)
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
        groups=Counter(group.state for group in groups),
        transactions=Counter(each.state for each in transactions),
        index=described,
        load=load_of(each.report for each in described.agents if each.HasField("report")),
        lines=site.history.lines(),
        silent=sum(not each.HasField("report") for each in described.agents),
    )


def load_of(reports: Iterable[AgentReport]) -> AgentReport:
    """Return the totals of all agents' load and of their requests to the store."""
    load = AgentReport()
    for each in reports:
        for name in ("connections", "requests", "requests_failed", "cache_hits", "cache_lookups"):
            setattr(load, name, getattr(load, name) + getattr(each, name))
        for name in _SUMMED:
            setattr(load.store, name, getattr(load.store, name) + getattr(each.store, name))
        load.store.prices = load.store.prices or each.store.prices
    return load


async def merges_page(site: Site, request: Request) -> Response:
    """Show what merges and compaction have reclaimed, what they still have to do, and their failures."""
    rights = rights_of(request)
    control = site.sources.control
    every = (await questions.current(control)).topics_by_name.values()
    topics = sorted((each for each in every if rights.topic(each.name)), key=attrgetter("name"))
    paging = Paging.of(request.query_params, len(topics))
    shown = topics[paging.first : paging.stop]
    names = {topic.topic_id: topic.name for topic in shown}
    reply = await control.call(Command(describe_merges=DescribeMerges(topic_ids=names)))
    done = reply.merges_described
    agents = (await site.sources.describe_cluster()).agents
    return site.render(
        request,
        "merges.html",
        found=done,
        rows=[(names[each.topic_id], each) for each in done.topics],
        left_out=sum(each.partitions_left_out for each in done.topics),
        paging=paging,
        agents=[each for each in agents if each.report.HasField("merges")],
        failures=sum(each.report.merges.failures for each in agents),
    )


#: The maximum number of importers that the Imports page shows.
_MOST_IMPORTERS: Final = 100


async def imports_page(site: Site, request: Request) -> Response:
    """Show the mirrors, and the running importers as of their last reports."""
    cluster = await questions.current(site.sources.control)
    rights = rights_of(request)
    mirrors = sorted(
        (
            (topic, topic.configs[MIRROR_SOURCE])
            for topic in cluster.topics_by_name.values()
            if topic.configs.get(MIRROR_SOURCE) and rights.topic(topic.name)
        ),
        key=lambda each: each[0].name,
    )
    paging = Paging.of(request.query_params, len(mirrors))
    importers = (await site.sources.describe_cluster()).importers
    return site.render(
        request,
        "imports.html",
        importers=importers[:_MOST_IMPORTERS],
        importers_left_out=len(importers[_MOST_IMPORTERS:]),
        rows=mirrors[paging.first : paging.stop],
        paging=paging,
    )


class Hit(NamedTuple):
    """A search result: the kind of thing that was found, its name, further facts, and the address of its page."""

    kind: str
    name: str
    about: str
    path: str


async def search_page(site: Site, request: Request) -> Response:
    """Show the topics, groups, transactional ids, producer ids and client ids that contain a text."""
    wanted = request.query_params.get("q", "").strip()
    hits = await _hits(site, rights_of(request), wanted) if wanted else []
    return site.render(request, "search.html", q=wanted, hits=hits[: limits.ROWS], count=len(hits))


async def _hits(site: Site, rights: Rights, wanted: str) -> list[Hit]:
    """Search without regard to case. Exact matches come first."""
    control, text = site.sources.control, wanted.lower()
    cluster = await questions.current(control)
    found = [
        Hit("topic", each.name, f"id {show_id(each.topic_id)}", f"/topics/{each.name}")
        for each in cluster.topics_by_name.values()
        if rights.topic(each.name)
        and (text in each.name.lower() or wanted == show_id(each.topic_id))
    ]
    found += [
        Hit("group", each.group_id, each.state, link("/groups/group", id=each.group_id))
        for each in await questions.groups(control)
        if rights.group(each.group_id) and text in each.group_id.lower()
    ]
    found += [
        Hit(
            "transactional id",
            each.transactional_id,
            f"producer id {each.producer_id}, {each.state}",
            link("/transactions", q=each.transactional_id),
        )
        for each in await questions.transactions(control)
        if rights.transaction(each.transactional_id)
        and (text in each.transactional_id.lower() or wanted == str(each.producer_id))
    ]
    if rights.sees_cluster:
        agents = (await site.sources.describe_cluster()).agents
        clients = {
            (of.name, each)
            for agent in agents
            for of in agent.report.clients
            for each in of.client_ids
        }
        found += [
            Hit("client id", each, name, "/clients")
            for name, each in clients
            if text in each.lower()
        ]
    return sorted(found, key=lambda hit: (hit.name != wanted, _KINDS.index(hit.kind), hit.name))


_KINDS: Final = ("topic", "group", "transactional id", "client id")
