"""The page of merges and compaction: the bytes that they reclaimed, their pending work, and their failures."""

from operator import attrgetter

from starlette.requests import Request
from starlette.responses import Response

from lacuna.console.site import Paging, Site, rights_of
from lacuna.controlplane.client import confirm
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import DescribeMerges


async def page(site: Site, request: Request) -> Response:
    """Answer with the page."""
    rights = rights_of(request)
    control = site.sources.control
    await confirm(control)
    await control.cluster.ready()
    every = control.cluster.topics_by_name.values()
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
