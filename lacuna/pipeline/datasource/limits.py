"""Limits what a trigger reads: maxOffsetsPerTrigger, minOffsetsPerTrigger and maxTriggerDelay."""

from collections.abc import Mapping
from math import ceil, floor

from lacuna.pipeline.datasource.bounds import TopicPartition
from lacuna.pipeline.datasource.offsets import Logs
from lacuna.pipeline.datasource.planning import count_offsets, offset_after

Offsets = Mapping[TopicPartition, int]


def limited(
    logs: Logs, firsts: Offsets, latest: Offsets, count: int, *, is_committed: bool
) -> dict[TopicPartition, int]:
    """Returns the end offsets of a batch of `count` offsets, which the partitions share in proportion to their
    backlogs.

    Offsets in holes are not counted. Every partition with a backlog gets at least one offset.
    """
    sizes = {
        each: count_offsets(logs[each], firsts[each], latest[each], is_committed=is_committed)
        for each in latest
    }
    total = sum(sizes.values())
    if total <= count:
        return dict(latest)
    found = {}
    for each, size in sizes.items():
        share = count * size / total
        found[each] = offset_after(
            logs[each],
            firsts[each],
            latest[each],
            ceil(share) if share < 1 else floor(share),
            is_committed=is_committed,
        )
    return found


class Gate:
    """Delays a batch until there are `minimum` new offsets, or `delay` seconds have passed since the last batch."""

    def __init__(self, minimum: int | None, delay: float) -> None:
        self._minimum = minimum
        self._delay = delay
        self._opened_at: float | None = None

    def opens(self, firsts: Offsets, latest: Offsets, now: float) -> bool:
        """Whether to read a batch at `now` (in seconds). The first batch is always read."""
        if self._minimum is None:
            return True
        is_overdue = self._opened_at is None or now - self._opened_at >= self._delay
        if is_overdue or sum(latest[each] - firsts[each] for each in latest) >= self._minimum:
            self._opened_at = now
            return True
        return False
