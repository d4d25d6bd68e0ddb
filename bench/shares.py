"""Share groups (KIP-932): members fetch up to 500 records at a time and acknowledge them, until all are accepted.

The members are clients based on Lacuna's own wire code, in one thread each. They do not decode records, so they use
little CPU time. They wait for each acknowledgement, and that time is measured.
"""

import asyncio
import time
from collections.abc import Iterator
from uuid import uuid4

from bench import BenchError
from bench.clients import Threads, fill, percentile
from bench.figures import CPU_PER_1000, KILO_RECORDS, P50, P99, Row
from bench.meter import Meter
from bench.rounds import Bench, Measured
from bench.target import TIMEOUT_SECONDS, Target
from lacuna.operating.kafka import Agents, KafkaConnection
from lacuna.wire.messages import configs, groups, share_groups
from lacuna.wire.messages import share_records as wire

MEMBERS = (1, 8)
_AT_ONCE = 500
_ACCEPT = b"\x01"
_GROUP = 32


def work_of(members: int) -> str:
    return f"share group of {members}"


def shares(bench: Bench) -> Iterator[Row]:
    """Yields rows for groups of 1 and 8 members that accept all records of a topic on each target."""
    count = bench.size.records
    with bench.topic_each("shares") as topics:
        for target in bench.targets:
            fill(target, topics[target.label], count)

        def run(target: Target, measured: Measured) -> None:
            for members in MEMBERS:
                _measure(target, topics[target.label], count, members, measured)

        yield from bench.rounds([work_of(each) for each in MEMBERS], run)


def _measure(target: Target, topic: str, count: int, members: int, measured: Measured) -> None:
    group = f"bench-{uuid4().hex[:8]}"
    asyncio.run(_prepare(target, group))
    done = [0] * members
    milliseconds: list[float] = []

    def work(number: int) -> None:
        member = _Member(target.bootstrap, group, topic, milliseconds)
        asyncio.run(member.run(done, number, count))

    with Meter(target) as meter, Threads(work, members) as threads:
        threads.join()
    figures = {
        KILO_RECORDS: count / meter.seconds / 1000,
        P50: percentile(milliseconds, 0.5),
        P99: percentile(milliseconds, 0.99),
        CPU_PER_1000: meter.server_cpu_seconds / count * 1000,
    }
    measured.add(meter, figures)


async def _prepare(target: Target, group: str) -> None:
    """Makes the group start at the first record, and lets the server find its coordinator."""
    config = configs.AlterableConfig("share.auto.offset.reset", 0, "earliest")
    resource = configs.AlterConfigsResource(_GROUP, group, [config])
    async with KafkaConnection(Agents(target.bootstrap)) as connection:
        await connection.ask(
            configs.INCREMENTAL_ALTER_CONFIGS_REQUEST,
            configs.INCREMENTAL_ALTER_CONFIGS_RESPONSE,
            1,
            configs.IncrementalAlterConfigsRequest([resource]),
        )
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            answer = await connection.ask(
                groups.FIND_COORDINATOR_REQUEST,
                groups.FIND_COORDINATOR_RESPONSE,
                4,
                groups.FindCoordinatorRequest(key_type=0, coordinator_keys=[group]),
            )
            if not answer.coordinators[0].error_code:
                return
            await asyncio.sleep(0.1)
    raise BenchError(f"{target.label} found no coordinator")


class _Member:
    """A group member that measures how long its acknowledgements take."""

    def __init__(self, bootstrap: str, group: str, topic: str, milliseconds: list[float]) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._topic = topic
        self._member_id = f"m{uuid4().hex[:21]}"
        self._milliseconds = milliseconds

    async def run(self, done: list[int], number: int, count: int) -> None:
        """Accepts records until all members together have accepted `count`. Raises BenchError."""
        async with KafkaConnection(Agents(self._bootstrap)) as connection:
            topic_id, partitions = await self._join(connection)
            epoch, at = 0, time.monotonic()
            while sum(done) < count:
                taken = await self._fetch(connection, epoch, topic_id, partitions)
                epoch += 1
                if taken:
                    done[number] += await self._accept(connection, epoch, topic_id, taken)
                    epoch, at = epoch + 1, time.monotonic()
                elif time.monotonic() > at + TIMEOUT_SECONDS:
                    raise BenchError(f"only {sum(done)} of {count} records were accepted")

    async def _join(self, connection: KafkaConnection) -> tuple[bytes, list[int]]:
        epoch, deadline = 0, time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            answer = await connection.ask(
                share_groups.SHARE_GROUP_HEARTBEAT_REQUEST,
                share_groups.SHARE_GROUP_HEARTBEAT_RESPONSE,
                1,
                share_groups.ShareGroupHeartbeatRequest(
                    self._group,
                    self._member_id,
                    epoch,
                    subscribed_topic_names=[self._topic] if epoch == 0 else None,
                ),
            )
            if not answer.error_code:
                epoch = answer.member_epoch
            assigned = answer.assignment.topic_partitions if answer.assignment else ()
            if assigned:
                return assigned[0].topic_id, list(assigned[0].partitions)
            await asyncio.sleep(0.1)
        raise BenchError("a member was assigned no partition")

    async def _fetch(
        self, connection: KafkaConnection, epoch: int, topic_id: bytes, partitions: list[int]
    ) -> dict[int, list[wire.AcknowledgementBatch]]:
        """Fetches records, and returns the acknowledgements that accept them, by partition."""
        topics = [wire.FetchTopic(topic_id, [wire.FetchPartition(index) for index in partitions])]
        answer = await connection.ask(
            wire.SHARE_FETCH_REQUEST,
            wire.SHARE_FETCH_RESPONSE,
            2,
            wire.ShareFetchRequest(
                self._group,
                self._member_id,
                epoch,
                max_wait_ms=100,
                min_bytes=1,
                max_records=_AT_ONCE,
                batch_size=_AT_ONCE,
                topics=topics if epoch == 0 else (),
            ),
        )
        if answer.error_code:
            raise BenchError(f"ShareFetch: error {answer.error_code}")
        return {
            part.partition_index: [
                wire.AcknowledgementBatch(run.first_offset, run.last_offset, _ACCEPT)
                for run in part.acquired_records
            ]
            for topic in answer.responses
            for part in topic.partitions
            if part.acquired_records
        }

    async def _accept(
        self,
        connection: KafkaConnection,
        epoch: int,
        topic_id: bytes,
        taken: dict[int, list[wire.AcknowledgementBatch]],
    ) -> int:
        parts = [wire.AcknowledgePartition(index, batches) for index, batches in taken.items()]
        began = time.perf_counter()
        answer = await connection.ask(
            wire.SHARE_ACKNOWLEDGE_REQUEST,
            wire.SHARE_ACKNOWLEDGE_RESPONSE,
            2,
            wire.ShareAcknowledgeRequest(
                self._group, self._member_id, epoch, topics=[wire.AcknowledgeTopic(topic_id, parts)]
            ),
        )
        self._milliseconds.append((time.perf_counter() - began) * 1000)
        codes = [part.error_code for topic in answer.responses for part in topic.partitions]
        if answer.error_code or any(codes):
            raise BenchError(f"ShareAcknowledge: errors {answer.error_code}, {codes}")
        return sum(
            batch.last_offset - batch.first_offset + 1
            for batches in taken.values()
            for batch in batches
        )
