"""SwapExtents: replaces planned extents with new ones, in each partition either all of them or none."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import COLUMNS, FLAG_LOG_APPEND_TIME, FLAG_TRUE_OFFSETS
from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.shared.rights import Need, on_topics
from lacuna.controlplane.shared.topic_configs import is_compacted
from lacuna.controlplane.state.front import (
    Expiry,
    account,
    check_front,
    retention_ms_of,
    takes_live,
)
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.rewriting import add
from lacuna.controlplane.state.segments import References, SegmentKey
from lacuna.controlplane.state.state import State
from lacuna.controlplane.state.transactional import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from lacuna.controlplane.v1.cluster_pb2 import Outcomes
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.journal_pb2 import ExtentsReplaced, JournalRecord, PartitionSwap
from lacuna.controlplane.v1.log_pb2 import Extents, MergeRun, Rewritten, SwapExtents, SwapPartition
from lacuna.controlplane.verbs.agents import used_late
from lacuna.controlplane.verbs.needs import own_leases
from lacuna.controlplane.verbs.refusals import MalformedCommand
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

#: The values of producer id, producer epoch, transaction and flags that merged extents can have (S19).
_MERGED: Final = frozenset(
    (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, 0, FLAG_TRUE_OFFSETS | log_append_time)
    for log_append_time in (0, FLAG_LOG_APPEND_TIME)
)


def swap_extents(turn: Turn, command: SwapExtents) -> Reply:
    """Replace extents in each partition whose extents are still exactly as planned.

    A command with a known segment is a retry: it changes nothing, and returns the original outcome. If every partition
    is rejected, the command's segments are garbage from the start.
    """
    state = turn.state
    object_sizes = _object_sizes(command)
    is_known = any(key in state.segments for key in object_sizes)
    if not is_known and any(lease_id not in state.leases for lease_id, _ in object_sizes):
        used_late(turn, [lease_id for lease_id, _ in object_sizes])
        answer = Outcomes(error_code=ErrorCode.LEASE_EXPIRED)
        return Reply(extents_swapped=answer)
    journalled = JournalRecord()
    record: ExtentsReplaced = journalled.extents_replaced
    record.segments.extend(command.segments)
    codes = []
    seen: set[PartitionKey] = set()
    for wanted in command.partitions:
        _check_swap(wanted, seen, object_sizes)
        state.merges_under_way.end(key_of(wanted.partition))
        code = _judge_swap(state, wanted, is_known, turn.now_ms)
        if code is None:
            record.partitions.append(_accepted(wanted))
        codes.append(code or ErrorCode.NONE)
    if record.partitions or (object_sizes and not is_known):
        _count(turn, command, record, codes)
        turn.journal(journalled)
    return Reply(extents_swapped=Outcomes(error_codes=codes))


def _count(turn: Turn, command: SwapExtents, record: ExtentsReplaced, codes: Sequence[int]) -> None:
    """Count the data about to be replaced, for overviews."""
    run = MergeRun(
        at_ms=turn.now_ms,
        is_compaction=command.is_compaction,
        partitions=len(codes),
        refused=sum(code != ErrorCode.NONE for code in codes),
    )
    rewriting = turn.state.rewriting
    for each in record.partitions:
        key, swap = key_of(each.partition), each.swap
        partition = turn.state.partitions[key]
        start, stop = partition.extents.range_of(swap.first_offset, swap.end_offset)
        dead = partition.dead.within(swap.first_offset, swap.end_offset)
        counted = Rewritten(
            swaps=1,
            extents_before=stop - start,
            extents_after=len(swap.extents.sizes),
            bytes_before=sum(partition.extents.sizes[start:stop]),
            bytes_after=sum(swap.extents.sizes),
            aborted_offsets=sum(dead.ends) - sum(dead.firsts),
        )
        add(run.rewritten, counted)
        rewriting.add(key[0], run.is_compaction, counted)
    rewriting.ran(run)


def _accepted(wanted: SwapPartition) -> PartitionSwap:
    return PartitionSwap(
        partition=wanted.partition,
        swap=wanted.swap,
        compacted_to=wanted.compacted_to,
        compact_again_ms=wanted.compact_again_ms if wanted.compacted_to else 0,
        log_start_offset=wanted.log_start_offset,
        is_superseding=wanted.is_superseding,
    )


def _object_sizes(command: SwapExtents) -> dict[SegmentKey, int]:
    sizes = {
        (each.segment.lease_id, each.segment.sequence): each.object_size
        for each in command.segments
    }
    if len(sizes) != len(command.segments):
        raise MalformedCommand("a swap must name each segment only once")
    return sizes


def _check_swap(
    wanted: SwapPartition, seen: set[PartitionKey], object_sizes: Mapping[SegmentKey, int]
) -> None:
    """Raise MalformedCommand if a swap could never be valid."""
    key = key_of(wanted.partition)
    if key in seen:
        raise MalformedCommand("a swap must name each partition only once")
    seen.add(key)
    if not 0 <= wanted.compacted_to <= max(0, wanted.swap.end_offset):
        raise MalformedCommand("compacted_to must not exceed the end of the replaced range")
    if not 0 <= wanted.log_start_offset <= max(0, wanted.swap.end_offset):
        raise MalformedCommand("log_start_offset must not exceed the end of the replaced range")
    _check_extents(wanted.swap.extents, object_sizes)
    _check_range(wanted)


def _check_extents(given: Extents, object_sizes: Mapping[SegmentKey, int]) -> None:
    """Raise MalformedCommand unless the new extents are merged ones in the command's segments."""
    if len({len(getattr(given, name)) for name in COLUMNS}) != 1:
        raise MalformedCommand("the columns of the new extents differ in length")
    keys = zip(given.lease_ids, given.sequences, strict=True)
    for key, position, size in zip(keys, given.positions, given.sizes, strict=True):
        object_size = object_sizes.get(key)
        if object_size is None:
            raise MalformedCommand("new extents must lie in segments that the swap names")
        if position < 0 or size < 1 or position + size > object_size:
            raise MalformedCommand("an extent lies outside its object")
    identities = zip(
        given.producer_ids, given.producer_epochs, given.transactions, given.flags, strict=True
    )
    if not _MERGED.issuperset(identities):
        raise MalformedCommand(
            "a merged extent must not belong to a transaction, and must have the true-offsets flag"
        )


