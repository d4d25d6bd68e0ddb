"""Whether ongoing transactions are what holds back the last stable offsets, and nothing else (S3)."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import PartitionState, ReadPartitions
from controlplane.v1.transactions_pb2 import DescribeProducers, PartitionProducers
from pipeline.audit.findings import Finding, Hit, Kind
from pipeline.audit.tables import Fate, Rows
from pipeline.control import ControlPlane
from pipeline.extents import PartitionLog

_ASKED_AT_ONCE: Final = 500
#: A last stable offset that moves between two looks is looked at again, so often.
_LOOKS: Final = 5


def check_ongoing(
    control: ControlPlane, logs: Sequence[PartitionLog], table: Rows
) -> tuple[list[Finding], int]:
    """What is wrong, and in how many partitions the last stable offset never stood still.

    A last stable offset only moves forward: where it is the same before and after the producers were
    asked, it is the one that they saw.
    """
    findings: list[Finding] = []
    left = list(range(len(logs)))
    decided = _decided(table)
    undecided = table[table["fate"] == Fate.UNDECIDED]
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
                    continue  # deleted meanwhile
                if (one.last_stable_offset, one.log_start_offset) != (
                    two.last_stable_offset,
                    two.log_start_offset,
                ):
                    moving.append(index)
                    continue
                findings += _check(logs[index], one, two, producers)
                findings += _check_open(logs[index], index, undecided, producers, decided)
        left = moving
        if not left:
            break
    return findings, len(left)


def _states(control: ControlPlane, asked: Sequence[TopicPartition]) -> Sequence[PartitionState]:
    reply = control.call(Command(read_partitions=ReadPartitions(partitions=asked)))
    return reply.partitions_read.partitions


def _check(
    log: PartitionLog, before: PartitionState, after: PartitionState, producers: PartitionProducers
) -> list[Finding]:
    """The last stable offset is the first offset of the oldest ongoing transaction, else the end."""
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


def _decided(table: Rows) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Transactions that were decided in some partition when it was looked at."""
    fates = (table["fate"] == Fate.ABORTED) | (table["fate"] == Fate.COMMITTED)
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = np.unique(
        table["transaction"][fates & (table["transaction"] != 0)]
    )
    return found


def _check_open(
    log: PartitionLog,
    index: int,
    undecided: Rows,
    producers: PartitionProducers,
    decided: "np.ndarray[tuple[int], np.dtype[np.int64]]",
) -> list[Finding]:
    """What is ongoing here, and was so when all partitions had been looked at, is decided nowhere."""
    findings = []
    for each in producers.producers:
        if each.current_txn_start_offset < 0:
            continue
        own = undecided[
            (undecided["partition"] == index)
            & (undecided["producer_id"] == each.producer_id)
            & (undecided["base_offset"] >= each.current_txn_start_offset)
        ]
        findings += [
            _finding(
                log,
                f"transaction {transaction} of producer {each.producer_id} is ongoing here and "
                "decided in another place",
                each.current_txn_start_offset,
            )
            for transaction in np.intersect1d(own["transaction"], decided)
        ]
    return findings


def _finding(log: PartitionLog, reason: str, offset: int) -> Finding:
    return Finding(
        kind=Kind.OUTCOME,
        reason=reason,
        hits=(Hit(log.topic, log.partition, offset, max(offset + 1, log.high_watermark)),),
    )
