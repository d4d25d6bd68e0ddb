"""The commit of a write: one transaction over everything that its tasks wrote (docs/adr/0013).

    InitProducerId             fences every earlier driver, aborts what it had open
    OffsetFetch                is this batch of the query written already? then that was all
    CommitSegment, each        the batches get offsets, as part of the transaction; nobody sees them
    TxnOffsetCommit            the progress of the query, as part of the transaction
    EndTxn                     all of it becomes visible in one step

Every one of these may be sent again when its reply is lost. The whole may not: segments that were committed in a
transaction that was aborted are aborted for good. Such a write fails, and Spark's next attempt has segments of
its own.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from controlplane.batches import (
    COMMITTED_BATCH,
    FLAG_ADDS_PARTITION,
    FLAG_LOG_APPEND_TIME,
    FLAG_TRANSACTIONAL,
    TRANSACTIONAL_ID_SHIFT,
)
from controlplane.client import CommandRefused, ControlPlaneUnavailable
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.control_pb2 import Command, Reply
from controlplane.v1.groups_pb2 import (
    CommittedOffset,
    OffsetFetch,
    OffsetFetchGroup,
    TxnOffsetCommit,
)
from controlplane.v1.log_pb2 import CommitSegment, SegmentCommitted, SegmentId, SegmentSlice
from controlplane.v1.transactions_pb2 import EndTxn, InitProducerId
from pipeline.control import check
from pipeline.datasource.writing.control import RetryingControlPlane
from pipeline.datasource.writing.errors import OutcomeUnknownError, WriterFencedError
from pipeline.datasource.writing.messages import TaskMessage, WrittenObject, WrittenPartition
from pipeline.errors import PipelineError

log = logging.getLogger("lacuna.pipeline.writing")

#: Commands under way together; the control plane remembers the answers of a lease's last 64 commits.
_AT_ONCE: Final = 32
#: The commit sends commands only, so it is short. Kafka's longest is 15 minutes.
_SHORTEST_TIMEOUT_MS: Final = 60_000
_TIMEOUT_MS_PER_SEGMENT: Final = 50
_LONGEST_TIMEOUT_MS: Final = 900_000

_LAST_SEQUENCE: Final = 2**31 - 1
#: One transactional id is in each commit: the first.
_FLAGS: Final = FLAG_TRANSACTIONAL | FLAG_ADDS_PARTITION | 1 << TRANSACTIONAL_ID_SHIFT
_FENCED: Final = frozenset(
    (
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Batch `batch_id` of the query `query_id`, as it is remembered under the name `group_id`."""

    group_id: str
    query_id: str
    batch_id: int


def commit_write(
    control: RetryingControlPlane,
    transactional_id: str,
    tasks: Sequence[TaskMessage],
    progress: Progress | None,
) -> bool:
    """Commits what the tasks wrote, all or nothing; False where the batch of `progress` was written before.

    Raises WriterFencedError, OutcomeUnknownError, PipelineError, ControlPlaneUnavailable, CommandRefused; but
    for OutcomeUnknownError nothing was committed.
    """
    if not any(task.segments for task in tasks):
        return True
    if progress is not None and is_written(control, progress):
        return False
    transaction = WriteTransaction(control, transactional_id)
    transaction.begin(sum(len(task.segments) for task in tasks))
    if progress is not None and is_written(control, progress):
        return False
    try:
        transaction.commit_segments(tasks)
        if progress is not None:
            transaction.record(progress, tasks)
    except (PipelineError, CommandRefused):
        transaction.abort()
        raise
    transaction.end()
    return True


def is_written(control: RetryingControlPlane, progress: Progress) -> bool:
    """Whether the batch, or a later one of the same query, has been committed."""
    group = OffsetFetchGroup(group_id=progress.group_id, all_partitions=True)
    reply = control.ask(Command(offset_fetch=OffsetFetch(groups=[group])))
    (found,) = reply.offsets_fetched.groups
    check(found.error_code, f"reading the progress of {progress.group_id}")
    return any(
        kept.offset > progress.batch_id and _query_of(kept.metadata) == progress.query_id
        for kept in found.offsets
    )


def _query_of(metadata: str) -> object:
    """Whose progress it is; None for an offset that is no progress of a sink."""
    try:
        found = json.loads(metadata)
    except ValueError:
        return None
    return found.get("query") if isinstance(found, dict) else None


