"""A journal on a simulated disk: an append is written, then synced, and each step can stall, fail, or be lost.

A killed process loses nothing that it has written. A machine that loses power loses unsynced data.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lacuna.controlplane import machine
from lacuna.controlplane.journal.journal import (
    HotKey,
    HotSegment,
    JournalBatch,
    JournalError,
    JournalFenced,
    JournalForeign,
    JournalInUse,
    OpenedJournal,
    Seal,
    Snapshot,
)
from lacuna.controlplane.v1.journal_pb2 import JournalRecord
from tests.simulation.loop import Process, SimulatedLoop


@dataclass(slots=True)
class DiskWeather:
    """The lasting faults of a disk."""

    #: What multiplies how long an append takes.
    slowness: float = 1.0
    #: How likely an append fails; whether it was written is then unknown.
    fails: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """One append: its records, and the hot segments that share its fate."""

    batch: JournalBatch
    hot: tuple[HotSegment, ...] = ()


@dataclass(slots=True)
class Disk:
    """The storage of the control plane's machine: synced rows, and rows that have only been written.

    `hot` is the synced part of the table of hot segments.
    """

    loop: SimulatedLoop
    random: random.Random
    weather: DiskWeather = field(default_factory=DiskWeather)
    cluster_id: str | None = None
    fencing_token: int = 0
    synced: list[JournalBatch] = field(default_factory=list)
    written: list[Row] = field(default_factory=list)
    hot: dict[HotKey, bytes] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    owner: Process | None = None

    @property
    def position(self) -> int:
        """Return the position of the last written record."""
        if self.written:
            return self.written[-1].batch.position
        if self.synced:
            return self.synced[-1].position
        return 0 if self.snapshot is None else self.snapshot.position

    def sync(self) -> None:
        """Make all written data survive a power loss."""
        self._keep(self.written)
        self.written.clear()

    def lose_power(self) -> None:
        """Keep the synced rows, and possibly the first of the unsynced ones."""
        kept = int(self.random.random() * (len(self.written) + 1))
        self._keep(self.written[:kept])
        self.written.clear()

    def _keep(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self.synced.append(row.batch)
            self.hot.update(row.hot)

    def trim(self, snapshot: Snapshot) -> None:
        """Keep a snapshot instead of the rows that it covers."""
        self.snapshot = snapshot
        self.synced = [each for each in self.synced if each.position > snapshot.position]


class SimulatedJournal:
    """One process's journal (a `Journal`) on a disk."""

    is_synced = True

    def __init__(self, disk: Disk, process: Process) -> None:
        self._disk = disk
        self._process = process
        self._is_open = False

    async def open(self, cluster_id: str | None) -> OpenedJournal:
        await self._takes(0.002)
        disk = self._disk
        if disk.owner is not None and disk.owner.is_alive:
            raise JournalInUse("another control plane is running on this data: stop it first")
        if disk.cluster_id is None:
            disk.cluster_id = cluster_id or "simulated-cluster-id-x"
        elif cluster_id not in (None, disk.cluster_id):
            raise JournalForeign(f"the journal belongs to cluster {disk.cluster_id}")
        disk.owner = self._process
        disk.sync()
        disk.fencing_token += 1
        self._is_open = True
        return OpenedJournal(disk.cluster_id, disk.fencing_token, disk.position)

    async def read(
        self, after_position: int, _: Seal | None = None, /
    ) -> AsyncIterator[JournalBatch]:
        await self._takes(0.002)
        written = [row.batch for row in self._disk.written]
        for batch in [*self._disk.synced, *written]:
            if batch.position > after_position:
                yield batch

    @property
    def hot(self) -> Mapping[HotKey, int]:
        return {key: len(data) for key, data in self._written_hot().items()}

    def _written_hot(self) -> Mapping[HotKey, bytes]:
        """Return the hot segments that the process reads: those it has written, synced or not."""
        disk = self._disk
        return {**disk.hot, **{key: data for row in disk.written for key, data in row.hot}}

    async def read_hot(self, keys: Sequence[HotKey]) -> Mapping[HotKey, bytes]:
        await self._takes(0.002)
        self._may_fail()
        there = self._written_hot()
        return {key: there[key] for key in keys if key in there}

    async def drop_hot(self, keys: Collection[HotKey]) -> None:
        await self._takes(0.002)
        self._may_fail()
        self._disk.sync()
        for key in keys:
            self._disk.hot.pop(key, None)

    def _may_fail(self) -> None:
        disk = self._disk
        if disk.weather.fails and disk.random.random() < disk.weather.fails:
            raise JournalError("the disk failed")

    def append(
        self, records: Sequence[bytes], fencing_token: int, hot: Sequence[HotSegment] = ()
    ) -> asyncio.Future[int]:
        loop, disk = self._disk.loop, self._disk
        appended: asyncio.Future[int] = loop.create_future()
        took = (0.0002 + 0.0008 * disk.random.random()) * disk.weather.slowness
        # The disk is another world: it goes on with a write that it has, whatever becomes of the process.
        loop.call_in(
            loop.world,
            took / 2,
            self._write,
            (list(records), tuple(hot)),
            fencing_token,
            took,
            appended,
        )
        return appended

    def _write(
        self,
        content: tuple[list[bytes], tuple[HotSegment, ...]],
        fencing_token: int,
        took: float,
        appended: asyncio.Future[int],
    ) -> None:
        loop, disk = self._disk.loop, self._disk
        if disk.owner is not self._process or not self._process.is_alive:
            return
        error: Exception | None = None
        if fencing_token != disk.fencing_token:
            error = JournalFenced(
                "another control plane has taken this journal over: this one is stepping down"
            )
        elif disk.weather.fails and disk.random.random() < disk.weather.fails:
            error = JournalError("the disk failed")
            if disk.random.random() < 0.5:
                self._add(*content)
        else:
            self._add(*content)
        loop.call_in(loop.world, took / 2, self._sync, error, appended)

    def _add(self, records: list[bytes], hot: tuple[HotSegment, ...]) -> None:
        disk = self._disk
        disk.written.append(Row(JournalBatch(disk.position + len(records), records), hot))

    def _sync(self, error: Exception | None, appended: asyncio.Future[int]) -> None:
        disk = self._disk
        if disk.owner is self._process and self._process.is_alive and error is None:
            if self.is_synced:
                disk.sync()
            else:
                disk.loop.call_in(disk.loop.world, 1.0, disk.sync)
        disk.loop.call_in(self._process, 0.0, _settle, appended, error, disk.position)

    async def load_snapshot(self) -> Snapshot | None:
        return self._disk.snapshot

    async def store_snapshot(self, snapshot: Snapshot) -> None:
        await self._takes(0.01)
        self._disk.trim(snapshot)

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._disk.sync()
            self._disk.owner = None

    async def _takes(self, seconds: float) -> None:
        await asyncio.sleep(seconds * self._disk.weather.slowness * self._disk.random.random())


def _settle(appended: asyncio.Future[int], error: Exception | None, position: int) -> None:
    if appended.done():
        return
    if error is not None:
        appended.set_exception(error)
    else:
        appended.set_result(position)


class SimulatedSnapshotter:
    """Creates snapshots as the snapshot process does: from the last one and the rows synced since."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def make(self, position: int) -> None:
        """Store a snapshot at `position` or later."""
        await asyncio.sleep(0.05 * self._disk.random.random())
        disk = self._disk
        before = disk.snapshot
        state = machine.State() if before is None else machine.restore(before.parts)
        end = 0 if before is None else before.position
        for batch in disk.synced:
            if batch.position > end:
                for data in batch.records:
                    machine.replay(state, JournalRecord.FromString(data))
                end = batch.position
        if end >= position:
            disk.trim(Snapshot(end, (machine.snapshot(state),)))

    async def close(self) -> None:
        """Do nothing: a missing snapshot is harmless."""
