"""Assembles an agent from its context, services, listener and lease."""

import asyncio
import logging
import random
import time
from dataclasses import dataclass, field, replace
from functools import partial

from lacuna.agent.apis import discover
from lacuna.agent.aside import Aside
from lacuna.agent.asking import NOT_KNOWN, Asking, Whereabouts
from lacuna.agent.clock import WallClock
from lacuna.agent.context import AgentContext
from lacuna.agent.fetch.service import FetchService
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.fetch.zone import Zone
from lacuna.agent.guards import guarded
from lacuna.agent.hot import with_hot
from lacuna.agent.housekeeping import Housekeeping, HousekeepingSettings
from lacuna.agent.lease import AgentLease
from lacuna.agent.members import Members
from lacuna.agent.metrics import AgentMetrics
from lacuna.agent.peer_lines import ConnectPeer, PeerLines
from lacuna.agent.peers import AskPeer, Named, Peers
from lacuna.agent.placement import others_are_live
from lacuna.agent.produce.service import ProduceService
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.agent.quotas.quotas import Quotas
from lacuna.agent.quotas.sharing import QuotaSharing
from lacuna.agent.report import report_of
from lacuna.agent.security.access import Access
from lacuna.agent.security.peers import PeerIdentity
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.server import AgentServer
from lacuna.agent.settings import AgentSettings
from lacuna.base.addresses import join_address
from lacuna.base.pace import LoopLoad, MeasuredPace, Pace
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.v1.cluster_pb2 import Agent, AgentReport
from lacuna.logstore.objects import ObjectStore
from lacuna.operating.exchanges.cluster import DESCRIBE_CLUSTER
from lacuna.operating.kafka import Agents, BootstrapUnavailable, KafkaConnection, NotAuthenticated
from lacuna.wire.messages.cluster import DescribeClusterRequest

log = logging.getLogger("lacuna.agent")

#: How long a stopping agent waits for the control plane to send clients elsewhere. Clients also notice on their own.
_LEAVE_SECONDS = 1.0
#: How long a stopping agent then waits to release the lease. A takeover by another control plane takes less time.
_RELEASE_SECONDS = 4.0
#: How long this agent waits for a connection to another agent, or for that agent's answer.
_PEER_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """The settings of an agent's parts. Without `housekeeping`, the agent leaves merges and collection to others."""

    agent: AgentSettings = field(default_factory=AgentSettings)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    produce: ProduceSettings = field(default_factory=ProduceSettings)
    fetch: FetchSettings = field(default_factory=FetchSettings)
    housekeeping: HousekeepingSettings | None = field(default_factory=HousekeepingSettings)

    def without_housekeeping(self) -> "AgentParts":
        """Return a copy without merges or collection, for processes in which another agent performs them."""
        return replace(self, housekeeping=None)


@dataclass(frozen=True, slots=True, eq=False)
class RunningAgent:
    """An agent that is serving clients, from `start_agent` until `stop`."""

    context: AgentContext
    server: AgentServer
    housekeeping: Housekeeping | None
    _peers: Peers
    _aside: Aside
    _sharing: QuotaSharing

    @property
    def bootstrap(self) -> str:
        """The HOST:PORT at which clients reach the agent."""
        lease = self.context.lease
        return join_address(lease.host, lease.port)

    def report(self) -> AgentReport:
        metrics = None if self.housekeeping is None else self.housekeeping.metrics
        return report_of(self.context, self.server.peers(), metrics)

    async def stop(self) -> None:
        """Sends clients to other agents, answers the requests received so far, and releases the lease.

        The caller must still close the control client.
        """
        await self._stop_watching()
        has_left = await self.context.lease.leave(_LEAVE_SECONDS)
        if self.housekeeping is not None:
            await self.housekeeping.stop()
        self.context.fetch.end_waits()
        self.context.shares.end_waits()
        if has_left and others_are_live(self.context):
            await self.server.hand_over()
        await self.server.stop()
        await self.context.produce.close()
        await self.context.fetch.close()
        await self.context.lease.stop_renewing()
        await self.context.lease.release(_RELEASE_SECONDS)

    async def abort(self) -> None:
        """Stops as in a crash: drops connections, flushes nothing, and leaves the lease to expire."""
        self.server.abort()
        if self.context.fetch.shared is not None:
            self.context.fetch.shared.hang_up()
        self.context.produce.flusher.copies.abort()
        await self._stop_watching()
        if self.housekeeping is not None:
            await self.housekeeping.stop()
        await self.context.lease.stop_renewing()

    async def _stop_watching(self) -> None:
        await self._aside.stop()
        await self._sharing.stop()
        await self._peers.stop()
        await self.context.lines.stop()
        if self.context.access.peers is not None:
            self.context.access.peers.stop()


