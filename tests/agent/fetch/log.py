"""A log in memory: produce and fetch services over a real control plane, without sockets.

async with open_log() as log:
    await log.create_topic("orders")
    writer = await log.transactional("t")
    await writer.send(b"a", b"b")
    await writer.end(committed=True)
    answer = await log.fetch(0)
"""

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

from lacuna.agent.api import Call
from lacuna.agent.clock import SystemWallClock
from lacuna.agent.context import AgentContext
from lacuna.agent.fetch.answers import READ_COMMITTED
from lacuna.agent.fetch.service import FetchService
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.hot import with_hot
from lacuna.agent.lease import AgentLease
from lacuna.agent.members import Members
from lacuna.agent.metrics import AgentMetrics
from lacuna.agent.peer_lines import PeerLines
from lacuna.agent.produce.service import ProduceService
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.agent.security.listeners import Listener
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.client import InProcessClient
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.v1.cluster_pb2 import DeleteTopics, TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import DeleteRecords, DeleteRecordsPartition
from lacuna.controlplane.v1.transactions_pb2 import AddPartitionsToTxn, EndTxn, InitProducerId
from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.objects.memory import MemoryStore
from lacuna.logstore.objects.store import Part, StoreUnavailableError
from lacuna.logstore.records.batch import BatchToWrite, NewRecord, RecordBatch, read_batches
from lacuna.logstore.records.layout import Codec
from lacuna.logstore.segments.paths import parse_segment_key
from lacuna.wire.messages import fetch as wire
from lacuna.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.agent.harness import anybody, make_context, unreachable
from tests.agent.plane import control_plane, create_topic
from tests.clients.hurry import lengthen
from tests.doubles.journal import MemoryJournal

TIME = 1_700_000_000_000


class TestStore(MemoryStore):
    """An in-memory store whose PUTs can fail (by sequence) or be held; `gap` is its read_gap."""

    __test__ = False

    def __init__(self, gap: int = 0) -> None:
        super().__init__()
        self.gap = gap
        self.failing_sequences: set[int] = set()
        self.gate: threading.Event | None = None
        self.put_order: list[str] = []

    @property
    def read_gap(self) -> int:  # type: ignore[override]
        return self.gap

    def put(self, key: str, parts: Sequence[Part]) -> None:
        if self.gate is not None:
            assert self.gate.wait(60)
        if parse_segment_key(key)[1].sequence in self.failing_sequences:
            raise StoreUnavailableError("the test says so")
        super().put(key, parts)
        self.put_order.append(key)


def make_batch(
    *values: bytes,
    producer: tuple[int, int] | None = None,
    base_sequence: int = 0,
    transactional: bool = False,
    codec: Codec = Codec.NONE,
    timestamp: int = TIME,
    step: int = 1,
) -> bytes:
    """Return one batch as a producer sends it, with one record per value, `step` ms apart."""
    records = tuple(
        NewRecord(offset_delta=index, timestamp=timestamp + step * index, value=value)
        for index, value in enumerate(values)
    )
    producer_id, producer_epoch = producer or (-1, -1)
    return BatchToWrite(
        records=records,
        codec=codec,
        is_transactional=transactional,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence if producer else -1,
    ).encode()


