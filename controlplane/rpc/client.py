"""Connects to a server of gRPC and makes calls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from lacuna.controlplane.rpc.call import Call, CallError, Status
from lacuna.controlplane.rpc.link import Link

#: A machine that is gone does not answer at all.
_CONNECT_SECONDS: Final = 5.0
_UNLIMITED: Final = (1 << 32) - 1


@asynccontextmanager
async def connected(address: str, *, ping_after: float) -> AsyncIterator[Link]:
    """Run the body with a connection to `address`, HOST:PORT or unix:PATH; messages may have any size.

    A server that is silent for `ping_after` seconds is pinged, and given up after as long again. Raises CallError.
    """
    loop = asyncio.get_running_loop()

    def make() -> Link:
        return Link(max_message=_UNLIMITED, ping_after=ping_after)

    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            if address.startswith("unix:"):
                _, link = await loop.create_unix_connection(make, address.removeprefix("unix:"))
            else:
                host, _, port = address.rpartition(":")
                _, link = await loop.create_connection(make, host.strip("[]"), int(port))
    except TimeoutError as error:
        raise CallError(
            Status.UNAVAILABLE, f"no answer to the connection within {_CONNECT_SECONDS:g} s"
        ) from error
    except OSError as error:
        raise CallError(Status.UNAVAILABLE, f"cannot connect: {error.strerror or error}") from error
    try:
        yield link
    finally:
        link.close("the client has closed the connection")


def begin(link: Link, method: str, address: str) -> Call:
    """Begin a call of `method`, as in /package.Service/Method. Raises CallError."""
    return link.open(method, "localhost" if address.startswith("unix:") else address)


async def ask(address: str, method: str, request: bytes, seconds: float) -> bytes:
    """Make a call with one request and one response. Raises CallError, also after so many seconds."""
    try:
        async with asyncio.timeout(seconds), connected(address, ping_after=seconds) as link:
            call = begin(link, method, address)
            await call.write(request)
            call.end()
            return await call.read_one()
    except TimeoutError as error:
        raise CallError(Status.UNAVAILABLE, f"no answer within {seconds:g} s") from error
