"""A TCP route to a PostgreSQL server that can be cut, can stall, and can carry one direction only."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from enum import Enum
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")
SECONDS = 60.0


class Fault(Enum):
    NONE = "everything passes"
    CUT = "connections break, and new ones are refused"
    STALLED = "connections are accepted, and nothing passes until the wire is mended"
    DEAF = "half-open: what the server says is lost"
    MUTE = "half-open: what is said to the server is lost"


class Wire:
    """Forwards from `address`, a HOST:PORT, to a Unix socket, in its own thread."""

    def __init__(self, socket_path: str) -> None:
        self._path = socket_path
        self._fault = Fault.NONE
        self._ends: dict[asyncio.StreamWriter, None] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._mended: asyncio.Event
        self.address = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._do(self._break)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)

    def suffer(self, fault: Fault) -> None:
        """Apply this fault from now on, including to open connections."""
        self._do(self._suffer, fault)

    def mend(self) -> None:
        """Remove the fault. Half-open connections break, because part of their data is lost."""
        self._do(self._suffer, Fault.NONE)

    def _do(self, what: Callable[..., Awaitable[T]], *arguments: object) -> T:
        async def work() -> T:
            return await what(*arguments)

        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(SECONDS)

    async def _listen(self) -> None:
        self._mended = asyncio.Event()
        self._mended.set()
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self.address = f"{host}:{port}"

    async def _suffer(self, fault: Fault) -> None:
        before, self._fault = self._fault, fault
        if fault is Fault.CUT or before in (Fault.DEAF, Fault.MUTE):
            await self._break()
        if fault is Fault.STALLED:
            self._mended.clear()
        else:
            self._mended.set()

    async def _break(self) -> None:
        for end in self._ends:
            end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._fault is Fault.CUT:
            writer.transport.abort()
            return
        self._ends[writer] = None
        try:
            await self._mended.wait()
            server_reader, server_writer = await asyncio.open_unix_connection(self._path)
        except OSError:
            writer.transport.abort()
            return
        finally:
            self._ends.pop(writer)
        ends = {writer: None, server_writer: None}
        self._ends |= ends
        try:
            await asyncio.gather(
                self._pass_on(reader, server_writer, Fault.MUTE),
                self._pass_on(server_reader, writer, Fault.DEAF),
            )
        finally:
            for end in ends:
                self._ends.pop(end)
                end.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, losing: Fault
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._mended.wait()
                if self._fault is not losing:
                    writer.write(data)
                    await writer.drain()
        writer.transport.abort()
