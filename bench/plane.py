"""The control plane's state machine under load, in this process: real commands, but no disk or sockets.

It times each step of a command, and can write a journal with any number of transactions within seconds. The extents
refer to objects that do not exist, so fetches can be planned, and answered at the ends of partitions, but no records
can be read.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from lacuna.controlplane import machine
from lacuna.controlplane.client.views import PartitionView
from lacuna.controlplane.decision import Context, Decision
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.shared.batches import (
    COMMITTED_BATCH,
    FLAG_TRANSACTIONAL,
    SegmentSlice,
    commit_of,
)
from lacuna.controlplane.v1.cluster_pb2 import (
    CreateTopic,
    CreateTopics,
    RegisterAgent,
    ReleaseLease,
    TopicPartition,
)
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.journal_pb2 import JournalRecord
from lacuna.controlplane.v1.log_pb2 import PartitionDelta, SegmentId
from lacuna.controlplane.v1.transactions_pb2 import AddPartitionsToTxn, EndTxn, InitProducerId
from tests.agent.harness import NoFeed

RECORDS = 3
BATCH_BYTES = 3_200
APPEND_RECORDS = 3_000
TIMEOUT_MS = 900_000
STEPS = ("decide", "replay", "serialize", "changes", "views")


class Producer:
    def __init__(self, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.sequences: Counter[int] = Counter()


class Plane:
    """A state machine, the journal records that have not been taken yet, and the seconds that each step of each command
    took.

    The state machine starts from `state`, if given. Records are kept if `journal` is true, and times while `samples` is
    a dictionary.
    """

    def __init__(self, state: machine.State | None = None, *, journal: bool = False) -> None:
        self.state = state or machine.State()
        self.journal: list[bytes] = []
        self.samples: defaultdict[tuple[str, str], list[float]] | None = None
        self.views: dict[tuple[bytes, int], PartitionView] = {}
        self._keeps = journal
        self._now_ms = self.state.clock_ms
        self._ids = 0
        self._sequence = 0
        if not self.state.cluster_id:
            self._follow(machine.found(self.state, "bench", self._context()))
        registered = self.do(
            "register", Command(register_agent=RegisterAgent(host="bench", port=9))
        ).agent_registered
        self._lease_id = registered.lease_id

    def create(self, partitions: int, name: str = "bench") -> bytes:
        topic = CreateTopic(name=name, partition_count=partitions)
        reply = self.do("create", Command(create_topics=CreateTopics(topics=[topic])))
        return reply.topics_created.topics[0].topic_id

    def watch(self, topic_id: bytes, partition: int) -> PartitionView:
        """Returns a view of a partition like those of agents, which later commands keep current."""
        view = PartitionView(topic_id, partition, NoFeed())
        view.apply(self.state.watch((topic_id, partition)))
        self.views[topic_id, partition] = view
        return view

    def producer(self, transactional_id: str) -> Producer:
        reply = self.do("init", initialize(transactional_id, TIMEOUT_MS))
        made = reply.producer_id_initialized
        return Producer(transactional_id, made.producer_id, made.producer_epoch)

    def begin(self, producer: Producer, topic_id: bytes, partitions: Sequence[int]) -> None:
        """Adds the partitions to a transaction, and commits a batch in each: AddPartitionsToTxn, CommitSegment."""
        keys = [TopicPartition(topic_id=topic_id, partition=index) for index in partitions]
        added = AddPartitionsToTxn(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            partitions=keys,
        )
        self.do("AddPartitionsToTxn", Command(add_partitions_to_txn=added))
        self._sequence += 1
        segment = SegmentId(lease_id=self._lease_id, sequence=self._sequence)
        slices = [self._slice(producer, key, place * BATCH_BYTES) for place, key in enumerate(keys)]
        committed = commit_of(segment, 1 << 30, slices)
        self.do(f"CommitSegment, {len(keys)}", Command(commit_segment=committed))

    def end(self, producer: Producer, *, committed: bool) -> None:
        """Ends the transaction with an EndTxn version that predates KIP-890."""
        ended = EndTxn(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=committed,
        )
        name = "EndTxn, commit" if committed else "EndTxn, abort"
        self.do(name, Command(end_txn=ended))

    def do(self, name: str, command: Command) -> Reply:
        """Executes a command, times its steps under `name`, and returns the reply."""
        started = time.perf_counter()
        decision = machine.handle(self.state, command, self._context())
        decided = time.perf_counter() - started
        followed = self._follow(decision)
        if self.samples is not None:
            for step, seconds in zip(STEPS, (decided, *followed), strict=True):
                self.samples[name, step].append(seconds)
        assert decision.reply is not None
        return decision.reply

    def leave(self) -> None:
        """Releases the lease, so that no client is sent to this agent, which does not really exist."""
        self.do("leave", Command(release_lease=ReleaseLease(lease_id=self._lease_id)))

    def microseconds(self, name: str) -> dict[str, float]:
        """Returns the median time of each step of the command `name` in µs. Other load hardly affects medians."""
        samples = self.samples
        assert samples is not None
        return {step: median(samples[name, step]) * 1e6 for step in STEPS}

    def take_journal(self) -> list[bytes]:
        """Returns the journal records since the last call."""
        taken, self.journal = self.journal, []
        return taken

    def _follow(self, decision: Decision) -> tuple[float, float, float, float]:
        """Replays and serializes the records, collects the changes, and applies them. Returns the seconds that each
        step took.
        """
        clock = time.perf_counter
        replaying = serializing = 0.0
        for record in decision.records:
            started = clock()
            machine.replay(self.state, record)
            replayed = clock()
            data = record.SerializeToString()
            serializing += clock() - replayed
            replaying += replayed - started
            if self._keeps:
                self.journal.append(data)
        started = clock()
        changes = self.state.take_changes()
        taken = clock()
        for delta in changes:
            if isinstance(delta, PartitionDelta):
                view = self.views.get((delta.partition.topic_id, delta.partition.partition))
                if view is not None:
                    view.apply(delta)
        return replaying, serializing, taken - started, clock() - taken

    def _slice(self, producer: Producer, key: TopicPartition, position: int) -> SegmentSlice:
        base_sequence = producer.sequences[key.partition]
        producer.sequences[key.partition] += RECORDS
        batch = COMMITTED_BATCH.pack(
            position,
            BATCH_BYTES,
            RECORDS,
            self._now_ms,
            producer.producer_id,
            producer.producer_epoch,
            base_sequence,
            FLAG_TRANSACTIONAL,
        )
        return SegmentSlice((key.topic_id, key.partition), batch)

    def _context(self) -> Context:
        self._now_ms = max(self._now_ms, int(time.time() * 1000))
        return Context(now_ms=self._now_ms, new_id=self._new_id)

    def _new_id(self) -> bytes:
        self._ids += 1
        return self._ids.to_bytes(16, "big")


def initialize(transactional_id: str, timeout_ms: int) -> Command:
    wanted = InitProducerId(
        has_transactional_id=True,
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
    )
    return Command(init_producer_id=wanted)


def small_transactions(
    plane: Plane, topic_id: bytes, partitions: int, count: int, *, one_in: int = 1
) -> Iterator[None]:
    """Aborts `count` single-batch transactions, cycling through the partitions, and yields after each.

    If `one_in` is 2, each is followed by a committed transaction, which is not included in `count`.
    """
    producer = plane.producer("bench-small")
    for number in range(count):
        for is_committed in [False, *[True] * (one_in - 1)]:
            plane.begin(producer, topic_id, [number % partitions])
            plane.end(producer, committed=is_committed)
        yield


def prolong(path: Path, topic: str, aborted: int, *, one_in: int = 1) -> int:
    """Appends `small_transactions` in `topic` to a stopped cluster's journal. Returns the records' size in bytes."""
    return asyncio.run(_prolong(path, topic, aborted, one_in))


async def _prolong(path: Path, topic: str, aborted: int, one_in: int) -> int:
    journal = SqliteJournal(str(path), str)
    opened = await journal.open(None)
    try:
        state = machine.State()
        snapshot = await journal.load_snapshot()
        if snapshot is not None:
            state = machine.restore(snapshot.parts)
        async for batch in journal.read(snapshot.position if snapshot else 0):
            for data in batch.records:
                machine.replay(state, JournalRecord.FromString(data))
        plane = Plane(state, journal=True)
        found = state.topics_by_name[topic]
        transactions = small_transactions(
            plane, found.topic_id, len(found.partitions), aborted, one_in=one_in
        )
        size = 0
        for _ in transactions:
            if len(plane.journal) >= APPEND_RECORDS:
                records = plane.take_journal()
                size += sum(map(len, records))
                await journal.append(records, opened.fencing_token)
        plane.leave()
        records = plane.take_journal()
        await journal.append(records, opened.fencing_token)
        return size + sum(map(len, records))
    finally:
        await journal.close()
