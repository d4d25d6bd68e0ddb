"""A runtime on a journal in memory whose clock and failures a test controls."""

import itertools
from collections.abc import Awaitable, Callable

from lacuna.controlplane.client import ControlClient, InProcessClient
from lacuna.controlplane.journal.journal import Journal, Snapshotter
from lacuna.controlplane.runtime import Runtime, RuntimeSettings
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.state import State
from tests.doubles.clock import ManualClock
from tests.doubles.journal import MemoryJournal

Connect = Callable[..., Awaitable[ControlClient]]


def await_members(state: State) -> None:
    """Kafka waits 3 s for members. The rig waits too, so that the first JoinGroup of a group is parked."""
    state.groups.settings = GroupSettings(group_initial_rebalance_delay_ms=3_000)


def mistaken(*_: object) -> None:
    """Replaces a deciding function with one that fails."""
    raise RuntimeError("a mistake of ours")


class Rig:
    """`plane` is the runtime. To restart it on the same journal, call `start` again after `stop`."""

    def __init__(
        self,
        journal: Journal | None = None,
        settings: RuntimeSettings | None = None,
        snapshotter: Snapshotter | None = None,
        snapshot_appends: int | None = None,
        confirm: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self.memory = MemoryJournal("cluster")
        self.journal: Journal = journal or self.memory
        self.settings = settings or RuntimeSettings()
        self.snapshotter = snapshotter
        self.snapshot_appends = snapshot_appends
        self.confirm = confirm
        self.clock = ManualClock()
        self.fatal: list[BaseException] = []
        self._ids = itertools.count(1)
        self.plane = self._new_plane()

    def new_id(self) -> bytes:
        return next(self._ids).to_bytes(16, "big")

    def _new_plane(self) -> Runtime:
        return Runtime(
            self.journal,
            self.clock,
            self.new_id,
            self.settings,
            snapshotter=self.snapshotter,
            snapshot_appends=self.snapshot_appends,
            confirm=self.confirm,
            prepare=await_members,
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
    def state(self) -> State:
        return self.plane._state

    def high_watermark(self, topic_id: bytes, partition: int = 0) -> int:
        return self.state.partitions[topic_id, partition].high_watermark

    def client(self, **bounds: int) -> InProcessClient:
        return InProcessClient(self.plane, **bounds)
