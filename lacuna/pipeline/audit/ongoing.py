"""Checks that only ongoing transactions hold back the last stable offsets (S3)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import PartitionState, ReadPartitions
from lacuna.controlplane.v1.transactions_pb2 import DescribeProducers, PartitionProducers
from lacuna.pipeline.audit.findings import Finding, Hit, Kind
from lacuna.pipeline.audit.tables import ExtentRow, Outcome, Rows
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.extents import PartitionLog

_ASKED_AT_ONCE: Final = 500
#: The maximum number of times that a last stable offset is read if it keeps moving.
_LOOKS: Final = 5


def check_ongoing(
    control: JobClient, logs: Sequence[PartitionLog], table: Rows
) -> tuple[list[Finding], int]:
    """Finds wrong last stable offsets. Also returns the number of partitions that changed too often to be checked.

    A last stable offset only moves forward. If it is the same before and after the producers are described, it also had
    that value in between.
    """
    findings: list[Finding] = []
    left = list(range(len(logs)))
    decided, undecided = _split(table)
    for _ in range(_LOOKS):
        moving: list[int] = []
        for start in range(0, len(left), _ASKED_AT_ONCE):
            some = left[start : start + _ASKED_AT_ONCE]
            asked = [
                TopicPartition(topic_id=logs[index].topic_id, partition=logs[index].partition)
                for index in some
            ]
            before = _states(control, asked)
            described = control.call(
                Command(describe_producers=DescribeProducers(partitions=asked))
            ).producers_described.partitions
            after = _states(control, asked)
            for index, one, producers, two in zip(some, before, described, after, strict=True):
                if one.error_code or two.error_code or producers.error_code:
                    continue  # deleted in the meantime
                if (one.last_stable_offset, one.log_start_offset) != (
                    two.last_stable_offset,
                    two.log_start_offset,
                ):
                    moving.append(index)
                    continue
                findings += _check(logs[index], one, two, producers)
                findings += _check_open(logs[index], undecided[index], producers, decided)
        left = moving
        if not left:
            break
    return findings, len(left)


def _states(control: JobClient, asked: Sequence[TopicPartition]) -> Sequence[PartitionState]:
    reply = control.call(Command(read_partitions=ReadPartitions(partitions=asked)))
    return reply.partitions_read.partitions


def _check(
    log: PartitionLog, before: PartitionState, after: PartitionState, producers: PartitionProducers
) -> list[Finding]:
    """Checks that the last stable offset is the later of the oldest ongoing transaction's start and the log start.

    Without an ongoing transaction, it must equal the high watermark, which may grow while the producers are described.
    """
    starts = [
        each.current_txn_start_offset
        for each in producers.producers
        if each.current_txn_start_offset >= 0
    ]
    stable = before.last_stable_offset
    if starts:
        oldest = max(min(starts), before.log_start_offset)
        is_right = stable == oldest
        reason = f"the oldest ongoing transaction begins at {oldest}"
    else:
        is_right = before.high_watermark <= stable <= after.high_watermark
        reason = f"no transaction is ongoing below the high watermark {after.high_watermark}"
    if is_right:
        return []
    return [_finding(log, f"the last stable offset is {stable}, but {reason}", stable)]


def _split(table: Rows) -> tuple[set[int], Mapping[int, list[ExtentRow]]]:
    decided: set[int] = set()
    undecided: defaultdict[int, list[ExtentRow]] = defaultdict(list)
    for row in table:
        if row.outcome == Outcome.UNDECIDED:
            undecided[row.partition].append(row)
        elif row.transaction:
            decided.add(row.transaction)
    return decided, undecided


def _check_open(
    log: PartitionLog,
    undecided: Sequence[ExtentRow],
    producers: PartitionProducers,
    decided: set[int],
) -> list[Finding]:
    """Checks that no transaction that is ongoing in this partition is decided in another one."""
    findings = []
    for each in producers.producers:
        if each.current_txn_start_offset < 0:
            continue
        own = {
            row.transaction
            for row in undecided
            if row.producer_id == each.producer_id
            and row.base_offset >= each.current_txn_start_offset
        }
        findings += [
            _finding(
                log,
                f"transaction {transaction} of producer {each.producer_id} is ongoing here but "
                "has ended in another partition",
                each.current_txn_start_offset,
            )
            for transaction in sorted(own & decided)
        ]
    return findings


def _finding(log: PartitionLog, reason: str, offset: int) -> Finding:
    return Finding(
        kind=Kind.OUTCOME,
        reason=reason,
        hits=(Hit(log.topic, log.partition, offset, max(offset + 1, log.high_watermark)),),
    )
