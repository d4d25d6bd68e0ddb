"""SwapExtents: other extents in the place of those that were planned, all or nothing per partition."""

from collections.abc import Mapping
from typing import Final

from controlplane.decision import Context, Decision
from controlplane.errors import ErrorCode
from controlplane.extents import COLUMNS, FLAG_LOG_APPEND_TIME, FLAG_TRUE_OFFSETS
from controlplane.state.partition import Partition, PartitionKey, key_of
from controlplane.state.refusals import MalformedCommand
from controlplane.state.segments import SegmentKey
from controlplane.state.state import State
from controlplane.state.transactional import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from controlplane.v1.control_pb2 import Reply
from controlplane.v1.journal_pb2 import ExtentsReplaced, JournalRecord, PartitionSwap
from controlplane.v1.log_pb2 import Extents, ExtentsSwapped, ExtentSwap, SwapExtents, SwapPartition

#: What merging leaves of producer id, epoch, transaction and flags, whatever it replaces (S19).
_MERGED: Final = frozenset(
    (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, 0, FLAG_TRUE_OFFSETS | log_append_time)
    for log_append_time in (0, FLAG_LOG_APPEND_TIME)
)


def swap_extents(state: State, command: SwapExtents, context: Context) -> Decision:
    """Replaces extents where exactly what was planned still lies there.

    A command with a segment that is known is a retry: it is told what became of it and changes nothing. The
    segments of a command that is refused for every partition are garbage from the start.
    """
    object_sizes = _object_sizes(command)
    is_known = any(key in state.segments for key in object_sizes)
    if not is_known and any(lease_id not in state.leases for lease_id, _ in object_sizes):
        answer = ExtentsSwapped(error_code=ErrorCode.LEASE_EXPIRED)
        return Decision(reply=Reply(extents_swapped=answer))
    journalled = JournalRecord(now_ms=context.now_ms)
    record: ExtentsReplaced = journalled.extents_replaced
    record.segments.extend(command.segments)
    codes = []
    seen: set[PartitionKey] = set()
    for wanted in command.partitions:
        _check_swap(wanted, seen, object_sizes)
        code = _judge_swap(state, wanted, is_known)
        if code is None:
            record.partitions.append(_accepted(wanted))
        codes.append(code or ErrorCode.NONE)
    decision = Decision(reply=Reply(extents_swapped=ExtentsSwapped(error_codes=codes)))
    if record.partitions or (object_sizes and not is_known):
        decision.records.append(journalled)
    return decision


def _accepted(wanted: SwapPartition) -> PartitionSwap:
    return PartitionSwap(
        partition=wanted.partition,
        swap=wanted.swap,
        compacted_to=wanted.compacted_to,
        compact_again_ms=wanted.compact_again_ms if wanted.compacted_to else 0,
    )


def _object_sizes(command: SwapExtents) -> dict[SegmentKey, int]:
    sizes = {
        (each.segment.lease_id, each.segment.sequence): each.object_size
        for each in command.segments
    }
    if len(sizes) != len(command.segments):
        raise MalformedCommand("a swap names each segment once")
    return sizes


def _check_swap(
    wanted: SwapPartition, seen: set[PartitionKey], object_sizes: Mapping[SegmentKey, int]
) -> None:
    """Raises MalformedCommand for a swap that makes no sense whatever lies there."""
    key = key_of(wanted.partition)
    if key in seen:
        raise MalformedCommand("a swap names each partition once")
    seen.add(key)
    if wanted.HasField("replaced") and wanted.fence:
        raise MalformedCommand(
            "a swap is fenced by the extents that it replaces or by their digest"
        )
    if not 0 <= wanted.compacted_to <= max(0, wanted.swap.end_offset):
        raise MalformedCommand("what is compacted lies below the end of what is replaced")
    _check_extents(wanted.swap.extents, object_sizes)
    _check_range(wanted.swap)


def _check_extents(given: Extents, object_sizes: Mapping[SegmentKey, int]) -> None:
    """They are merged ones and lie in the segments of the command."""
    if len({len(getattr(given, name)) for name in COLUMNS}) != 1:
        raise MalformedCommand("the columns of the new extents differ in length")
    keys = zip(given.lease_ids, given.sequences, strict=True)
    for key, position, size in zip(keys, given.positions, given.sizes, strict=True):
        object_size = object_sizes.get(key)
        if object_size is None:
            raise MalformedCommand("new extents lie in the segments that the swap names")
        if position < 0 or size < 1 or position + size > object_size:
            raise MalformedCommand("an extent lies outside of its object")
    identities = zip(
        given.producer_ids, given.producer_epochs, given.transactions, given.flags, strict=True
    )
    if not _MERGED.issuperset(identities):
        raise MalformedCommand("a merged extent is of no transaction and has true offsets")


def _check_range(swap: ExtentSwap) -> None:
    """The new extents are in order, not empty, and within what they replace."""
    end = swap.first_offset
    for base_offset, next_offset in zip(
        swap.extents.base_offsets, swap.extents.next_offsets, strict=True
    ):
        if not end <= base_offset < next_offset:
            raise MalformedCommand("the new extents are in order, and none of them is empty")
        end = next_offset
    if end > swap.end_offset:
        raise MalformedCommand("the new extents lie within the range that they replace")


def _judge_swap(state: State, wanted: SwapPartition, is_known: bool) -> ErrorCode | None:
    """None: to be done. NONE: it was done before, this is a retry. Else an error."""
    partition = state.partitions.get(key_of(wanted.partition))
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    swap = wanted.swap
    start, stop = partition.extents.range_of(swap.first_offset, swap.end_offset)
    is_empty = start == stop
    if is_known or is_empty:
        # Where nothing lies there is nothing to replace: a swap that leaves nothing was done, or retention did it.
        is_done = stop - start == len(swap.extents.sizes)
        is_done = is_done and partition.extents.slice(start, stop) == swap.extents
        return ErrorCode.NONE if is_done else ErrorCode.PLAN_STALE
    if not _is_as_planned(partition, wanted, start, stop):
        return ErrorCode.PLAN_STALE
    extents = partition.extents
    edge = start > 0 and extents.next_offsets[start - 1] > swap.first_offset
    is_stable = extents.next_offsets[stop - 1] <= swap.end_offset <= partition.last_stable_offset
    return None if is_stable and not edge else ErrorCode.PLAN_STALE


def _is_as_planned(partition: Partition, wanted: SwapPartition, start: int, stop: int) -> bool:
    """Whether the extents with index in [start, stop) are those that the swap is fenced with."""
    if wanted.fence:
        return partition.extents.fence(start, stop) == wanted.fence
    if stop - start != len(wanted.replaced.sizes):
        return False
    return partition.extents.slice(start, stop) == wanted.replaced
