"""The control plane as a process of its own: a gRPC service around the runtime.

Each client keeps one Session stream open, on which it has a session while the control plane is the leader. The standard
health service reports "" as serving while the process runs, `ready` while the control plane is the leader or could take
over, and `controlplane.v1.ControlPlane` while it is the leader. The control plane listens on TCP or a Unix socket.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

from lacuna.base.addresses import is_loopback
from lacuna.base.pace import Pace
from lacuna.controlplane.client.grpc import CallError
from lacuna.controlplane.client.grpcio import imported
from lacuna.controlplane.client.protocol import ControlPlaneUnavailable
from lacuna.controlplane.client.tls import NO_TLS, ControlTlsSettings, made_of
from lacuna.controlplane.clock import Clock, SystemClock
from lacuna.controlplane.doorstep import Doorstep
from lacuna.controlplane.health import Health
from lacuna.controlplane.journal.journal import JournalError
from lacuna.controlplane.journal.snapshot_process import SnapshotProcess
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.listening import Call, GrpcServer
from lacuna.controlplane.rights import Job
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.controlplane.serving import ServedControlPlane, serve_stream
from lacuna.controlplane.shared.authorizing import AuthorizerSettings
from lacuna.controlplane.shared.contract import SESSION_METHOD, STATUS_METHOD
from lacuna.controlplane.shared.ids import show_id
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import (
    DESCRIPTOR,
    ControlPlaneStatus,
    SessionRequest,
    Standby,
    StatusRequest,
)

_log = logging.getLogger("lacuna.controlplane")

_READY: Final = "ready"
#: How often the journal's files are checked.
_WATCH_SECONDS: Final = 1.0
_SERVICE: Final = DESCRIPTOR.services_by_name["ControlPlane"].full_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Settings of the service and its runtime.

    A session ends if more than `max_outbox` deltas and replies are waiting for it. When the service stops cleanly,
    streams may continue for `stop_grace` seconds. `tls` applies to TCP addresses. `authorizer` determines whether ACLs
    restrict jobs.
    """

    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)
    tls: ControlTlsSettings = NO_TLS
    authorizer: AuthorizerSettings = field(default_factory=AuthorizerSettings)
    max_outbox: int = 100_000
    stop_grace: float = 1.0


class LoneControlPlane:
    """A control plane that has its journal to itself, and is therefore always the leader. `journal_path` is "" if the
    journal is not a file.
    """

    def __init__(self, runtime: Runtime, journal_path: str = "") -> None:
        self.runtime: Runtime | None = runtime
        self._journal_path = journal_path
        self.leader = ""
        self.changed = asyncio.Event()
        self.is_closed = False
        self.is_ready = True

    def status(self, standby: Standby | None = None) -> ControlPlaneStatus:  # noqa: ARG002 - there is none
        assert self.runtime is not None
        load = self.runtime.load()
        size, free = _disk_of(self._journal_path)
        return ControlPlaneStatus(
            is_leader=True,
            leader=self.leader,
            journal=f"SQLite at {self._journal_path}",
            disk_bytes=size,
            disk_free_bytes=free,
            epoch=self.runtime.epoch,
            position=self.runtime.durable_position,
            pending_records=load.pending_records,
            backlog=load.backlog,
            is_time_doubtful=self.runtime.time.is_doubtful,
            clocks_ahead_ms=int(self.runtime.time.apart_ms),
        )


def _disk_of(path: str) -> tuple[int, int]:
    """Return the size and free space of the disk that a file is on, in bytes, or zeros if unknown."""
    try:
        usage = shutil.disk_usage(os.path.dirname(path))
    except OSError:
        return 0, 0
    return usage.total, usage.free


