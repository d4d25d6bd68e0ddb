"""A client that continuously sends requests to one control plane, whether or not it is the leader."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio

from lacuna.controlplane.shared.contract import own_contract
from lacuna.controlplane.v1.control_pb2 import Command, SessionRequest
from lacuna.controlplane.v1.log_pb2 import ReadPartitions
from tests.controlplane.grpcio_session import open_session

PAUSE_SECONDS = 0.02
SECONDS = 60.0


class Asking:
    """A session with the control plane at an address, for the duration of the body.

    `asked` and `answered` are the monotonic times at which the commands with ids 1, 2 and so on were sent and answered.
    """

    def __init__(self, address: str) -> None:
        self.asked: dict[int, float] = {}
        self.answered: dict[int, float] = {}
        self._address = address
        self._has_begun = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._has_begun.wait(SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join(SECONDS)

    def answered_late(self, since: float) -> list[int]:
        """Return the commands that were sent after `since` and have been answered."""
        return [number for number in self.answered if self.asked[number] > since]

    async def _run(self) -> None:
        async with grpc.aio.insecure_channel(self._address) as channel:
            stream = open_session(channel)
            reading = asyncio.create_task(self._read(stream))
            with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await self._ask(stream)
            await asyncio.to_thread(self._is_over.wait)
            reading.cancel()

    async def _ask(self, stream: Any) -> None:
        for number in itertools.count(1):
            request = SessionRequest(contract=own_contract()) if number == 1 else SessionRequest()
            request.commands.append(Command(command_id=number, read_partitions=ReadPartitions()))
            self.asked[number] = time.monotonic()
            await stream.write(request)
            await asyncio.sleep(PAUSE_SECONDS)
            if self._is_over.is_set():
                return

    async def _read(self, stream: Any) -> None:
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
            while (response := await stream.read()) is not grpc.aio.EOF:  # type: ignore[attr-defined]
                for reply in response.replies:
                    self.answered[reply.command_id] = time.monotonic()
                    self._has_begun.set()
