"""Connects to a server of gRPC and makes calls."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from lacuna.controlplane.rpc.call import Call, CallError, Status
from lacuna.controlplane.rpc.link import Link
from lacuna.controlplane.rpc.tls import ControlTls

#: A machine that is gone does not answer at all.
_CONNECT_SECONDS: Final = 5.0
_UNLIMITED: Final = (1 << 32) - 1


@asynccontextmanager
async def connected(
    address: str, *, ping_after: float, tls: ControlTls | None = None
) -> AsyncIterator[Link]:
    """Run the body with a connection to `address`, HOST:PORT or unix:PATH; messages may have any size.

    A server that is silent for `ping_after` seconds is pinged, and given up after as long again. A Unix socket has no
    TLS. Raises CallError.
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
                context = None if tls is None else tls.client()
                _, link = await loop.create_connection(
                    make,
                    host.strip("[]"),
                    int(port),
                    ssl=context,
                    server_hostname=None if context is None else host.strip("[]"),
                )
    except TimeoutError as error:
        raise CallError(
            Status.UNAVAILABLE, f"no answer to the connection within {_CONNECT_SECONDS:g} s"
        ) from error
    except ssl.SSLError as error:
        raise CallError(Status.UNAVAILABLE, _why_no_tls(error)) from error
    except OSError as error:
        raise CallError(Status.UNAVAILABLE, f"cannot connect: {error.strerror or error}") from error
    try:
        if tls is not None and link.is_encrypted and not tls.is_cluster(link.peer):
            raise CallError(
                Status.UNAVAILABLE,
                f"{link.peer} is not a control plane: controlplane.cluster.principals does not name it",
            )
        yield link
    finally:
        link.close("the client has closed the connection")


def begin(link: Link, method: str, address: str) -> Call:
    """Begin a call of `method`, as in /package.Service/Method. Raises CallError."""
    return link.open(method, "localhost" if address.startswith("unix:") else address)


async def ask(
    address: str, method: str, request: bytes, seconds: float, tls: ControlTls | None = None
) -> bytes:
    """Make a call with one request and one response. Raises CallError, also after so many seconds."""
    try:
        async with (
            asyncio.timeout(seconds),
            connected(address, ping_after=seconds, tls=tls) as link,
        ):
            call = begin(link, method, address)
            await call.write(request)
            call.end()
            return await call.read_one()
    except TimeoutError as error:
        raise CallError(Status.UNAVAILABLE, f"no answer within {seconds:g} s") from error


def _why_no_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message}): name the authority that signed it with "
            "--control-tls-ca"
        )
    return f"there is no TLS between it and this process: {error.reason or error}"
