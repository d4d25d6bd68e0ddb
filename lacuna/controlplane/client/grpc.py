"""The Session stream over gRPC. grpcio is imported on the first connection, since many commands never connect."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from typing import Any, Final

from google.protobuf.message import DecodeError

from lacuna.base.tls import subject_of
from lacuna.controlplane.client.grpcio import imported
from lacuna.controlplane.client.session import SessionClient, SessionLimits
from lacuna.controlplane.client.streams import Sleep, StreamBroken
from lacuna.controlplane.client.tls import ControlTls, Presented
from lacuna.controlplane.shared.contract import SESSION_METHOD
from lacuna.controlplane.v1.control_pb2 import SessionRequest, SessionResponse

#: A machine that has failed does not answer at all.
_CONNECT_SECONDS: Final = 5.0
#: Pings make the client leave a control plane that was stopped, or whose machine has failed, for the one that takes
#: over.
_PING_SECONDS: Final = 2.0
_MAX_HEADER_BYTES: Final = 64 << 10
_OPTIONS: Final = {
    # The snapshot of a partition is one message, however many extents it has.
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
    "grpc.max_metadata_size": _MAX_HEADER_BYTES,
    "grpc.absolute_max_metadata_size": _MAX_HEADER_BYTES,
    "grpc.keepalive_time_ms": int(_PING_SECONDS * 1000),
    "grpc.keepalive_timeout_ms": int(_PING_SECONDS * 1000),
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.http2.max_pings_without_data": 0,
    "grpc.min_reconnect_backoff_ms": int(_CONNECT_SECONDS * 1000),
    # Channels do not share the back-off after failed attempts to connect to the same address.
    "grpc.use_local_subchannel_pool": 1,
    "grpc.enable_http_proxy": 0,
    "grpc.enable_retries": 0,
}


class GrpcClient(SessionClient):
    """A ControlClient for the control planes at `address`. Call `start` first.

    `address` is HOST:PORT, a comma-separated list of these, a DNS name with several addresses, or unix:PATH. `random`
    returns numbers in [0, 1); `sleep` takes seconds.
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
        super().__init__(addresses_in(address), connect, random, limits, sleep, resolved)


