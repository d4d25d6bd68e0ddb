"""The Messages pages, for a topic or a partition, starting at an offset, a time or the end."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final, NamedTuple

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lacuna.console import formats, limits
from lacuna.console.decoding import Decoding, schema_id_of
from lacuna.console.reading import (
    PLACES,
    Found,
    Placed,
    Positions,
    Reader,
    Wanted,
    connection_to,
    read_back,
    read_on,
)
from lacuna.console.site import BadRequest, Site, link, whole
from lacuna.console.topics import find_partition, find_topic
from lacuna.controlplane.client.times import time_of
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.log.live import is_dead
from lacuna.controlplane.v1.cluster_pb2 import Topic, TopicPartition
from lacuna.controlplane.v1.log_pb2 import PartitionState
from lacuna.operating.points import Kind, point_of
from lacuna.operating.questions import read_partitions

FORMATS: Final = ("auto", "text", "json", "hex")
ISOLATIONS: Final = {"read_committed": 1, "read_uncommitted": 0}
#: The columns that a visitor can choose, and the columns that are shown by default.
COLUMNS: Final = ("partition", "offset", "time", "key", "value", "headers", "size")
_USUAL: Final = frozenset(COLUMNS[:5])
#: What a visitor can enter as a place in each partition.
WRITTEN_PLACES: Final = (
    "earliest, end, end-100, an offset, a time such as 2026-01-31T12:30 (UTC), or 10m (ago)"
)


class Cell(NamedTuple):
    """A key or value as shown: its text, its format, its size in bytes, and whether the text is truncated."""

    text: str
    form: str
    size: int
    is_cut: bool

    @property
    def line(self) -> str:
        """The start of the text, on one line."""
        return " ".join(self.text[: 2 * limits.LINE_CHARACTERS].split())[: limits.LINE_CHARACTERS]


class Message(NamedTuple):
    """A record as shown. `fate` is empty if every consumer receives the record."""

    partition: int
    offset: int
    timestamp: int
    key: Cell
    value: Cell
    headers: Sequence[tuple[str, str]]
    fate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How messages are read and shown: the parameters common to all addresses of the Messages pages."""

    count: int
    how: str
    isolation: str
    columns: frozenset[str]
    wanted: Wanted

    @classmethod
    def of(cls, query: QueryParams) -> "Shape":
        """Parse the parameters. Raises BadRequest."""
        how, isolation = query.get("as", "auto"), query.get("isolation", "read_committed")
        if how not in FORMATS or isolation not in ISOLATIONS:
            raise BadRequest(
                "as must be auto, text, json or hex; isolation must be read_committed or read_uncommitted"
            )
        wanted = Wanted(query.get("q", ""), query.get("in", "anywhere"))
        columns = frozenset(query.getlist("col"))
        if wanted.where not in PLACES or not columns <= set(COLUMNS):
            raise BadRequest(
                f"in must be one of {', '.join(PLACES)}; col must be one of {', '.join(COLUMNS)}"
            )
        return cls(
            count=min(max(whole(query, "count", 25), 1), limits.RECORDS),
            how=how,
            isolation=isolation,
            columns=columns or _USUAL,
            wanted=wanted,
        )

    @property
    def level(self) -> int:
        return ISOLATIONS[self.isolation]

    @property
    def shown_bytes(self) -> int:
        """How many bytes of a key or value to show."""
        return limits.SINGLE_BYTES if self.count == 1 else limits.SHOWN_BYTES

    def address(self, path: str, **position: object) -> str:
        """Return the address of messages at another position, shown in the same way."""
        shape: dict[str, object] = {
            "count": self.count,
            "as": self.how,
            "isolation": self.isolation,
            "q": self.wanted.text or None,
            "in": self.wanted.where if self.wanted.text else None,
            "col": None if self.columns == _USUAL else sorted(self.columns),
        }
        return link(path, **(shape | position))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of a page's partitions at one isolation level."""

    topic: Topic
    states: Mapping[int, PartitionState]
    level: int

    @property
    def starts(self) -> Positions:
        return {each: state.log_start_offset for each, state in self.states.items()}

    @property
    def stable(self) -> Positions:
        return {each: state.last_stable_offset for each, state in self.states.items()}

    @property
    def ends(self) -> Positions:
        """The offset at which each partition ends for a reader."""
        return self.stable if self.level else self.high_watermarks

    @property
    def high_watermarks(self) -> Positions:
        return {each: state.high_watermark for each, state in self.states.items()}

    def positions(self, query: QueryParams, name: str) -> Positions | None:
        """Parse positions formatted by `cursor`, and limit them to the bounds. Raises BadRequest."""
        text = query.get(name)
        if not text:
            return None
        offsets = text.split(".")
        if len(offsets) != len(self.states):
            raise BadRequest(f"{name} has {len(offsets)} offsets: specify {len(self.states)}")
        starts, ends = self.starts, self.high_watermarks
        return {
            each: min(max(whole({name: offset}, name, 0), starts[each]), ends[each])
            for each, offset in zip(self.states, offsets, strict=True)
        }