class Writer:
    """An idempotent or transactional producer of one partition at a time."""

    def __init__(
        self, log: "Log", producer_id: int, producer_epoch: int, transactional_id: str | None
    ) -> None:
        self.log = log
        self.producer = (producer_id, producer_epoch)
        self.transactional_id = transactional_id
        self.sequences: dict[int, int] = {}

    def batch(self, *values: bytes, partition: int = 0, codec: Codec = Codec.NONE) -> bytes:
        """Return the next batch for a partition."""
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + len(values)
        return make_batch(
            *values,
            producer=self.producer,
            base_sequence=sequence,
            transactional=self.transactional_id is not None,
            codec=codec,
        )

    async def send(
        self, *values: bytes, partition: int = 0, codec: Codec = Codec.NONE
    ) -> PartitionProduceResponse:
        """Produce one batch, adding the partition to the transaction (v12)."""
        return await self.log.produce(
            self.batch(*values, partition=partition, codec=codec),
            partition=partition,
            transactional_id=self.transactional_id,
        )

    async def end(self, *, committed: bool) -> None:
        """Commit or abort the transaction."""
        command = EndTxn(
            transactional_id=self.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=committed,
        )
        ended = (await self.log.control.call(Command(end_txn=command))).txn_ended
        assert ended.error_code == 0, ended

    async def add(self, partition: int = 0) -> None:
        """Send AddPartitionsToTxn, as clients before TV2 do."""
        command = AddPartitionsToTxn(
            transactional_id=self.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            partitions=[TopicPartition(topic_id=self.log.topic_id, partition=partition)],
        )
        await self.log.control.call(Command(add_partitions_to_txn=command))


