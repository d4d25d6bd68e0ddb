"""An embedded cluster with concurrent jobs: one compacts extents being merged, and one writes without a transaction."""

from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer

from lacuna.agent.housekeeping import HousekeepingSettings, Merger, MergeSettings
from lacuna.agent.housekeeping.merging import MergeReport
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.client.views import ClusterView, PartitionView
from lacuna.controlplane.shared.batches import (
    COMMITTED_BATCH,
    FLAG_ADDS_PARTITION,
    FLAG_TRANSACTIONAL,
    SegmentSlice,
    commit_of,
    verdicts_of,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import FLAG_TRUE_OFFSETS, DeadRanges, ExtentTable
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.v1.cluster_pb2 import OpenLease, TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import (
    CompactionRange,
    ExtentSwap,
    PlanCompaction,
    SegmentId,
    SwapExtents,
    SwapPartition,
)
from lacuna.controlplane.v1.transactions_pb2 import EndTxn, InitProducerId
from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.logstore.segments import SegmentId as StoredSegmentId
from lacuna.logstore.segments import SliceInput, WrittenSegment, segment_key, write_segment
from lacuna.logstore.segments.merge import LiveRange, merge_ranges
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster
from tests.agent.housekeeping.test_housekeeping import NEVER, collect_all, objects, read, write

MERGE = MergeSettings(min_extents=8, min_age_ms=0)
PARTS = AgentParts(
    produce=ProduceSettings(hot_bytes=0),
    housekeeping=HousekeepingSettings(
        merge_interval_ms=NEVER, collect_interval_ms=NEVER, merge=MERGE
    ),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster that merges and collects only on a test's request."""
    with Cluster(parts=PARTS) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return cluster.create_topic("".join(each if each.isalnum() else "-" for each in name))


@dataclass
class Job:
    """A process that holds a lease without an address, like the driver of a Spark job."""

    cluster: Cluster
    lease_id: int = 0
    sequence: int = 0

    @property
    def control(self) -> ControlClient:
        return self.cluster.embedded.control

    async def open(self) -> "Job":
        command = Command(open_lease=OpenLease(duration_ms=600_000))
        self.lease_id = (await self.control.call(command)).lease_opened.lease_id
        return self

    def partition(self, topic: str) -> TopicPartition:
        found = self.control.cluster.topics_by_name[topic]
        return TopicPartition(topic_id=found.topic_id, partition=0)

    def put(self, slices: list[SliceInput], *, has_true_offsets: bool) -> WrittenSegment:
        """Writes one segment under a new id."""
        self.sequence += 1
        segment_id = StoredSegmentId(self.lease_id, self.sequence)
        cluster_id = self.control.cluster.cluster_id
        written = write_segment(cluster_id, segment_id, slices, has_true_offsets=has_true_offsets)
        self.cluster.embedded.store.put(segment_key(cluster_id, segment_id), written.parts)
        return written

    async def compact(self, topic: str) -> SwapExtents:
        """Plan, read and write, so that only the swap is left to do."""
        command = PlanCompaction(partitions=[self.partition(topic)], rewrites_all=True)
        plan = (await self.control.call(Command(plan_compaction=command))).compaction_plan
        (found,) = plan.ranges
        runs = list(merge_ranges(self._live(found), found.end_offset))
        batches = [batch for run in runs for batch in run.batches]
        partition = found.partition
        slices = [SliceInput(partition.topic_id, partition.partition, batches)]
        written = self.put(slices, has_true_offsets=True)
        segment = SegmentId(lease_id=self.lease_id, sequence=self.sequence)
        swap = ExtentSwap(first_offset=found.first_offset, end_offset=found.end_offset)
        for run in runs:
            new = swap.extents
            new.lease_ids.append(segment.lease_id)
            new.sequences.append(segment.sequence)
            new.positions.append(written.slices[0].position + run.position)
            new.sizes.append(run.size)
            new.base_offsets.append(run.base_offset)
            new.next_offsets.append(run.next_offset)
            new.max_timestamps.append(run.max_timestamp)
            new.producer_ids.append(-1)
            new.producer_epochs.append(-1)
            new.transactions.append(0)
            new.flags.append(FLAG_TRUE_OFFSETS)
        wanted = SwapPartition(partition=partition, fence=found.fence, swap=swap)
        answer = SwapExtents(partitions=[wanted])
        answer.segments.add(segment=segment, object_size=written.size)
        return answer

    def _live(self, found: CompactionRange) -> Iterator[LiveRange]:
        table, dead = ExtentTable.from_columns(found.extents), DeadRanges.from_pairs(found.dead)
        for index, base_offset in enumerate(table.base_offsets):
            if dead.skip(base_offset) != base_offset:
                continue
            segment_id = StoredSegmentId(table.lease_ids[index], table.sequences[index])
            key = segment_key(self.control.cluster.cluster_id, segment_id)
            position, size = table.positions[index], table.sizes[index]
            yield LiveRange(
                key=key,
                position=position,
                data=bytearray(self.cluster.embedded.store.get(key, position, size)),
                base_offset=base_offset,
                next_offset=table.next_offsets[index],
                has_true_offsets=bool(table.flags[index] & FLAG_TRUE_OFFSETS),
            )

    async def swap(self, command: SwapExtents) -> str:
        reply = (await self.control.call(Command(swap_extents=command))).extents_swapped
        assert reply.error_code == ErrorCode.NONE
        return ErrorCode(reply.error_codes[0]).name


class Interrupted:
    """A control client that lets another command go first when a swap is sent."""

    def __init__(self, inner: ControlClient, first: Callable[[], Awaitable[None]]) -> None:
        self._inner = inner
        self._first = first

    @property
    def cluster(self) -> ClusterView:
        return self._inner.cluster

    @property
    def journal_position(self) -> int:
        return self._inner.journal_position

    @property
    def is_shut_out(self) -> bool:
        return self._inner.is_shut_out

    def partition(self, topic_id: bytes, partition: int) -> PartitionView:
        return self._inner.partition(topic_id, partition)

    async def call(self, command: Command) -> Reply:
        if command.WhichOneof("verb") == "swap_extents":
            await self._first()
        return await self._inner.call(command)

    def give_up_unsent(self, reason: str) -> None:
        self._inner.give_up_unsent(reason)

    async def close(self) -> None:
        """Do nothing, since the inner client belongs to the cluster."""


async def merge(cluster: Cluster, control: ControlClient) -> MergeReport:
    """Run the embedded cluster's own merge, with its own lease."""
    agent = cluster.embedded.agents[0].context
    with ThreadPoolExecutor(1) as executor:
        merger = Merger(control, agent.store, agent.lease, executor, MERGE)
        report = await merger.run_once()
    assert report is not None
    return report


def transactions(cluster: Cluster, topic: str) -> None:
    """Write sixteen records, each in a separate transaction, with every other one aborted."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for number in range(16):
        producer.begin_transaction()
        write(producer, topic, number, 1)
        if number % 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["job", "merge"])
def test_of_a_merge_and_a_compaction_of_the_same_extents_one_counts(
    cluster: Cluster, topic: str, first: str
) -> None:
    """S14, S19: the loser's plan is stale, and its segment is garbage. No record is lost."""
    transactions(cluster, topic)
    committed = read(cluster, topic, "read_committed")
    assert len(committed) == 8
    told: list[str] = []

    async def race() -> int:
        job = await Job(cluster).open()
        planned = await job.compact(topic)

        async def swap() -> None:
            told.append(await job.swap(planned))

        if first == "job":
            return (await merge(cluster, Interrupted(job.control, swap))).refused
        report = await merge(cluster, job.control)
        await swap()
        return report.refused

    refused = cluster.run(race())
    assert (refused, told) == ((1, ["NONE"]) if first == "job" else (0, ["PLAN_STALE"]))
    for isolation in ("read_committed", "read_uncommitted"):
        assert read(cluster, topic, isolation) == committed
    before = objects(cluster)
    assert collect_all(cluster) >= 17, "what was merged, and what the loser wrote"
    assert objects(cluster) <= before - 17
    assert read(cluster, topic, "read_committed") == committed


@pytest.mark.slow
@pytest.mark.parametrize("committed", [True, False])
def test_plain_batches_are_committed_as_those_of_a_transaction(
    cluster: Cluster, topic: str, committed: bool
) -> None:
    """S1, S13: the commit's rows decide, rather than the stored header, which has no producer id here.

    A sink's tasks write before its driver has a transaction.
    """
    expected = [(0, b"k", b"v0", 7), (1, b"k", b"v1", 7)]

    async def write_and_open() -> EndTxn:
        job = await Job(cluster).open()
        partition = job.partition(topic)
        records = tuple(
            NewRecord(offset_delta=number, timestamp=7, key=b"k", value=f"v{number}".encode())
            for number in range(2)
        )
        batch = BatchToWrite(records=records).encode()
        slices = [SliceInput(partition.topic_id, 0, [batch])]
        written = job.put(slices, has_true_offsets=False)
        init = InitProducerId(
            transactional_id=topic, has_transactional_id=True, transaction_timeout_ms=60_000
        )
        init.producer_id = init.producer_epoch = -1
        reply = await job.control.call(Command(init_producer_id=init))
        producer = reply.producer_id_initialized
        flags = FLAG_TRANSACTIONAL | FLAG_ADDS_PARTITION
        (position,) = written.slices[0].batch_positions
        row = COMMITTED_BATCH.pack(
            position, len(batch), 2, 7, producer.producer_id, producer.producer_epoch, 0, flags
        )
        commit = commit_of(
            SegmentId(lease_id=job.lease_id, sequence=job.sequence),
            written.size,
            [SegmentSlice(key_of(partition), row)],
        )
        answer = (await job.control.call(Command(commit_segment=commit))).segment_committed
        assert list(verdicts_of(answer)[0].error_codes) == [ErrorCode.NONE]
        return EndTxn(
            transactional_id=topic,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=committed,
        )

    end = cluster.run(write_and_open())
    assert read(cluster, topic, "read_committed") == []
    assert read(cluster, topic, "read_uncommitted") == expected
    control = cluster.embedded.control
    assert cluster.run(control.call(Command(end_txn=end))).txn_ended.error_code == ErrorCode.NONE
    assert read(cluster, topic, "read_committed") == (expected if committed else [])
