"""The Session stream over gRPC."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

from google.protobuf.message import DecodeError

from lacuna.controlplane.client.session import SessionClient, SessionLimits
from lacuna.controlplane.client.streams import Sleep, StreamBroken
from lacuna.controlplane.rpc.call import Call, CallError
from lacuna.controlplane.rpc.client import begin, connected
from lacuna.controlplane.rpc.tls import ControlTls
from lacuna.controlplane.shared.contract import SESSION_METHOD
from lacuna.controlplane.v1.control_pb2 import SessionRequest, SessionResponse

#: A control plane that was stopped, or whose machine is gone, is left for the one that takes over.
_PING_SECONDS: Final = 2.0


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
        tls: ControlTls | None = None,
    ) -> None:
        connect = partial(_connect, tls)
        super().__init__(addresses_in(address), connect, random, limits, sleep, _resolve)


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
async def _connect(tls: ControlTls | None, address: str) -> AsyncIterator["_GrpcStream"]:
    async with AsyncExitStack() as stack:
        yield _GrpcStream(tls, address, stack)


class _GrpcStream:
    def __init__(self, tls: ControlTls | None, address: str, stack: AsyncExitStack) -> None:
        self._tls = tls
        self._address = address
        self._stack = stack
        self._opening: asyncio.Task[Call] | None = None
        self._call: Call | None = None

    async def read(self) -> SessionResponse | None:
        try:
            call = self._call or await self._open()
            message = await call.read()
            return None if message is None else SessionResponse.FromString(message)
        except CallError as error:
            raise StreamBroken(str(error)) from error
        except DecodeError as error:
            raise StreamBroken("it has sent something that is not a SessionResponse") from error

    async def write(self, request: SessionRequest) -> None:
        try:
            call = self._call or await self._open()
            await call.write(request.SerializeToString())
        except CallError as error:
            raise StreamBroken(str(error)) from error

    def cancel(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        if self._call is not None:
            self._call.cancel()

    async def _open(self) -> Call:
        if self._opening is None:
            self._opening = asyncio.create_task(self._connect())
        return await self._opening

    async def _connect(self) -> Call:
        link = await self._stack.enter_async_context(
            connected(self._address, ping_after=_PING_SECONDS, tls=self._tls)
        )
        self._call = begin(link, SESSION_METHOD, self._address)
        return self._call
