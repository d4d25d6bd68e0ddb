"""A Session stream to a control plane in the same event loop, without gRPC.

The control plane is one of several. It may stop being the leader and become it again, which looks the same to a client
as over gRPC.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from lacuna.controlplane.client.protocol import ControlPlaneUnavailable
from lacuna.controlplane.client.streams import StreamBroken
from lacuna.controlplane.serving import ServedControlPlane, serve_stream
from lacuna.controlplane.v1.control_pb2 import SessionRequest, SessionResponse

_MESSAGES: Final = 16


@asynccontextmanager
async def local_stream(
    served: ServedControlPlane, max_outbox: int
) -> AsyncIterator["_LocalStream"]:
    """Run the body with a stream to `served`. Its session ends if more than `max_outbox` deltas and replies are
    waiting.
    """
    stream = _LocalStream(served, max_outbox)
    try:
        yield stream
    finally:
        await stream.close()


class _LocalStream:
    def __init__(self, served: ServedControlPlane, max_outbox: int) -> None:
        self._served = served
        self._max_outbox = max_outbox
        self._requests: asyncio.Queue[SessionRequest] = asyncio.Queue(_MESSAGES)
        self._responses: asyncio.Queue[SessionResponse] = asyncio.Queue(_MESSAGES)
        self._serving: asyncio.Task[None] | None = None
        self._why_ended = ""

    async def read(self) -> SessionResponse:
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        if self._why_ended and self._responses.empty():
            raise StreamBroken(self._why_ended)
        response = await self._responses.get()
        if response is _END:
            raise StreamBroken(self._why_ended)
        return response

    async def write(self, request: SessionRequest) -> None:
        if self._why_ended:
            raise StreamBroken(self._why_ended)
        await self._requests.put(request)

    def cancel(self) -> None:
        if self._serving is not None:
            self._serving.cancel()

    async def close(self) -> None:
        self.cancel()
        if self._serving is not None:
            await asyncio.gather(self._serving, return_exceptions=True)

    async def _serve(self) -> None:
        try:
            await serve_stream(self._served, self._asked(), self._responses.put, self._max_outbox)
        except ControlPlaneUnavailable as error:
            self._why_ended = str(error)
        finally:
            self._why_ended = self._why_ended or "the stream was abandoned"
            # The reader of a full queue is not waiting, and sees the reason once it has emptied the queue.
            if not self._responses.full():
                self._responses.put_nowait(_END)

    async def _asked(self) -> AsyncIterator[SessionRequest]:
        while True:
            yield await self._requests.get()


_END: Final = SessionResponse()
