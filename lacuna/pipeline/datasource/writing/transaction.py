"""The commit of a write: one transaction over everything that its tasks wrote (docs/adr/0013).

    InitProducerId             fences every earlier driver, and aborts its open transaction
    OffsetFetch                if this batch of the query has already been written, the commit ends here
    CommitSegment              gives one segment's batches offsets, within the transaction; they are not visible yet
    TxnOffsetCommit            stores the progress of the query, within the transaction
    EndTxn                     makes everything visible in one step

Each request may be sent again if its reply is lost. The sequence as a whole must not be repeated: segments committed in
an aborted transaction stay aborted. If the transaction is aborted, the write fails, and Spark's next attempt writes new
segments.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.shared.batches import (
    COMMITTED_BATCH,
    FLAG_ADDS_PARTITION,
    FLAG_LOG_APPEND_TIME,
    FLAG_TRANSACTIONAL,
    TRANSACTIONAL_ID_SHIFT,
    SegmentSlice,
    commit_of,
    verdicts_of,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.groups_pb2 import (
    CommittedOffset,
    OffsetFetch,
    OffsetFetchGroup,
    TxnOffsetCommit,
)
from lacuna.controlplane.v1.log_pb2 import SegmentCommitted, SegmentId
from lacuna.controlplane.v1.transactions_pb2 import EndTxn, InitProducerId
from lacuna.pipeline.control import check
from lacuna.pipeline.datasource.writing.control import RetryingJobClient
from lacuna.pipeline.datasource.writing.puts import TaskMessage, WrittenObject, WrittenPartition
from lacuna.pipeline.errors import OutcomeUnknownError, PipelineError, WriterFencedError

log = logging.getLogger("lacuna.pipeline.writing")

#: The number of commands sent together. The control plane remembers the replies to a lease's last 64 commits.
_AT_ONCE: Final = 32
#: Transaction timeouts. They can be short, as a commit only sends commands. Kafka's maximum is 15 minutes.
_SHORTEST_TIMEOUT_MS: Final = 60_000
_TIMEOUT_MS_PER_SEGMENT: Final = 50
_LONGEST_TIMEOUT_MS: Final = 900_000

_LAST_SEQUENCE: Final = 2**31 - 1
#: The flags of each batch; its transactional id is the first and only one of the commit.
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
class QueryProgress:
    """The progress of a query that has written batch `batch_id`, stored as offsets of the group `group_id`."""

    group_id: str
    query_id: str
    batch_id: int


def commit_write(
    control: RetryingJobClient,
    transactional_id: str,
    tasks: Sequence[TaskMessage],
    progress: QueryProgress | None,
) -> bool:
    """Commits everything that the tasks wrote, or nothing. Returns False if the batch of `progress` was already
    written.

    Raises WriterFencedError, OutcomeUnknownError, PipelineError, ControlPlaneUnavailable, CommandRefused. After an
    error, nothing has been committed, except possibly after OutcomeUnknownError.
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


def is_written(control: RetryingJobClient, progress: QueryProgress) -> bool:
    """Whether the batch of `progress`, or a later one of the same query, has been committed."""
    group = OffsetFetchGroup(group_id=progress.group_id, all_partitions=True)
    reply = control.ask(Command(offset_fetch=OffsetFetch(groups=[group])))
    (found,) = reply.offsets_fetched.groups
    check(found.error_code, f"reading the progress of {progress.group_id}")
    return any(
        kept.offset > progress.batch_id and _query_of(kept.metadata) == progress.query_id
        for kept in found.offsets
    )


def _query_of(metadata: str) -> object:
    """Returns the query named in a committed offset's metadata, or None if a sink did not write it."""
    try:
        found = json.loads(metadata)
    except ValueError:
        return None
    return found.get("query") if isinstance(found, dict) else None


class WriteTransaction:
    """The steps of one transaction. Call the methods in the order in which they are defined."""

    def __init__(self, control: RetryingJobClient, transactional_id: str) -> None:
        self._control = control
        self._transactional_id = transactional_id
        self._producer_id = -1
        self._producer_epoch = -1
        #: topic id, partition -> the next record's sequence
        self._sequences: dict[tuple[bytes, int], int] = {}

    def begin(self, segments: int) -> None:
        """Fences earlier drivers, so that they can no longer commit. `segments` is the number of segments to commit."""
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
        """Commits all segments within the transaction, in task order."""
        found = [(task, segment) for task in tasks for segment in task.segments]
        for first in range(0, len(found), _AT_ONCE):
            some = found[first : first + _AT_ONCE]
            replies = self._control.ask_all([self._command(*each) for each in some])
            for (task, segment), reply in zip(some, replies, strict=True):
                self._check_segment(task, segment, reply.segment_committed)

    def record(self, progress: QueryProgress, tasks: Sequence[TaskMessage]) -> None:
        """Stores the progress in every topic written to (for partition 0), because any of them may be deleted later."""
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
            self._check(code, f"storing the progress as group {progress.group_id}")

    def end(self) -> None:
        """Commits the transaction, which makes everything visible. Raises OutcomeUnknownError if no reply arrives."""
        try:
            reply = self._end(committed=True)
        except ControlPlaneUnavailable as error:
            raise OutcomeUnknownError(
                "it is not known whether the write was committed, because the control plane "
                f"became unavailable ({error}). A restarted streaming query finds this out by "
                "itself; otherwise, check whether the state of the transactional id "
                f"{self._transactional_id!r} is CompleteCommit"
            ) from error
        self._check(reply.txn_ended.error_code, "EndTxn")

    def abort(self) -> None:
        """Aborts the transaction. If that fails, it times out."""
        try:
            self._end(committed=False)
        except (ControlPlaneUnavailable, CommandRefused) as error:
            log.warning(
                "the transaction of %r could not be aborted, so it will time out: %s",
                self._transactional_id,
                error,
            )

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
        commit = commit_of(
            SegmentId(lease_id=task.lease_id, sequence=segment.sequence),
            segment.object_size,
            [
                SegmentSlice((each.topic_id, each.partition), b"".join(self._rows(each)))
                for each in segment.partitions
            ],
            [self._transactional_id],
        )
        return Command(commit_segment=commit)

    def _rows(self, written: WrittenPartition) -> Iterator[bytes]:
        """Yields each batch's entry for the commit (see controlplane/shared/batches.py)."""
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
                "more than a day passed between the end of a task and its commit, so the task's lease has "
                "expired: split the write into smaller ones"
            )
        self._check(verdicts.error_code, "CommitSegment")
        for written, verdict in zip(segment.partitions, verdicts_of(verdicts), strict=True):
            name = task.topics[written.topic_id]
            if verdict.error_code in (
                ErrorCode.UNKNOWN_TOPIC_ID,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ):
                raise PipelineError(
                    f"topic {name!r} was deleted during the write, and nothing was committed: "
                    "start the write again"
                )
            for code in (verdict.error_code, *verdict.error_codes):
                self._check(code, f"writing to partition {written.partition} of topic {name!r}")

    def _check(self, code: int, what: str) -> None:
        if code in _FENCED:
            raise WriterFencedError(
                f"another run with the transactional id {self._transactional_id!r} has begun to "
                "commit, or this one exceeded its transaction timeout; nothing from this run was "
                f"committed ({what})"
            )
        check(code, what)
