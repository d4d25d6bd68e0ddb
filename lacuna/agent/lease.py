"""An agent's node id and lease, both assigned by the control plane, and the segment ids under that lease.

RegisterAgent returns a lease, which is renewed whenever a third of its duration has passed. While the control plane
cannot be reached, the renewal is retried. Once the control plane reports that the lease has expired, the agent
registers again and gets a new lease. A segment id is (lease id, sequence), so no id is ever used twice. Segments
written under an old lease but never committed are collected.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from lacuna.agent.metrics import AgentMetrics
from lacuna.agent.security.listeners import DEFAULT_NAME
from lacuna.agent.settings import AgentSettings
from lacuna.agent.trust import Trust
from lacuna.controlplane.client import CommandRefused, ControlClient, ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import (
    AgentReport,
    Endpoint,
    RegisterAgent,
    ReleaseLease,
    RenewLease,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.logstore.segments.hot import hot_lease
from lacuna.logstore.segments.paths import SegmentId

log = logging.getLogger("lacuna.agent")

_RETRY_SECONDS = 0.2
NO_LEASE = -1


class NoLeaseError(Exception):
    """The agent holds no lease, so it may not write. Clients should retry."""


class AgentLease:
    """Registers the agent, and renews and releases its lease. One per process; an agent's workers share a node id."""

    def __init__(
        self,
        control: ControlClient,
        settings: AgentSettings,
        metrics: AgentMetrics,
    ) -> None:
        self._control = control
        self._settings = settings
        self._metrics = metrics
        self._endpoints = [(each.name, *each.endpoint(0)) for each in settings.listeners]
        self._sequence = 0
        self._duration_seconds = 0.0
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._session = 0
        self._is_hidden = False
        self._is_leaving = False
        #: Called when the lease is lost or the agent is hidden, since clients may have been sent to other agents.
        self.on_lost: Callable[[], None] = lambda: None
        #: The report that the agent sends with each renewal.
        self.report: Callable[[], AgentReport] = AgentReport
        self.trust = Trust(control, metrics)
        self.node_id = -1
        self.lease_id = NO_LEASE
        self.cluster_id = ""
        #: Whether other machines can continue with the control plane's journal if the control plane's own machine is
        #: lost.
        self.is_journal_shared = False

    @property
    def host(self) -> str:
        """The host at which other agents reach this one, as advertised by the first listener."""
        return self._endpoints[0][1]

    @property
    def port(self) -> int:
        """The port that belongs to `host`, or 0 before `start` unless a port is advertised."""
        return self._endpoints[0][2]

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """The address to which the clients of each listener connect."""
        return [
            Endpoint(listener=name, host=host, port=port) for name, host, port in self._endpoints
        ]

    def next_segment_id(self, *, is_hot: bool = False) -> SegmentId:
        """Return a segment id that has never been used. Raises NoLeaseError."""
        if self.lease_id == NO_LEASE:
            raise NoLeaseError("the agent currently has no lease from the control plane")
        self._sequence += 1
        return SegmentId(hot_lease(self.lease_id) if is_hot else self.lease_id, self._sequence)

    def report_expired(self, lease_id: int) -> None:
        """Register again immediately if `lease_id`, which the control plane reported as expired, is still current."""
        if lease_id == self.lease_id:
            self.lease_id = NO_LEASE
            self._wake.set()
            self.on_lost()

    async def start(self, *ports: int) -> None:
        """Register the agent, and keep renewing its lease. `ports` are the ports of its listeners, in order.

        Raises ControlPlaneUnavailable or CommandRefused if the first registration fails.
        """
        self._endpoints = [
            (each.name, *each.endpoint(port))
            for each, port in zip(self._settings.listeners, ports, strict=True)
        ]
        self._session = self._control.cluster.sessions
        self._control.cluster.add_listener(self._on_cluster)
        try:
            await self._register()
        except BaseException:
            self._control.cluster.remove_listener(self._on_cluster)
            raise
        self._task = asyncio.get_running_loop().create_task(self._keep(), name="lease")

    async def leave(self, seconds: float) -> bool:
        """Ask the control plane to send clients to other agents. Wait up to `seconds`, and return whether it has
        agreed.

        The lease is still renewed, so that requests already read can be answered. Call `stop_renewing` afterwards.
        """
        self._is_leaving = True
        if self.lease_id != NO_LEASE:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.renew()
        return self.lease_id in self._control.cluster.hidden_lease_ids

    async def stop_renewing(self) -> None:
        """Stop renewing. The lease stays valid for a while, for segments that are still being written."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
            self._task = None
            self._control.cluster.remove_listener(self._on_cluster)

    async def release(self, seconds: float) -> None:
        """Release the lease after the last commit under it, so that Metadata stops listing the agent immediately.

        Without a reply within `seconds`, the lease is left to expire.
        """
        if self.lease_id == NO_LEASE:
            return
        command = Command(release_lease=ReleaseLease(lease_id=self.lease_id))
        self.lease_id = NO_LEASE
        try:
            async with asyncio.timeout(seconds):
                await self._control.call(command)
        except TimeoutError:
            log.info(
                "the lease could not be released within %g s, so it will expire by itself",
                seconds,
            )
        except (ControlPlaneUnavailable, CommandRefused) as error:
            log.info("the lease could not be released, so it will expire by itself: %s", error)

    async def confirm(self, lease_id: int) -> None:
        """Make sure that objects put under this lease will be collected even if it has ended.

        If the lease is current, renew it. If it has ended, have its objects swept once more. Returns once a control
        plane has replied.
        """
        if lease_id == self.lease_id:
            await self.renew()
        while lease_id != self.lease_id:
            command = Command(release_lease=ReleaseLease(lease_id=lease_id))
            try:
                await self._control.call(command)
            except ControlPlaneUnavailable:
                await asyncio.sleep(_RETRY_SECONDS)
            except CommandRefused as error:
                log.warning(
                    "lease %x may have left objects that will never be collected: %s",
                    lease_id,
                    error,
                )
                return
            else:
                return

    async def _register(self) -> None:
        began = asyncio.get_running_loop().time()
        report = self.report()
        command = RegisterAgent(
            host=self.host,
            port=self.port,
            zone=self._settings.zone,
            clock_ms=report.clock_ms,
            store_clock_ms=report.store_clock_ms,
        )
        if [each.name for each in self._settings.listeners] != [DEFAULT_NAME]:
            command.endpoints.extend(self.endpoints)
        reply = (await self._control.call(Command(register_agent=command))).agent_registered
        if reply.error_code != ErrorCode.NONE:
            raise CommandRefused(
                reply.error_code, "the control plane refused to register the agent"
            )
        self.node_id = reply.node_id
        self.cluster_id = reply.cluster_id
        self.is_journal_shared = reply.is_journal_shared
        self._duration_seconds = self.trust.lasts = reply.lease_duration_ms / 1000
        self.trust.renew(began)
        self._sequence = 0
        self._wake.clear()
        self.lease_id = reply.lease_id
        self._metrics.lease_registrations += 1
        log.info("serving as node %d, %s:%d", self.node_id, self.host, self.port)

    async def _keep(self) -> None:
        while self.lease_id != NO_LEASE or not self._is_leaving:
            try:
                if self.lease_id == NO_LEASE:
                    await self._register_again()
                await self._wait(self._duration_seconds / 3)
                if self.lease_id != NO_LEASE:
                    await self.renew()
            except Exception:
                # If the task ended at this point, the agent would keep running but could never write again.
                log.exception(
                    "unexpected error while keeping the lease, retrying; please report it"
                )
                await self._wait(_RETRY_SECONDS)

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    def _on_cluster(self) -> None:
        """Renew the lease over each new session, so that the control plane knows which agent the session belongs to
        (ADR 0018).

        If the agent is hidden, its clients move to other agents, so commands from them that are still unsent are
        dropped.
        """
        cluster = self._control.cluster
        if cluster.sessions != self._session:
            self._session = cluster.sessions
            self._wake.set()
            self.trust.is_replaced = False
            if self.lease_id not in (NO_LEASE, *cluster.lease_ids):
                # The lease has ended, so clients were sent to other agents long ago.
                self._give_up_unsent()
                self.report_expired(self.lease_id)
        is_hidden = self.lease_id in cluster.hidden_lease_ids
        if is_hidden and not self._is_hidden and not self._is_leaving:
            self._wake.set()
            self._give_up_unsent()
            self.on_lost()
        self._is_hidden = is_hidden

    def _give_up_unsent(self) -> None:
        self._control.give_up_unsent(
            "the agent was cut off from the control plane, and its clients were sent to other "
            "agents"
        )

    async def renew(self) -> None:
        """Renew the lease once, retrying until there is a reply. If the lease has expired, register again."""
        lease_id = self.lease_id
        failures = 0
        while self.lease_id == lease_id:
            lease = RenewLease(lease_id=lease_id, is_leaving=self._is_leaving, report=self.report())
            began = asyncio.get_running_loop().time()
            try:
                reply = (await self._control.call(Command(renew_lease=lease))).lease_renewed
            except (ControlPlaneUnavailable, CommandRefused) as error:
                failures += 1
                self._metrics.lease_renewals_failed += 1
                # A control plane can be unreachable for minutes, during which each attempt fails the same way.
                level = logging.WARNING if failures == 1 else logging.DEBUG
                log.log(level, "the lease could not be renewed, retrying: %s", error)
                await self._wait(_RETRY_SECONDS)
                continue
            if failures:
                log.warning("the lease was renewed after %d failed attempts", failures)
            self.trust.renew(began)
            if reply.error_code != ErrorCode.NONE:
                self._metrics.lease_renewals_failed += 1
                self.report_expired(lease_id)
            else:
                self.is_journal_shared = reply.is_journal_shared
            return

    async def _register_again(self) -> None:
        try:
            await self._register()
        except (ControlPlaneUnavailable, CommandRefused) as error:
            log.warning("the agent could not register again, retrying: %s", error)
            self._wake.clear()
            await self._wait(_RETRY_SECONDS)
