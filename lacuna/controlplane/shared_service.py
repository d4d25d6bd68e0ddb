"""One of several control planes, as a process. It listens immediately; the journal decides whether it is the leader."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from socket import gethostname

from google.protobuf.message import DecodeError

from lacuna.controlplane.client.grpc import CallError, ask_once
from lacuna.controlplane.client.protocol import ControlPlaneUnavailable
from lacuna.controlplane.client.tls import ControlTls, made_of
from lacuna.controlplane.clock import Clock, SystemClock
from lacuna.controlplane.journal.journal import SharedJournal, Snapshotter
from lacuna.controlplane.journal.replica import Replica
from lacuna.controlplane.journal.snapshot_process import SnapshotProcess
from lacuna.controlplane.node import Node
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.service import Server, ServiceSettings
from lacuna.controlplane.shared.contract import STATUS_METHOD
from lacuna.controlplane.shared.reach import is_address
from lacuna.controlplane.state.state import State
from lacuna.controlplane.tenure import LeasedTenure
from lacuna.controlplane.v1.control_pb2 import ControlPlaneStatus, Standby, StatusRequest

_ASK_SECONDS = 1.0


class RunningNode:
    """A control plane started by `serve_shared`."""

    def __init__(self, node: Node, server: Server, running: "asyncio.Task[None]") -> None:
        self.node = node
        self.status = node.status
        self._server = server
        self._running = running

    @property
    def address(self) -> str:
        return self._server.address

    async def ready(self) -> None:
        """Wait until this control plane is the leader or could take over. If it fails first, raises the error."""
        while not self.is_ready:
            await self._changed()

    @property
    def is_ready(self) -> bool:
        """Whether this control plane is the leader or could take over now."""
        return self.node.is_ready

    async def _changed(self) -> None:
        """Wait until this control plane becomes a leader or a standby, or stops being one. If it fails first, raises
        the error.
        """
        changed = asyncio.ensure_future(self.node.changed.wait())
        await asyncio.wait([changed, self._running], return_when=asyncio.FIRST_COMPLETED)
        changed.cancel()
        if self._running.done():
            self._running.result()

    async def failed(self) -> None:
        """Wait until the control plane fails, and raise the error. The process should then end."""
        await asyncio.shield(self._running)

    @property
    def runtime(self) -> Runtime:
        """The runtime. Raises ControlPlaneUnavailable while another control plane is the leader."""
        if self.node.runtime is None:
            leader = self.node.leader
            raise ControlPlaneUnavailable(
                f"the control plane at {leader} leads" if leader else "no control plane leads yet"
            )
        return self.node.runtime

    async def leads(self, stands_by: Callable[[str], None]) -> None:
        """Wait until this control plane is the leader, calling `stands_by` with the address of each other leader in the
        meantime. If it fails first, raises the error.
        """
        leader = ""
        while self.node.runtime is None:
            if self.node.leader not in ("", leader):
                leader = self.node.leader
                stands_by(leader)
            await self._changed()

    async def abort(self) -> None:
        """Stop as in a crash: nothing more is answered."""
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        if self.node.runtime is not None:
            await self.node.runtime.abort()
        await self._server.stop()

    async def close(self) -> None:
        """Stop cleanly: answer everything decided, and release the journal, so that a standby can take over
        immediately.
        """
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await self.node.close()
        await self._server.stop()


async def serve_shared(
    address: str,
    make_journal: Callable[[str], SharedJournal],
    settings: ServiceSettings,
    *,
    advertised: str = "",
    cluster_id: str | None = None,
    make_snapshotter: Callable[[SharedJournal], Snapshotter] = SnapshotProcess,
    clock: Clock | None = None,
    new_id: Callable[[], bytes] = lambda: os.urandom(16),
    prepare: Callable[[State], None] = lambda _: None,
    on_demand: bool = False,
) -> RunningNode:
    """Run one of several control planes, listening on `address`.

    `make_journal` is called with the address at which clients reach this control plane, and returns the unopened
    journal. That address is `advertised` or, by default, the address it listens on; for a Unix socket, it is a name.
    `clock` is the cluster's clock; leases are measured by the machine's clock. `on_demand` has the same meaning as in
    `Server.start`. Raises OSError if the address cannot be used.
    """
    clock = clock or SystemClock()

    def make_runtime(
        journal: SharedJournal,
        replica: Replica,
        tenure: LeasedTenure,
        on_fatal: Callable[[BaseException], None],
    ) -> Runtime:
        return Runtime(
            journal,
            clock,
            new_id,
            settings.runtime,
            snapshotter=make_snapshotter(journal),
            replica=replica,
            tenure=tenure,
            snapshot_appends=journal.snapshot_appends,
            confirm=journal.confirm,
            authorizer=settings.authorizer,
            prepare=prepare,
            on_fatal=on_fatal,
        )

    # The address is known only once the server listens, and clients may connect as soon as it does.
    ask_leader = partial(ask_status, tls=made_of(settings.tls))
    node = Node(make_runtime, SystemClock(), ask_leader, cluster_id=cluster_id)
    server = Server(node, settings)
    await server.start(address, on_demand=on_demand)
    if address.startswith("unix:"):
        advertised = advertised or local_name("a control plane")
    node.begin(advertised or server.address, make_journal, server.show_state)
    return RunningNode(node, server, asyncio.create_task(node.run(), name="control plane"))


def local_name(what: str) -> str:
    """Return a name for a control plane that can be reached only from its own machine. It contains spaces, and thus
    differs from any address.
    """
    return f"{what} on {gethostname()}, process {os.getpid()}"


async def ask_status(
    address: str, standby: Standby | None = None, tls: ControlTls | None = None
) -> ControlPlaneStatus | None:
    """Return the status reported by the control plane at `address`, or None if it does not answer. `standby` is the
    caller, if any.
    """
    if not is_address(address):
        return None
    request = StatusRequest(standby=standby).SerializeToString()
    try:
        answer = await ask_once(address, STATUS_METHOD, request, _ASK_SECONDS, tls)
        return ControlPlaneStatus.FromString(answer)
    except (CallError, DecodeError):
        return None