class Log:
    """The services of one agent, with shortcuts for the topic created last."""

    def __init__(
        self,
        control: InProcessClient,
        store: TestStore,
        lease: AgentLease,
        produce: ProduceService,
        fetch: FetchService,
        runtime: Runtime,
    ) -> None:
        self.runtime = runtime
        self.control = control
        self.store = store
        self.lease = lease
        self.produce_service = produce
        self.fetch_service = fetch
        self.topic = ""
        self.topic_id = b""

    def context(self) -> AgentContext:
        """Return an agent context with these services that admits every client."""
        return replace(
            make_context(self.control),
            store=self.store,
            lease=self.lease,
            metrics=self.lease.trust._metrics,
            produce=self.produce_service,
            fetch=self.fetch_service,
            members=Members(self.control, self.lease.trust),
            lines=PeerLines(self.control, self.lease, unreachable),
        )

    async def create_topic(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Create a topic, and return its id; config names have _ for dots. Records date from TIME, and none expire."""
        configs = {"retention_ms": "-1"} | configs
        self.topic_id = await create_topic(self.control, name, partitions, **configs)
        self.topic = name
        return self.topic_id

    async def delete_topic(self) -> None:
        """Delete the topic created last."""
        await self.control.call(Command(delete_topics=DeleteTopics(topic_ids=[self.topic_id])))

    async def delete_records(self, before_offset: int) -> None:
        """Move the log start offset of partition 0."""
        cut = DeleteRecordsPartition(
            partition=TopicPartition(topic_id=self.topic_id), before_offset=before_offset
        )
        await self.control.call(Command(delete_records=DeleteRecords(partitions=[cut])))

    async def writer(self, transactional_id: str | None = None) -> Writer:
        command = InitProducerId(
            transactional_id=transactional_id or "",
            has_transactional_id=transactional_id is not None,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        made = (await self.control.call(Command(init_producer_id=command))).producer_id_initialized
        assert made.error_code == 0, made
        return Writer(self, made.producer_id, made.producer_epoch, transactional_id)

    async def produce(
        self,
        records: bytes,
        *,
        partition: int = 0,
        transactional_id: str | None = None,
        version: int = 12,
        acks: int = -1,
    ) -> PartitionProduceResponse:
        """Produce one batch to one partition."""
        request = produce_request({(self.topic, partition): records}, transactional_id, acks)
        return (await self.send(request, version)).responses[0].partition_responses[0]

    async def send(self, request: ProduceRequest, version: int = 12) -> ProduceResponse:
        """Send a Produce request."""
        return await self.produce_service.produce(request, version)

    async def fetch(
        self, offset: int, *, partition: int = 0, version: int = 12, **options: int
    ) -> wire.PartitionData:
        """Fetch one partition without a session; by default read_committed and without waiting."""
        request = fetch_request({(self.topic, partition): offset}, forgotten=(), **options)
        return (await self.ask(request, version)).responses[0].partitions[0]

    async def ask(self, request: wire.FetchRequest, version: int = 12) -> wire.FetchResponse:
        """Send a Fetch request."""
        return await self.fetch_service.fetch(request, version)


def call_of(version: int, context: Any = None) -> Call:
    return Call(context, anybody(), version)


def produce_request(
    records: dict[tuple[str, int], bytes],
    transactional_id: str | None = None,
    acks: int = -1,
) -> ProduceRequest:
    """Build a request with one partition per topic entry."""
    topics = [
        TopicProduceData(name, partition_data=[PartitionProduceData(partition, memoryview(data))])
        for (name, partition), data in records.items()
    ]
    return ProduceRequest(transactional_id, acks, 30_000, topics)


def fetch_request(
    offsets: dict[tuple[str, int], int],
    *,
    isolation: int = READ_COMMITTED,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_max_bytes: int = 1 << 20,
    session_id: int = 0,
    session_epoch: int = -1,
    leader_epoch: int = -1,
    forgotten: Sequence[wire.ForgottenTopic] = (),
) -> wire.FetchRequest:
    """Return a Fetch request with topics by name."""
    topics: dict[str, list[wire.FetchPartition]] = {}
    for (name, partition), offset in offsets.items():
        asked = wire.FetchPartition(
            partition, leader_epoch, offset, partition_max_bytes=partition_max_bytes
        )
        topics.setdefault(name, []).append(asked)
    return wire.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[wire.FetchTopic(name, partitions=asked) for name, asked in topics.items()],
        forgotten_topics_data=forgotten,
    )


def batches_of(answer: wire.PartitionData) -> list[RecordBatch]:
    """Return the batches in an answer, after verifying their checksums."""
    assert answer.error_code == 0
    return list(read_batches(b"".join(answer.records or ())))


def records_of(answer: wire.PartitionData) -> list[tuple[int, bytes | None]]:
    """Return (offset, value) of the records that an application sees, which exclude control batches."""
    return [
        (record.offset, record.value)
        for batch in batches_of(answer)
        if not batch.header.is_control
        for record in batch.records()
    ]


def next_offset_of(answer: wire.PartitionData) -> int:
    """Return the offset at which a client continues (S16)."""
    return batches_of(answer)[-1].header.next_offset


@asynccontextmanager
async def open_log(
    *,
    store: TestStore | None = None,
    produce: ProduceSettings | None = None,
    fetch: FetchSettings | None = None,
    journal: MemoryJournal | None = None,
    max_views: int = 10_000,
    over: Callable[[ObjectStore], ObjectStore] = lambda store: store,
) -> AsyncIterator[Log]:
    """Start the log, and stop it after the block. The test fails if the control plane had to stop.

    `over` wraps the in-memory store for the agent. Every flush is written with a PUT, unless `produce` says otherwise.
    """
    produce = produce or ProduceSettings()
    if produce.hot_bytes < 0:
        produce = replace(produce, hot_bytes=0)
    async with control_plane(journal) as runtime:
        control = InProcessClient(runtime, max_partitions=max_views)
        await control.cluster.ready()
        store = store or TestStore()
        whole, hot = with_hot(over(store), control)
        lease = AgentLease(control, AgentSettings(listeners=(Listener(port=9092),)), AgentMetrics())
        await lease.start(9092)
        await lengthen(runtime, [lease])
        fetching = FetchService(
            control=control,
            store=whole,
            holding=hot.holding,
            trust=lease.trust,
            cluster_id=lambda: lease.cluster_id,
            randint=Random(7).randint,
            settings=fetch,
        )
        producing = ProduceService(
            control=control,
            store=whole,
            lease=lease,
            clock=SystemWallClock(),
            hot=hot,
            fetch=fetching,
            settings=produce,
        )
        try:
            yield Log(control, store, lease, producing, fetching, runtime)
        finally:
            if store.gate is not None:
                store.gate.set()
            await producing.close()
            await fetching.close()
            await lease.stop_renewing()
            await control.close()
