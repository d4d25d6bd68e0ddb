"""The control plane as a separate process: a gRPC service around the runtime.

Each client keeps one Session stream with it, which has a session while it leads. There is also the standard health
service: "" serves as long as the process does, `ready` once it leads or could take over, and
`controlplane.v1.ControlPlane` while it leads. It listens on TCP or a Unix socket.
"""

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from lacuna.controlplane.client.errors import ControlPlaneUnavailable
from lacuna.controlplane.clock import Clock, SystemClock
from lacuna.controlplane.journal.snapshot_process import SnapshotProcess
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.runtime import Runtime, RuntimeSettings
from lacuna.controlplane.serving import ServedPlane, serve_stream
from lacuna.controlplane.shared.pace import Pace
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import (
    DESCRIPTOR,
    ControlPlaneStatus,
    SessionRequest,
    Standby,
    StatusRequest,
)
from lacuna.controlplane.v1.control_pb2_grpc import (
    ControlPlaneServicer,
    add_ControlPlaneServicer_to_server,
)

_READY: Final = "ready"
_SERVICE: Final = DESCRIPTOR.services_by_name["ControlPlane"].full_name
_SERVER_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", -1),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Settings of the service and its runtime.

    A session is ended if more than `max_outbox` deltas and replies wait for it. At a clean stop, streams may continue
    for `stop_grace` seconds.
    """

    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)
    max_outbox: int = 100_000
    stop_grace: float = 1.0


class LonePlane:
    """A control plane that is alone on its journal, and so leads."""

    def __init__(self, plane: Runtime) -> None:
        self.plane: Runtime | None = plane
        self.leader = ""
        self.changed = asyncio.Event()
        self.is_closed = False
        self.is_ready = True

    def status(self, standby: Standby | None = None) -> ControlPlaneStatus:  # noqa: ARG002 - there is none
        assert self.plane is not None
        return ControlPlaneStatus(
            is_leader=True,
            leader=self.leader,
            epoch=self.plane.epoch,
            position=self.plane.durable_position,
        )


class _Service(ControlPlaneServicer):
    def __init__(self, served: ServedPlane, max_outbox: int) -> None:
        self._served = served
        self._max_outbox = max_outbox

    async def Session(  # noqa: N802 - gRPC's name
        self, requests: AsyncIterator[SessionRequest], context: Any
    ) -> None:
        try:
            await serve_stream(self._served, requests, context.write, self._max_outbox)
        except ControlPlaneUnavailable as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))

    async def Status(  # noqa: N802 - gRPC's name
        self,
        request: StatusRequest,
        context: Any,  # noqa: ARG002 - gRPC's
    ) -> ControlPlaneStatus:
        return self._served.status(request.standby if request.HasField("standby") else None)


class Server:
    """The gRPC service of one control plane. After `start`, clients connect to `address`."""

    def __init__(self, served: ServedPlane, settings: ServiceSettings) -> None:
        self._served = served
        self._settings = settings
        self._server = grpc.aio.server(options=_SERVER_OPTIONS)
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]
        service = _Service(served, settings.max_outbox)
        add_ControlPlaneServicer_to_server(service, self._server)  # type: ignore[no-untyped-call]
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self.address = ""

    async def start(self, address: str) -> None:
        """Listen on `host:port` (0 for any free port) or `unix:path`. Raises OSError if the address cannot be used."""
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}: is it in use?") from error
        host, _, _ = address.rpartition(":")
        self.address = address if address.startswith("unix:") else f"{host}:{port}"
        await self._server.start()
        await self._set_health("", is_serving=True)
        await self.show_state()

    async def show_state(self) -> None:
        """Tell health checks whether it is ready and whether it leads now."""
        await self._set_health(_READY, is_serving=self._served.is_ready)
        await self._set_health(_SERVICE, is_serving=self._served.plane is not None)

    async def stop(self) -> None:
        """Report NOT_SERVING to health checks, then end the streams."""
        for name in ("", _READY, _SERVICE):
            await self._set_health(name, is_serving=False)
        await self._server.stop(self._settings.stop_grace)

    async def _set_health(self, name: str, *, is_serving: bool) -> None:
        status = health_pb2.HealthCheckResponse
        await self._health.set(name, status.SERVING if is_serving else status.NOT_SERVING)


class RunningControlPlane:
    """A control plane that `serve` started."""

    def __init__(self, plane: Runtime, server: Server, failed: "asyncio.Future[None]"):
        self.plane = plane
        self._server = server
        self._failed = failed

    @property
    def address(self) -> str:
        """The address that clients connect to."""
        return self._server.address

    async def ready(self) -> None:
        """Return at once: it leads."""

    async def failed(self) -> None:
        """Wait until the control plane fails, and raise the error; the process should end then."""
        await asyncio.shield(self._failed)

    async def close(self) -> None:
        """Stop cleanly: the runtime first, so that every decided command is answered."""
        await self.plane.close()
        await self._server.stop()

    async def abort(self) -> None:
        """Stop as in a crash: nothing more is answered."""
        await self.plane.abort()
        await self._server.stop()


async def serve(
    address: str,
    journal_path: str,
    settings: ServiceSettings,
    *,
    cluster_id: str | None = None,
    clock: Clock | None = None,
    new_id: Callable[[], bytes] = lambda: os.urandom(16),
    pace: Pace | None = None,
    prepare: Callable[[State], None] = lambda _: None,
) -> RunningControlPlane:
    """Run a control plane with an SQLite journal at `journal_path`, listening on `address`.

    `cluster_id` is the id that the journal should have; None accepts any, and gives a new journal a new id. `pace` is
    passed to the journal. `prepare` is called with the state before the first command is decided. Raises JournalError
    and OSError.
    """
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    failed.add_done_callback(lambda future: future.cancelled() or future.exception())
    journal = SqliteJournal(journal_path, lambda: new_cluster_id(new_id), pace=pace)
    plane = Runtime(
        journal,
        clock or SystemClock(),
        new_id,
        settings.runtime,
        snapshotter=SnapshotProcess(journal),
        prepare=prepare,
        on_fatal=failed.set_exception,
    )
    await plane.start(cluster_id)
    lone = LonePlane(plane)
    server = Server(lone, settings)
    try:
        await server.start(address)
    except BaseException:
        await plane.close()
        raise
    lone.leader = server.address
    return RunningControlPlane(plane, server, failed)


def new_cluster_id(new_id: Callable[[], bytes]) -> str:
    """Return a cluster id in Kafka's format: 16 bytes as 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(new_id()).decode().rstrip("=")
