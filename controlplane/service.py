"""The control plane as a process of its own: a gRPC service over the runtime.

One Session stream a client, the standard health and reflection services; TCP or a unix socket.
"""

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from controlplane.client.errors import ControlPlaneUnavailable
from controlplane.client.host import HostSession, PartitionKey
from controlplane.clock import Clock, SystemClock
from controlplane.journal.journal import Pace
from controlplane.journal.snapshot_process import SnapshotProcess
from controlplane.journal.sqlite import SqliteJournal
from controlplane.pure import Machine
from controlplane.runtime import ControlPlane, RuntimeSettings
from controlplane.v1.cluster_pb2 import ClusterDelta, TopicPartition
from controlplane.v1.control_pb2 import DESCRIPTOR, Reply, SessionRequest, SessionResponse
from controlplane.v1.control_pb2_grpc import (
    ControlPlaneServicer,
    add_ControlPlaneServicer_to_server,
)
from controlplane.v1.log_pb2 import PartitionDelta

S = TypeVar("S")

_SERVICE: Final = DESCRIPTOR.services_by_name["ControlPlane"].full_name
_SERVER_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", -1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """`max_outbox`: deltas and replies that may wait for one slow session before it is cut off.

    `stop_grace` in seconds: how long streams may go on at a clean stop.
    """

    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)
    max_outbox: int = 100_000
    stop_grace: float = 1.0


class _Outbox:
    """What a session's stream has yet to send; it gathers while a message is being written."""

    def __init__(self, max_items: int) -> None:
        self._max_items = max_items
        self._items = 0
        self._response = SessionResponse()
        self._wake = asyncio.Event()
        self._lost: ControlPlaneUnavailable | None = None

    def deliver(
        self,
        partitions: Sequence[PartitionDelta],
        cluster: Sequence[ClusterDelta],
        replies: Sequence[Reply],
    ) -> None:
        """As Receiver says."""
        if self._lost is not None:
            return
        self._items += len(partitions) + len(cluster) + len(replies)
        if self._items > self._max_items:
            self._items = 0
            self._response = SessionResponse()
            self.lost(ControlPlaneUnavailable("this client reads too slowly: connect again"))
            return
        self._response.partitions.extend(partitions)
        self._response.cluster.extend(cluster)
        self._response.replies.extend(replies)
        self._wake.set()

    def lost(self, error: ControlPlaneUnavailable) -> None:
        """As Receiver says."""
        self._lost = error
        self._wake.set()

    async def take(self) -> SessionResponse:
        """What has gathered, at least one item. Raises ControlPlaneUnavailable behind the last."""
        await self._wake.wait()
        if self._lost is None:
            self._wake.clear()
        elif not self._items:
            raise self._lost
        response, self._response = self._response, SessionResponse()
        self._items = 0
        return response


class _Sessions(ControlPlaneServicer):
    def __init__(self, plane: "ControlPlane[Any]", max_outbox: int) -> None:
        self._plane = plane
        self._max_outbox = max_outbox

    async def Session(  # noqa: N802 - gRPC's name
        self, requests: AsyncIterator[SessionRequest], context: Any
    ) -> None:
        outbox = _Outbox(self._max_outbox)
        reader: asyncio.Task[None] | None = None
        session = None
        try:
            session = self._plane.open_session(outbox)
            reader = asyncio.create_task(self._read(requests, session, outbox))
            while True:
                await context.write(await outbox.take())
        except ControlPlaneUnavailable as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        finally:
            if session is not None:
                session.close()
            if reader is not None:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)

    async def _read(
        self, requests: AsyncIterator[SessionRequest], session: HostSession, outbox: _Outbox
    ) -> None:
        """Hands requests over, as fast as they are decided."""
        try:
            async for request in requests:
                await self._plane.room()
                if request.unsubscribe:
                    session.unsubscribe(_keys(request.unsubscribe))
                if request.subscribe:
                    session.subscribe(_keys(request.subscribe))
                if request.commands:
                    session.submit(request.commands)
            outbox.lost(ControlPlaneUnavailable("the client has ended the session"))
        except ControlPlaneUnavailable as error:
            outbox.lost(error)
        except DecodeError:
            outbox.lost(ControlPlaneUnavailable("what this client sends is no SessionRequest"))


