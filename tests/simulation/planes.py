"""The control planes of a simulated cluster: one alone with its disk, or several on one journal.

The world and the faults use one interface, `Planes`, for `LoneControlPlane` and `SharedPlanes`. The shared journal is
in a simulated PostgreSQL or in the bucket, and runs the product's own code in either case.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final, Protocol
from unittest import mock

import asyncpg

from lacuna.controlplane import machine
from lacuna.controlplane.clock import Clock
from lacuna.controlplane.journal import snapshotter
from lacuna.controlplane.journal.bucket import BucketJournal
from lacuna.controlplane.journal.bucket_snapshots import BucketSnapshots
from lacuna.controlplane.journal.journal import (
    JournalError,
    JournalReader,
    JournalRefused,
    SharedJournal,
)
from lacuna.controlplane.journal.leader_watch import LeaderWatch
from lacuna.controlplane.journal.place import BUCKET, POSTGRESQL, Place
from lacuna.controlplane.journal.postgresql import PostgresqlJournal
from lacuna.controlplane.journal.renewing import Check
from lacuna.controlplane.journal.replica import Replica
from lacuna.controlplane.journal.snapshot_store import SnapshotStore
from lacuna.controlplane.journal.snapshotter import make_shared_snapshot
from lacuna.controlplane.node import Node
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.controlplane.service import LoneControlPlane as ServedAlone
from lacuna.controlplane.state.state import State
from lacuna.controlplane.tenure import LeasedTenure
from tests.simulation.cluster import Host, Surroundings
from tests.simulation.database import URL, DatabaseHost, connecting
from tests.simulation.history import History
from tests.simulation.journal import Disk, SimulatedJournal, SimulatedSnapshotter
from tests.simulation.loop import Process
from tests.simulation.reigns import HearingRuntime, Reigns, WatchedJournal, WatchedRuntime
from tests.simulation.sessions import SESSION_PORT, ask_status, serve
from tests.simulation.store import SimulatedStore

CLUSTER_ID: Final = "simulated-cluster-id-x"
#: The journals of a cluster, as the faults name them.
DISK: Final = "disk"
DATABASE: Final = POSTGRESQL
SHARED: Final = (DATABASE, BUCKET)
#: How far the rate of a machine's clock may be off. A leader's margin allows for a little more.
PACE: Final = 0.07


class Planes(Protocol):
    """The control planes of one cluster."""

    journal: str
    """One of DISK, DATABASE, BUCKET."""
    hosts: list[Host]
    """The control planes' machines."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id, or an empty string if it has none yet."""
        ...

    def servers(self) -> Sequence[Host]:
        """All machines: those of control planes, and the database's."""
        ...

    def leader(self) -> Host | None:
        """The current leader, if any."""
        ...

    def state(self) -> State | None:
        """The leader's current state."""
        ...

    def are_level(self) -> bool:
        """Return whether everything is durable and has been replayed by all standbys."""
        ...

    def differing(self) -> list[str]:
        """Return the standbys whose state differs from the leader's although all are level."""
        ...

    def in_place(self) -> AbstractContextManager[None]:
        """Run the body with replacements for everything outside the product."""
        ...


def addresses(planes: Planes) -> list[str]:
    """The addresses of the control planes."""
    return [f"{host.name}:{SESSION_PORT}" for host in planes.hosts]


# One alone.


class ControlPlaneHost(Host):
    """The machine of a single control plane, with the disk of its journal."""

    def __init__(self, around: Surroundings, settings: RuntimeSettings, history: History) -> None:
        super().__init__(around, "control")
        self.history = history
        self.disk = Disk(around.loop, around.randomness("disk"))
        self.settings = settings
        self.runtime: Runtime | None = None

    async def _serve(self, process: Process) -> None:
        loop = self.around.loop
        failed: asyncio.Future[None] = loop.create_future()
        journal = SimulatedJournal(self.disk, process)
        runtime = HearingRuntime(
            journal,
            process,
            self.new_id,
            self.settings,
            snapshotter=SimulatedSnapshotter(self.disk),
            on_fatal=lambda error: None if failed.done() else failed.set_exception(error),
        )
        runtime.process, runtime.history = process, self.history
        await runtime.start()
        self.runtime = runtime
        serve(self.around.network, process, ServedAlone(runtime))
        try:
            await failed
        except (
            Exception
        ) as error:  # whatever it is, it ends the process, as `lacuna controlplane` would
            raise JournalError(str(error)) from error

    async def _stop(self) -> None:
        if self.runtime is not None:
            await self.runtime.close()

    def _lose_power(self) -> None:
        self.disk.lose_power()

    def state(self) -> State:
        """The current state of the process."""
        assert self.runtime is not None
        return self.runtime._state


