"""The page of messages: records of a partition from an offset or a time on, fetched as a consumer fetches them."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from lacuna.console import formats, limits
from lacuna.console.site import BadRequest, Site, whole
from lacuna.console.topics import find_partition
from lacuna.controlplane.client.views import PartitionView
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.log.live import is_dead
from lacuna.logstore.records.batch import Record, read_batches
from lacuna.logstore.records.errors import RecordsError
from lacuna.operating.kafka import Agents, KafkaConnection
from lacuna.wire.messages.fetch import (
    FETCH_REQUEST,
    FETCH_RESPONSE,
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from lacuna.wire.messages.list_offsets import (
    LIST_OFFSETS_REQUEST,
    LIST_OFFSETS_RESPONSE,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

_BY_NAME: Final = 12
#: Records that exist as objects at the same time.
_GROUP: Final = 1000
FORMATS: Final = ("auto", "text", "json", "hex")
ISOLATIONS: Final = {"read_committed": 1, "read_uncommitted": 0}


class Cell(NamedTuple):
    """A key or a value on the page: text, its decoding, its size in bytes, and whether it was cut."""

    text: str
    form: str
    size: int
    is_cut: bool


class Message(NamedTuple):
    """A record on the page. `fate` is empty for a record that every consumer receives."""

    offset: int
    timestamp: int
    key: Cell
    value: Cell
    headers: Sequence[tuple[str, str]]
    fate: str


class Search(NamedTuple):
    """A search for the first `most` messages with `wanted` in their key or value, decoded as `how`."""

    most: int
    isolation: int
    wanted: str
    how: str


class Found(NamedTuple):
    """Messages, and the offset after the last one that was examined."""

    messages: Sequence[Message]
    reached: int
    looked_at: int


async def page(site: Site, request: Request) -> Response:
    """Answer with a page of messages."""
    topic, index = await find_partition(site, request)
    view = site.sources.control.partition(topic.topic_id, index)
    await view.ready()
    query = request.query_params
    how = query.get("as", "auto")
    isolation = query.get("isolation", "read_committed")
    if how not in FORMATS or isolation not in ISOLATIONS:
        raise BadRequest(
            "as is auto, text, json or hex; isolation is read_committed or read_uncommitted"
        )
    count = min(max(whole(query, "count", 25), 1), limits.RECORDS)
    wanted = query.get("q", "")
    latest = view.last_stable_offset if ISOLATIONS[isolation] else view.high_watermark
    async with connection_to(site.agents(request)) as connection:
        if when := query.get("time", "").strip():
            start = await _at_time(connection, topic.name, index, _milliseconds(when), isolation)
            start = latest if start < 0 else start
        else:
            start = whole(query, "from", max(view.log_start_offset, latest - count))
        start = max(start, view.log_start_offset)
        search = Search(count, ISOLATIONS[isolation], wanted, how)
        found = await _search(connection, topic.name, view, start, search, site.sources.seconds)
    return site.render(
        request,
        "messages.html",
        topic=topic,
        index=index,
        path=f"/topics/{topic.name}/{index}",
        start=start,
        count=count,
        how=how,
        formats=FORMATS,
        isolation=isolation,
        isolations=list(ISOLATIONS),
        q=wanted,
        time=when,
        found=found,
        latest=latest,
        log_start=view.log_start_offset,
        high_watermark=view.high_watermark,
    )


def connection_to(agents: Agents) -> KafkaConnection:
    """Return a connection to an agent, which rejects responses larger than a page may cost."""
    return KafkaConnection(agents, limits.ASK_SECONDS, limits.RESPONSE_BYTES)


async def _search(
    connection: KafkaConnection,
    topic: str,
    view: PartitionView,
    start: int,
    search: Search,
    seconds: Callable[[], float],
) -> Found:
    """Return the messages from `start` on, within the bounds of a page."""
    ends = seconds() + limits.SCAN_SECONDS
    messages: list[Message] = []
    reached, looked_at = start, 0
    for _ in range(limits.SCANS if search.wanted else 1):
        data = await fetch(connection, topic, view.partition, reached, search.isolation)
        if not data:
            break
        left = search._replace(most=search.most - len(messages))
        decoded, seen, reached = await asyncio.to_thread(
            _decoded, data, reached, left, view, lambda: seconds() > ends
        )
        messages += decoded
        looked_at += seen
        if len(messages) == search.most or seconds() > ends:
            break
    return Found(messages, reached, looked_at)


async def fetch(
    connection: KafkaConnection,
    topic: str,
    partition: int,
    offset: int,
    isolation: int,
    wait_ms: int = 0,
) -> bytes:
    """Return the batches of one Fetch; none at the end of the log.

    Raises BootstrapUnavailable, and BadRequest if the partition cannot be read there.
    """
    query = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=limits.FETCH_BYTES)
    response = await connection.ask(
        FETCH_REQUEST,
        FETCH_RESPONSE,
        _BY_NAME,
        FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=limits.FETCH_BYTES,
            isolation_level=isolation,
            topics=[FetchTopic(topic, partitions=[query])],
        ),
    )
    if not response.responses:
        return b""
    answer = response.responses[0].partitions[0]
    if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return b""
    if answer.error_code:
        code = ErrorCode(answer.error_code).name
        raise BadRequest(f"the agent answers {code} for {topic} [{partition}] at offset {offset}")
    return b"".join(answer.records or ())


def records_of(data: bytes, offset: int) -> Iterator[Record]:
    """Yield the records of batches from `offset` on, few of them as objects at a time.

    Raises BadRequest if they cannot be read.
    """
    try:
        for batch in read_batches(data):
            if not batch.header.is_control:
                for group in batch.record_groups(_GROUP, limits.BATCH_BYTES):
                    yield from (each for each in group if each.offset >= offset)
    except RecordsError as error:
        raise BadRequest(f"the records after offset {offset} cannot be read: {error}") from error


def end_of(data: bytes, offset: int) -> int:
    """Return the offset after the last batch, or `offset` if there are no batches."""
    return max(
        (batch.header.next_offset for batch in read_batches(data, verify=False)), default=offset
    )


def _decoded(
    data: bytes, offset: int, search: Search, view: PartitionView, is_over: Callable[[], bool]
) -> tuple[list[Message], int, int]:
    """Return messages from `offset` on, the number of examined records, and the offset at which to continue."""
    needle = search.wanted.encode()
    messages: list[Message] = []
    seen = 0
    for record in records_of(data, offset):
        if len(messages) == search.most or (seen and is_over()):
            return messages, seen, record.offset
        seen += 1
        if not needle or needle in (record.key or b"") or needle in (record.value or b""):
            messages.append(message(record, view, search.how))
    return messages, seen, end_of(data, offset)


def message(record: Record, view: PartitionView, how: str) -> Message:
    """Return a record in the form of the page."""
    fate = ""
    if is_dead(view.dead, record.offset):
        fate = "aborted"
    elif record.offset >= view.last_stable_offset:
        fate = "not stable yet"
    headers = [
        (
            formats.name(name.decode("utf-8", "replace")),
            formats.shown(value, how, limits.SHOWN_BYTES)[0],
        )
        for name, value in list(record.headers)[:20]
    ]
    return Message(
        record.offset,
        record.timestamp,
        _cell(record.key, how),
        _cell(record.value, how),
        headers,
        fate,
    )


def _cell(data: bytes | None, how: str) -> Cell:
    text, form, is_cut = formats.shown(data, how, limits.SHOWN_BYTES)
    return Cell(text, form, len(data or b""), is_cut)


async def _at_time(
    connection: KafkaConnection, topic: str, partition: int, timestamp: int, isolation: str
) -> int:
    """Return the first offset with a timestamp of at least `timestamp`, or -1."""
    queries = [ListOffsetsPartition(partition, timestamp=timestamp)]
    response = await connection.ask(
        LIST_OFFSETS_REQUEST,
        LIST_OFFSETS_RESPONSE,
        9,
        ListOffsetsRequest(-1, ISOLATIONS[isolation], [ListOffsetsTopic(topic, queries)]),
    )
    answer = response.topics[0].partitions[0]
    if answer.error_code:
        raise BadRequest(f"the agent answers {ErrorCode(answer.error_code).name} for this time")
    return answer.offset


def _milliseconds(text: str) -> int:
    """Return the milliseconds since 1970 of a time in UTC, or of a number. Raises BadRequest."""
    if text.isascii() and text.isdecimal() and len(text) <= 15:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadRequest(
            f"{text[:40]!r} is not a time: write one such as 2026-01-31T12:30, in UTC"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def as_json(each: Message) -> dict[str, Any]:
    """Return a message in the form that the page's script reads."""
    return {
        "offset": each.offset,
        "time": formats.moment(each.timestamp),
        "key": each.key.text,
        "value": each.value.text,
    }
