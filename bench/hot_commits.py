"""How many hot segments per second a control plane accepts, and how much memory it uses; part of the section `bucket`.

The control plane is a separate process, with its journal in PostgreSQL. This process sends an agent's commits over
gRPC, each with a batch in a hot segment of `HOT_BYTES`. It soon deletes the records, so that the journal drops the
segments as it would after merging.
"""

import asyncio
import os
import random
import time
from typing import Final

from bench import BenchError
from bench.bucket_targets import S3, Places, Services
from bench.clients import percentile
from bench.figures import CPU_PER_1000, P50, P99, Better, Figure, Row, Run
from bench.meter import cpu_seconds, process_tree, resident_bytes
from bench.target import PARTITIONS
from lacuna.agent.server import run as run_on_uvloop
from lacuna.controlplane.client import GrpcClient
from lacuna.controlplane.shared.batches import (
    BATCH_VERDICT,
    COMMITTED_BATCH,
    SegmentSlice,
    commit_of,
)
from lacuna.controlplane.state.settings import COLLECTED_AT_ONCE
from lacuna.controlplane.v1.cluster_pb2 import (
    CreateTopic,
    CreateTopics,
    OpenLease,
    RenewLease,
    TopicPartition,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import (
    CommitSegment,
    ConfirmCollection,
    DeleteRecords,
    DeleteRecordsPartition,
    PlanCollection,
    SegmentId,
)
from lacuna.logstore.segments.hot import hot_lease

HOT_BYTES: Final = 16 << 10
LANES: Final = 32
STEPS_SECONDS: Final = 1.0
COMMITS = Figure("commits/s", Better.MORE)
MEMORY_BEGIN = Figure("control plane MiB, after a tenth", Better.LESS)
MEMORY_END = Figure("control plane MiB, at the end", Better.LESS)
WORK: Final = f"commits with {HOT_BYTES >> 10} KiB of hot bytes, {LANES} at once"
SECONDS: Final = {"smoke": 0.5, "quick": 20.0, "full": 600.0}
#: More than this machine can reach, so that no commit is refused.
UNBOUNDED: Final = ("--set=hot.bytes.per.second=4294967296", "--set=hot.max.bytes=17179869184")


class _Agent:
    """Commits segments like an agent, but serves no clients."""

    def __init__(self, client: GrpcClient) -> None:
        self._client = client
        self._hot = os.urandom(HOT_BYTES)
        self._sequence = 0
        self._lease_id = 0
        self._keys: list[TopicPartition] = []
        self.took: list[float] = []

    async def prepare(self) -> None:
        opened = await self._client.call(Command(open_lease=OpenLease()))
        self._lease_id = opened.lease_opened.lease_id
        topic = CreateTopic(name="hot", partition_count=PARTITIONS)
        made = await self._client.call(Command(create_topics=CreateTopics(topics=[topic])))
        topic_id = made.topics_created.topics[0].topic_id
        self._keys = [
            TopicPartition(topic_id=topic_id, partition=each) for each in range(PARTITIONS)
        ]

    async def commit_until(self, end: float) -> None:
        """Commits one segment after another until `end`. Raises BenchError if a commit is rejected."""
        while (started := time.perf_counter()) < end:
            reply = await self._client.call(Command(commit_segment=self._commit()))
            self.took.append(time.perf_counter() - started)
            answer = reply.segment_committed
            verdicts = [code for code, *_ in BATCH_VERDICT.iter_unpack(answer.batches)]
            if answer.error_code or verdicts != [0]:
                raise BenchError(f"a commit was rejected: {answer.error_code} {verdicts}")

    async def keep_tidy(self) -> None:
        await self._client.call(Command(renew_lease=RenewLease(lease_id=self._lease_id)))
        partitions = [DeleteRecordsPartition(partition=key, before_offset=-1) for key in self._keys]
        await self._client.call(Command(delete_records=DeleteRecords(partitions=partitions)))
        await self._collect()

    async def _collect(self) -> None:
        """Confirms the deletion of the segments that are due, so that the control plane forgets them."""
        plan = PlanCollection(lease_id=self._lease_id, max_segments=COLLECTED_AT_ONCE)
        while due := (
            await self._client.call(Command(plan_collection=plan))
        ).collection_plan.segments:
            deleted = ConfirmCollection(segments=due)
            await self._client.call(Command(confirm_collection=deleted))

    def _commit(self) -> CommitSegment:
        self._sequence += 1
        key = self._keys[self._sequence % PARTITIONS]
        now_ms = int(time.time() * 1000)
        batch = COMMITTED_BATCH.pack(0, HOT_BYTES, 1, now_ms, -1, -1, -1, 0)
        segment = SegmentId(lease_id=hot_lease(self._lease_id), sequence=self._sequence)
        command = commit_of(
            segment, HOT_BYTES, [SegmentSlice((key.topic_id, key.partition), batch)]
        )
        command.hot = self._hot
        return command


def hot_commits(services: Services, size: str) -> Row:
    target = Places(S3, services.database(), services.store_url(), 0, control_options=UNBOUNDED)
    with target:
        run: list[Run] = []

        async def measure() -> None:
            run.append(await _measure(target, SECONDS[size]))

        run_on_uvloop(measure())
    return Row(WORK, S3, run)


async def _measure(target: Places, seconds: float) -> Run:
    client = GrpcClient(target.control, random.random)
    client.start()
    agent = _Agent(client)
    await agent.prepare()
    pids = process_tree([target.control_pid])
    cpu, started = cpu_seconds(pids), time.perf_counter()
    end = started + seconds
    async with asyncio.TaskGroup() as tasks:
        for _ in range(LANES):
            tasks.create_task(agent.commit_until(end))
        memory: list[int] = []
        while time.perf_counter() < end:
            await asyncio.sleep(min(STEPS_SECONDS, seconds / 10))
            await agent.keep_tidy()
            memory.append(resident_bytes([target.control_pid]))
    passed = time.perf_counter() - started
    await client.close()
    count = len(agent.took)
    return {
        COMMITS: count / passed,
        P50: percentile(agent.took, 0.5) * 1000,
        P99: percentile(agent.took, 0.99) * 1000,
        CPU_PER_1000: (cpu_seconds(pids) - cpu) / count * 1000,
        MEMORY_BEGIN: memory[len(memory) // 10] / (1 << 20),
        MEMORY_END: memory[-1] / (1 << 20),
    }
