"""A runtime on a journal in memory, with its clock and its failures in hand."""

import itertools
from collections.abc import Awaitable, Callable

from controlplane.client import ControlClient, InProcessClient
from controlplane.clock import ManualClock
from controlplane.journal.journal import Journal, Snapshotter
from controlplane.journal.memory import MemoryJournal
from controlplane.runtime import ControlPlane, RuntimeSettings
from tests.controlplane.runtime.fake_machine import FakeMachine, FakeState

Connect = Callable[..., Awaitable[ControlClient]]


class Rig:
    """`plane` is the runtime; call `start` again after `stop` for a restart on the same journal."""

    def __init__(
        self,
        journal: Journal | None = None,
        settings: RuntimeSettings | None = None,
        snapshotter: Snapshotter | None = None,
    ) -> None:
        self.memory = MemoryJournal("cluster")
        self.journal: Journal = journal or self.memory
        self.settings = settings or RuntimeSettings()
        self.snapshotter = snapshotter
        self.clock = ManualClock()
        self.machine = FakeMachine()
        self.fatal: list[BaseException] = []
        self._ids = itertools.count(1)
        self.plane = self._new_plane()

    def new_id(self) -> bytes:
        return next(self._ids).to_bytes(16, "big")

    def _new_plane(self) -> ControlPlane[FakeState]:
        return ControlPlane(
            self.machine,
            self.journal,
            self.clock,
            self.new_id,
            self.settings,
            snapshotter=self.snapshotter,
            on_fatal=self.fatal.append,
        )

    async def start(self) -> "Rig":
        await self.plane.start()
        return self

    async def restart(self) -> None:
        await self.plane.close()
        self.plane = self._new_plane()
        await self.plane.start()

    @property
    def state(self) -> FakeState:
        return self.plane._state

    def client(self, **bounds: int) -> InProcessClient:
        return InProcessClient(self.plane, **bounds)