class LoneControlPlane:
    """A cluster's only control plane (`Planes`)."""

    journal = DISK

    def __init__(self, host: ControlPlaneHost) -> None:
        self.host = host
        self.hosts: list[Host] = [host]

    @property
    def cluster_id(self) -> str:
        return self.host.disk.cluster_id or ""

    def servers(self) -> Sequence[Host]:
        return self.hosts

    def leader(self) -> Host | None:
        return self.host

    def state(self) -> State | None:
        return self.host.state()

    def are_level(self) -> bool:
        return True

    def differing(self) -> list[str]:
        return []

    @contextmanager
    def in_place(self) -> Iterator[None]:
        yield


# Several on one journal.


class NodeHost(Host):
    """The machine of one of several control planes."""

    def __init__(self, around: Surroundings, number: int, planes: SharedPlanes) -> None:
        super().__init__(around, f"control-{number}")
        self._planes = planes
        self._running: asyncio.Task[None] | None = None
        self._snapshotter: _SnapshotProcess | None = None
        self.node: Node | None = None
        #: Whether it takes over at once, as one whose lease was set to nothing by hand.
        self.is_impatient = False

    @property
    def runtime(self) -> Runtime | None:
        """The runtime, while this machine leads."""
        is_alive = self.process is not None and self.process.is_alive
        return self.node.runtime if is_alive and self.node is not None else None

    @property
    def epoch(self) -> int:
        """The epoch in which it leads, or that of the leader that it knows."""
        return 0 if self.node is None else self.node.epoch

    async def _serve(self, process: Process) -> None:
        network = self.around.network
        node = self.node = Node(
            partial(self._make_runtime, process),
            process,
            partial(ask_status, network),
            beside=in_the_loop,
        )
        serve(network, process, node)
        make_journal = partial(self._make_journal, process)
        node.begin(f"{self.name}:{SESSION_PORT}", make_journal, self._show_leading)
        self._running = self.around.loop.create_task(node.run())
        try:
            await self._running
        except JournalRefused as error:
            if node._is_checked:
                self._planes.history.wrong(f"{self.name} ended, and the refusal may pass: {error}")
            raise

    def _make_journal(self, process: Process, address: str) -> SharedJournal:
        planes = self._planes
        journal = planes.open_journal(process, address)
        return WatchedJournal(journal, planes.reigns, self.name, lambda: self.is_impatient)

    def _make_runtime(
        self,
        process: Process,
        journal: SharedJournal,
        replica: Replica,
        tenure: LeasedTenure,
        on_fatal: Callable[[BaseException], None],
    ) -> Runtime:
        self._snapshotter = _SnapshotProcess(process, journal)
        runtime = WatchedRuntime(
            journal,
            process,
            self.new_id,
            self._planes.settings,
            snapshotter=self._snapshotter,
            replica=replica,
            tenure=tenure,
            confirm=journal.confirm,
            on_fatal=on_fatal,
        )
        runtime.who, runtime.reigns = self.name, self._planes.reigns
        runtime.process, runtime.history = process, self._planes.history
        return runtime

    async def _show_leading(self) -> None:
        if self.runtime is not None:
            self.is_impatient = False

    async def _stop(self) -> None:
        """Stop as `lacuna.controlplane.shared_service` does."""
        assert self._running is not None
        assert self.node is not None
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await self.node.close()

    def _lose_power(self) -> None:
        if self._snapshotter is not None:
            self._snapshotter.kill()


@asynccontextmanager
async def in_the_loop(
    work: Callable[[Check], Coroutine[Any, Any, None]], _: Clock, __: float, /
) -> AsyncIterator[asyncio.Future[None]]:
    """Renew the lease in the leader's loop. No simulated step takes long, and a pause stops the whole process."""
    renewing = asyncio.create_task(work(lambda: None))
    try:
        yield renewing
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)


