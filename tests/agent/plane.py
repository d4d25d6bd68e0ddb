"""An agent on a real control plane in the same loop, its journal in memory."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agent.context import AgentContext
from agent.server import AgentServer
from agent.settings import AgentSettings
from controlplane import machine
from controlplane.client import InProcessClient
from controlplane.clock import SystemClock
from controlplane.journal.memory import MemoryJournal
from controlplane.runtime import ControlPlane, RuntimeSettings
from controlplane.state.state import State
from controlplane.v1.cluster_pb2 import ClusterDelta
from controlplane.v1.control_pb2 import Reply
from controlplane.v1.log_pb2 import PartitionDelta
from tests.agent.harness import make_context


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a test needs of it."""

    plane: ControlPlane[State]
    control: InProcessClient
    context: AgentContext
    server: AgentServer


@asynccontextmanager
async def cluster(settings: AgentSettings | None = None) -> AsyncIterator[Cluster]:
    """Start it, end it; a control plane that had to stop fails the test."""
    numbers = itertools.count(1)
    fatal: list[BaseException] = []
    plane: ControlPlane[State] = ControlPlane(
        machine,
        MemoryJournal("cluster"),
        SystemClock(),
        lambda: next(numbers).to_bytes(16, "big"),
        RuntimeSettings(),
        on_fatal=fatal.append,
    )
    await plane.start()
    control = InProcessClient(plane)
    context = make_context(control, settings)
    server = AgentServer(context)
    await server.start()
    await context.lease.start(server.port)
    yield Cluster(plane, control, context, server)
    await context.lease.stop_renewing()
    await server.stop()
    await context.lease.release()
    await control.close()
    await plane.close()
    assert fatal == []


def hold_deltas(control: InProcessClient) -> None:
    """What changes comes to this client with the next reply to it: as late as it may (adr/0003)."""
    deliver = control.deliver
    held: list[tuple[Sequence[PartitionDelta], Sequence[ClusterDelta], Sequence[Reply]]] = []

    def late(
        partitions: Sequence[PartitionDelta],
        cluster: Sequence[ClusterDelta],
        replies: Sequence[Reply],
    ) -> None:
        held.append((partitions, cluster, replies))
        if replies:
            delivered, held[:] = list(held), []
            for each in delivered:
                deliver(*each)

    control.deliver = late  # type: ignore[method-assign]
