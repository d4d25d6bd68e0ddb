"""Listens for gRPC connections: addresses, certificates, and bounds on the resources that clients use.

Anyone who can reach the port, and has a certificate if one is required, can be a client. This module sets the bounds
that gRPC's core lacks, and tightens those that are too loose.
"""

import asyncio
import ctypes
import logging
import os
import socket
import ssl
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from google.protobuf.message import DecodeError, Message

from lacuna.base.errors import UserError
from lacuna.base.tls import subject_of
from lacuna.controlplane.client.grpc import CallError
from lacuna.controlplane.client.grpcio import imported
from lacuna.controlplane.client.tls import ControlTls

_log = logging.getLogger("lacuna.controlplane")

M = TypeVar("M", bound=Message)

#: Lacuna's clients make one call per connection, and health checks make a few.
_MAX_CALLS_A_CONNECTION: Final = 8
_MAX_CALLS: Final = 4_000
_MAX_CONNECTIONS: Final = 4_000
#: A client sends a command of at most 32 MiB, after up to 4 MiB of others (`SessionLimits`).
_MAX_MESSAGE: Final = 40 << 20
#: The only request of a call arrives immediately, and is small.
_REQUEST_SECONDS: Final = 5.0
_HANDSHAKE_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 1.0
#: If the process has grown by this much after a call, it may have allocated the memory for the call's client.
_MOST_KEPT: Final = 32 << 20
_TRIM_SECONDS: Final = 1.0
_OPTIONS: Final = {
    "grpc.max_receive_message_length": _MAX_MESSAGE,
    "grpc.max_send_message_length": -1,
    "grpc.max_concurrent_streams": _MAX_CALLS_A_CONNECTION,
    "grpc.max_allowed_incoming_connections": _MAX_CONNECTIONS,
    "grpc.server_handshake_timeout_ms": int(_HANDSHAKE_SECONDS * 1000),
    # Detects clients that have disappeared, and disconnects those that ping more than twice as often as Lacuna's.
    "grpc.keepalive_time_ms": 5_000,
    "grpc.keepalive_timeout_ms": 5_000,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.http2.min_ping_interval_without_data_ms": 1_000,
    "grpc.http2.max_ping_strikes": 2,
    # Closes connections without calls. An old connection accepts no more calls, but its current ones continue, so that
    # only the client ends a session.
    "grpc.max_connection_idle_ms": 60_000,
    "grpc.max_connection_age_ms": 3_600_000,
    # If another process is already listening on the port, listening fails, since the port is never shared.
    "grpc.so_reuseport": 0,
}


#: Handles one call: reads its requests and writes its responses. The call ends with OK when the function returns, or
#: with the status of the CallError that it raises.
Handler = Callable[["Call"], Awaitable[None]]


class Call:
    """One call, as its handler uses it. One task may read while another writes."""

    def __init__(self, context: Any) -> None:
        """Raises CallError if the client's certificate cannot be read."""
        self._context = context
        self._end = imported().aio.EOF
        #: The client's address, without the port; "" on a Unix socket.
        self.host = _host_of(context.peer())
        #: The subject of the client's certificate, or "" without one.
        self.subject = _subject_in(context.auth_context(), self.host)

    async def read(self) -> bytes | None:
        """Return the next message, or None after the client's last one."""
        message = await self._context.read()
        return None if message is self._end else message

    async def read_only(self, kind: type[M]) -> M:
        """Return the single request of a call. Raises CallError."""
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                message = await self.read()
        except TimeoutError as error:
            raise CallError("DEADLINE_EXCEEDED", "the request did not arrive") from error
        try:
            return kind.FromString(message or b"")
        except DecodeError as error:
            raise CallError("INVALID_ARGUMENT", f"the request is not a {kind.__name__}") from error

    async def write(self, message: Message) -> None:
        """Send a message once the client and the connection are ready for it."""
        await self._context.write(message.SerializeToString())