class _SnapshotProcess:
    """A `Snapshotter` that uses a process on the same machine, which may outlive its parent."""

    def __init__(self, parent: Process, journal: SharedJournal) -> None:
        self._parent = parent
        self._journal = journal
        self._child: Process | None = None

    async def make(self, position: int) -> None:
        loop = self._parent.loop
        child = self._child = loop.process(self._parent.name)
        ended: asyncio.Future[JournalError | None] = loop.create_future()

        def tell(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None and not isinstance(error, JournalError):
                raise error
            loop.call_in(self._parent, 0.0, _tell, ended, error)

        child.start(make_shared_snapshot(Place(BUCKET), position)).add_done_callback(tell)
        if (error := await ended) is not None:
            raise JournalError(f"the snapshot process ended with 1: {error}")
        await self._journal.trim()

    async def close(self) -> None:
        self.kill()

    def kill(self) -> None:
        """End the process that creates a snapshot, if there is one."""
        if self._child is not None:
            self._child.kill()


def _tell(ended: asyncio.Future[JournalError | None], error: JournalError | None) -> None:
    if not ended.done():
        ended.set_result(error)


class SharedPlanes:
    """Two or three control planes on one journal (`Planes`)."""

    def __init__(
        self,
        around: Surroundings,
        journal: str,
        settings: RuntimeSettings,
        draw: random.Random,
        history: History,
    ) -> None:
        self.around = around
        self.journal = journal
        self.settings = settings
        self.lease = draw.choice((1.0, 3.0))
        self.history = history
        self.reigns = Reigns(history, self.lease)
        self.nodes = [
            NodeHost(around, number, self) for number in range(1, draw.choice((2, 3)) + 1)
        ]
        self.hosts: list[Host] = [*self.nodes]
        if draw.random() < 0.5:
            for host in self.nodes:
                host.pace = 1.0 + draw.choice((-PACE, 0.0, PACE))
        self.database = DatabaseHost(around, CLUSTER_ID) if journal == DATABASE else None
        if self.database is not None:
            self.database.on_loss = self.reigns.lost
        self._random = around.randomness("journal")

    @property
    def cluster_id(self) -> str:
        return CLUSTER_ID

    def servers(self) -> Sequence[Host]:
        return self.hosts if self.database is None else [*self.hosts, self.database]

    def leader(self) -> NodeHost | None:
        leading = [host for host in self.nodes if host.runtime is not None]
        return max(leading, key=lambda host: host.epoch, default=None)

    def standbys(self) -> list[NodeHost]:
        """The control planes that could take over."""
        leader = self.leader()
        return [host for host in self.nodes if host is not leader]

    def state(self) -> State | None:
        leader = self.leader()
        return None if leader is None or leader.runtime is None else leader.runtime._state

    def are_level(self) -> bool:
        leader = self.leader()
        runtime = None if leader is None else leader.runtime
        return runtime is not None and all(
            replica.position == runtime.durable_position == runtime._position
            for _, replica in self._replicas()
        )

    def differing(self) -> list[str]:
        leader = self.leader()
        if leader is None or leader.runtime is None:
            return []
        expected = leader.runtime.serialized_state()
        return [
            name
            for name, replica in self._replicas()
            if machine.snapshot(replica.state) != expected
        ]

    def _replicas(self) -> list[tuple[str, Replica]]:
        return [(host.name, host.node._replica) for host in self.standbys() if host.node]

    def open_journal(self, process: Process, address: str = "") -> SharedJournal:
        """Return the journal as a process opens it with `lacuna.operating.journals`."""
        store = SimulatedStore(self.around.bucket, process)
        if self.journal == BUCKET:
            return BucketJournal(
                store,
                lambda: CLUSTER_ID,
                address=address,
                lease=self.lease,
                answer_timeout=self.lease,
                clock=process,
                new_id=self._new_id,
            )
        return PostgresqlJournal(
            URL,
            lambda: CLUSTER_ID,
            address=address,
            lease=self.lease,
            answer_timeout=self.lease,
            snapshots=self._snapshots(store),
            watch=LeaderWatch(process),
        )

    def _snapshots(self, store: SimulatedStore) -> SnapshotStore:
        return BucketSnapshots(store, self.journal, new_id=self._new_id)

    def _new_id(self) -> bytes:
        return self._random.randbytes(16)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        with (
            mock.patch.object(asyncpg, "connect", connecting(self.around.network)),
            mock.patch.object(snapshotter, "opened_reader", self._opened_reader),
        ):
            yield

    @contextmanager
    def _opened_reader(self, _: Place) -> Iterator[tuple[JournalReader, SnapshotStore]]:
        process = self.around.loop.current
        snapshots = self._snapshots(SimulatedStore(self.around.bucket, process))
        yield self.open_journal(process).reader(), snapshots


def draw_planes(
    around: Surroundings, settings: RuntimeSettings, history: History, journals: Sequence[str]
) -> Planes:
    """Return the control planes for a seed, on one of these journals."""
    draw = around.randomness("planes")
    journal = draw.choice(journals)
    if journal == DISK:
        return LoneControlPlane(ControlPlaneHost(around, settings, history))
    return SharedPlanes(around, journal, settings, draw, history)
