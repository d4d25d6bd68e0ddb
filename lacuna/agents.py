"""Putting one agent together: its context, its services, its listener, its lease."""

import os
import random
from dataclasses import dataclass, field, replace

from agent.apis.registry import discover
from agent.clock import Clock
from agent.context import AgentContext
from agent.fetch.service import FetchService
from agent.fetch.settings import FetchSettings
from agent.housekeeping import Housekeeping, HousekeepingSettings
from agent.lease import AgentLease
from agent.metrics import AgentMetrics
from agent.produce.service import ProduceService
from agent.produce.settings import ProduceSettings
from agent.server import AgentServer
from agent.settings import AgentSettings
from controlplane.client import ControlClient
from lacuna.addresses import join_address
from lacuna.errors import UserError
from lacuna.pace import LoopLoad, Pace
from logstore.objects import ObjectStore


class ListenError(UserError):
    """The address cannot be listened on; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """Settings of one agent's parts. `housekeeping` None: others merge and collect."""

    agent: AgentSettings = field(default_factory=AgentSettings)
    produce: ProduceSettings = field(default_factory=ProduceSettings)
    fetch: FetchSettings = field(default_factory=FetchSettings)
    housekeeping: HousekeepingSettings | None = field(default_factory=HousekeepingSettings)

    def without_housekeeping(self) -> "AgentParts":
        """The same for an agent beside one that merges and collects."""
        return replace(self, housekeeping=None)


class RunningAgent:
    """One agent that serves. Make it with `start_agent`, end it with `stop`."""

    def __init__(
        self, context: AgentContext, server: AgentServer, housekeeping: Housekeeping | None
    ) -> None:
        self.context = context
        self.server = server
        self.housekeeping = housekeeping

    @property
    def bootstrap(self) -> str:
        """Where clients reach it."""
        lease = self.context.lease
        return join_address(lease.host, lease.port)

    async def stop(self) -> None:
        """Leaves Metadata, answers what was read, ends. The control client is the caller's to close."""
        if self.housekeeping is not None:
            await self.housekeeping.stop()
        await self.context.lease.stop_renewing()
        self.context.fetch.end_waits()
        await self.server.stop()
        await self.context.produce.close()
        await self.context.fetch.close()
        await self.context.lease.release()

    async def abort(self) -> None:
        """Ends as by a crash: connections break, nothing is flushed, the lease is left to expire."""
        self.server.abort()
        if self.housekeeping is not None:
            await self.housekeeping.stop()
        await self.context.lease.stop_renewing()


async def start_agent(
    *,
    control: ControlClient,
    store: ObjectStore,
    parts: AgentParts,
    clock: Clock,
    randomness: random.Random,
    host: str,
    port: int,
    reuse_port: bool = False,
    load: LoopLoad | None = None,
) -> RunningAgent:
    """Listens, then registers; `load` is that of the loop it runs in.

    Raises ListenError, ControlPlaneUnavailable, CommandRefused.
    """
    context = _context(control, store, parts, clock, randomness, Pace(load or LoopLoad()))
    server = AgentServer(context)
    context.lease.on_lost = server.drop_clients
    try:
        await server.start(host, port, reuse_port=reuse_port)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise ListenError(
            f"cannot listen on {host}:{port}: {reason}; choose another with --listen"
        ) from error
    try:
        await context.lease.start(server.port)
    except BaseException:
        await server.stop()
        raise
    housekeeping = None
    if parts.housekeeping is not None:
        housekeeping = Housekeeping(context, parts.housekeeping).start()
    return RunningAgent(context, server, housekeeping)


def _context(
    control: ControlClient,
    store: ObjectStore,
    parts: AgentParts,
    clock: Clock,
    randomness: random.Random,
    pace: Pace,
) -> AgentContext:
    """Everything of one agent but its listener. `pace` is that of small PUTs."""
    metrics = AgentMetrics()
    lease = AgentLease(control, parts.agent, metrics)
    fetch = FetchService(
        control=control,
        store=store,
        cluster_id=lambda: lease.cluster_id,
        randint=randomness.randint,
        settings=parts.fetch,
    )
    produce = ProduceService(
        control=control,
        store=store,
        lease=lease,
        clock=clock,
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
        registry=discover(),
        lease=lease,
        metrics=metrics,
        produce=produce,
        fetch=fetch,
    )
