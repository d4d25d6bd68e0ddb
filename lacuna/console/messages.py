"""The page of messages: records of a partition from an offset or a time on, fetched as any consumer would."""

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
#: Records that are objects at a time.
_GROUP: Final = 1000
FORMATS: Final = ("auto", "text", "json", "hex")
ISOLATIONS: Final = {"read_committed": 1, "read_uncommitted": 0}


class Cell(NamedTuple):
    """A key or a value as it is shown: text, how it was decoded, its size in bytes, and whether it was cut."""

    text: str
    form: str
    size: int
    is_cut: bool


class Message(NamedTuple):
    """A record as it is shown; `fate` is empty for one that every consumer gets."""

    offset: int
    timestamp: int
    key: Cell
    value: Cell
    headers: Sequence[tuple[str, str]]
    fate: str


class Search(NamedTuple):
    """What is looked for: the first `most` messages with `wanted` in their key or value, decoded as `how`."""

    most: int
    isolation: int
    wanted: str
    how: str


class Found(NamedTuple):
    """Messages, and the offset behind the last one that was looked at."""

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
    """A connection to an agent, which takes no response that is larger than a page may cost."""
    return KafkaConnection(agents, limits.ASK_SECONDS, limits.RESPONSE_BYTES)


async def _search(
    connection: KafkaConnection,
    topic: str,
    view: PartitionView,
    start: int,
    search: Search,
    seconds: Callable[[], float],
) -> Found:
    """Return the messages from `start` on, as far as a page may look."""
    ends = seconds() + limits.SCAN_SECONDS
    messages: list[Message] = []
    reached, looked_at = start, 0
    for _ in range(limits.SCANS if search.wanted else 1):
        data = await fetch(connection, topic, view.partition, reached, search.isolation)
        if not data:
            break
        left = search._replace(most=search.most - len(messages))
        made, seen, reached = await asyncio.to_thread(
            _decoded, data, reached, left, view, lambda: seconds() > ends
        )
        messages += made
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
    """Return the batches that a Fetch brings; none behind the end.

    Raises BootstrapUnavailable, and BadRequest if the partition cannot be read there.
    """
    asked = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=limits.FETCH_BYTES)
    response = await connection.ask(
        FETCH_REQUEST,
        FETCH_RESPONSE,
        _BY_NAME,
        FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=limits.FETCH_BYTES,
            isolation_level=isolation,
            topics=[FetchTopic(topic, partitions=[asked])],
        ),
    )
    if not response.responses:
        return b""
    found = response.responses[0].partitions[0]
    if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return b""
    if found.error_code:
        code = ErrorCode(found.error_code).name
        raise BadRequest(f"the agent answers {code} for {topic} [{partition}] at offset {offset}")
    return b"".join(found.records or ())


def records_of(data: bytes, offset: int) -> Iterator[Record]:
    """Yield the records of batches from `offset` on; few of them are objects at a time.

    Raises BadRequest if they cannot be read.
    """
    try:
        for batch in read_batches(data):
            if not batch.header.is_control:
                for group in batch.record_groups(_GROUP, limits.BATCH_BYTES):
                    yield from (each for each in group if each.offset >= offset)
    except RecordsError as error:
        raise BadRequest(
            f"what is stored behind offset {offset} cannot be read: {error}"
        ) from error


def end_of(data: bytes, offset: int) -> int:
    """Return the offset behind the last batch, or `offset` without any."""
    return max(
        (batch.header.next_offset for batch in read_batches(data, verify=False)), default=offset
    )


def _decoded(
    data: bytes, offset: int, search: Search, view: PartitionView, is_over: Callable[[], bool]
) -> tuple[list[Message], int, int]:
    """Return messages from `offset` on, how many records were looked at, and the offset to go on at."""
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
    """Return how a record is shown."""
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
    asked = [ListOffsetsPartition(partition, timestamp=timestamp)]
    response = await connection.ask(
        LIST_OFFSETS_REQUEST,
        LIST_OFFSETS_RESPONSE,
        9,
        ListOffsetsRequest(-1, ISOLATIONS[isolation], [ListOffsetsTopic(topic, asked)]),
    )
    found = response.topics[0].partitions[0]
    if found.error_code:
        raise BadRequest(f"the agent answers {ErrorCode(found.error_code).name} for this time")
    return found.offset


def _milliseconds(text: str) -> int:
    """Parse a time in UTC, or milliseconds since 1970. Raises BadRequest."""
    if text.isascii() and text.isdecimal() and len(text) <= 15:
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadRequest(
            f"{text[:40]!r} is not a time: give one such as 2026-01-31T12:30, in UTC"
        ) from error
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return round(found.timestamp() * 1000)


def as_json(found: Message) -> dict[str, Any]:
    """Return a message as the script of the page takes it."""
    return {
        "offset": found.offset,
        "time": formats.moment(found.timestamp),
        "key": found.key.text,
        "value": found.value.text,
    }