def _check_range(wanted: SwapPartition) -> None:
    """Raise MalformedCommand unless the new extents are in order, within the range, and not below the log start."""
    swap = wanted.swap
    end = max(swap.first_offset, wanted.log_start_offset)
    for base_offset, next_offset in zip(
        swap.extents.base_offsets, swap.extents.next_offsets, strict=True
    ):
        if not end <= base_offset < next_offset:
            raise MalformedCommand("the new extents must be in order, and none may be empty")
        end = next_offset
    if end > swap.end_offset:
        raise MalformedCommand("the new extents must lie within the range that they replace")


def _judge_swap(
    state: State, wanted: SwapPartition, is_known: bool, now_ms: int
) -> ErrorCode | None:
    """Return None for a valid new swap, ErrorCode.NONE for a retry of an accepted one, or an error code."""
    partition = state.partitions.get(key_of(wanted.partition))
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    swap = wanted.swap
    start, stop = partition.extents.range_of(swap.first_offset, swap.end_offset)
    is_empty = start == stop
    if is_known or is_empty:
        # An empty range has been emptied by an earlier swap without new extents, or by retention.
        is_done = stop - start == len(swap.extents.sizes)
        is_done = is_done and partition.extents.slice(start, stop) == swap.extents
        return ErrorCode.NONE if is_done else ErrorCode.PLAN_STALE
    if not _is_as_planned(partition, wanted, start, stop):
        return ErrorCode.PLAN_STALE
    if wanted.is_superseding and not is_compacted(state.topics[partition.key[0]].configs):
        return ErrorCode.PLAN_STALE
    extents = partition.extents
    edge = start > 0 and extents.next_offsets[start - 1] > swap.first_offset
    is_stable = extents.next_offsets[stop - 1] <= swap.end_offset <= partition.last_stable_offset
    if not is_stable or edge or not _is_front_kept(state, partition, wanted, now_ms):
        return ErrorCode.PLAN_STALE
    return None