class GrpcServer:
    """Serves methods by path, such as /package.Service/Method. `tls` applies to TCP addresses."""

    def __init__(self, handlers: Mapping[str, Handler], tls: ControlTls | None) -> None:
        grpc = imported()
        self._tls = tls
        self._trim: asyncio.TimerHandle | None = None
        self._server = grpc.aio.server(
            options=[*_OPTIONS.items()], maximum_concurrent_rpcs=_MAX_CALLS
        )
        for path, handler in handlers.items():
            _, service, method = path.split("/")
            # Unary methods are streams as well, so that their handlers can read the request with a time limit.
            answer = grpc.stream_stream_rpc_method_handler(partial(self._answer, handler))
            served = grpc.method_handlers_generic_handler(service, {method: answer})
            self._server.add_generic_rpc_handlers((served,))

    async def start(self, address: str) -> str:
        """Listen on `host:port` (port 0 for any free one) or `unix:path`, and return the address.

        A Unix socket is accessible only to its owner. Raises OSError if the address cannot be used, and UserError if
        TLS is configured without a certificate.
        """
        if address.startswith("unix:"):
            with private_socket(address.removeprefix("unix:")):
                self._bind(address, None)
        else:
            host, _, _ = address.rpartition(":")
            address = f"{host}:{self._bind(address, self._tls)}"
        await self._server.start()
        return address

    async def stop(self, grace: float) -> None:
        """Accept no more calls, let current ones continue for `grace` seconds, and close the connections.

        If a client reads nothing, its connection stays open until the process ends, since gRPC waits until TCP gives
        up.
        """
        if self._trim is not None:
            self._trim.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace + _CLOSE_SECONDS):
                await self._server.stop(grace or None)

    async def _answer(self, handler: Handler, _requests: object, context: Any) -> None:
        grpc = imported()
        before = _resident_bytes()
        try:
            await handler(Call(context))
        except CallError as error:
            await context.abort(grpc.StatusCode[error.status], str(error))
        except Exception as error:
            _log.exception("a call failed unexpectedly; please report it")
            await context.abort(grpc.StatusCode.INTERNAL, repr(error))
        finally:
            if self._trim is None and _resident_bytes() > before + _MOST_KEPT:
                loop = asyncio.get_running_loop()
                self._trim = loop.call_later(_TRIM_SECONDS, self._give_back)

    def _give_back(self) -> None:
        """Return memory to the kernel that gRPC's threads have freed but that glibc still keeps for each thread."""
        self._trim = None
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            asyncio.get_running_loop().run_in_executor(None, trim, 0)

    def _bind(self, address: str, tls: ControlTls | None) -> int:
        credentials = None if tls is None else _credentials(tls)
        try:
            if credentials is None:
                return int(self._server.add_insecure_port(address))
            return int(self._server.add_secure_port(address, credentials))
        except RuntimeError as error:
            raise _why_not_bound(address) from error


def _resident_bytes() -> int:
    """Return the resident memory of this process in bytes, or 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0


def _subject_in(identity: Mapping[str, Sequence[bytes]], host: str) -> str:
    if b"true" in identity.get("ssl_session_reused", ()):
        raise CallError(
            "UNAUTHENTICATED",
            "this TLS session was resumed, so the certificate was not checked: start a new session",
        )
    for certificate in identity.get("x509_pem_cert", ()):
        try:
            return subject_of(ssl.PEM_cert_to_DER_cert(certificate.decode()))
        except ValueError as error:
            _log.warning("%s: call rejected: %s", host, error)
            raise CallError("UNAUTHENTICATED", str(error)) from error
    return ""


def _host_of(peer: str) -> str:
    """Return the host in gRPC's name for a peer, such as ipv6:%5B::1%5D:1234."""
    kind, _, place = unquote(peer).partition(":")
    return place.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else ""


def _why_not_bound(address: str) -> OSError:
    """Find out why a socket cannot be bound to an address, which gRPC does not report, and return the error."""
    try:
        if address.startswith("unix:"):
            with socket.socket(socket.AF_UNIX) as tried:
                tried.bind(address.removeprefix("unix:"))
        else:
            host, _, port = address.rpartition(":")
            where = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
            with socket.socket(where[0]) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(where[4])
                tried.listen()
    except OSError as error:
        return error
    return OSError("the address is already in use")


@contextmanager
def private_socket(path: str) -> Iterator[None]:
    """Run the body, which creates a Unix socket, so that only this user's processes can connect to it. Raises
    OSError.
    """
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.remove(path)  # left behind by a process that crashed
    except FileNotFoundError:
        pass
    before = os.umask(0o077)  # a later chmod would leave the socket open to others for a moment
    try:
        yield
    finally:
        os.umask(before)
    os.chmod(path, 0o600)


def _credentials(tls: ControlTls) -> Any:
    """Return server credentials for gRPC, which reload changed files. Raises UserError if there is no certificate."""
    if not tls.has_certificate:
        raise UserError(
            "a control plane with TLS needs a certificate: specify its PEM files with --control-tls-cert and "
            "--control-tls-key"
        )
    grpc = imported()
    used = tls.presented()

    def configuration() -> Any:
        return grpc.ssl_server_certificate_configuration(
            [(used.key, used.certificate)], used.authorities or None
        )

    def changed() -> Any:
        """Return a new configuration if the files have changed, otherwise None. A gRPC thread calls this per
        connection.
        """
        nonlocal used
        presented = tls.presented()
        if presented is used:
            return None
        used = presented
        return configuration()

    return grpc.dynamic_ssl_server_credentials(
        configuration(), changed, require_client_authentication=tls.asks_for_certificates
    )
