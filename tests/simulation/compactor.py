"""Jobs of the simulation: one compacts like `lacuna compact` with Spark, one reads objects slowly, one requests cuts.

They plan, rewrite and swap with the functions of lacuna.pipeline. Simulated processes replace Spark and threads.
"""

from __future__ import annotations

import asyncio
import itertools
from array import array
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from lacuna.controlplane.client import (
    CommandRefused,
    ControlPlaneUnavailable,
    confirm,
    read_as_of,
    read_cut,
)
from lacuna.controlplane.client.session import SessionClient
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import ExtentTable
from lacuna.controlplane.shared.log.pieces import Piece, all_pieces
from lacuna.controlplane.v1.cluster_pb2 import (
    OpenLease,
    Outcomes,
    ReleaseLease,
    RenewLease,
    Topic,
    TopicPartition,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import (
    PinReads,
    PlanCompaction,
    ReadHot,
    SegmentId,
    SwapExtents,
    UnpinReads,
)
from lacuna.logstore.objects.store import ObjectStoreError
from lacuna.logstore.records.batch import Record, RecordBatch, read_batches
from lacuna.logstore.segments.hot import is_hot
from lacuna.logstore.segments.paths import key_in_lease
from lacuna.pipeline.compaction.committing import prepare_swap
from lacuna.pipeline.compaction.planning import FoundRange, Share, Unit, make_units
from lacuna.pipeline.compaction.rewriting import (
    Dropped,
    RewriteTask,
    TaskResult,
    rewrite,
)
from lacuna.pipeline.compaction.settings import RewriteSettings
from lacuna.pipeline.control import check
from lacuna.pipeline.errors import (
    DamagedDataError,
    DataLossError,
    PipelineError,
    StaleMetadataError,
)
from lacuna.pipeline.holding import hold_lost
from lacuna.pipeline.loading import Block, cut_pieces, load_block, load_blocks
from tests.simulation import keyed
from tests.simulation.cluster import Host, Surroundings
from tests.simulation.history import History
from tests.simulation.loop import Process
from tests.simulation.sessions import new_client
from tests.simulation.store import SimulatedStore

#: How long a pin and a lease last; they are renewed five times as often.
HOLD_SECONDS: Final = 10.0
#: For how long a swap is sent again whose answer was lost.
SWAP_AGAIN_SECONDS: Final = 30.0
#: Longer than the grace of a collection: only a pin keeps objects for so long.
LONG_SECONDS: Final = 26.0
#: How long ago the past is that a cut is asked for.
_PAST_MS: Final = 5_000
#: How likely a job dies at each of a few steps, or stops before a swap, for longer than its lease and the grace.
DIES: Final = 0.02
FREEZES: Final = 0.02
FROZEN_SECONDS: Final = 32.0


Main: TypeAlias = "Callable[[Job], Coroutine[None, None, None]]"
"""One round of a job."""


class Died(OSError):
    """The process of a job died. Its lease and pin will expire."""


class JobHost(Host):
    """A machine that repeats one job until it is asked to stop after the current round."""

    def __init__(
        self,
        around: Surroundings,
        name: str,
        history: History,
        job: Main,
    ) -> None:
        super().__init__(around, name)
        self.history = history
        self.is_closing = False
        self.is_idle = False
        self._job = job

    async def _serve(self, process: Process) -> None:
        control = new_client(self.around, self.random.random)
        await control.cluster.ready()
        job = Job(self, control, SimulatedStore(self.around.bucket, process))
        is_last = False
        while not is_last:
            is_last = self.is_closing
            try:
                await self._job(job)
                self.progress += 1
                self.history.counts[f"{self.name}: done"] += 1
            except PipelineError as error:
                self.history.counts[f"{self.name}: {type(error).__name__}"] += 1
            if not is_last:
                await asyncio.sleep(0.2 + 2.0 * self.random.random())
        self.is_idle = True
        await self.around.loop.create_future()

    async def _stop(self) -> None:
        """Do nothing: jobs are killed, never stopped."""


class Job:
    """One process of a job: its control plane, its store, and its pins."""

    def __init__(self, host: JobHost, control: SessionClient, store: SimulatedStore) -> None:
        self.host = host
        self.history = host.history
        self.random = host.random
        self.control = control
        self.store = store
        self.lease_id = 0
        self._pin_id = 0
        self._is_lost = False

    @property
    def cluster_id(self) -> str:
        """The cluster's id, the prefix of object keys."""
        return self.control.cluster.cluster_id

    @asynccontextmanager
    async def hold(self, *, has_lease: bool) -> AsyncIterator[None]:
        """Hold a pin, and possibly a lease. Raises PipelineError, ControlPlaneUnavailable, CommandRefused."""
        duration_ms = int(HOLD_SECONDS * 1000)
        self.lease_id, self._is_lost = 0, False
        if has_lease:
            lease = Command(open_lease=OpenLease(duration_ms=duration_ms))
            opened = (await self.control.call(lease)).lease_opened
            check(opened.error_code, "a lease")
            self.lease_id = opened.lease_id
        pin = Command(pin_reads=PinReads(duration_ms=duration_ms))
        pinned = (await self.control.call(pin)).reads_pinned
        check(pinned.error_code, "a pin")
        self._pin_id = pinned.pin_id
        keeper = asyncio.create_task(self._keep())
        try:
            yield
        except PipelineError:
            await self._give_back()
            raise
        finally:
            keeper.cancel()
        await self._give_back()

    def check(self) -> None:
        """Raise StaleMetadataError if the pin or lease is known to be lost."""
        if self._is_lost:
            raise hold_lost("lease")

    async def _give_back(self) -> None:
        unpin = Command(unpin_reads=UnpinReads(pin_id=self._pin_id))
        await self.control.call(unpin)
        if self.lease_id:
            release = Command(release_lease=ReleaseLease(lease_id=self.lease_id))
            await self.control.call(release)

    async def is_held(self) -> bool:
        """Return whether the control plane confirms that the pin and the lease still hold."""
        try:
            await self._renew()
        except (ControlPlaneUnavailable, CommandRefused):
            return False
        return not self._is_lost

    async def _keep(self) -> None:
        while not self._is_lost:
            await asyncio.sleep(HOLD_SECONDS / 5)
            await self.is_held()

    async def _renew(self) -> None:
        if self.lease_id:
            renew = Command(renew_lease=RenewLease(lease_id=self.lease_id))
            renewed = (await self.control.call(renew)).lease_renewed
            self._is_lost = self._is_lost or bool(renewed.error_code)
        pin = PinReads(duration_ms=int(HOLD_SECONDS * 1000), pin_id=self._pin_id)
        pinned = (await self.control.call(Command(pin_reads=pin))).reads_pinned
        self._is_lost = self._is_lost or bool(pinned.error_code)

    async def topics(self) -> dict[bytes, Topic]:
        """Return the topics by id, including every change answered earlier. Raises ControlPlaneUnavailable."""
        await confirm(self.control)
        await self.control.cluster.ready()
        return dict(self.control.cluster.topics_by_id)

    async def copy_hot(self, segments: Iterable[tuple[int, int]]) -> None:
        """Copy those of these segments that are hot to the bucket, as drivers do.

        Raises PipelineError if merging was faster or the store fails, ControlPlaneUnavailable, CommandRefused.
        """
        keys = sorted({key for key in segments if is_hot(key[0])})
        for start in range(0, len(keys), 128):
            some = keys[start : start + 128]
            ids = [SegmentId(lease_id=lease_id, sequence=sequence) for lease_id, sequence in some]
            answer = (await self.control.call(Command(read_hot=ReadHot(segments=ids)))).hot_read
            if any(each.is_gone for each in answer.segments):
                raise StaleMetadataError("merging moved hot segments out before they were copied")
            for key, each in zip(some, answer.segments, strict=True):
                await self._put(key_in_lease(self.cluster_id, *key), each.data)

    async def _put(self, key: str, data: bytes) -> None:
        try:
            await self.host.around.loop.run_in_executor(None, self.store.put, key, [data])
        except ObjectStoreError as error:
            raise PipelineError(f"a hot segment could not be copied: {error}") from error

    async def work(self, seconds: Sequence[float]) -> None:
        """Let time pass, or end the process."""
        if self.random.random() < DIES:
            raise Died("killed in the middle")
        await asyncio.sleep(self.random.choice(seconds) * self.random.random())

    async def gone(self, what: str) -> None:
        """Report a missing object as a violation if a pin should have kept it, unless a fault has removed it."""
        if await self.is_held() and not self.is_by_fault(what):
            self.history.wrong(f"{self.host.name} holds a pin, and {what}")

    def is_by_fault(self, what: str) -> bool:
        """Return whether the error concerns an object that a fault has removed or damaged."""
        return any(key in what for key in self.host.around.bucket.was_damaged)


# Compaction.


async def compact(job: Job) -> None:
    """Rewrite the data that is worth it, once. Raises PipelineError, ControlPlaneUnavailable, CommandRefused, Died."""
    topics = await job.topics()
    async with job.hold(has_lease=True):
        names = {
            (topic.topic_id, partition): topic.name
            for topic in topics.values()
            for partition in range(topic.partition_count)
        }
        plan = PlanCompaction(
            partitions=[
                TopicPartition(topic_id=topic_id, partition=partition)
                for topic_id, partition in names
            ],
            small_bytes=512 << 10,
            rewrites_all=job.random.random() < 0.3,
            max_extents=job.random.choice((0, 0, 20)),
            min_age_ms=job.random.choice((0, 0, 1000)),
        )
        found = (await job.control.call(Command(plan_compaction=plan))).compaction_plan
        check(found.error_code, "a plan")
        for each in found.ranges:
            extents = ExtentTable.from_columns(each.extents)
            await job.copy_hot(zip(extents.lease_ids, extents.sequences, strict=True))
        task_bytes = job.random.choice((2_000, 256 << 20))
        pieces = [
            piece
            for each in found.ranges
            for piece in FoundRange(
                names[each.partition.topic_id, each.partition.partition], each, found.planned_at_ms
            ).pieces(task_bytes)
        ]
        attempts = itertools.count()
        await job.work((0, 0, 0.5, LONG_SECONDS))
        for unit in make_units(pieces, task_bytes):
            await _compact_unit(job, unit, found.planned_at_ms, attempts)


async def _compact_unit(job: Job, unit: Unit, now_ms: int, attempts: Iterator[int]) -> None:
    tasks = [
        RewriteTask(
            store_url="",
            cluster_id=job.cluster_id,
            lease_id=job.lease_id,
            settings=RewriteSettings(batch_bytes=job.random.choice((1 << 10, 256 << 10))),
            shares=shares,
        )
        for shares in unit.tasks
    ]
    loop = job.host.around.loop
    dropped: Sequence[Dropped | None] = [None] * len(tasks)
    if unit.is_cleaned and tasks:
        try:
            dropped = superseded = await loop.run_in_executor(
                None, _superseded, job.store, tasks, now_ms
            )
        except DataLossError as error:
            await job.gone(str(error))
            raise
        job.history.counts["records superseded"] += sum(each.count for each in superseded)
    results: list[TaskResult] = []
    for task, gone in zip(tasks, dropped, strict=True):
        await job.work((0, 0, 0.5))
        job.check()  # a driver looks every second, and cancels its tasks
        results.append(
            await loop.run_in_executor(None, rewrite, task, job.store, next(attempts), gone)
        )
    for text in {share.error for result in results for share in result.shares}:
        if "is gone" in text:
            await job.gone(text)
    await job.work((0, 0, 0.5, 3.0))
    if job.random.random() < FREEZES and not job.host.is_closing:
        job.host.pause(FROZEN_SECONDS)
        await asyncio.sleep(0)
    job.check()
    await _swap(job, unit, results)


async def _swap(job: Job, unit: Unit, results: Sequence[TaskResult]) -> None:
    prepared = prepare_swap(unit, job.lease_id, results)
    if not prepared.ranges:
        return
    answer = await _ask_to_swap(job, prepared.command)
    check(answer.error_code, "the swap")
    for code in answer.error_codes:
        job.history.counts[f"swaps {ErrorCode(code).name}"] += 1


async def _ask_to_swap(job: Job, command: SwapExtents) -> Outcomes:
    """Send a swap, and repeat it if the answer is lost."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + SWAP_AGAIN_SECONDS
    while True:
        try:
            return (await job.control.call(Command(swap_extents=command))).extents_swapped
        except ControlPlaneUnavailable:
            if loop.time() > give_up:
                raise
            await asyncio.sleep(0.5)


class _Superseded:
    """The offsets to drop from the partitions of one task."""

    def __init__(self, offsets: Sequence[array[int]]) -> None:
        self._offsets = list(offsets)
        self.count = sum(map(len, offsets))

    def below(self, share: int, end_offset: int) -> array[int] | None:
        """See `Dropped`."""
        waiting = self._offsets[share]
        found = array("q", (each for each in waiting if each < end_offset))
        self._offsets[share] = waiting[len(found) :]
        return found or None


def _superseded(
    store: SimulatedStore, tasks: Sequence[RewriteTask], now_ms: int
) -> list[_Superseded]:
    """Return what each task drops: all but the last record of each key of a range, and tombstones that are due."""
    found = [[array("q") for _ in task.shares] for task in tasks]
    last: dict[tuple[int, bytes], tuple[array[int], int]] = {}
    for number, task in enumerate(tasks):
        for index, share in enumerate(task.shares):
            for batch, record in _records_of(store, task, share):
                if record.key is None:
                    continue
                key = (share.range_index, bytes(record.key))
                gone, offset = last.pop(key, (None, -1))
                if gone is not None:
                    gone.append(offset)
                header = batch.header
                is_past = header.has_delete_horizon and header.base_timestamp <= now_ms
                if share.drops_tombstones and is_past and record.value is None:
                    found[number][index].append(record.offset)
                else:
                    last[key] = (found[number][index], record.offset)
    return [_Superseded([array("q", sorted(each)) for each in gone]) for gone in found]


def _records_of(
    store: SimulatedStore, task: RewriteTask, share: Share
) -> Iterator[tuple[RecordBatch, Record]]:
    for block in load_blocks(store, task.cluster_id, share.pieces()):
        for batch in read_batches(block.data):
            for record in batch.records():
                yield batch, record


# Reading.


async def look_for_cuts(job: Job) -> None:
    """Request a cut of all topics, now and as of some seconds ago. Raises ControlPlaneUnavailable, CommandRefused."""
    topics = await job.topics()
    keys = [
        (key, index)
        for key, each in topics.items()
        if not each.name.startswith("temp-")  # which may be younger than the past
        for index in range(each.partition_count)
    ]
    now = await read_cut(job.control, keys)
    past = await read_as_of(job.control, keys, now.at_ms - _PAST_MS, is_cut=True)
    for when, cut in (("now", now), ("in the past", past)):
        ends = {
            (topics[topic_id].name, index): each.end_offset
            for (topic_id, index), each in cut.partitions.items()
            if not each.error_code
        }
        job.history.told_cut(f"{job.host.name} {when}", ends)


async def read_slowly(job: Job) -> None:
    """Pin, then read the live records for longer than a collection waits. Raises the same errors as `compact`."""
    async with job.hold(has_lease=False):
        topics = await job.topics()
        found = []
        for topic in topics.values():
            for partition in range(topic.partition_count):
                view = job.control.partition(topic.topic_id, partition)
                await view.ready()
                extents = ExtentTable.from_columns(view.extents.columns())
                await job.copy_hot(zip(extents.lease_ids, extents.sequences, strict=True))
                found.append((topic, partition, list(all_pieces(extents))))
        await job.work((1.0, LONG_SECONDS))
        for topic, partition, pieces in found:
            for group in cut_pieces(pieces, 20_000):
                block = await _read(job, group)
                if block is None:
                    return
                _look(job, topic, partition, block)
                await asyncio.sleep(0.3 * job.random.random())


async def _read(job: Job, pieces: Sequence[Piece]) -> Block | None:
    """Read some pieces, retrying if the store fails. Return None if the pieces or the pin are gone."""
    loop = job.host.around.loop
    while await job.is_held():
        try:
            read = loop.run_in_executor(None, load_block, job.store, job.cluster_id, pieces)
            block: Block = await read
            return block
        except DataLossError as error:
            await job.gone(str(error))
            return None
        except DamagedDataError as error:
            if not job.host.around.bucket.flips and not job.is_by_fault(str(error)):
                job.history.wrong(f"{job.host.name} finds damage: {error}")
                return None
        except PipelineError:
            pass
        await asyncio.sleep(0.5)
    return None


def _look(job: Job, topic: Topic, partition: int, block: Block) -> None:
    """Compare what was read with the known facts about these offsets."""
    if topic.name == keyed.TOPIC:
        return
    name = f"{topic.name}/{topic.topic_id.hex()}" if topic.name.startswith("temp-") else topic.name
    for batch in read_batches(block.data):
        for record in batch.records():
            job.history.saw(
                job.host.name,
                (name, partition),
                record.offset,
                record.value or b"",
                is_committed=False,
            )
