"""ImportSegment: appends records of another cluster at their original offsets (S1 to S6).

A topic with the config mirror.source accepts only these commits (`slices`). A slice must begin at the end of its
partition, where importers also resume, so a commit that is repeated or comes from a second importer changes nothing.
Offsets without records are holes from the start, and extents aborted in the other cluster are dead from the start, so
the outcome of a transaction is never needed.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import Final

from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.batches import SLICE_VERDICT
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import (
    EXTENT_ROW,
    FLAG_ABORTED_BEFORE,
    FLAG_LOG_APPEND_TIME,
    FLAG_TRUE_OFFSETS,
    DeadRanges,
    from_little_endian,
    to_little_endian,
)
from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.shared.rights import Need, on_topics
from lacuna.controlplane.state.front import account
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.state import State
from lacuna.controlplane.state.transactional import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.journal_pb2 import ImportRecorded, JournalRecord
from lacuna.controlplane.v1.log_pb2 import ImportedSlice, ImportSegment, SegmentCommitted
from lacuna.controlplane.verbs.commits import answered
from lacuna.controlplane.verbs.needs import own_leases
from lacuna.controlplane.verbs.refusals import MalformedCommand
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

#: The values of producer id, producer epoch, transaction and flags that imported extents can have.
_DECIDED: Final = frozenset(
    (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, 0, FLAG_TRUE_OFFSETS | log_append_time | aborted)
    for log_append_time in (0, FLAG_LOG_APPEND_TIME)
    for aborted in (0, FLAG_ABORTED_BEFORE)
)

#: The row of an extent: its values in the order of the table's columns.
_Row = tuple[int, int, int, int, int, int, int, int, int, int, int]


def import_segment(turn: Turn, command: ImportSegment) -> Reply:
    """Append the slices that begin at the end of their partition. A repeated command receives the original answer."""
    # Hot segments cannot be imported: the lease id in a hot segment's name is not a lease in this cluster.
    known = answered(turn, command.segment, command.segment.lease_id)
    return Reply(segment_committed=_decide(turn, command) if known is None else known)


def _decide(turn: Turn, command: ImportSegment) -> SegmentCommitted:
    record = ImportRecorded(segment=command.segment, object_size=command.object_size)
    verdicts = []
    seen: set[PartitionKey] = set()
    for wanted in command.slices:
        _check(command, wanted, seen)
        code = _judge(turn.state, wanted)
        if code is ErrorCode.NONE:
            record.slices.append(wanted)
        verdicts.append(SLICE_VERDICT.pack(code, 0, 0))
    record.verdicts.slices = b"".join(verdicts)
    turn.journal(JournalRecord(import_recorded=record))
    return record.verdicts


def _check(command: ImportSegment, wanted: ImportedSlice, seen: set[PartitionKey]) -> None:
    """Raise MalformedCommand if a slice could never be valid."""
    key = key_of(wanted.partition)
    if key in seen:
        raise MalformedCommand("a segment may have only one slice per partition")
    seen.add(key)
    if len(wanted.extents) % EXTENT_ROW.size:
        raise MalformedCommand("the last row of a slice's extents is incomplete")
    if not 0 <= wanted.first_offset < wanted.end_offset:
        raise MalformedCommand("an imported slice must end after its first offset")
    _check_rows(command, wanted, list(EXTENT_ROW.iter_unpack(wanted.extents)))


def _check_rows(command: ImportSegment, wanted: ImportedSlice, rows: Sequence[_Row]) -> None:
    segment = (command.segment.lease_id, command.segment.sequence)
    end = wanted.first_offset
    for lease_id, sequence, position, size, base_offset, next_offset, _, *identity in rows:
        if (lease_id, sequence) != segment:
            raise MalformedCommand("imported extents must lie in the segment of the command")
        if position < 0 or size < 1 or position + size > command.object_size:
            raise MalformedCommand("an extent lies outside its object")
        if tuple(identity) not in _DECIDED:
            raise MalformedCommand(
                "an imported extent must not belong to a transaction, and must have the true-offsets flag"
            )
        if not end <= base_offset < next_offset <= wanted.end_offset:
            raise MalformedCommand("imported extents must be in order and within their slice")
        end = next_offset


def _judge(state: State, wanted: ImportedSlice) -> ErrorCode:
    topic = state.topics.get(wanted.partition.topic_id)
    partition = state.partitions.get(key_of(wanted.partition))
    if topic is None or partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not wanted.source or topic.mirror_source != wanted.source:
        return ErrorCode.POLICY_VIOLATION
    if partition.high_watermark != wanted.first_offset or partition.ongoing:
        return ErrorCode.PLAN_STALE
    return ErrorCode.NONE


def replay_import_recorded(state: State, record: ImportRecorded, now_ms: int) -> None:
    """Append the accepted slices, and remember the answer for retries."""
    extents = 0
    for each in record.slices:
        partition = state.partitions[key_of(each.partition)]
        rows = list(EXTENT_ROW.iter_unpack(each.extents))
        extents += len(rows)
        killed = _append(partition, each, rows, now_ms)
        delta = state.changed(partition)
        if delta is not None:
            delta.appended = each.extents
            delta.dead = to_little_endian(killed)
    segment = record.segment
    if record.object_size:
        key = (segment.lease_id, segment.sequence)
        state.segments.add(key, record.object_size, extents, now_ms)
    state.leases[segment.lease_id].remember(segment.sequence, record.verdicts.SerializeToString())


def _append(
    partition: Partition, imported: ImportedSlice, rows: Sequence[_Row], now_ms: int
) -> "array[int]":
    """Append the extents of a slice, move the high watermark to its end, and return the dead ranges."""
    partition.note_stable(now_ms)
    is_first = not len(partition.extents)
    aborted = DeadRanges()
    for row in rows:
        partition.extents.append_row(row)
        _, _, _, size, base_offset, next_offset, *_, flags = row
        partition.size_bytes += size
        if flags & FLAG_ABORTED_BEFORE:
            aborted.add(base_offset, next_offset)
    partition.high_watermark = imported.end_offset
    partition.next_epoch = imported.next_epoch
    killed = partition.kill(from_little_endian("q", aborted.pairs()))
    if is_first:
        account(partition)  # nothing before the first record was ever live in this cluster
    return killed


def _needs(command: ImportSegment, state: State) -> Iterator[Need]:
    yield from own_leases([command.segment.lease_id], state)
    yield from on_topics(Operation.WRITE, (each.partition for each in command.slices), state)


VERBS: Final = (Verb(import_segment, needs=_needs),)
REPLAYS: Final = (replay_import_recorded,)
