"""The Session stream over gRPC."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import grpc.aio

from lacuna.controlplane.client.session import SessionClient, SessionLimits
from lacuna.controlplane.client.streams import Sleep, StreamBroken
from lacuna.controlplane.v1.control_pb2 import SessionRequest, SessionResponse
from lacuna.controlplane.v1.control_pb2_grpc import ControlPlaneStub

#: Message sizes are unlimited because the snapshot of a partition is one message, however many extents it has.
CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A control plane that was stopped, or whose machine is gone, is left for the one that takes over.
    ("grpc.keepalive_time_ms", 2_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class GrpcClient(SessionClient):
    """A ControlClient for the control planes at `address`. Call `start` first.

    `address` is HOST:PORT, several of them with commas between, a name in DNS that has the addresses of several, or
    unix:PATH. `random` returns numbers in [0, 1); `sleep` takes seconds.
    """

    def __init__(
        self,
        address: str,
        random: Callable[[], float],
        limits: SessionLimits | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(addresses_in(address), _connect, random, limits, sleep, _resolve)


def addresses_in(text: str) -> list[str]:
    """Return the addresses in `--control`: a path may have commas in it, so unix:PATH is always a single one."""
    return [text] if text.startswith("unix:") else [each.strip() for each in text.split(",")]


async def _resolve(address: str) -> Sequence[str]:
    """Return the address of each control plane that a name stands for: gRPC would ask only one of them."""
    if address.startswith("unix:"):
        return (address,)
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    numeric = dict.fromkeys(place[4][0] for place in found)
    return [f"[{each}]:{port}" if ":" in str(each) else f"{each}:{port}" for each in numeric]


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
