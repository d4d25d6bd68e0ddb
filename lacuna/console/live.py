"""Event streams: a signal for pages to reload their numbers, and the messages that arrive."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from lacuna.base.errors import UserError
from lacuna.console import limits
from lacuna.console.messages import (
    ISOLATIONS,
    as_json,
    connection_to,
    end_of,
    fetch,
    message,
    records_of,
)
from lacuna.console.site import Site, note_rights, rights_of, whole
from lacuna.console.topics import find_partition
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.client.views import PartitionView
from lacuna.logstore.records.batch import Record
from lacuna.operating.kafka import Agents

_TICK_SECONDS: Final = 2.0
_TAIL_WAIT_MS: Final = 1000
_TAIL_PAUSE_SECONDS: Final = 0.25
#: Messages in one event. If more arrive at a time, the oldest are skipped.
_TAIL_MESSAGES: Final = 50


class Streams:
    """The open event streams, and their number."""

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
        """Answer with an event every two seconds, at which the page reloads its numbers."""
        return self._stream(self._ticks(), request)

    async def tail(self, request: Request) -> Response:
        """Answer with the messages of a partition that arrive from now, or from `from`, on."""
        try:
            await note_rights(self._site, request)
            topic, index = await find_partition(self._site, request)
            rights_of(request).check_reads(topic.name)
            query = request.query_params
            isolation = ISOLATIONS.get(query.get("isolation", ""), 1)
            how = query.get("as", "auto")
            view = self._site.sources.control.partition(topic.topic_id, index)
            await view.ready()
            latest = view.last_stable_offset if isolation else view.high_watermark
            start = whole(query, "from", latest)
            agents = self._site.agents(request)
        except (UserError, ControlPlaneUnavailable) as error:
            return PlainTextResponse(f"{error}\n", 404)
        return self._stream(
            self._messages(agents, topic.name, topic.topic_id, index, start, isolation, how),
            request,
        )

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

    async def _messages(
        self,
        agents: Agents,
        topic: str,
        topic_id: bytes,
        partition: int,
        offset: int,
        isolation: int,
        how: str,
    ) -> AsyncIterator[str]:
        view = self._site.sources.control.partition(topic_id, partition)
        yield ": the messages that arrive from now on\n\n"
        try:
            async with connection_to(agents) as connection:
                while not (view.is_deleted or self._ending.is_set()):
                    (await self._site.rights.of(agents)).check_reads(topic)
                    data = await fetch(
                        connection, topic, partition, offset, isolation, _TAIL_WAIT_MS
                    )
                    newest, skipped = await asyncio.to_thread(_newest, data, offset, view, how)
                    offset = max(offset, end_of(data, offset))
                    event = json.dumps({"messages": newest, "skipped": skipped})
                    yield f"event: messages\ndata: {event}\n\n" if newest else ": none\n\n"
                    await self._pause(_TAIL_PAUSE_SECONDS)
        except UserError as error:
            yield f"event: failed\ndata: {json.dumps(str(error))}\n\n"


def _newest(
    data: bytes, offset: int, view: PartitionView, how: str
) -> tuple[list[dict[str, Any]], int]:
    """Return the last messages of batches, and the number of messages before them."""
    newest: deque[Record] = deque(maxlen=_TAIL_MESSAGES)
    count = 0
    for count, record in enumerate(records_of(data, offset), 1):  # noqa: B007 - how many there were
        newest.append(record)
    return [as_json(message(each, view, how)) for each in newest], count - len(newest)
