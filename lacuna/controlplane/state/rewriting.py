"""What merges and compaction have done since this control plane leads. Volatile: nothing is decided by it."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from lacuna.controlplane.v1.log_pb2 import MergeRun, Rewritten

#: How many runs are remembered.
_RUNS: Final = 50


@dataclass(slots=True)
class TopicRewritten:
    """What was rewritten of one topic, by agents and by jobs."""

    merged: Rewritten = field(default_factory=Rewritten)
    compacted: Rewritten = field(default_factory=Rewritten)


class Rewriting:
    """Counts what was rewritten and deleted, by topic and in all."""

    def __init__(self) -> None:
        self.since_ms = 0
        self.total = TopicRewritten()
        #: Topics that are deleted are left out, so there are as many as topics at most.
        self.topics: dict[bytes, TopicRewritten] = {}
        self.runs: deque[MergeRun] = deque(maxlen=_RUNS)
        self.refused = 0
        self.objects_deleted = 0
        self.bytes_deleted = 0
        #: Extents below this count as small: what the last agent asked for.
        self.small_bytes = 0

    def begin(self, now_ms: int) -> None:
        """Count from `now_ms` on, if that has not begun."""
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
        """Remember a run, and count what of it was refused."""
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