class CallError(Exception):
    """A call has failed. The message gives the reason, and `status` is the name of the gRPC status."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


def addresses_in(text: str) -> list[str]:
    """Return the addresses in the value of `--control`. A unix:PATH is always alone, as it may contain commas."""
    return [text] if text.startswith("unix:") else [each.strip() for each in text.split(",")]


async def ask_once(
    address: str, method: str, request: bytes, seconds: float, tls: ControlTls | None = None
) -> bytes:
    """Make a call with one request and one response. Raises CallError if it fails or takes longer than `seconds`."""
    grpc = imported()
    try:
        async with asyncio.timeout(seconds):
            async with await _channel(address, tls) as channel:
                return bytes(await channel.unary_unary(method)(request))
    except TimeoutError as error:
        raise CallError("UNAVAILABLE", f"no answer within {seconds:g} s") from error
    except StreamBroken as error:
        raise CallError("UNAVAILABLE", str(error)) from error
    except grpc.aio.AioRpcError as error:
        raise CallError(error.code().name, _why_broken(error, tls)) from error


async def resolved(address: str) -> Sequence[str]:
    """Return the address of each control plane behind a DNS name, since gRPC would use only one of them."""
    if address.startswith("unix:"):
        return (address,)
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    numeric = dict.fromkeys(place[4][0] for place in found)
    return [f"[{each}]:{port}" if ":" in str(each) else f"{each}:{port}" for each in numeric]


@asynccontextmanager
async def _connect(tls: ControlTls | None, address: str) -> AsyncIterator["_GrpcStream"]:
    stream = _GrpcStream(tls, address)
    try:
        yield stream
    finally:
        await stream.close()


class _GrpcStream:
    def __init__(self, tls: ControlTls | None, address: str) -> None:
        self._tls = tls
        self._address = address
        self._grpc = imported()
        self._opening: asyncio.Task[Any] | None = None
        self._channel: Any = None
        self._call: Any = None

    async def read(self) -> SessionResponse | None:
        if self._call is None:
            await self._open()
        try:
            message = await self._call.read()
        except self._grpc.aio.AioRpcError as error:
            raise StreamBroken(_why_broken(error, self._tls)) from error
        if message is self._grpc.aio.EOF:
            return None
        try:
            return SessionResponse.FromString(message)
        except DecodeError as error:
            raise StreamBroken("it has sent something other than a SessionResponse") from error

    async def write(self, request: SessionRequest) -> None:
        try:
            await self._call.write(request.SerializeToString())
        except (self._grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            raise StreamBroken(str(error)) from error

    def cancel(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        if self._call is not None:
            self._call.cancel()

    async def close(self) -> None:
        self.cancel()
        if self._channel is not None:
            await self._channel.close()

    async def _open(self) -> None:
        self._opening = asyncio.create_task(_channel(self._address, self._tls))
        self._channel = await self._opening
        self._call = self._channel.stream_stream(SESSION_METHOD)()


async def _channel(address: str, tls: ControlTls | None) -> Any:
    """Return a grpc.aio channel to `address`, which connects when first used. Raises StreamBroken."""
    grpc = imported()
    if tls is None or address.startswith("unix:"):
        return grpc.aio.insecure_channel(address, options=[*_OPTIONS.items()])
    presented = tls.presented()
    certificate, name = await _shown(address, tls, presented)
    # gRPC compares names, but any name in the certificate will do, since only the certificate just shown is trusted.
    credentials = grpc.ssl_channel_credentials(
        certificate.encode(), presented.key or None, presented.certificate or None
    )
    options = {**_OPTIONS, "grpc.ssl_target_name_override": name}
    return grpc.aio.secure_channel(address, credentials, options=[*options.items()])


async def _shown(address: str, tls: ControlTls, presented: Presented) -> tuple[str, str]:
    """Return the certificate (PEM) that the control plane at `address` presents, and a name that it contains.

    Raises StreamBroken if the certificate cannot be trusted.
    """
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(
                host.strip("[]"), int(port), ssl=presented.context
            )
    except TimeoutError as error:
        raise StreamBroken(
            f"no response to the connection attempt within {_CONNECT_SECONDS:g} s"
        ) from error
    except ssl.SSLError as error:
        raise StreamBroken(_why_no_tls(error)) from error
    except OSError as error:
        raise StreamBroken(f"cannot connect: {error.strerror or error}") from error
    encryption = writer.get_extra_info("ssl_object")
    certificate, fields = encryption.getpeercert(binary_form=True), encryption.getpeercert()
    writer.transport.abort()
    try:
        subject = subject_of(certificate)
    except ValueError as error:
        raise StreamBroken(str(error)) from error
    if not tls.is_cluster(subject):
        raise StreamBroken(
            f"{subject} is not a control plane: add it to controlplane.cluster.principals if it "
            "should be one"
        )
    return ssl.DER_cert_to_PEM_cert(certificate), _name_in(fields)


def _name_in(certificate: Mapping[str, Any]) -> str:
    """Return a name in a certificate that gRPC can check. Raises StreamBroken if there is none."""
    named = certificate.get("subjectAltName", ())
    hosts = [name.replace("*", "any") for kind, name in named if kind == "DNS"]
    addresses = [str(ip_address(name)) for kind, name in named if kind == "IP Address"]
    attributes = [each for part in certificate["subject"] for each in part]
    common = [value for kind, value in attributes if kind == "commonName" and not named]
    for name in (*hosts, *addresses, *common):
        return str(name)
    raise StreamBroken("its certificate has no host name, address or common name")


def _why_broken(error: Any, tls: ControlTls | None) -> str:
    said = str(error.details() or error.code().name)
    # A server that expects TLS closes a plain connection without giving a reason.
    if tls is None and said.endswith("Socket closed"):
        return (
            f"{said}. If it requires certificates, specify this process's certificate with --control-tls-cert, "
            "--control-tls-key and --control-tls-ca"
        )
    return said


def _why_no_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message}): use --control-tls-ca to specify the "
            "authority that signed it"
        )
    return f"the TLS handshake with it failed: {error.reason or error}"