async def bounds_of(site: Site, topic: Topic, partitions: Sequence[int], level: int) -> Bounds:
    """Fetch the partitions' bounds. Raises ControlPlaneUnavailable."""
    keys = [TopicPartition(topic_id=topic.topic_id, partition=each) for each in partitions]
    states = await read_partitions(site.sources.control, keys)
    # A topic that was deleted in the meantime has no partitions.
    found = {
        each: state
        for each, state in zip(partitions, states, strict=True)
        if state.error_code == ErrorCode.NONE
    }
    return Bounds(topic=topic, states=found, level=level)


def partitions_of(topic: Topic, query: QueryParams) -> Sequence[int]:
    """Return the partitions for one page, which starts at the parameter `first`. Raises BadRequest."""
    first = min(whole(query, "first", 0), topic.partition_count - 1)
    return range(first, min(first + limits.PARTITIONS, topic.partition_count))


def cursor(positions: Positions) -> str:
    """Format positions for a query parameter."""
    return ".".join(map(str, positions.values()))


async def page(site: Site, request: Request) -> Response:
    """Show messages from one partition."""
    topic, index = await find_partition(site, request)
    return await _page(site, request, topic, [index], f"/topics/{topic.name}/{index}")


async def topic_page(site: Site, request: Request) -> Response:
    """Show messages from all partitions of a topic, in chronological order."""
    topic = await find_topic(site, request)
    query = request.query_params
    path = f"/topics/{topic.name}"
    if query.get("partition", "").strip():
        index = min(whole(query, "partition", 0), topic.partition_count - 1)
        given = [(key, value) for key, value in query.multi_items() if key not in _OF_TOPIC]
        return RedirectResponse(
            f"{path}/{index}/messages" + (f"?{QueryParams(given)}" if given else ""), 303
        )
    return await _page(site, request, topic, partitions_of(topic, query), path)


#: Parameters that only a topic's page has.
_OF_TOPIC: Final = frozenset({"partition", "first", "after", "before"})


async def _page(
    site: Site, request: Request, topic: Topic, partitions: Sequence[int], path: str
) -> Response:
    query = request.query_params
    shape = Shape.of(query)
    bounds = await bounds_of(site, topic, partitions, shape.level)
    async with connection_to(site.agents(request)) as connection:
        reader = Reader(connection, topic.name, shape.level, site.sources.seconds)
        found = await _read(reader, bounds, shape, query, site.sources.now_ms())
    is_topic = path.count("/") == 2
    first: dict[str, object] = {"first": partitions[0] or None} if is_topic else {}

    def to(**position: object) -> str:
        return shape.address(f"{path}/messages", **(first | position))

    live = f"/live{path.removeprefix('/topics')}"
    end_of_topic = topic.partition_count - 1
    return site.render(
        request,
        "messages.html",
        topic=topic,
        index=None if is_topic else partitions[0],
        first=partitions[0],
        last=partitions[-1],
        more=to(first=partitions[-1] + 1) if is_topic and partitions[-1] < end_of_topic else "",
        path=path,
        shape=shape,
        columns=[each for each in COLUMNS if each in shape.columns],
        all_columns=COLUMNS,
        formats=FORMATS,
        isolations=list(ISOLATIONS),
        places=PLACES,
        start=query.get("from", "").strip(),
        time=query.get("time", "").strip(),
        messages=await messages_of(site, topic, found.records, shape),
        found=found,
        oldest=to(after=cursor(bounds.starts)),
        earlier=to(before=cursor(found.firsts), q=None),
        later=to(after=cursor(found.reached)),
        newest=to(q=None),
        stable=to(seek="stable", isolation="read_uncommitted", q=None),
        has_more=any(at < bounds.ends[each] for each, at in found.reached.items()),
        held_back=sum(bounds.high_watermarks.values()) - sum(bounds.stable.values()),
        log_start=sum(bounds.starts.values()) if not is_topic else None,
        high_watermark=sum(bounds.high_watermarks.values()) if not is_topic else None,
        last_stable=sum(bounds.stable.values()) if not is_topic else None,
        tail=shape.address(f"{live}/messages", **first, count=None),
        search=shape.address(f"{live}/search", **first, after=cursor(found.reached)),
    )