def _keys(partitions: Sequence[TopicPartition]) -> list[PartitionKey]:
    return [(partition.topic_id, partition.partition) for partition in partitions]


class Server:
    """The gRPC service of one runtime. `address` is what clients connect to, once it was started."""

    def __init__(self, plane: "ControlPlane[Any]", settings: ServiceSettings) -> None:
        self._settings = settings
        self._server = grpc.aio.server(options=_SERVER_OPTIONS)
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]
        sessions = _Sessions(plane, settings.max_outbox)
        add_ControlPlaneServicer_to_server(sessions, self._server)  # type: ignore[no-untyped-call]
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        self.address = ""

    async def start(self, address: str) -> None:
        """Listens on `host:port` (port 0: any) or `unix:path`. Raises OSError with the address."""
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}: is it in use?") from error
        host, _, _ = address.rpartition(":")
        self.address = address if address.startswith("unix:") else f"{host}:{port}"
        await self._server.start()
        await self._set_health(health_pb2.HealthCheckResponse.SERVING)

    async def stop(self) -> None:
        """Says so to health checks, then ends the streams."""
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        await self._server.stop(self._settings.stop_grace)

    async def _set_health(self, status: int) -> None:
        for name in ("", _SERVICE):
            await self._health.set(name, status)


class RunningControlPlane:
    """What `serve` started: the runtime, its address, and how it ends."""

    def __init__(self, plane: "ControlPlane[Any]", server: Server, failed: "asyncio.Future[None]"):
        self.plane = plane
        self._server = server
        self._failed = failed

    @property
    def address(self) -> str:
        """What clients connect to."""
        return self._server.address

    async def failed(self) -> None:
        """Raises what ended the control plane, when something did; the process should end then."""
        await asyncio.shield(self._failed)

    async def close(self) -> None:
        """A clean end: the runtime first, so that everything that was decided is answered."""
        await self.plane.close()
        await self._server.stop()

    async def abort(self) -> None:
        """An end as by a crash: nothing more is answered."""
        await self.plane.abort()
        await self._server.stop()


async def serve(
    machine: Machine[S],
    machine_name: str,
    address: str,
    journal_path: str,
    settings: ServiceSettings,
    *,
    cluster_id: str | None = None,
    clock: Clock | None = None,
    new_id: Callable[[], bytes] = lambda: os.urandom(16),
    pace: Pace | None = None,
) -> RunningControlPlane:
    """Runs a control plane with a SQLite journal at `journal_path` and listens on `address`.

    `machine_name` is `module` or `module:attribute` of the machine, for the snapshot process. `cluster_id`
    is the expected one, None: whatever is there, or a new one. `pace` is the journal's. Raises JournalError, OSError.
    """
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    failed.add_done_callback(lambda future: future.cancelled() or future.exception())
    journal = SqliteJournal(journal_path, lambda: new_cluster_id(new_id), pace=pace)
    plane = ControlPlane(
        machine,
        journal,
        clock or SystemClock(),
        new_id,
        settings.runtime,
        snapshotter=SnapshotProcess(journal, machine_name),
        on_fatal=failed.set_exception,
    )
    await plane.start(cluster_id)
    server = Server(plane, settings)
    try:
        await server.start(address)
    except BaseException:
        await plane.close()
        raise
    return RunningControlPlane(plane, server, failed)


def new_cluster_id(new_id: Callable[[], bytes]) -> str:
    """A cluster id as Kafka writes one: 16 bytes in URL-safe base 64, 22 characters."""
    return base64.urlsafe_b64encode(new_id()).decode().rstrip("=")