async def start_agent(
    *,
    control: ControlClient,
    store: ObjectStore,
    parts: AgentParts,
    clock: WallClock,
    randomness: random.Random,
    reuse_port: bool = False,
    pace: Pace | None = None,
    ask_peer: AskPeer | None = None,
    connect_peer: ConnectPeer | None = None,
    whereabouts: Whereabouts = NOT_KNOWN,
) -> RunningAgent:
    """Starts an agent, which opens its listeners and then takes its lease from the control plane.

    `pace`, measured by default, decides which small PUTs run in the event loop. `ask_peer` and `connect_peer` reach
    other agents, by default at the addresses that clients use. `whereabouts` tells jobs where the cluster is. Raises
    ListenError and other UserErrors, ControlPlaneUnavailable, CommandRefused.
    """
    pace = pace or MeasuredPace(LoopLoad())
    identity = PeerIdentity(control)
    access = Access(
        parts.security, parts.agent.listeners, control.cluster.security, clock, identity
    )
    await control.cluster.ready()
    access.check_users()
    connect_peer = connect_peer or partial(_connect_peer, access)
    context = _context(
        control, store, parts, clock, randomness, pace, connect_peer, access, whereabouts
    )
    registry = guarded(discover(), access.authorizer, context.metrics, time.monotonic)
    server = AgentServer(context, registry)
    context.lease.on_lost = server.drop_clients
    await server.start(reuse_port=reuse_port)
    context.access.warn()
    try:
        await context.lease.start(*server.ports)
    except BaseException:
        await server.stop()
        raise
    if parts.produce.hot_bytes < 0 and not context.produce.flusher.hot.is_journal_as_durable:
        log.info(
            "small flushes wait for the bucket. With produce.hot.bytes=524288, they would not, but the newest records "
            "would then be only as durable as the disk that holds the control plane's journal. That value is the "
            "default if the journal is in PostgreSQL or in the bucket"
        )
    housekeeping = None
    if parts.housekeeping is not None:
        housekeeping = Housekeeping(context, parts.housekeeping).start()
    peers = Peers(control, context.lease, ask_peer or partial(_ask_peer, access))
    peers.start()
    context.lines.start()
    aside = Aside(control, server)
    aside.start()
    sharing = QuotaSharing(control, context.lease, context.quotas)
    sharing.start()
    running = RunningAgent(context, server, housekeeping, peers, aside, sharing)
    context.lease.report = running.report
    return running


async def _connect_peer(access: Access, agent: Agent) -> "asyncio.Future[None]":
    loop = asyncio.get_running_loop()
    broken: asyncio.Future[None] = loop.create_future()
    context = access.to_peers(loop.time()).context
    async with asyncio.timeout(_PEER_SECONDS):
        transport, _ = await loop.create_connection(
            lambda: _Line(broken),
            agent.host,
            agent.port,
            ssl=context,
            server_hostname=None if context is None else agent.host,
        )
    broken.add_done_callback(lambda _: transport.close())
    return broken


class _Line(asyncio.Protocol):
    def __init__(self, broken: "asyncio.Future[None]") -> None:
        self._broken = broken

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if not self._broken.done():
            self._broken.set_result(None)


async def _ask_peer(access: Access, agent: Agent) -> Named | None:
    security = access.to_peers(asyncio.get_running_loop().time())
    address = Agents(join_address(agent.host, agent.port), security)
    try:
        async with KafkaConnection(address, _PEER_SECONDS) as connection:
            response = await connection.ask(*DESCRIBE_CLUSTER, DescribeClusterRequest())
    except (BootstrapUnavailable, NotAuthenticated):
        return None
    return Named(response.cluster_id, [broker.broker_id for broker in response.brokers])


def _context(
    control: ControlClient,
    store: ObjectStore,
    parts: AgentParts,
    clock: WallClock,
    randomness: random.Random,
    pace: Pace,
    connect_peer: ConnectPeer,
    access: Access,
    whereabouts: Whereabouts,
) -> AgentContext:
    """Build all parts of an agent except its listener."""
    metrics = AgentMetrics()
    store, hot = with_hot(store, control)
    lease = AgentLease(control, parts.agent, metrics)
    lines = PeerLines(control, lease, connect_peer)
    fetch = FetchService(
        control=control,
        store=store,
        holding=hot.holding,
        trust=lease.trust,
        cluster_id=lambda: control.cluster.cluster_id,
        randint=randomness.randint,
        settings=parts.fetch,
        zone=Zone(control, lease, lines, parts.agent.zone, parts.fetch, access.to_peers),
    )
    produce = ProduceService(
        control=control,
        store=store,
        lease=lease,
        clock=clock,
        hot=hot,
        fetch=fetch,
        settings=parts.produce,
        pace=pace,
    )
    return AgentContext(
        control=control,
        store=store,
        clock=clock,
        randomness=randomness,
        settings=parts.agent,
        advertised=discover().advertised(),
        lease=lease,
        metrics=metrics,
        produce=produce,
        fetch=fetch,
        members=Members(control, lease.trust),
        lines=lines,
        quotas=Quotas(control.cluster.security),
        access=access,
        holding=hot.holding,
        asking=Asking(whereabouts),
    )