async def _read(
    reader: Reader, bounds: Bounds, shape: Shape, query: QueryParams, now_ms: int
) -> Found:
    """Read messages at the position in the query, or the newest if it has none."""
    before = bounds.positions(query, "before")
    starts = bounds.positions(query, "after")
    if query.get("seek") == "stable":
        starts = bounds.stable
    elif when := query.get("time", "").strip():
        at = await reader.at_time(bounds.states, milliseconds(when, now_ms))
        starts = {
            each: bounds.ends[each] if offset < 0 else max(offset, bounds.starts[each])
            for each, offset in at.items()
        }
    elif query.get("from", "").strip():
        offset = whole(query, "from", 0)
        starts = {each: max(offset, start) for each, start in bounds.starts.items()}
    elif shape.wanted.text and starts is None:
        starts = bounds.starts
    if starts is not None:
        wanted = shape.wanted if shape.wanted.text else None
        return await read_on(reader, starts, bounds.ends, shape.count, wanted)
    return await read_back(reader, bounds.starts, before or bounds.ends, shape.count)


async def messages_of(
    site: Site, topic: Topic, records: Sequence[Placed], shape: Shape
) -> list[Message]:
    """Prepare records for display. Raises ControlPlaneUnavailable."""
    fates: dict[tuple[int, int], str] = {}
    if not shape.level:
        for index in {each.partition for each in records}:
            view = site.sources.control.partition(topic.topic_id, index)
            await view.ready()
            for at in (each.record.offset for each in records if each.partition == index):
                if is_dead(view.dead, at):
                    fates[index, at] = "aborted"
                elif at >= view.last_stable_offset:
                    fates[index, at] = "not stable yet"
    decoding = site.decoding if shape.how == "auto" else None
    if decoding is not None:
        texts = (text for each in records for text in (each.record.key, each.record.value))
        await decoding.prepare(filter(None, map(schema_id_of, texts)))
    return await asyncio.to_thread(
        lambda: [
            _message(each, shape, fates.get((each.partition, each.record.offset), ""), decoding)
            for each in records
        ]
    )


def _message(placed: Placed, shape: Shape, fate: str, decoding: Decoding | None) -> Message:
    record = placed.record
    headers = [
        (
            formats.name(name.decode("utf-8", "replace")),
            formats.shown(value, shape.how, limits.HEADER_BYTES)[0],
        )
        for name, value in record.headers
    ]
    return Message(
        placed.partition,
        record.offset,
        record.timestamp,
        _cell(record.key, record.key_size, shape, decoding),
        _cell(record.value, record.value_size, shape, decoding),
        headers,
        fate,
    )


def _cell(data: bytes | None, size: int, shape: Shape, decoding: Decoding | None) -> Cell:
    if decoding is not None and data is not None and len(data) == size:
        if (found := decoding.decode(data)) is not None:
            text, _, is_cut = formats.shown(found[0].encode(), "json", shape.shown_bytes)
            return Cell(text, found[1], size, is_cut)
        if reason := decoding.why_not(data):
            text, form, is_cut = formats.shown(data, shape.how, shape.shown_bytes)
            return Cell(text, f"{form}; {reason}", size, is_cut)
    text, form, is_cut = formats.shown(data, shape.how, shape.shown_bytes)
    return Cell(text, form, size, is_cut or size > len(data or b""))


async def place_of(site: Site, request: Request, bounds: Bounds, text: str) -> Positions:
    """Resolve the position that a visitor has entered to an offset in each partition. Raises BadRequest.

    "end" means the last stable offset, so that no record of an open transaction precedes it.
    """
    starts, stable, ends = bounds.starts, bounds.stable, bounds.high_watermarks
    point = point_of(text, site.sources.now_ms(), UTC)
    if point is None:
        raise BadRequest(f"{text[:40]!r} is not a position: enter {WRITTEN_PLACES}")
    if point.kind is Kind.EARLIEST:
        return starts
    if point.kind is Kind.END:
        return {each: max(at - point.value, starts[each]) for each, at in stable.items()}
    if point.kind is Kind.OFFSET:
        return {each: min(max(point.value, start), ends[each]) for each, start in starts.items()}
    async with connection_to(site.agents(request)) as connection:
        reader = Reader(connection, bounds.topic.name, bounds.level, site.sources.seconds)
        found = await reader.at_time(bounds.states, point.value)
    return {each: stable[each] if offset < 0 else offset for each, offset in found.items()}


def milliseconds(text: str, now_ms: int) -> int:
    """Parse a time in UTC, a duration before now (10m or -10m), or a number, into milliseconds since 1970.

    A time before 1970 becomes 0, because negative times have other meanings in Kafka. Raises BadRequest.
    """
    if text.isascii() and text.isdecimal() and len(text) <= 15:
        return int(text)
    found = time_of(text, now_ms, UTC)
    if found is None:
        raise BadRequest(
            f"{text[:40]!r} is not a time: enter one such as 2026-01-31T12:30, in UTC, or 10m for ten minutes ago"
        )
    return found


def rows_of(site: Site, topic: Topic, messages: Sequence[Message], shape: Shape) -> str:
    """Render messages as rows for the page's script, exactly as the page itself does."""
    module: Any = site.templates.get_template("parts.html").module
    columns = [each for each in COLUMNS if each in shape.columns]
    return "".join(module.message_row(each, topic.name, columns) for each in messages)
