"""A state machine with an in-memory journal, and short names for commands."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from lacuna.controlplane import machine
from lacuna.controlplane.decision import Context, Decision
from lacuna.controlplane.shared.batches import (
    COMMITTED_BATCH,
    SegmentSlice,
    SliceVerdict,
    commit_of,
    verdicts_of,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.state.front import check_front
from lacuna.controlplane.v1.cluster_pb2 import (
    CreateTopic,
    CreateTopics,
    RegisterAgent,
    TopicPartition,
)
from lacuna.controlplane.v1.control_pb2 import Command, Failure
from lacuna.controlplane.v1.journal_pb2 import JournalRecord
from lacuna.controlplane.v1.log_pb2 import (
    CollectionPlan,
    ConfirmCollection,
    PlanCollection,
    SegmentCommitted,
    SegmentId,
)
from lacuna.controlplane.v1.transactions_pb2 import InitProducerId

LOG_APPEND_TIME, FOLLOWS, TRANSACTIONAL, ADDS_PARTITION = 1, 2, 4, 8


class Committed(NamedTuple):
    """The answer to a commit. `message` gives the reason if the whole commit was rejected."""

    error_code: int
    slices: list[SliceVerdict]
    message: str = ""


class Cluster:
    """Decides, journals and replays like the runtime, in one thread."""

    def __init__(self, now_ms: int = 1_000_000, *, agents: int = 1) -> None:
        self.now_ms = now_ms
        self.state = machine.State()
        self.journal: list[bytes] = []
        self.ids = 0
        self.is_time_doubtful = False
        self.principal = ""
        self.sequence = 0
        self.decide(machine.found(self.state, "cluster", self.context()))
        for number in range(agents):
            self.register(9092 + number)

    def register(self, port: int = 9092) -> int:
        """Open a new lease, which `put` uses from now on."""
        command = RegisterAgent(host="agent", port=port)
        lease_id: int = self.do("register_agent", command).lease_id
        self.lease_id = lease_id
        return lease_id

    def context(self) -> Context:
        return Context(
            now_ms=self.now_ms, new_id=self.new_id, is_time_doubtful=self.is_time_doubtful
        )

    def new_id(self) -> bytes:
        self.ids += 1
        return self.ids.to_bytes(16, "big")

    def decide(self, decision: Decision) -> Decision:
        for record in decision.records:
            self.journal.append(record.SerializeToString(deterministic=True))
            machine.replay(self.state, JournalRecord.FromString(self.journal[-1]))
        return decision

    def reply(self, verb: str, message: Any) -> Any:
        command = Command(command_id=5, principal=self.principal, **{verb: message})
        before = machine.snapshot(self.state)
        decision = machine.handle(self.state, command, self.context())
        assert machine.snapshot(self.state) == before, "deciding changes nothing durable"
        self.decide(decision)
        assert decision.reply is None or decision.reply.command_id == 5
        return decision.reply

    def do(self, verb: str, message: Any) -> Any:
        """Run a command of any kind. Return its result."""
        reply = self.reply(verb, message)
        return getattr(reply, reply.WhichOneof("result"))

    def initialize(self, transactional_id: str, timeout_ms: int = 60_000) -> dict[str, Any]:
        """Return the fields that identify a new transactional producer in commands."""
        made = self.do("init_producer_id", init_of(transactional_id, timeout_ms))
        return {
            "transactional_id": transactional_id,
            "producer_id": made.producer_id,
            "producer_epoch": made.producer_epoch,
        }

    def tick(self, after_ms: int = 0) -> list[str]:
        """Advance the clock and run one tick. Return the names of its records."""
        self.now_ms += after_ms
        decision = self.decide(machine.tick(self.state, self.context()))
        return [record.WhichOneof("event") for record in decision.records]

    def create(self, name: str, partition_count: int = 1, **configs: str) -> bytes:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        topic = CreateTopic(name=name, partition_count=partition_count, configs=named)
        result = self.do("create_topics", CreateTopics(topics=[topic])).topics[0]
        assert result.error_code == 0, result.error_message
        topic_id: bytes = result.topic_id
        return topic_id

    def partition(self, text: str) -> TopicPartition:
        """Parse `name-0` into a message. An unknown topic gets an unused id."""
        name, _, index = text.rpartition("-")
        topic = self.state.topics_by_name.get(name)
        topic_id = b"?" * 16 if topic is None else topic.topic_id
        return TopicPartition(topic_id=topic_id, partition=int(index))

    def commit(
        self,
        *slices: SegmentSlice,
        lease_id: int = 0,
        size: int = 0,
        transactional_ids: Sequence[str] = (),
    ) -> Committed:
        self.sequence += 1
        segment = SegmentId(lease_id=lease_id or self.lease_id, sequence=self.sequence)
        command = commit_of(segment, size or 1 << 40, slices, transactional_ids)
        answer: SegmentCommitted | Failure = self.do("commit_segment", command)
        if isinstance(answer, Failure):
            return Committed(answer.error_code, [], answer.message)
        return Committed(answer.error_code, verdicts_of(answer))

    def slice(self, text: str) -> SegmentSlice:
        """Return a slice of a partition, with no batches yet."""
        return SegmentSlice(key_of(self.partition(text)))

    def put(
        self,
        text: str,
        count: int = 1,
        *,
        producer: tuple[int, int] = (-1, -1),
        sequence: int = -1,
        flags: int = 0,
        timestamp: int | None = None,
        size: int = 100,
    ) -> int | str:
        """Commit one batch in one segment. Return its base offset, or the name of its error."""
        given = self.slice(text)
        add_batch(
            given,
            count=count,
            producer=producer,
            sequence=sequence,
            flags=flags,
            timestamp=self.now_ms if timestamp is None else timestamp,
            size=size,
        )
        verdicts = self.commit(given)
        if verdicts.error_code or verdicts.slices[0].error_code:
            return ErrorCode(verdicts.error_code or verdicts.slices[0].error_code).name
        code = verdicts.slices[0].error_codes[0]
        return ErrorCode(code).name if code else verdicts.slices[0].base_offsets[0]

    def found(self, text: str) -> Any:
        """Return the partition itself."""
        wanted = self.partition(text)
        return self.state.partitions[wanted.topic_id, wanted.partition]

    def check(self) -> None:
        """Check that a replayed journal and a restored snapshot give this state, and that no log lacks its front."""
        for partition in self.state.partitions.values():
            check_front(partition)
        now = machine.snapshot(self.state)
        replayed = machine.State()
        for data in self.journal:
            machine.replay(replayed, JournalRecord.FromString(data))
        assert machine.snapshot(replayed) == now
        assert machine.snapshot(machine.restore((now,))) == now


class Unchecked(Cluster):
    """Skips the check of the whole state on each command, which is slow for a large state."""

    def reply(self, verb: str, message: Any) -> Any:
        decision = machine.handle(self.state, Command(**{verb: message}), self.context())
        return self.decide(decision).reply


def init_of(transactional_id: str, timeout_ms: int = 60_000) -> InitProducerId:
    """Return the command that creates a transactional producer."""
    return InitProducerId(
        has_transactional_id=True,
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
    )


def add_batch(
    given: SegmentSlice,
    *,
    count: int = 1,
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    flags: int = 0,
    timestamp: int = 0,
    size: int = 100,
    gap: int = 0,
) -> None:
    """Append a batch to a slice, directly after the previous one or `gap` bytes later."""
    end = 64
    if given.batches:
        *_, (position, last_size, *_) = COMMITTED_BATCH.iter_unpack(given.batches)
        end = position + last_size
    given.batches += COMMITTED_BATCH.pack(
        end + gap, size, count, timestamp, *producer, sequence, flags
    )


def collection(cluster: Cluster, max_segments: int = 100) -> CollectionPlan:
    command = PlanCollection(lease_id=cluster.lease_id, max_segments=max_segments)
    plan: CollectionPlan = cluster.do("plan_collection", command)
    assert plan.error_code == 0
    return plan


def collect(cluster: Cluster) -> list[int]:
    plan = collection(cluster)
    command = ConfirmCollection(segments=plan.segments, swept_lease_ids=plan.swept_lease_ids)
    assert cluster.do("confirm_collection", command).error_code == 0
    return [segment.sequence for segment in plan.segments]
