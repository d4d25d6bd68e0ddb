"""A Unix socket that accepts connections before its server runs, and starts the server on the first one."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from lacuna.controlplane.listening import private_socket

_log = logging.getLogger("lacuna.controlplane")

_BLOCK: Final = 1 << 16


class Doorstep:
    """Listens at the path of a Unix socket until the first connection.

    `open_at` then starts the server at another path, and the server's socket replaces this one. Connections accepted
    before that are forwarded to the server.
    """

    def __init__(self, path: str, open_at: Callable[[str], Awaitable[None]]) -> None:
        self._path = path
        self._open_at = open_at
        self._listener: asyncio.Server | None = None
        self._opening: asyncio.Task[None] | None = None
        self._guests: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start listening. Raises OSError."""
        bound = socket.socket(socket.AF_UNIX)
        try:
            with private_socket(self._path):
                bound.bind(self._path)
        except BaseException:
            bound.close()
            raise
        self._listener = await asyncio.start_unix_server(self._welcome, sock=bound)

    async def stop(self) -> None:
        """Stop listening. A server that has been started keeps running."""
        if self._listener is not None:
            self._listener.close()
        tasks = [*self._guests, *([self._opening] if self._opening else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        guest = asyncio.create_task(self._serve(reader, writer))
        self._guests.add(guest)
        guest.add_done_callback(self._guests.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._opening is None:
                self._opening = asyncio.create_task(self._open())
            await asyncio.shield(self._opening)
            inside, outside = await asyncio.open_unix_connection(self._path)
            with suppress(OSError):  # either end may disconnect
                await asyncio.gather(_pass_on(reader, outside), _pass_on(inside, writer))
        except OSError as error:
            _log.error("%s cannot be served: %s", self._path, error)
        finally:
            writer.close()

    async def _open(self) -> None:
        path = f"{self._path}~"
        await self._open_at(path)
        os.rename(path, self._path)
        if self._listener is not None:
            self._listener.close()


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while block := await source.read(_BLOCK):
            sink.write(block)
            await sink.drain()
    finally:
        sink.close()
