"""A machine of a few lines, so that the runtime is tested apart from the real one.

Topics are created; a CommitSegment appends one record to each named partition; JoinGroup parks
until a LeaveGroup of the same group; AddPartitionsToTxn journals a record; Heartbeat reads. A
record is a JournalRecord.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from controlplane.decision import Context, Decision
from controlplane.errors import ErrorCode
from controlplane.extents import EXTENT_ROW, ExtentTable
from controlplane.v1.cluster_pb2 import (
    ClusterDelta,
    Topic,
    TopicPartition,
    TopicResult,
    TopicsCreated,
)
from controlplane.v1.control_pb2 import Command, Failure, Reply
from controlplane.v1.groups_pb2 import GroupJoined, GroupLeft, HeartbeatAnswered
from controlplane.v1.journal_pb2 import (
    ClusterFounded,
    JournalRecord,
    LeasesEnded,
    RecordedSlice,
    SegmentRecorded,
    TopicsAdded,
    TransactionJoined,
)
from controlplane.v1.log_pb2 import (
    PartitionDelta,
    PartitionsRead,
    PartitionState,
    SegmentCommitted,
    SliceVerdict,
)
from controlplane.v1.transactions_pb2 import PartitionsAddedToTxn

Key = tuple[bytes, int]


@dataclass
class FakeState:
    """High watermarks; versions equal them."""

    cluster_id: str = ""
    now_ms: int = 0
    topics: list[Topic] = field(default_factory=list)
    high_watermarks: dict[Key, int] = field(default_factory=dict)
    joined: int = 0
    watched: Counter[Key] = field(default_factory=Counter)
    changes: list[PartitionDelta | ClusterDelta] = field(default_factory=list)
    waiting: dict[str, list[int]] = field(default_factory=dict)
    forgotten: list[int] = field(default_factory=list)
    ticks: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    ended_sessions: list[int] = field(default_factory=list)
    heard: list[int] = field(default_factory=list)


def _row(sequence: int, offset: int) -> bytes:
    """An extent of one record."""
    return EXTENT_ROW.pack(1, sequence, 0, 10, offset, offset + 1, 0, -1, -1, 0, 0)


class FakeMachine:
    """Implements `controlplane.pure.Machine`; `explode` makes the next decision raise."""

    def __init__(self) -> None:
        self.explode = False
        self.lease_ends_ms: int | None = None
        self.lose_next_delta = False

    def new_state(self) -> FakeState:
        return FakeState()

    def found(self, state: FakeState, cluster_id: str, context: Context) -> Decision:
        founded = ClusterFounded(cluster_id=cluster_id)
        return Decision(records=[JournalRecord(now_ms=context.now_ms, cluster_founded=founded)])

    def handle(self, state: FakeState, command: Command, context: Context) -> Decision:
        if self.explode:
            raise RuntimeError("a mistake of ours")
        verb = command.WhichOneof("verb")
        if verb is None:
            failure = Failure(error_code=ErrorCode.INVALID_REQUEST, message="no verb")
            return Decision(reply=Reply(failure=failure))
        decision: Decision = getattr(self, f"_{verb}")(state, command, context)
        return decision

    def _create_topics(self, state: FakeState, command: Command, context: Context) -> Decision:
        topics = [
            Topic(topic_id=context.new_id(), name=topic.name, partition_count=topic.partition_count)
            for topic in command.create_topics.topics
        ]
        results = [TopicResult(name=topic.name, topic_id=topic.topic_id) for topic in topics]
        record = JournalRecord(now_ms=context.now_ms, topics_added=TopicsAdded(topics=topics))
        return Decision(records=[record], reply=Reply(topics_created=TopicsCreated(topics=results)))

    def _commit_segment(self, state: FakeState, command: Command, context: Context) -> Decision:
        slices, verdicts = [], []
        for part in command.commit_segment.slices:
            at = state.high_watermarks[_key(part.partition)]
            row = _row(command.commit_segment.segment.sequence, at)
            slices.append(
                RecordedSlice(partition=part.partition, high_watermark=at + 1, extent_rows=row)
            )
            verdicts.append(SliceVerdict(base_offsets=[at], error_codes=[0], append_times=[-1]))
        record = JournalRecord(
            now_ms=context.now_ms, segment_recorded=SegmentRecorded(slices=slices)
        )
        reply = Reply(segment_committed=SegmentCommitted(slices=verdicts))
        return Decision(records=[record], reply=reply)

    def _read_partitions(self, state: FakeState, command: Command, context: Context) -> Decision:
        states = [
            PartitionState(high_watermark=state.high_watermarks.get(_key(partition), -1))
            for partition in command.read_partitions.partitions
        ]
        return Decision(reply=Reply(partitions_read=PartitionsRead(partitions=states)))

    def _heartbeat(self, state: FakeState, command: Command, context: Context) -> Decision:
        state.heard.append(context.session)
        return Decision(reply=Reply(heartbeat_answered=HeartbeatAnswered()))

    def _delete_groups(self, state: FakeState, command: Command, context: Context) -> Decision:
        failure = Failure(error_code=ErrorCode.INVALID_REQUEST, message="not here")
        return Decision(reply=Reply(failure=failure))

    def _add_partitions_to_txn(
        self, state: FakeState, command: Command, context: Context
    ) -> Decision:
        added = PartitionsAddedToTxn(
            error_codes=[0] * len(command.add_partitions_to_txn.partitions)
        )
        if command.add_partitions_to_txn.producer_id < 0:
            added = PartitionsAddedToTxn(error_code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            return Decision(reply=Reply(partitions_added_to_txn=added))
        record = JournalRecord(now_ms=context.now_ms, transaction_joined=TransactionJoined())
        return Decision(records=[record], reply=Reply(partitions_added_to_txn=added))

    def _join_group(self, state: FakeState, command: Command, context: Context) -> Decision:
        state.waiting.setdefault(command.join_group.group_id, []).append(context.token)
        return Decision()

    def _leave_group(self, state: FakeState, command: Command, context: Context) -> Decision:
        tokens = state.waiting.pop(command.leave_group.group_id, [])
        completions = [(token, Reply(group_joined=GroupJoined(leader="x"))) for token in tokens]
        return Decision(reply=Reply(group_left=GroupLeft()), completions=completions)

    def tick(self, state: FakeState, context: Context) -> Decision:
        if self.explode:
            raise RuntimeError("a mistake of ours")
        state.ticks.append(context.now_ms)
        if self.lease_ends_ms is None or context.now_ms < self.lease_ends_ms:
            return Decision()
        self.lease_ends_ms = None
        ended = LeasesEnded(lease_ids=[7])
        return Decision(records=[JournalRecord(now_ms=context.now_ms, leases_ended=ended)])

    def replay(self, state: FakeState, record: JournalRecord) -> None:
        state.now_ms = record.now_ms
        match record.WhichOneof("event"):
            case "cluster_founded":
                state.cluster_id = record.cluster_founded.cluster_id
            case "topics_added":
                for topic in record.topics_added.topics:
                    state.topics.append(topic)
                    for partition in range(topic.partition_count):
                        state.high_watermarks[topic.topic_id, partition] = 0
                delta = ClusterDelta(version=len(state.topics), topics=record.topics_added.topics)
                state.changes.append(delta)
            case "segment_recorded":
                for part in record.segment_recorded.slices:
                    self._append(state, part)
            case "transaction_joined":
                state.joined += 1
            case "leases_ended":
                state.ended.extend(record.leases_ended.lease_ids)

    def _append(self, state: FakeState, part: RecordedSlice) -> None:
        key = _key(part.partition)
        state.high_watermarks[key] = part.high_watermark
        if self.lose_next_delta:
            self.lose_next_delta = False
        elif state.watched[key]:
            state.changes.append(
                PartitionDelta(
                    partition=part.partition,
                    from_version=part.high_watermark - 1,
                    version=part.high_watermark,
                    high_watermark=part.high_watermark,
                    last_stable_offset=part.high_watermark,
                    appended=part.extent_rows,
                )
            )

    def snapshot(self, state: FakeState) -> bytes:
        lines = [f"{state.cluster_id} {state.now_ms} {state.joined}"]
        lines += [
            f"{topic.topic_id.hex()} {topic.name} "
            + " ".join(
                str(state.high_watermarks[topic.topic_id, partition])
                for partition in range(topic.partition_count)
            )
            for topic in state.topics
        ]
        return "\n".join(lines).encode()

    def restore(self, snapshot: bytes) -> FakeState:
        first, *rest = snapshot.decode().split("\n")
        cluster_id, now_ms, joined = first.split(" ")
        state = FakeState(cluster_id=cluster_id, now_ms=int(now_ms), joined=int(joined))
        for line in rest:
            topic_id, name, *offsets = line.split(" ")
            topic = Topic(topic_id=bytes.fromhex(topic_id), name=name, partition_count=len(offsets))
            state.topics.append(topic)
            for partition, offset in enumerate(offsets):
                state.high_watermarks[topic.topic_id, partition] = int(offset)
        return state

    def now_ms(self, state: FakeState) -> int:
        return state.now_ms

    def cluster_snapshot(self, state: FakeState) -> ClusterDelta:
        return ClusterDelta(
            version=len(state.topics),
            is_snapshot=True,
            cluster_id=state.cluster_id,
            topics=state.topics,
        )

    def watch(self, state: FakeState, topic_id: bytes, partition: int) -> PartitionDelta:
        key = (topic_id, partition)
        state.watched[key] += 1
        at = state.high_watermarks.get(key, -1)
        count = max(0, at)
        table = ExtentTable()
        for offset in range(count):
            table.append_row(EXTENT_ROW.unpack(_row(1, offset)))
        return PartitionDelta(
            partition=TopicPartition(topic_id=topic_id, partition=partition),
            is_snapshot=True,
            is_deleted=at < 0,
            version=at,
            high_watermark=count,
            last_stable_offset=count,
            extents=table.columns(),
        )

    def unwatch(self, state: FakeState, topic_id: bytes, partition: int) -> None:
        state.watched[topic_id, partition] -= 1
        assert state.watched[topic_id, partition] >= 0

    def take_changes(self, state: FakeState) -> list[PartitionDelta | ClusterDelta]:
        changes, state.changes = state.changes, []
        return changes

    def end_session(self, state: FakeState, session: int, context: Context) -> None:
        state.ended_sessions.append(session)

    def forget_tokens(self, state: FakeState, tokens: Iterable[int]) -> None:
        state.forgotten.extend(tokens)


def _key(partition: TopicPartition) -> Key:
    return partition.topic_id, partition.partition


#: For the snapshot process, which is told the machine by name.
FAKE = FakeMachine()
FAKE_NAME = f"{__name__}:FAKE"
