"""Parts of an embedded cluster that a test disturbs: the way to the control plane, the store, the disk."""

from __future__ import annotations

import errno
import queue
import threading
from collections.abc import Sequence
from typing import Any

from agent.housekeeping import HousekeepingSettings, MergeSettings
from agent.produce.settings import ProduceSettings
from controlplane.client import ControlPlaneUnavailable, InProcessClient
from controlplane.state.settings import LEASE_DURATION_MS
from controlplane.v1.cluster_pb2 import ClusterDelta
from controlplane.v1.control_pb2 import Command, Reply
from controlplane.v1.log_pb2 import PartitionDelta
from lacuna.agents import AgentParts, RunningAgent
from lacuna.testing import Cluster
from lacuna.testing.clock import AdjustableClock
from logstore.objects import ObjectStore
from logstore.objects.faults import FaultyStore
from logstore.objects.filesystem import FileRanges, OsFileSystem
from logstore.objects.store import Part

NEVER = 1e9
#: Merges and collects only when a test says so; does not wait for long for what never comes.
PARTS = AgentParts(
    produce=ProduceSettings(commit_timeout_ms=2_000),
    housekeeping=HousekeepingSettings(
        merge_interval_seconds=NEVER,
        collect_interval_seconds=NEVER,
        merge=MergeSettings(min_extents=2, min_age_ms=0),
    ),
)
LEASE_MS = LEASE_DURATION_MS
GRACE_MS = 600_000
WAIT_SECONDS = 60.0


class CommitLink:
    """What an agent's flushes send their commits through, in front of its client.

    `lose_commands` commits never arrive, then of `lose_replies` the reply never does; `is_cut` swallows all.
    `reached` is put to when a commit comes: which link it is.
    """

    def __init__(
        self, agent: RunningAgent, reached: queue.SimpleQueue[CommitLink] | None = None
    ) -> None:
        self.agent = agent
        self.lose_commands = 0
        self.lose_replies = 0
        self.is_cut = False
        self.reached: queue.SimpleQueue[CommitLink] = reached or queue.SimpleQueue()
        flusher: Any = agent.context.produce.flusher
        self._inner = flusher._control
        flusher._control = self

    async def call(self, command: Command) -> Reply:
        """As ControlClient says."""
        self.reached.put(self)
        if self.is_cut or self.lose_commands:
            self.lose_commands = max(0, self.lose_commands - 1)
            raise ControlPlaneUnavailable("the command was lost, as told")
        reply: Reply = await self._inner.call(command)
        if self.lose_replies:
            self.lose_replies -= 1
            raise ControlPlaneUnavailable("the reply was lost, as told")
        return reply


class Delayed:
    """Keeps everything that comes to a client from the control plane until `release`."""

    def __init__(self, client: InProcessClient) -> None:
        self._client = client
        self._kept: list[tuple[Any, ...]] = []
        self.is_replied = threading.Event()
        client._session.receiver = self  # type: ignore[attr-defined]

    def deliver(
        self,
        partitions: Sequence[PartitionDelta],
        cluster: Sequence[ClusterDelta],
        replies: Sequence[Reply],
    ) -> None:
        """As Receiver says."""
        self._kept.append((partitions, cluster, replies))
        if replies:
            self.is_replied.set()

    def lost(self, error: ControlPlaneUnavailable) -> None:
        """As Receiver says."""
        self._client.lost(error)

    async def release(self) -> None:
        """Delivers what was kept, in order, and keeps nothing more."""
        self._client._session.receiver = self._client  # type: ignore[attr-defined]
        for kept in self._kept:
            self._client.deliver(*kept)


class GatedStore(FaultyStore):
    """Holds up the reads of fetches alone, once `gate` is closed; those of housekeeping go on."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.reached = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def get(self, key: str, position: int, size: int) -> bytearray:
        if threading.current_thread().name.startswith("fetch") and not self.gate.is_set():
            self.reached.set()
            assert self.gate.wait(WAIT_SECONDS)
        return super().get(key, position, size)


class SickDisk(OsFileSystem):
    """A file system that fails every write, open and read with `errno`, where that is not 0."""

    def __init__(self) -> None:
        self.errno = 0

    def write(self, fd: int, parts: Sequence[Part]) -> None:
        self._fail()
        super().write(fd, parts)

    def write_at(self, fd: int, parts: Sequence[Part], position: int) -> None:
        self._fail()
        super().write_at(fd, parts, position)

    def read_ranges(self, ranges: FileRanges, buffer: bytearray) -> Sequence[int]:
        if self.errno:
            return [-self.errno] * len(ranges.sizes)
        return super().read_ranges(ranges, buffer)

    def open(self, path: str) -> int:
        self._fail()
        return super().open(path)

    def _fail(self) -> None:
        if self.errno:
            raise OSError(self.errno, errno.errorcode[self.errno])


async def end_leases(cluster: Cluster, kept: Sequence[RunningAgent] = ()) -> None:
    """Lets the leases of all agents run out, but for those of `kept`."""
    embedded = cluster.embedded
    clock = embedded.clock
    assert isinstance(clock, AdjustableClock)
    clock.advance(LEASE_MS + 1000)
    for agent in kept:
        await agent.context.lease.renew()
    embedded.running.plane.tick()
