"""The Session stream over gRPC."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import grpc
import grpc.aio

from lacuna.controlplane.client.session import SessionClient, SessionLimits, StreamBroken
from lacuna.controlplane.v1.control_pb2 import SessionRequest, SessionResponse
from lacuna.controlplane.v1.control_pb2_grpc import ControlPlaneStub

#: Message sizes are unlimited because the snapshot of a partition is one message, however many extents it has.
CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class GrpcClient(SessionClient):
    """A ControlClient for the control plane at `address` (host:port or unix:path). Call `start` first.

    `random` returns numbers in [0, 1); `sleep` takes seconds.
    """

    def __init__(
        self,
        address: str,
        random: Callable[[], float],
        limits: SessionLimits | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(address, partial(_connect, address), random, limits, sleep)


@asynccontextmanager
async def _connect(address: str) -> AsyncIterator["_GrpcStream"]:
    async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        yield _GrpcStream(ControlPlaneStub(channel).Session())  # type: ignore[no-untyped-call]


class _GrpcStream:
    def __init__(self, call: Any) -> None:
        self._call = call

    async def read(self) -> SessionResponse | None:
        try:
            response = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise StreamBroken(error.details()) from error
        return None if response is grpc.aio.EOF else response  # type: ignore[attr-defined]

    async def write(self, request: SessionRequest) -> None:
        try:
            await self._call.write(request)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            raise StreamBroken(str(error)) from error

    def cancel(self) -> None:
        self._call.cancel()
