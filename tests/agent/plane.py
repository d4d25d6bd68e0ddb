"""An agent on a real control plane in the same event loop, with an in-memory journal."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from lacuna.agent.clock import SystemWallClock
from lacuna.agent.context import AgentContext
from lacuna.agent.security.access import Access
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.server import AgentServer
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.client import ControlClient, InProcessClient
from lacuna.controlplane.clock import SystemClock
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta, CreateTopic, CreateTopics
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import PartitionDelta
from tests.agent.harness import make_context, make_server
from tests.clients.hurry import lengthen
from tests.doubles.journal import MemoryJournal


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running control plane and agent, with the parts that tests need."""

    runtime: Runtime
    control: InProcessClient
    context: AgentContext
    server: AgentServer


@asynccontextmanager
async def control_plane(journal: MemoryJournal | None = None) -> AsyncIterator[Runtime]:
    """Run a control plane for the block. The test fails if it had to stop."""
    numbers = itertools.count(1)
    fatal: list[BaseException] = []
    runtime = Runtime(
        journal or MemoryJournal("cluster"),
        SystemClock(),
        lambda: next(numbers).to_bytes(16, "big"),
        RuntimeSettings(),
        on_fatal=fatal.append,
    )
    await runtime.start("cluster")
    try:
        yield runtime
    finally:
        await runtime.close()
    assert not fatal


@asynccontextmanager
async def cluster(
    settings: AgentSettings | None = None, security: SecuritySettings | None = None
) -> AsyncIterator[Cluster]:
    """Run a control plane and an agent for the block."""
    settings = settings or AgentSettings()
    security = security or SecuritySettings()
    async with control_plane() as runtime:
        control = InProcessClient(runtime)
        kept = control.cluster.security
        access = Access(security, settings.listeners, kept, SystemWallClock())
        context = make_context(control, settings, access=access)
        server = make_server(context)
        await server.start()
        await context.lease.start(*server.ports)
        await lengthen(runtime, [context.lease])
        yield Cluster(runtime, control, context, server)
        await context.lease.stop_renewing()
        await server.stop()
        await context.lease.release(1.0)
        await control.close()


async def create_topic(
    control: ControlClient, name: str, partitions: int = 1, **configs: str
) -> bytes:
    """Create a topic through the control plane, and return its id."""
    topic = CreateTopic(
        name=name,
        partition_count=partitions,
        configs={key.replace("_", "."): value for key, value in configs.items()},
    )
    reply = await control.call(Command(create_topics=CreateTopics(topics=[topic])))
    (created,) = reply.topics_created.topics
    assert created.error_code == 0, created
    return created.topic_id


def hold_deltas(control: InProcessClient) -> None:
    """Delay changes for this client until its next reply, the latest possible time (adr/0003)."""
    deliver = control.deliver
    held: list[tuple[Sequence[PartitionDelta], Sequence[ClusterDelta], Sequence[Reply], int]] = []

    def late(
        partitions: Sequence[PartitionDelta],
        cluster: Sequence[ClusterDelta],
        replies: Sequence[Reply],
        position: int,
    ) -> None:
        held.append((partitions, cluster, replies, position))
        if replies:
            delivered, held[:] = list(held), []
            for each in delivered:
                deliver(*each)

    control.deliver = late  # type: ignore[method-assign]
