"""Event streams, which deliver messages as they arrive and make pages refresh their numbers."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from lacuna.base.errors import UserError
from lacuna.console import limits
from lacuna.console.messages import (
    Bounds,
    Shape,
    bounds_of,
    cursor,
    messages_of,
    partitions_of,
    rows_of,
)
from lacuna.console.reading import (
    Kept,
    Placed,
    Positions,
    Reader,
    connection_to,
    end_of,
    keep,
    read_on,
    records_of,
)
from lacuna.console.site import Site, note_rights, rights_of, whole
from lacuna.console.topics import find_partition, find_topic
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.operating.kafka import Agents

_TICK_SECONDS: Final = 2.0
_TAIL_WAIT_MS: Final = 1000
#: The messages per second that a visitor sees by default, and the maximum that an address can request. If more messages
#: arrive, the oldest are skipped.
_RATE: Final = 20
_MOST_RATE: Final = 200
_EVENTS_PER_SECOND: Final = 4
#: The bytes that a search reads between two reports of its progress.
_STEP_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class _Reading:
    """The parameters of a message stream: `rate` is in messages per second."""

    agents: Agents
    topic: Topic
    bounds: Bounds
    starts: Positions
    shape: Shape
    rate: int


_Events: TypeAlias = Callable[[_Reading], AsyncIterator[str]]


class Streams:
    """The open event streams, limited in number."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._open = 0
        self._ending = asyncio.Event()

    def end(self) -> None:
        """End all streams within a second or so."""
        self._ending.set()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()

    async def changes(self, request: Request) -> Response:
        """Every two seconds, send an event that makes the page refresh its numbers."""
        return self._stream(self._ticks(), request)

    async def tail(self, request: Request) -> Response:
        """Send messages as they arrive, starting now or at the position in `after` or `from`."""
        return await self._reading(request, self._messages)

    async def search(self, request: Request) -> Response:
        """Send the messages that a search finds after the position `after`, and its progress."""
        return await self._reading(request, self._found)

    async def _reading(self, request: Request, events: _Events) -> Response:
        try:
            await note_rights(self._site, request)
            topic, partitions = await self._asked(request)
            rights_of(request).check_reads(topic.name)
            query = request.query_params
            shape = Shape.of(query)
            bounds = await bounds_of(self._site, topic, partitions, shape.level)
            starts = bounds.positions(query, "after") or bounds.ends
            if query.get("from"):
                starts = dict.fromkeys(bounds.states, whole(query, "from", 0))
            rate = min(max(whole(query, "rate", _RATE), 1), _MOST_RATE)
            reading = _Reading(self._site.agents(request), topic, bounds, starts, shape, rate)
        except (UserError, ControlPlaneUnavailable) as error:
            return PlainTextResponse(f"{error}\n", 404)
        return self._stream(events(reading), request)

    async def _asked(self, request: Request) -> tuple[Topic, Sequence[int]]:
        if "partition" in request.path_params:
            topic, index = await find_partition(self._site, request)
            return topic, [index]
        topic = await find_topic(self._site, request)
        return topic, partitions_of(topic, request.query_params)

    def _stream(self, events: AsyncIterator[str], request: Request) -> Response:
        if self._open >= limits.STREAMS:
            return PlainTextResponse("too many event streams are open\n", 503)
        return StreamingResponse(self._counted(events, request), media_type="text/event-stream")

    async def _counted(self, events: AsyncIterator[str], request: Request) -> AsyncIterator[str]:
        logins = self._site.logins
        self._open += 1
        loop = asyncio.get_running_loop()
        ends = loop.time() + limits.STREAM_SECONDS  # the browser then reconnects
        try:
            async for event in events:
                # An event may take a while, and its reader may have logged out in the meantime.
                if logins is not None and logins.find(request) is None:
                    return
                yield event
                if loop.time() > ends or self._ending.is_set():
                    return
        finally:
            self._open -= 1

    async def _ticks(self) -> AsyncIterator[str]:
        while not self._ending.is_set():
            position = self._site.sources.control.journal_position
            yield f"event: tick\ndata: {position}\n\n"
            await self._pause(_TICK_SECONDS)

    async def _messages(self, reading: _Reading) -> AsyncIterator[str]:
        topic, shape = reading.topic, reading.shape
        at = dict(reading.starts)
        cluster = self._site.sources.control.cluster
        yield ": the messages that arrive from now on\n\n"
        try:
            async with connection_to(reading.agents) as connection:
                while topic.topic_id in cluster.topics_by_id and not self._ending.is_set():
                    (await self._site.rights.of(reading.agents)).check_reads(topic.name)
                    reader = Reader(connection, topic.name, shape.level, self._site.sources.seconds)
                    fetched = await reader.fetch(at, _TAIL_WAIT_MS)
                    most = max(reading.rate // _EVENTS_PER_SECOND, 1)
                    newest, skipped = await asyncio.to_thread(_newest, fetched, at, most)
                    at.update({each: end_of(data, at[each]) for each, data in fetched.items()})
                    rows = await self._rows(reading, newest)
                    event = json.dumps({"rows": rows, "skipped": skipped})
                    yield f"event: messages\ndata: {event}\n\n" if newest else ": none\n\n"
                    await self._pause(most / reading.rate)
        except (UserError, ControlPlaneUnavailable) as error:
            yield f"event: failed\ndata: {json.dumps(str(error))}\n\n"

    async def _found(self, reading: _Reading) -> AsyncIterator[str]:
        shape, bounds = reading.shape, reading.bounds
        reached: Positions = reading.starts
        left, examined = shape.count, 0
        seconds = self._site.sources.seconds
        ends = seconds() + limits.SEARCH_SECONDS
        bytes_left = limits.SEARCH_BYTES
        behind = _behind(bounds, reached)
        try:
            async with connection_to(reading.agents) as connection:
                while left and bytes_left > 0 and seconds() < ends and not self._ending.is_set():
                    (await self._site.rights.of(reading.agents)).check_reads(reading.topic.name)
                    reader = Reader(
                        connection,
                        reading.topic.name,
                        shape.level,
                        seconds,
                        most_bytes=_STEP_BYTES,
                    )
                    found = await read_on(reader, reached, bounds.ends, left, shape.wanted)
                    bytes_left -= reader.bytes_read
                    examined += found.examined
                    left -= len(found.records)
                    reached = found.reached
                    event = json.dumps(
                        {
                            "rows": await self._rows(reading, found.records),
                            "examined": examined,
                            "share": 1 - _behind(bounds, reached) / max(behind, 1),
                            "after": cursor(reached),
                        }
                    )
                    yield f"event: found\ndata: {event}\n\n"
                    if not _behind(bounds, reached):
                        break
            yield f"event: done\ndata: {json.dumps(bool(_behind(bounds, reached)))}\n\n"
        except (UserError, ControlPlaneUnavailable) as error:
            yield f"event: failed\ndata: {json.dumps(str(error))}\n\n"

    async def _rows(self, reading: _Reading, records: Sequence[Placed]) -> str:
        messages = await messages_of(self._site, reading.topic, records, reading.shape)
        return rows_of(self._site, reading.topic, messages, reading.shape)


def _behind(bounds: Bounds, reached: Positions) -> int:
    """Return the number of offsets left to search."""
    return sum(max(end - reached[each], 0) for each, end in bounds.ends.items())


def _newest(fetched: Mapping[int, bytes], at: Positions, most: int) -> tuple[Sequence[Placed], int]:
    """Return the last `most` messages of the batches in chronological order, and the number of those skipped."""
    newest: list[Placed] = []
    count = 0
    for index, data in fetched.items():
        last: deque[Kept] = deque(maxlen=most)
        for record in records_of(data, at[index]):
            last.append(keep(record, limits.KEPT_BYTES // most))
            count += 1
        newest += [Placed(index, each) for each in last]
    newest.sort(key=lambda each: each.record.timestamp)
    return newest[-most:], count - len(newest[-most:])
