"""The page for a partition, with a strip that shows its log, and the page that explains gaps in offsets."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from lacuna.console import limits
from lacuna.console.rights import Rights
from lacuna.console.site import NotThere, Site, rights_of, whole
from lacuna.console.strip import Kind, Range, Strip, Window, draw, open_from
from lacuna.console.topics import find_partition, topic_named
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.v1.cluster_pb2 import Topic, TopicPartition
from lacuna.logstore.segments.hot import show_segment
from lacuna.operating import questions
from lacuna.operating.questions import producers_in, read_partitions

_FACTOR: Final = 4
#: Up to this many offsets are shown individually.
_SINGLE: Final = 64


class Mark(NamedTuple):
    """A labelled position; `kind` is start, stable, end or group."""

    kind: str
    name: str
    offset: int


class Zoom(NamedTuple):
    """A link to another window of offsets, [first, end)."""

    name: str
    first: int
    end: int
    is_here: bool


async def page(site: Site, request: Request) -> Response:
    """Show the strip for a window of offsets; by default, the whole partition."""
    topic, index = await find_partition(site, request)
    rights = rights_of(request)
    control = site.sources.control
    key = TopicPartition(topic_id=topic.topic_id, partition=index)
    (state,) = await read_partitions(control, [key])
    (producers,) = await producers_in(control, [key])
    positions = await _positions(control, key, rights)
    view = control.partition(topic.topic_id, index)
    await view.ready()
    high = view.high_watermark
    query = request.query_params
    first = min(whole(query, "from", 0), max(high - 1, 0))
    end = min(max(whole(query, "to", high), first + 1), high)
    marks = [
        Mark("start", "log start", view.log_start_offset),
        Mark("stable", "last stable", view.last_stable_offset),
        Mark("end", "high watermark", high),
        *(Mark("group", name, offset) for name, offset in sorted(positions.items())),
    ]
    context: dict[str, Any] = {"strip": None}
    if high:
        starts = open_from(producers.producers)
        strip = await asyncio.to_thread(draw, Window.of(view, first, end, starts))
        context = {
            "strip": strip,
            "names": await _names(control, strip, starts, rights),
            "segments": {each.first: _segment(each) for each in strip.ranges},
            "zooms": _zooms(strip, high, view.last_stable_offset),
            "is_single": end - first <= _SINGLE and not strip.columns,
        }
    return site.render(
        request,
        "partition.html",
        topic=topic,
        index=index,
        path=f"/topics/{topic.name}/{index}",
        state=state,
        extents=len(view.extents),
        marks=marks,
        **context,
    )


async def holes_page(site: Site, request: Request) -> Response:
    """Show the explanations and, if the query names a topic, partition and offset, what kind of offset it is."""
    query = request.query_params
    context: dict[str, Any] = {"topic": "", "partition": 0, "offset": 0, "kind": ""}
    if name := query.get("topic", "").strip():
        topic = await topic_named(site, request, name)
        rights_of(request).check_reads(name)
        index, offset = whole(query, "partition", 0), whole(query, "offset", 0)
        if index >= topic.partition_count:
            raise NotThere(f"Topic {name} has no partition {index}.")
        kind = await _kind_of(site.sources.control, topic, index, offset)
        context = {"topic": name, "partition": index, "offset": offset, "kind": kind}
    return site.render(request, "holes.html", **context)


async def _kind_of(control: ControlClient, topic: Topic, index: int, offset: int) -> Kind | str:
    """Return the kind of an offset, or "later" if the partition has not reached it yet."""
    key = TopicPartition(topic_id=topic.topic_id, partition=index)
    (producers,) = await producers_in(control, [key])
    view = control.partition(topic.topic_id, index)
    await view.ready()
    if offset >= view.high_watermark:
        return "later"
    window = Window.of(view, offset, offset + 1, open_from(producers.producers))
    (part,) = (await asyncio.to_thread(draw, window)).ranges
    return part.kind


def _segment(part: Range) -> str:
    return show_segment(part.lease_id, part.sequence) if part.extents else ""


async def _names(
    control: ControlClient, strip: Strip, starts: Mapping[int, int], rights: Rights
) -> dict[int, str]:
    """Return the transactional ids, as far as known, of the producers in a strip."""
    ids = {each.producer_id for each in strip.ranges if each.producer_id >= 0} | set(starts)
    if not ids:
        return {}
    return {
        each.producer_id: each.transactional_id
        for each in await questions.transactions(control, producer_ids=sorted(ids))
        if rights.transaction(each.transactional_id)
    }


async def _positions(control: ControlClient, key: TopicPartition, rights: Rights) -> dict[str, int]:
    """Return each group's committed offset in a partition."""
    groups = await questions.groups(control)
    ids = [each.group_id for each in groups if rights.group(each.group_id)][: limits.GROUPS]
    offsets = await questions.offsets_of(control, ids, [key])
    return {
        group_id: fetched.offsets[0].offset
        for group_id, fetched in zip(ids, offsets, strict=True)
        if fetched.offsets and fetched.offsets[0].offset >= 0
    }


def _zooms(strip: Strip, high: int, last_stable: int) -> list[Zoom]:
    first, end = strip.first, strip.end
    width = end - first
    middle = (first + end) // 2

    def to(name: str, begin: int, size: int) -> Zoom:
        size = max(1, min(size, high))
        begin = max(0, min(begin, high - size))
        return Zoom(name, begin, begin + size, (begin, begin + size) == (first, end))

    closer = max(1, width // _FACTOR)
    return [
        to("Earlier", first - max(1, width // 2), width),
        to("Zoom in", middle - closer // 2, closer),
        to("Zoom out", middle - width * _FACTOR // 2, width * _FACTOR),
        to("Later", first + max(1, width // 2), width),
        to("Everything", 0, high),
        to("Last stable offset", last_stable - closer // 2, closer),
        to("End", high - closer, closer),
    ]
