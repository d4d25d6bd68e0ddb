"""The front of a log, from which live records are removed only by moving the log start.

Retention, DeleteRecords and compaction remove records from the front, in journal records that also contain the new log
start. Aborted and superseded records are removed without moving it, as in Kafka. A partition's `vacated_to` is the end
of the records removed in this way, so that an audit can distinguish their removal from a loss.
"""

from typing import NamedTuple

from lacuna.controlplane.shared.extents import ExtentTable
from lacuna.controlplane.shared.invariants import InvariantBroken
from lacuna.controlplane.shared.log.live import live_slices
from lacuna.controlplane.shared.topic_configs import effective, is_deleted_by_retention
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.v1.log_pb2 import ExtentSwap


def retention_ms_of(configs: dict[str, str]) -> int:
    """Return retention.ms, or -1 (keep forever) if cleanup.policy does not include "delete"."""
    return int(effective(configs, "retention.ms")) if is_deleted_by_retention(configs) else -1


class Expiry(NamedTuple):
    """The expired part of a partition: records with timestamps before `oldest_ms`.

    An extent without timestamps is assigned the time at which consumers could first read it, much as Kafka uses the
    file's time. `stable_offset` is the last stable offset at `oldest_ms`.
    """

    oldest_ms: int
    stable_offset: int

    @classmethod
    def of(cls, partition: Partition, oldest_ms: int) -> "Expiry":
        """Return the expired part of a partition, given the oldest time to keep."""
        return cls(oldest_ms, partition.stable_at(oldest_ms))

    def covers(self, extents: ExtentTable, index: int) -> bool:
        """Whether an extent of the partition has expired."""
        timestamp = extents.max_timestamps[index]
        if timestamp < 0:
            return extents.next_offsets[index] <= self.stable_offset
        return timestamp < self.oldest_ms

    def covers_all_below(self, extents: ExtentTable, offset: int) -> bool:
        """Whether an extent ends at `offset` and has expired, as have all earlier extents."""
        stop = extents.first_ending_after(offset)
        is_edge = stop > 0 and extents.next_offsets[stop - 1] == offset
        return is_edge and all(self.covers(extents, index) for index in range(stop))


def takes_live(partition: Partition, swap: ExtentSwap, log_start_offset: int) -> bool:
    """Whether a swap removes live extents from the front, other than those that end at or below `log_start_offset`."""
    extents, dead = partition.extents, partition.dead
    start, stop = extents.range_of(swap.first_offset, swap.end_offset)
    if start:
        return False
    kept_from = swap.extents.base_offsets[0] if swap.extents.base_offsets else swap.end_offset
    first = extents.first_ending_after(log_start_offset)
    stop = min(stop, extents.first_ending_after(kept_from))
    return any(True for _ in live_slices(extents, dead, first, stop))


def first_offset(partition: Partition) -> int:
    """Return the base offset of the first extent, or the high watermark if there are no extents."""
    extents = partition.extents
    return extents.base_offsets[0] if len(extents) else partition.high_watermark


def check_front(partition: Partition) -> None:
    """Raise InvariantBroken if records not known to have been removed are missing at the front."""
    known_to = max(partition.log_start_offset, partition.vacated_to, partition.compacted_to)
    if first_offset(partition) > known_to:
        raise InvariantBroken(
            f"the log begins at {first_offset(partition)}, but only records below {known_to} were "
            "removed"
        )


def account(partition: Partition) -> None:
    """Record in `vacated_to` that the records now missing at the front were not live when they were removed."""
    front = first_offset(partition)
    partition.vacated_to = front if front > partition.log_start_offset else 0
