"""The work of merges and compaction since this control plane started to lead. Volatile: no decision uses it."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from lacuna.controlplane.v1.log_pb2 import MergeRun, Rewritten

#: The number of runs remembered.
_RUNS: Final = 50


@dataclass(slots=True)
class TopicRewritten:
    """Rewritten data of one topic, by agents and by jobs."""

    merged: Rewritten = field(default_factory=Rewritten)
    compacted: Rewritten = field(default_factory=Rewritten)


class Rewriting:
    """Counts rewritten and deleted data, by topic and in total."""

    def __init__(self) -> None:
        self.since_ms = 0
        self.total = TopicRewritten()
        #: Deleted topics are dropped, so the number of topics bounds it.
        self.topics: dict[bytes, TopicRewritten] = {}
        self.runs: deque[MergeRun] = deque(maxlen=_RUNS)
        self.refused = 0
        self.objects_deleted = 0
        self.bytes_deleted = 0
        #: Extents below this size count as small: the last agent's setting.
        self.small_bytes = 0

    def begin(self, now_ms: int) -> None:
        """Start counting from `now_ms`, unless that has begun."""
        self.since_ms = self.since_ms or now_ms

    def add(self, topic_id: bytes, is_compaction: bool, swap: Rewritten) -> None:
        """Count the swap of a partition's extents."""
        for each in (self.total, self.topics.setdefault(topic_id, TopicRewritten())):
            add(each.compacted if is_compaction else each.merged, swap)

    def deleted(self, sizes: Iterable[int]) -> None:
        """Count objects that were deleted from the bucket, by their sizes in bytes."""
        for size in sizes:
            self.objects_deleted += 1
            self.bytes_deleted += size

    def ran(self, run: MergeRun) -> None:
        """Remember a run, and count its rejected partitions."""
        self.runs.append(run)
        self.refused += run.refused


def add(total: Rewritten, more: Rewritten) -> None:
    """Add all counts of `more` to those of `total`."""
    total.swaps += more.swaps
    total.extents_before += more.extents_before
    total.extents_after += more.extents_after
    total.bytes_before += more.bytes_before
    total.bytes_after += more.bytes_after
    total.aborted_offsets += more.aborted_offsets
