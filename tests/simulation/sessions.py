"""The streams between control planes and their clients, over simulated links instead of gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from lacuna.controlplane.client.protocol import ControlPlaneUnavailable
from lacuna.controlplane.client.session import SessionClient
from lacuna.controlplane.client.streams import StreamBroken
from lacuna.controlplane.serving import ServedControlPlane, serve_stream
from lacuna.controlplane.v1.control_pb2 import (
    ControlPlaneStatus,
    SessionRequest,
    SessionResponse,
    Standby,
)
from tests.simulation.loop import Process
from tests.simulation.network import End, Network

if TYPE_CHECKING:
    from tests.simulation.cluster import Surroundings

Arrived: TypeAlias = "SessionResponse | Exception | None"
"""A message, or how the stream ended: None if the control plane closed it."""

#: gRPC has both methods of the service at one port. Here each has one.
SESSION_PORT: Final = 9090
STATUS_PORT: Final = 9091
MAX_OUTBOX: Final = 100_000
ASK_SECONDS: Final = 1.0
#: While a session is served: the process at its other end.
CLIENT: Final[ContextVar[Process]] = ContextVar("client")


def new_client(around: Surroundings, randomness: Callable[[], float]) -> SessionClient:
    """Return a started client that follows the current leader."""
    client = SessionClient(around.controls, partial(_connect, around.network), randomness)
    client.start()
    return client


def serve(network: Network, process: Process, served: ServedControlPlane) -> None:
    """Make a process serve sessions and status requests, as `lacuna.controlplane.service` does."""
    loop = network.loop

    def open_session(end: End, _: str) -> None:
        loop.create_task(_serve_session(served, end))

    def open_status(end: End, _: str) -> None:
        end.open(lambda asked: end.send(served.status(asked)), _nobody_listens)

    network.listen(process, process.name, SESSION_PORT, open_session)
    network.listen(process, process.name, STATUS_PORT, open_status)


async def ask_status(
    network: Network, address: str, standby: Standby | None = None
) -> ControlPlaneStatus | None:
    """Do what `lacuna.controlplane.shared_service.ask_status` does."""
    answer: asyncio.Future[ControlPlaneStatus] = network.loop.create_future()

    def arrived(status: ControlPlaneStatus) -> None:
        if not answer.done():
            answer.set_result(status)

    def broken(_: Exception | None) -> None:
        if not answer.done():
            answer.set_exception(OSError("the connection broke"))

    end = None
    try:
        async with asyncio.timeout(ASK_SECONDS):
            end = await network.connect(address.partition(":")[0], STATUS_PORT)
            end.open(arrived, broken)
            end.send(standby)
            return await answer
    except OSError:  # a timeout is one
        return None
    finally:
        if end is not None:
            end.reset()


def _nobody_listens(_: Exception | None) -> None:
    """The client has disconnected."""


class _Stream:
    """A client's end of a session's stream (`lacuna.controlplane.client.streams.Stream`)."""

    def __init__(self, network: Network, address: str) -> None:
        self._network = network
        self._host = address.partition(":")[0]
        self._arrived: asyncio.Queue[Arrived] = asyncio.Queue()
        self._end: End | None = None
        self._is_cancelled = False

    async def read(self) -> SessionResponse | None:
        if self._end is None:
            await self._open()
        message = await self._arrived.get()
        if self._is_cancelled:
            raise asyncio.CancelledError  # as gRPC's read
        if isinstance(message, Exception):
            raise StreamBroken(str(message))
        return message

    async def _open(self) -> None:
        try:
            end = await self._network.connect(self._host, SESSION_PORT)
        except (OSError, TimeoutError) as error:
            raise StreamBroken(str(error)) from error
        self._end = end
        end.open(self._arrived.put_nowait, self._arrived.put_nowait)

    async def write(self, request: SessionRequest) -> None:
        if self._end is None or not self._end.is_open:
            raise StreamBroken("the stream has ended")
        self._end.send(request)

    def cancel(self) -> None:
        if self._end is not None:
            self._end.reset()
        self._is_cancelled = True
        self._arrived.put_nowait(None)


@asynccontextmanager
async def _connect(network: Network, address: str) -> AsyncIterator[_Stream]:
    """Yield a stream to a control plane, which the first read opens."""
    stream = _Stream(network, address)
    try:
        yield stream
    finally:
        stream.cancel()


def _renewed_leases(request: SessionRequest) -> list[int]:
    """Return the leases that the commands of a message renew."""
    return [each.renew_lease.lease_id for each in request.commands if each.HasField("renew_lease")]


async def _serve_session(served: ServedControlPlane, end: End) -> None:
    """Serve the control plane's end of a stream, as `lacuna.controlplane.service` does."""
    CLIENT.set(end.peer.process)
    messages: asyncio.Queue[SessionRequest | Exception | None] = asyncio.Queue()
    renewed: list[int] = []
    end.process.renewed.append(renewed)

    def receive(message: SessionRequest) -> None:
        renewed.extend(_renewed_leases(message))
        messages.put_nowait(message)

    end.open(receive, messages.put_nowait)

    async def requests() -> AsyncIterator[SessionRequest]:
        while isinstance(message := await messages.get(), SessionRequest):
            for lease_id in _renewed_leases(message):
                renewed.remove(lease_id)
            yield message

    async def write(response: SessionResponse) -> None:
        if not end.is_open:
            raise ControlPlaneUnavailable("the client has hung up")
        end.send(response)

    try:
        await serve_stream(served, requests(), write, MAX_OUTBOX)
    except ControlPlaneUnavailable:
        end.close()
    finally:
        renewed.clear()