class Server:
    """The gRPC service of one control plane. After `start`, clients connect to `address`."""

    def __init__(self, served: ServedControlPlane, settings: ServiceSettings) -> None:
        self._served = served
        self._settings = settings
        self._health = Health()
        self._tls = made_of(settings.tls)
        self._server: GrpcServer | None = None
        self._doorstep: Doorstep | None = None
        self.address = ""

    async def start(self, address: str, *, on_demand: bool = False) -> None:
        """Listen on `host:port` (port 0 for any free one) or `unix:path`.

        With `on_demand`, gRPC is loaded only when a client first connects to a Unix socket. Raises OSError if the
        address cannot be used, and UserError if TLS is configured without a certificate.
        """
        self._warn_of(address)
        try:
            if on_demand and address.startswith("unix:"):
                self._doorstep = Doorstep(address.removeprefix("unix:"), self._open_at)
                await self._doorstep.start()
                self.address = address
            else:
                self.address = await self._open(address)
        except OSError as error:
            # asyncio's own text would repeat the address; the error for an unknown name has a negative number
            is_plain = error.errno is not None and error.errno > 0
            reason = os.strerror(error.errno) if is_plain and error.errno else str(error)
            raise OSError(f"cannot listen on {address}: {reason}") from error
        self._health.set("", is_serving=True)
        await self.show_state()

    async def _open(self, address: str) -> str:
        handlers = {
            SESSION_METHOD: self._session,
            STATUS_METHOD: self._status,
            **self._health.handlers,
        }
        self._server = GrpcServer(handlers, self._tls)
        return await self._server.start(address)

    async def _open_at(self, path: str) -> None:
        await asyncio.to_thread(imported)
        await self._open(f"unix:{path}")

    def _warn_of(self, address: str) -> None:
        """Log a warning if clients on other machines can connect without authentication."""
        if address.startswith("unix:") or is_loopback(address.rpartition(":")[0]):
            return
        if self._tls is None or not self._tls.asks_for_certificates:
            _log.warning(
                "%s accepts every client that can connect to it%s. Such a client can read, "
                "change and delete everything. Give all control planes, agents and jobs "
                "certificates with --control-tls-cert, --control-tls-key and --control-tls-ca, "
                "or allow only trusted hosts to reach it",
                address,
                ", and nothing is encrypted" if self._tls is None else "",
            )

    def _job_of(self, call: Call) -> Job | None:
        """Return the calling job, or None for an agent or control plane. Without certificates, every caller is treated
        as an agent.
        """
        if self._tls is None or self.address.startswith("unix:"):
            return None
        return None if self._tls.is_cluster(call.subject) else Job(call.subject, call.host)

    async def show_state(self) -> None:
        """Report to health checks whether the control plane is ready, and whether it is the leader."""
        self._health.set(_READY, is_serving=self._served.is_ready)
        self._health.set(_SERVICE, is_serving=self._served.runtime is not None)

    async def stop(self) -> None:
        """Report NOT_SERVING to health checks, then end the streams."""
        for name in ("", _READY, _SERVICE):
            self._health.set(name, is_serving=False)
        if self._doorstep is not None:
            await self._doorstep.stop()
        if self._server is not None:
            await self._server.stop(self._settings.stop_grace)

    async def _session(self, call: Call) -> None:
        try:
            await serve_stream(
                self._served,
                _requests(call),
                call.write,
                self._settings.max_outbox,
                job=self._job_of(call),
            )
        except ControlPlaneUnavailable as error:
            raise CallError("UNAVAILABLE", str(error)) from error

    async def _status(self, call: Call) -> None:
        request = await call.read_only(StatusRequest)
        is_standby = request.HasField("standby") and self._job_of(call) is None
        status = self._served.status(request.standby if is_standby else None)
        await call.write(status)


async def _requests(call: Call) -> AsyncIterator[SessionRequest]:
    while (message := await call.read()) is not None:
        yield SessionRequest.FromString(message)


class RunningControlPlane:
    """A control plane started by `serve`."""

    def __init__(
        self,
        lone: LoneControlPlane,
        server: Server,
        failed: "asyncio.Future[None]",
        watching: "asyncio.Task[None]",
    ):
        assert lone.runtime is not None
        self.runtime = lone.runtime
        self._watching = watching
        self.status = lone.status
        self._server = server
        self._failed = failed

    @property
    def address(self) -> str:
        return self._server.address

    async def ready(self) -> None:
        """Return immediately, because this control plane is the leader."""

    @property
    def is_ready(self) -> bool:
        """Always true, since this control plane is the leader."""
        return True

    async def failed(self) -> None:
        """Wait until the control plane fails, and raise the error. The process should then end."""
        await asyncio.shield(self._failed)

    async def close(self) -> None:
        """Stop cleanly: the runtime first, so that every decided command is answered."""
        self._watching.cancel()
        await self.runtime.close()
        await self._server.stop()

    async def abort(self) -> None:
        """Stop as in a crash: nothing more is answered."""
        self._watching.cancel()
        await self.runtime.abort()
        await self._server.stop()


async def _watch_files(journal: SqliteJournal, runtime: Runtime) -> None:
    """Stop the control plane if its journal file is replaced or deleted, even while no requests arrive."""
    while True:
        await asyncio.sleep(_WATCH_SECONDS)
        try:
            journal.check_files()
        except JournalError as error:
            runtime.give_up(error)
            return


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
    on_demand: bool = False,
) -> RunningControlPlane:
    """Run a control plane that listens on `address`, with an SQLite journal at `journal_path`.

    `cluster_id` is the expected id, or None for any, in which case a new journal receives a new one. `pace` applies to
    the journal. `prepare` is called with the state before the first decision. `on_demand` has the same meaning as in
    `Server.start`. Raises JournalError and OSError.
    """
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    failed.add_done_callback(lambda future: future.cancelled() or future.exception())
    journal = SqliteJournal(journal_path, lambda: new_cluster_id(new_id), pace=pace)
    runtime = Runtime(
        journal,
        clock or SystemClock(),
        new_id,
        settings.runtime,
        snapshotter=SnapshotProcess(journal),
        authorizer=settings.authorizer,
        prepare=prepare,
        on_fatal=failed.set_exception,
    )
    await runtime.start(cluster_id)
    lone = LoneControlPlane(runtime, journal_path)
    server = Server(lone, settings)
    try:
        await server.start(address, on_demand=on_demand)
    except BaseException:
        await runtime.close()
        raise
    lone.leader = server.address
    watching = asyncio.create_task(_watch_files(journal, runtime), name="journal's files")
    return RunningControlPlane(lone, server, failed, watching)


def new_cluster_id(new_id: Callable[[], bytes]) -> str:
    """Return a cluster id in Kafka's format: 16 bytes as 22 characters of URL-safe base64."""
    return show_id(new_id())
