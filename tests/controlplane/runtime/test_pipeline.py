"""Tests random commands through the runtime on a journal in SQLite: restarts, views and snapshots."""

import asyncio
import itertools
import random
import re
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lacuna.controlplane.client import InProcessClient, PartitionView
from lacuna.controlplane.journal.snapshot_process import SnapshotProcess
from lacuna.controlplane.journal.snapshots import snapshots_path
from lacuna.controlplane.journal.snapshotter import make_snapshot
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.runtime import RuntimeSettings
from lacuna.controlplane.shared.batches import SegmentSlice, commit_of
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import COLUMNS
from lacuna.controlplane.v1.cluster_pb2 import (
    DeleteTopics,
    OpenLease,
    RegisterAgent,
    TopicPartition,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import (
    CommittedOffset,
    OffsetCommit,
    TxnOffsetCommit,
)
from lacuna.controlplane.v1.log_pb2 import (
    DeleteRecords,
    DeleteRecordsPartition,
    ExtentSwap,
    PinReads,
    PlanCompaction,
    PlanMerge,
    SegmentId,
    SwapExtents,
    SwapPartition,
    SwapSegment,
)
from lacuna.controlplane.v1.transactions_pb2 import AddPartitionsToTxn, EndTxn, InitProducerId
from tests.controlplane.runtime.commands import create_topic, segment_slice
from tests.controlplane.runtime.rig import Rig
from tests.controlplane.verbs.compacting import rewritten

TRANSACTIONAL, ADDS_PARTITION = 4, 8
STEPS = 250


def rig_on(folder: Path, settings: RuntimeSettings | None = None) -> Rig:
    journal = SqliteJournal(str(folder / "control.db"), lambda: "cluster")
    return Rig(journal, settings, SnapshotProcess(journal))


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = await rig_on(tmp_path).start()
    yield rig
    await rig.plane.close()


class Workload:
    """Random commands that mostly succeed. The client may change after each restart."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.keys: list[tuple[bytes, int]] = []
        self.producers: dict[str, tuple[int, int]] = {}
        self.sequences: dict[tuple[int, int, tuple[bytes, int]], int] = {}
        self.lease_id = 0
        self.sequence = itertools.count(1)
        self.names = itertools.count(1)

    async def step(self, client: InProcessClient) -> None:
        """Run one command, or several that belong together."""
        if not self.lease_id:
            reply = await client.call(Command(register_agent=RegisterAgent(host="a", port=1)))
            self.lease_id = reply.agent_registered.lease_id
        if len(self.keys) < 4:
            await self.create(client)
        steps = {
            self.produce: 8,
            self.produce_in_transaction: 8,
            self.end: 4,
            self.add_partitions: 2,
            self.commit_offsets: 3,
            self.delete_records: 1,
            self.merge: 2,
            self.compact: 2,
            self.create: 1,
            self.delete: 1,
        }
        (chosen,) = self.rng.choices(list(steps), list(steps.values()))
        await chosen(client)

    async def create(self, client: InProcessClient) -> None:
        reply = await client.call(create_topic(f"topic{next(self.names)}", 3))
        topic = reply.topics_created.topics[0]
        assert topic.error_code == ErrorCode.NONE, topic.error_message
        self.keys += [(topic.topic_id, partition) for partition in range(3)]

    async def delete(self, client: InProcessClient) -> None:
        topic_id = self.keys[0][0]
        self.keys = [key for key in self.keys if key[0] != topic_id]
        await client.call(Command(delete_topics=DeleteTopics(topic_ids=[topic_id])))

    def segment(self) -> SegmentId:
        return SegmentId(lease_id=self.lease_id, sequence=next(self.sequence))

    async def put(self, client: InProcessClient, slices: list[SegmentSlice]) -> None:
        command = commit_of(self.segment(), 1 << 20, slices)
        reply = await client.call(Command(commit_segment=command))
        assert reply.segment_committed.error_code == ErrorCode.NONE

    async def produce(self, client: InProcessClient) -> None:
        keys = self.rng.sample(self.keys, self.rng.randint(1, 3))
        await self.put(client, [segment_slice(key, count=self.rng.randint(1, 9)) for key in keys])

    async def producer(self, client: InProcessClient) -> tuple[str, tuple[int, int]]:
        name = self.rng.choice("xyz")
        if name not in self.producers or self.rng.random() < 0.05:
            command = InitProducerId(
                transactional_id=name,
                has_transactional_id=True,
                transaction_timeout_ms=60_000,
                producer_id=-1,
                producer_epoch=-1,
            )
            given = (await client.call(Command(init_producer_id=command))).producer_id_initialized
            self.producers[name] = (given.producer_id, given.producer_epoch)
        return name, self.producers[name]

    async def produce_in_transaction(self, client: InProcessClient) -> None:
        _, producer = await self.producer(client)
        slices = []
        for key in self.rng.sample(self.keys, 2):
            count = self.rng.randint(1, 9)
            base_sequence = self.sequences.get((*producer, key), 0)
            self.sequences[*producer, key] = base_sequence + count
            slices.append(
                segment_slice(
                    key,
                    count=count,
                    producer=producer,
                    base_sequence=base_sequence,
                    flags=TRANSACTIONAL | ADDS_PARTITION,
                )
            )
        await self.put(client, slices)

    async def add_partitions(self, client: InProcessClient) -> None:
        name, (producer_id, producer_epoch) = await self.producer(client)
        keys = [TopicPartition(topic_id=t, partition=p) for t, p in self.rng.sample(self.keys, 2)]
        command = AddPartitionsToTxn(
            transactional_id=name,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            partitions=keys,
        )
        await client.call(Command(add_partitions_to_txn=command))

    async def end(self, client: InProcessClient) -> None:
        name, (producer_id, producer_epoch) = await self.producer(client)
        command = EndTxn(
            transactional_id=name,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=self.rng.random() < 0.5,
            bumps_epoch=True,
        )
        ended = (await client.call(Command(end_txn=command))).txn_ended
        if ended.error_code == ErrorCode.NONE:
            self.producers[name] = (ended.producer_id, ended.producer_epoch)
        else:
            del self.producers[name]

    async def commit_offsets(self, client: InProcessClient) -> None:
        name, (producer_id, producer_epoch) = await self.producer(client)
        topic_id, partition = self.rng.choice(self.keys)
        offsets = [
            CommittedOffset(
                partition=TopicPartition(topic_id=topic_id, partition=partition),
                offset=self.rng.randint(0, 99),
                leader_epoch=-1,
            )
        ]
        plain = OffsetCommit(group_id="g", generation_id=-1, offsets=offsets)
        await client.call(Command(offset_commit=plain))
        command = TxnOffsetCommit(
            transactional_id=name,
            group_id="g",
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            generation_id=-1,
            offsets=offsets,
            adds_group=True,
        )
        await client.call(Command(txn_offset_commit=command))

    async def delete_records(self, client: InProcessClient) -> None:
        topic_id, partition = self.rng.choice(self.keys)
        command = DeleteRecordsPartition(
            partition=TopicPartition(topic_id=topic_id, partition=partition),
            before_offset=self.rng.randint(0, 5),
        )
        await client.call(Command(delete_records=DeleteRecords(partitions=[command])))

    async def merge(self, client: InProcessClient) -> None:
        """Move all live records of the planned partitions to one object, with one extent each."""
        plan = PlanMerge(
            lease_id=self.lease_id, max_bytes=1 << 30, small_bytes=1 << 20, min_extents=3
        )
        planned = (await client.call(Command(plan_merge=plan))).merge_plan.partitions
        segment = self.segment()
        swaps = []
        for number, partition in enumerate(planned):
            swap = ExtentSwap(first_offset=partition.first_offset, end_offset=partition.end_offset)
            values: dict[str, Any] = {name: [0] for name in COLUMNS}
            values |= {"lease_ids": [self.lease_id], "sequences": [segment.sequence]}
            values |= {"positions": [number * 1000], "sizes": [1000], "flags": [2]}
            values |= {"producer_ids": [-1], "producer_epochs": [-1]}
            values |= {"base_offsets": [swap.first_offset], "next_offsets": [swap.end_offset]}
            for name, column in values.items():
                getattr(swap.extents, name).extend(column)
            swaps.append(
                SwapPartition(partition=partition.partition, replaced=partition.extents, swap=swap)
            )
        new = SwapSegment(segment=segment, object_size=1 << 20)
        command = SwapExtents(segments=[new], partitions=swaps)
        await client.call(Command(swap_extents=command))

    async def compact(self, client: InProcessClient) -> None:
        """Do the same as a job, which opens a lease, names the replaced extents by a digest, and pins what it reads."""
        opened = (await client.call(Command(open_lease=OpenLease(duration_ms=60_000)))).lease_opened
        pinned = (await client.call(Command(pin_reads=PinReads(duration_ms=60_000)))).reads_pinned
        topic_id, partition = self.rng.choice(self.keys)
        wanted = TopicPartition(topic_id=topic_id, partition=partition)
        plan = PlanCompaction(partitions=[wanted], rewrites_all=True, max_extents=20)
        reply = (await client.call(Command(plan_compaction=plan))).compaction_plan
        command = SwapExtents()
        for found in reply.ranges:
            segment = SegmentId(lease_id=opened.lease_id, sequence=1)
            command.segments.add(segment=segment, object_size=1 << 20)
            command.partitions.append(rewritten(found, segment, compacted_to=found.end_offset))
        swapped = (await client.call(Command(swap_extents=command))).extents_swapped
        assert not any(swapped.error_codes)
        again = PinReads(duration_ms=90_000, pin_id=pinned.pin_id)
        assert (await client.call(Command(pin_reads=again))).reads_pinned == pinned


def contents(view: PartitionView) -> dict[str, object]:
    """Return everything in a view."""
    columns: dict[str, object] = {name: list(getattr(view.extents, name)) for name in COLUMNS}
    return columns | {
        "dead": list(zip(view.dead.firsts, view.dead.ends, strict=True)),
        "offsets": (view.log_start_offset, view.high_watermark, view.last_stable_offset),
        "version": view.version,
        "is_deleted": view.is_deleted,
    }


@pytest.mark.parametrize("seed", range(3))
async def test_restarts_give_the_identical_state(rig: Rig, tmp_path: Path, seed: int) -> None:
    """Restarts happen at many points of a random history, with and without snapshots."""
    rng = random.Random(seed)
    workload = Workload(rng)
    client = rig.client()
    for number in range(STEPS):
        await workload.step(client)
        if number % 10 == 9:
            rig.clock.advance(rng.choice((1, 1_000, 30_000)))
            rig.plane.tick()
            workload.lease_id = 0
        if number % 25 == 24:
            if number % 75 == 74:
                await client.call(Command(list_groups={}))
                make_snapshot(str(tmp_path / "control.db"), number // 2)
            before = rig.plane.serialized_state()
            await rig.restart()
            assert rig.plane.serialized_state() == before
            client = rig.client()


@pytest.mark.parametrize("seed", range(3))
async def test_views_that_followed_deltas_equal_fresh_ones(rig: Rig, seed: int) -> None:
    """S3: the sum of the deltas is the state of every partition, also for deleted topics."""
    workload = Workload(random.Random(seed))
    client, watcher = rig.client(), rig.client()
    views: dict[tuple[bytes, int], PartitionView] = {}
    had_dead_ranges = had_merged = False
    for number in range(STEPS):
        await workload.step(client)
        for key in workload.keys:
            if key not in views:
                views[key] = watcher.partition(*key)
                await views[key].ready()
        if number % 25 == 24:
            fresh = rig.client()
            for key in views:
                # Asked for again, since a view of a deleted topic leaves once it is not in use.
                view, other = watcher.partition(*key), fresh.partition(*key)
                await view.ready()
                await other.ready()
                assert contents(view) == contents(other)
            had_dead_ranges |= any(len(view.dead) for view in views.values())
            had_merged |= any(2 in view.extents.flags for view in views.values())
            assert watcher.cluster.topics_by_name == fresh.cluster.topics_by_name
            assert watcher.cluster.topics_by_id == fresh.cluster.topics_by_id
            assert watcher.cluster.agents == fresh.cluster.agents
            assert watcher.cluster.version == fresh.cluster.version
            await fresh.close()
    assert any(view.is_deleted for view in views.values())
    assert had_dead_ranges
    assert had_merged


def rows(path: str, query: str) -> list[tuple[int]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


async def test_a_snapshot_whose_process_cannot_start_is_told_and_another_is_tried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "control.db")
    rig = await rig_on(tmp_path, RuntimeSettings(snapshot_records=40)).start()
    workload = Workload(random.Random(1))
    client = rig.client()
    async with asyncio.timeout(60):
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", str(tmp_path / "no-python"))
            while not caplog.records:
                await workload.step(client)
                await asyncio.sleep(0)
        while not rows(snapshots_path(path), "SELECT position FROM snapshots"):
            await workload.step(client)
            await asyncio.sleep(0.01)
    assert re.search(
        "the next attempt follows after 40 records .*/no-python could not be started as the snapshot "
        "process: .*No such file",
        caplog.records[0].getMessage(),
    )
    await rig.plane.close()


async def test_snapshots_of_another_process_bound_journal_and_restart(tmp_path: Path) -> None:
    """The runtime requests a snapshot, the process writes it, the journal is trimmed, and a restart loads it."""
    path = str(tmp_path / "control.db")
    rig = await rig_on(tmp_path, RuntimeSettings(snapshot_records=40)).start()
    workload = Workload(random.Random(1))
    client = rig.client()
    positions: set[int] = set()
    trimmed = 0
    while len(positions) < 3 or not trimmed:
        for _ in range(20):
            await workload.step(client)
        await asyncio.sleep(0.01)
        trimmed = rows(path, "SELECT value FROM meta WHERE key='trimmed'")[0][0]
        if Path(snapshots_path(path)).exists():
            found = rows(snapshots_path(path), "SELECT DISTINCT position FROM snapshots")
            assert all(trimmed <= position for (position,) in found)
            positions |= {position for (position,) in found}
    await client.call(Command(list_groups={}))
    before = rig.plane.serialized_state()
    await rig.restart()
    assert rig.plane.serialized_state() == before
    await rig.plane.close()