class WriteTransaction:
    """The steps of one transaction, in the order of the methods."""

    def __init__(self, control: RetryingControlPlane, transactional_id: str) -> None:
        self._control = control
        self._transactional_id = transactional_id
        self._producer_id = -1
        self._producer_epoch = -1
        #: topic id, partition -> the next record's sequence
        self._sequences: dict[tuple[bytes, int], int] = {}

    def begin(self, segments: int) -> None:
        """From here on no earlier driver can commit anything. `segments` are to be committed."""
        timeout_ms = _SHORTEST_TIMEOUT_MS + _TIMEOUT_MS_PER_SEGMENT * segments
        init = InitProducerId(
            transactional_id=self._transactional_id,
            has_transactional_id=True,
            transaction_timeout_ms=min(timeout_ms, _LONGEST_TIMEOUT_MS),
            producer_id=-1,
            producer_epoch=-1,
        )
        reply = self._control.ask(Command(init_producer_id=init)).producer_id_initialized
        self._check(reply.error_code, "InitProducerId")
        self._producer_id, self._producer_epoch = reply.producer_id, reply.producer_epoch

    def commit_segments(self, tasks: Sequence[TaskMessage]) -> None:
        """Makes all segments part of the transaction, in the order of the tasks."""
        found = [(task, segment) for task in tasks for segment in task.segments]
        for first in range(0, len(found), _AT_ONCE):
            some = found[first : first + _AT_ONCE]
            replies = self._control.ask_all([self._command(*each) for each in some])
            for (task, segment), reply in zip(some, replies, strict=True):
                self._check_segment(task, segment, reply.segment_committed)

    def record(self, progress: Progress, tasks: Sequence[TaskMessage]) -> None:
        """Keeps the progress at partition 0 of every topic that was written to: one may be deleted later."""
        metadata = json.dumps({"query": progress.query_id, "batch": progress.batch_id})
        topic_ids = {topic_id for task in tasks for topic_id in task.topics}
        commit = TxnOffsetCommit(
            transactional_id=self._transactional_id,
            group_id=progress.group_id,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            generation_id=-1,
            adds_group=True,
            offsets=[
                CommittedOffset(
                    partition=TopicPartition(topic_id=topic_id, partition=0),
                    offset=progress.batch_id + 1,
                    leader_epoch=-1,
                    metadata=metadata,
                )
                for topic_id in sorted(topic_ids)
            ],
        )
        reply = self._control.ask(Command(txn_offset_commit=commit)).offsets_committed
        for code in (reply.error_code, *reply.error_codes):
            self._check(code, f"keeping the progress as group {progress.group_id}")

    def end(self) -> None:
        """All of it becomes visible."""
        try:
            reply = self._end(committed=True)
        except ControlPlaneUnavailable as error:
            raise OutcomeUnknownError(
                f"whether the write was committed is not known, the control plane went away ({error}); a "
                "streaming query that is started again finds out by itself; else see whether the state "
                f"of the transactional id {self._transactional_id!r} is CompleteCommit"
            ) from error
        self._check(reply.txn_ended.error_code, "EndTxn")

    def abort(self) -> None:
        """Nothing of it becomes visible. Where that cannot be said now, the transaction times out."""
        try:
            self._end(committed=False)
        except (ControlPlaneUnavailable, CommandRefused) as error:
            log.warning("the transaction %r ends by itself: %s", self._transactional_id, error)

    def _end(self, *, committed: bool) -> Reply:
        end = EndTxn(
            transactional_id=self._transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            committed=committed,
            bumps_epoch=True,
        )
        return self._control.ask(Command(end_txn=end))

    def _command(self, task: TaskMessage, segment: WrittenObject) -> Command:
        commit = CommitSegment(
            segment=SegmentId(lease_id=task.lease_id, sequence=segment.sequence),
            object_size=segment.object_size,
            transactional_ids=[self._transactional_id],
            slices=[
                SegmentSlice(
                    partition=TopicPartition(topic_id=each.topic_id, partition=each.partition),
                    batches=b"".join(self._rows(each)),
                )
                for each in segment.partitions
            ],
        )
        return Command(commit_segment=commit)

    def _rows(self, written: WrittenPartition) -> Iterator[bytes]:
        """What the commit says of each batch (controlplane/batches.py)."""
        key = (written.topic_id, written.partition)
        sequence = self._sequences.get(key, 0)
        position = written.position
        flags = _FLAGS | (FLAG_LOG_APPEND_TIME if written.is_log_append_time else 0)
        for size, count, max_timestamp in zip(
            written.sizes, written.record_counts, written.max_timestamps, strict=True
        ):
            yield COMMITTED_BATCH.pack(
                position,
                size,
                count,
                max_timestamp,
                self._producer_id,
                self._producer_epoch,
                sequence,
                flags,
            )
            position += size
            sequence = (sequence + count) & _LAST_SEQUENCE
        self._sequences[key] = sequence

    def _check_segment(
        self, task: TaskMessage, segment: WrittenObject, verdicts: SegmentCommitted
    ) -> None:
        if verdicts.error_code == ErrorCode.LEASE_EXPIRED:
            raise PipelineError(
                "the write took longer than a day from the end of a task to its commit, so that task's lease "
                "has expired: write less at once"
            )
        self._check(verdicts.error_code, "CommitSegment")
        for written, verdict in zip(segment.partitions, verdicts.slices, strict=True):
            name = task.topics[written.topic_id]
            if verdict.error_code in (
                ErrorCode.UNKNOWN_TOPIC_ID,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ):
                raise PipelineError(
                    f"topic {name!r} was deleted while it was written to; nothing was committed: start "
                    "the write again"
                )
            for code in (verdict.error_code, *verdict.error_codes):
                self._check(code, f"writing to partition {written.partition} of topic {name!r}")

    def _check(self, code: int, what: str) -> None:
        if code in _FENCED:
            raise WriterFencedError(
                f"another run with the transactional id {self._transactional_id!r} has begun to commit, or "
                "this one took longer than its transaction may; nothing of this one was committed "
                f"({what})"
            )
        check(code, what)
