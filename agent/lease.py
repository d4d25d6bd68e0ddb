"""An agent's standing with the control plane: node id, lease, and the segment ids that it gives.

RegisterAgent gives a lease; it is renewed at a third of its duration. While the control plane is
away the renewal is tried again and again; once it says that the lease has expired, the agent
registers anew and gets another. Segment ids are (lease id, sequence), so no id is ever given twice,
and what was written under an old lease and not committed is the collector's.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.metrics import AgentMetrics
from agent.settings import AgentSettings
from controlplane.client import CommandRefused, ControlPlaneUnavailable
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import RegisterAgent, ReleaseLease, RenewLease
from controlplane.v1.control_pb2 import Command
from logstore.segments.paths import SegmentId

if TYPE_CHECKING:
    from controlplane.client import ControlClient

log = logging.getLogger("lacuna.agent")

_RETRY_SECONDS = 0.2
NO_LEASE = -1


class NoLeaseError(Exception):
    """The agent holds no lease now: nothing may be written. Clients are to retry."""


class AgentLease:
    """Registers, renews and releases. One a process; workers of an agent share the node id."""

    def __init__(
        self,
        control: "ControlClient",
        settings: AgentSettings,
        metrics: AgentMetrics,
    ) -> None:
        self._control = control
        self._settings = settings
        self._metrics = metrics
        self._port = settings.advertised_port
        self._sequence = 0
        self._duration_seconds = 0.0
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._session = 0
        self._is_hidden = False
        #: Called once others are known to have been named in our place: the lease is lost or was hidden.
        self.on_lost: Callable[[], None] = lambda: None
        self.node_id = -1
        self.lease_id = NO_LEASE
        self.cluster_id = ""

    @property
    def host(self) -> str:
        """The advertised host."""
        return self._settings.advertised_host

    @property
    def port(self) -> int:
        """The advertised port; 0 before `start`."""
        return self._port

    def next_segment_id(self) -> SegmentId:
        """A segment id that was never given before. Raises NoLeaseError."""
        if self.lease_id == NO_LEASE:
            raise NoLeaseError("no lease from the control plane at the moment")
        self._sequence += 1
        return SegmentId(self.lease_id, self._sequence)

    def report_expired(self, lease_id: int) -> None:
        """A commit was answered LEASE_EXPIRED: register again at once, unless that was done."""
        if lease_id == self.lease_id:
            self.lease_id = NO_LEASE
            self._wake.set()
            self.on_lost()

    async def start(self, port: int) -> None:
        """Register (with `port` unless the settings advertise another) and keep the lease.

        Raises ControlPlaneUnavailable or CommandRefused when the first registration fails.
        """
        self._port = self._settings.advertised_port or port
        self._session = self._control.cluster.sessions
        self._control.cluster.add_listener(self._on_cluster)
        try:
            await self._register()
        except BaseException:
            self._control.cluster.remove_listener(self._on_cluster)
            raise
        self._task = asyncio.get_running_loop().create_task(self._keep(), name="lease")

    async def stop_renewing(self) -> None:
        """End the task. The lease still holds for what is being written."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
            self._task = None
            self._control.cluster.remove_listener(self._on_cluster)

    async def release(self) -> None:
        """Give the lease back, after the last commit under it: the agent is out of Metadata at once."""
        if self.lease_id == NO_LEASE:
            return
        command = Command(release_lease=ReleaseLease(lease_id=self.lease_id))
        self.lease_id = NO_LEASE
        try:
            await self._control.call(command)
        except (ControlPlaneUnavailable, CommandRefused) as error:
            log.info("the lease was not given back, it will expire: %s", error)

    async def _register(self) -> None:
        command = RegisterAgent(host=self.host, port=self._port, zone=self._settings.zone)
        reply = (await self._control.call(Command(register_agent=command))).agent_registered
        if reply.error_code != ErrorCode.NONE:
            raise CommandRefused(reply.error_code, "the agent was not registered")
        self.node_id = reply.node_id
        self.cluster_id = reply.cluster_id
        self._duration_seconds = reply.lease_duration_ms / 1000
        self._sequence = 0
        self._wake.clear()
        self.lease_id = reply.lease_id
        self._metrics.lease_registrations += 1

    async def _keep(self) -> None:
        while True:
            try:
                if self.lease_id == NO_LEASE:
                    await self._register_again()
                await self._wait(self._duration_seconds / 3)
                if self.lease_id != NO_LEASE:
                    await self.renew()
            except Exception:
                # Were it to end here, the agent would go on, and could write nothing ever after.
                log.exception("our own mistake in keeping the lease, which is tried again")
                await self._wait(_RETRY_SECONDS)

    async def _wait(self, seconds: float) -> None:
        """Wait, or until the lease is known to be lost or is to be renewed at once."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    def _on_cluster(self) -> None:
        """Renews over each new session, so that the control plane knows whose it is (ADR 0018).

        While the lease was hidden, clients were sent elsewhere: what they asked here before is not to
        be done any more.
        """
        cluster = self._control.cluster
        if cluster.sessions != self._session:
            self._session = cluster.sessions
            self._wake.set()
        is_hidden = self.lease_id in cluster.hidden_lease_ids
        if is_hidden and not self._is_hidden:
            self._wake.set()
            self._control.give_up_unsent("clients were sent elsewhere meanwhile")
            self.on_lost()
        self._is_hidden = is_hidden

    async def renew(self) -> None:
        """Renew once, however long it takes; registers again later where the lease has ended."""
        lease_id = self.lease_id
        command = Command(renew_lease=RenewLease(lease_id=lease_id))
        while self.lease_id == lease_id:
            try:
                reply = (await self._control.call(command)).lease_renewed
            except (ControlPlaneUnavailable, CommandRefused) as error:
                self._metrics.lease_renewals_failed += 1
                log.warning("the lease was not renewed, trying again: %s", error)
                await self._wait(_RETRY_SECONDS)
                continue
            if reply.error_code != ErrorCode.NONE:
                self._metrics.lease_renewals_failed += 1
                self.report_expired(lease_id)
            return

    async def _register_again(self) -> None:
        try:
            await self._register()
        except (ControlPlaneUnavailable, CommandRefused) as error:
            log.warning("registering again failed, the next attempt follows: %s", error)
            self._wake.clear()
            await self._wait(_RETRY_SECONDS)
