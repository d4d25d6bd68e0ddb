"""Counts of the work of merges and compaction since this control plane became the leader, and of what is waiting to be
merged.

Volatile: no decision uses these counts.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lacuna.controlplane.shared.log.choosing import LARGE, kinds_of
from lacuna.controlplane.shared.log.live import dead_slices
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.settings import MERGE_WINDOW
from lacuna.controlplane.v1.log_pb2 import MergeRun, Rewritten

#: The number of runs remembered.
_RUNS: Final = 50


@dataclass(slots=True)
class TopicRewritten:
    """How much data of one topic has been merged and compacted."""

    merged: Rewritten = field(default_factory=Rewritten)
    compacted: Rewritten = field(default_factory=Rewritten)


class Rewriting:
    """Counts rewritten and deleted data, by topic and in total."""

    def __init__(self) -> None:
        self.since_ms = 0
        self.total = TopicRewritten()
        #: Deleted topics are dropped, so the number of topics bounds the size of this dict.
        self.topics: dict[bytes, TopicRewritten] = {}
        self.runs: deque[MergeRun] = deque(maxlen=_RUNS)
        self.refused = 0
        self.objects_deleted = 0
        self.bytes_deleted = 0
        #: Extents below this size count as small. The value is the setting that an agent sent last.
        self.small_bytes = 0

    def begin(self, now_ms: int) -> None:
        self.since_ms = self.since_ms or now_ms

    def add(self, topic_id: bytes, is_compaction: bool, swap: Rewritten) -> None:
        for each in (self.total, self.topics.setdefault(topic_id, TopicRewritten())):
            add(each.compacted if is_compaction else each.merged, swap)

    def deleted(self, sizes: Iterable[int]) -> None:
        """Count objects deleted from the bucket, given their sizes in bytes."""
        for size in sizes:
            self.objects_deleted += 1
            self.bytes_deleted += size

    def ran(self, run: MergeRun) -> None:
        """Remember a run, and count the partitions for which it was refused."""
        self.runs.append(run)
        self.refused += run.refused


def add(total: Rewritten, more: Rewritten) -> None:
    total.swaps += more.swaps
    total.extents_before += more.extents_before
    total.extents_after += more.extents_after
    total.bytes_before += more.bytes_before
    total.bytes_after += more.bytes_after
    total.aborted_offsets += more.aborted_offsets


class Waiting(NamedTuple):
    """The numbers of small extents and their bytes, of aborted offsets and their bytes, and of extents examined."""

    small_extents: int
    small_bytes: int
    aborted_offsets: int
    aborted_bytes: int
    looked_at: int


def waiting_in(partition: Partition, small_bytes: int) -> Waiting:
    """Count what is waiting to be merged among the examined extents. See `kinds_of` for `small_bytes`."""
    extents = partition.extents
    end = extents.first_ending_after(partition.last_stable_offset)
    start = max(0, end - MERGE_WINDOW)
    kinds = kinds_of(extents, partition.dead, start, end, small_bytes)
    sizes = zip(kinds, extents.sizes[start:end], strict=True)
    small = [size for kind, size in sizes if kind != LARGE and size < small_bytes]
    offsets = size = 0
    for first, stop in dead_slices(extents, partition.dead, start, end):
        size += sum(extents.sizes[first:stop])
        offsets += sum(extents.next_offsets[first:stop]) - sum(extents.base_offsets[first:stop])
    return Waiting(len(small), sum(small), offsets, size, end - start)