def _is_front_kept(state: State, partition: Partition, wanted: SwapPartition, now_ms: int) -> bool:
    """Whether all records that the swap removes from the front of the log were not live or have expired.

    Only the sender knows which records are superseded, so `compacted_to` and `is_superseding` are trusted. Retention is
    checked again, because its configs may have changed since the plan was made.
    """
    log_start_offset = wanted.log_start_offset
    if log_start_offset > partition.log_start_offset:
        retention_ms = retention_ms_of(state.topics[partition.key[0]].configs)
        expiry = Expiry.of(partition, now_ms - retention_ms)
        if retention_ms < 0 or not expiry.covers_all_below(partition.extents, log_start_offset):
            return False
    is_superseding = bool(wanted.compacted_to) or wanted.is_superseding
    return is_superseding or not takes_live(partition, wanted.swap, log_start_offset)


def _is_as_planned(partition: Partition, wanted: SwapPartition, start: int, stop: int) -> bool:
    """Whether the extents with index in [start, stop) match the swap's fence."""
    return partition.extents.fence(start, stop) == wanted.fence


def replay_extents_replaced(state: State, record: ExtentsReplaced, now_ms: int) -> None:
    live: Counter[SegmentKey] = Counter()
    for each in record.partitions:
        extents = each.swap.extents
        live.update(zip(extents.lease_ids, extents.sequences, strict=True))
    for new in record.segments:
        key = (new.segment.lease_id, new.segment.sequence)
        state.segments.add(key, new.object_size, live[key], now_ms)
    state.segments.release([_swap(state, each) for each in record.partitions], now_ms)


def _swap(state: State, record: PartitionSwap) -> References:
    """Replace the extents of a partition, and return the references of the removed ones."""
    partition = state.partitions[key_of(record.partition)]
    swap, extents = record.swap, partition.extents
    start, stop = extents.range_of(swap.first_offset, swap.end_offset)
    gone = References(extents.lease_ids[start:stop], extents.sequences[start:stop])
    log_start_offset = max(partition.log_start_offset, record.log_start_offset)
    takes = takes_live(partition, swap, log_start_offset)
    partition.move_log_start(log_start_offset)  # not beyond the last stable offset
    partition.size_bytes += sum(swap.extents.sizes) - sum(extents.sizes[start:stop])
    extents.replace(swap.first_offset, swap.end_offset, swap.extents)
    partition.dead.remove(swap.first_offset, swap.end_offset)
    partition.dead.drop_below(partition.log_start_offset)  # a dead range without extents
    if record.compacted_to:
        partition.compacted_to = max(partition.compacted_to, record.compacted_to)
        partition.compact_again_ms = record.compact_again_ms
    if not takes or record.is_superseding:
        account(partition)
    check_front(partition)  # live records that were removed were superseded, or are lost
    delta = state.changed(partition)
    if delta is not None:
        delta.swaps.append(swap)
        delta.dropped_below = log_start_offset
    return gone


def _needs(command: SwapExtents, state: State) -> Iterator[Need]:
    yield from own_leases((each.segment.lease_id for each in command.segments), state)
    yield from on_topics(Operation.ALTER, (each.partition for each in command.partitions), state)


VERBS: Final = (Verb(swap_extents, needs=_needs),)
REPLAYS: Final = (replay_extents_replaced,)
