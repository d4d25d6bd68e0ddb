"""The client's end of a Session stream, regardless of the transport."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from lacuna.controlplane.v1.control_pb2 import SessionRequest, SessionResponse


class StreamBroken(Exception):
    """A stream has failed or could not be opened. The message gives the reason."""


class Stream(Protocol):
    """A Session stream as the client uses it. The first `read` opens it."""

    async def read(self) -> SessionResponse | None:
        """Return the next message, or None once the control plane has ended the stream. Raises StreamBroken."""
        ...

    async def write(self, request: SessionRequest) -> None:
        """Send a message. Raises StreamBroken."""
        ...

    def cancel(self) -> None:
        """End the stream. A waiting `read` is cancelled."""
        ...


Connect: TypeAlias = Callable[[str], AbstractAsyncContextManager[Stream]]
"""Opens a stream to an address, whose connection is closed when the `async with` block ends."""
Resolve: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses behind an address, such as those of a DNS name. Raises OSError."""
Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits for the given number of seconds."""


class WatchedStream:
    """A stream that can be given up for a reason, which is passed to its reader."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._why_given_up = ""
        self._heard = asyncio.get_running_loop().time()

    async def read(self) -> SessionResponse:
        """Return the next message. Raises StreamBroken, including if the control plane has ended the stream."""
        response = None
        try:
            response = await self._stream.read()
        except StreamBroken:
            if not self._why_given_up:
                raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._why_given_up or (task is not None and task.cancelling()):
                raise
        if self._why_given_up:
            raise StreamBroken(self._why_given_up)
        if response is None:
            raise StreamBroken("the control plane has ended the session")
        self._heard = asyncio.get_running_loop().time()
        return response

    async def write(self, request: SessionRequest) -> None:
        await self._stream.write(request)

    def give_up(self, why: str) -> None:
        self._why_given_up = why
        self._stream.cancel()

    async def give_up_when_silent(self, seconds: float, sleep: Sleep) -> None:
        """Give the stream up after `seconds` without a message, since no live control plane is silent for so long."""
        loop = asyncio.get_running_loop()
        while (left := self._heard + seconds - loop.time()) > 0:
            await sleep(left)
        self.give_up(f"it was silent for {seconds:g} s")
