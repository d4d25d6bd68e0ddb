"""Extents of a partition that wait to be merged: small and aborted ones below the last stable offset."""

from typing import NamedTuple

from lacuna.controlplane.shared.log.live import dead_slices
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.settings import MERGE_WINDOW


class Waiting(NamedTuple):
    """Small extents and their bytes, aborted offsets and their bytes, and the number of extents examined."""

    small_extents: int
    small_bytes: int
    aborted_offsets: int
    aborted_bytes: int
    looked_at: int


def waiting_in(partition: Partition, small_bytes: int) -> Waiting:
    """Return the waiting part of the extents that merging examines. Extents below `small_bytes` count as small."""
    extents = partition.extents
    end = extents.first_ending_after(partition.last_stable_offset)
    start = max(0, end - MERGE_WINDOW)
    small = [size for size in extents.sizes[start:end] if size < small_bytes]
    offsets = size = 0
    for first, stop in dead_slices(extents, partition.dead, start, end):
        size += sum(extents.sizes[first:stop])
        offsets += sum(extents.next_offsets[first:stop]) - sum(extents.base_offsets[first:stop])
    return Waiting(len(small), sum(small), offsets, size, end - start)
