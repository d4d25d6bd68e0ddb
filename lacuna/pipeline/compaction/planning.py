"""Turns the control plane's plan into tasks, without side effects.

A **share** is the part of a range that one task rewrites: consecutive live extents. A **unit** is swapped in by one
command: it consists of small ranges that share tasks, or of one large range with a task for each of its shares.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress, pairwise
from typing import Final

from lacuna.controlplane.shared.extents import COLUMNS, DeadRanges, ExtentTable
from lacuna.controlplane.shared.log.live import live_mask
from lacuna.controlplane.shared.log.pieces import Piece, all_pieces
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.log_pb2 import CompactionRange
from lacuna.pipeline.hot import HotKey, hot_in

#: A plan is cut into about this many tasks, unless they would be too small or too large: enough to keep all cores busy
#: until the end, and no more than that, so that segments are large.
WANTED_TASKS: Final = 32
LEAST_TASK_BYTES: Final = 16 << 20
#: The maximum number of shares in a task, so that its result and its segments' footers stay small.
MAX_SHARES: Final = 1_000
#: The maximum number of tasks in a unit of small partitions compacted by key, since they share one shuffle.
MAX_TASKS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRange:
    """A range of one partition to rewrite: all its extents in [first_offset, end_offset).

    Only the `live` extents are read; the others are aborted or expired. The swap moves the log start to
    `log_start_offset`, unless that is 0. If `is_cleaned`, superseded records are removed, and `dirty_bytes` bytes are
    cleaned for the first time. Tombstones without a delete horizon get `delete_horizon` (in ms, -1: none). If
    `drops_tombstones`, tombstones past their delete horizon are dropped, since no older record with their key can
    remain.
    """

    topic: str
    topic_id: bytes
    partition: int
    first_offset: int
    end_offset: int
    fence: bytes
    has_more: bool
    extents: int
    live: ExtentTable
    aborted_bytes: int
    expired_bytes: int
    log_start_offset: int
    dirty_bytes: int
    is_cleaned: bool
    drops_tombstones: bool
    delete_horizon: int

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.partition

    @property
    def live_bytes(self) -> int:
        return sum(self.live.sizes)

    def waste(self, size: int, extents: int, small_bytes: int) -> float:
        """Returns the wasted share (about 0 to 1) of a partition with `size` bytes and `extents` extents.

        This is the largest of three shares: bytes to be removed, bytes not yet cleaned, and extents smaller than
        `small_bytes`.
        """
        small = sum(1 for each in self.live.sizes if each < small_bytes)
        gone = self.aborted_bytes + self.expired_bytes
        return max(max(gone, self.dirty_bytes) / max(1, size), small / max(1, extents))


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Extents of one partition that one task rewrites. `range_index` identifies their range within the unit."""

    range_index: int
    topic_id: bytes
    partition: int
    extents: ExtentTable
    delete_horizon: int
    drops_tombstones: bool

    @property
    def end_offset(self) -> int:
        return self.extents.next_offsets[-1]

    @property
    def size(self) -> int:
        return sum(self.extents.sizes)

    def pieces(self) -> Iterator[Piece]:
        return all_pieces(self.extents)


@dataclass(frozen=True, slots=True)
class Unit:
    """Ranges that are swapped together, and the shares of each task. Without live records, there are no tasks."""

    ranges: Sequence[PlannedRange]
    tasks: Sequence[Sequence[Share]]

    @property
    def is_cleaned(self) -> bool:
        """Whether the ranges are cleaned by key; within a unit, either all are or none are."""
        return self.ranges[0].is_cleaned

    @property
    def live_bytes(self) -> int:
        return sum(share.size for task in self.tasks for share in task)


class FoundRange:
    """A range of the plan that the control plane made at `now_ms`, not yet cut."""

    def __init__(self, topic: str, found: CompactionRange, now_ms: int) -> None:
        self._topic = topic
        self._found = found
        self._now_ms = now_ms
        self._table = table = ExtentTable.from_columns(found.extents)
        self._is_at_start = found.first_offset <= found.log_start_offset
        expired = _expired_extents(found, table, now_ms) if self._is_at_start else 0
        is_live = live_mask(table, DeadRanges.from_pairs(found.dead), 0, len(table))
        self._expired_bytes = sum(compress(table.sizes[:expired], is_live))
        is_live[:expired] = bytes(expired)
        self._log_start_offset = table.next_offsets[expired - 1] if expired else 0
        self._live = _select(table, is_live)
        self._is_live = is_live

    @property
    def live_bytes(self) -> int:
        return sum(self._live.sizes)

    def hot(self) -> Iterator[HotKey]:
        return hot_in(self._live, 0, len(self._live))

    def pieces(self, task_bytes: int) -> Iterator[PlannedRange]:
        """Cuts the range into smaller ones, each with about `task_bytes` to read, unless it is cleaned by key.

        Each of them is fenced and swapped separately. If a huge partition changes at one end during its compaction,
        only the work on that end is lost.
        """
        found, table = self._found, self._table
        is_compacted = "compact" in found.cleanup_policy.split(",")
        is_cleaned = is_compacted and (self._is_at_start or found.end_offset > found.compacted_to)
        starts = [0]
        if not is_cleaned:
            cuts = even_cuts(self._live.sizes, task_bytes)
            starts += [table.first_at_or_after(self._live.base_offsets[cut]) for cut in cuts]
        live_start = 0
        for start, stop in pairwise((*starts, len(table))):
            live_stop = live_start + sum(self._is_live[start:stop])
            live = ExtentTable.from_columns(self._live.columns(live_start, live_stop))
            yield self._piece(start, stop, live, is_cleaned=is_cleaned)
            live_start = live_stop

    def _piece(self, start: int, stop: int, live: ExtentTable, *, is_cleaned: bool) -> PlannedRange:
        found, table = self._found, self._table
        is_first, is_last = not start, stop == len(table)
        # Everything before the first live extent belongs to the first piece.
        expired_bytes = self._expired_bytes if is_first else 0
        clean = live.first_ending_after(found.compacted_to)
        return PlannedRange(
            topic=self._topic,
            topic_id=found.partition.topic_id,
            partition=found.partition.partition,
            first_offset=found.first_offset if is_first else table.base_offsets[start],
            end_offset=found.end_offset if is_last else table.base_offsets[stop],
            fence=table.fence(start, stop),
            has_more=found.has_more and is_last,
            extents=stop - start,
            live=live,
            aborted_bytes=sum(table.sizes[start:stop]) - sum(live.sizes) - expired_bytes,
            expired_bytes=expired_bytes,
            log_start_offset=self._log_start_offset if is_first else 0,
            dirty_bytes=sum(live.sizes[clean:]) if is_cleaned else 0,
            is_cleaned=is_cleaned,
            drops_tombstones=is_cleaned and self._is_at_start,
            delete_horizon=self._now_ms + found.delete_retention_ms if is_cleaned else -1,
        )


def fitting_task_bytes(live_bytes: int, most: int) -> int:
    """Returns the number of bytes, up to `most`, that each task should read to keep all cores busy."""
    return min(most, max(LEAST_TASK_BYTES, -(-live_bytes // WANTED_TASKS)))


def _expired_extents(found: CompactionRange, table: ExtentTable, now_ms: int) -> int:
    """Returns the number of extents that exceed retention.ms and will soon be dropped; as in Kafka, only leading ones
    are.

    An extent without a timestamp is left to the control plane, which knows its age.
    """
    if found.retention_ms < 0 or "delete" not in found.cleanup_policy.split(","):
        return 0
    oldest_ms = now_ms - found.retention_ms
    fresh = (
        index
        for index, timestamp in enumerate(table.max_timestamps)
        if not -1 < timestamp < oldest_ms
    )
    return next(fresh, len(table))


def make_units(ranges: Iterable[PlannedRange], task_bytes: int) -> list[Unit]:
    """Divides all ranges into units, largest ranges first, with tasks of about `task_bytes`, or one larger extent.

    Larger ranges are divided among several tasks; smaller ones share tasks.
    """
    units: list[Unit] = []
    empty: list[PlannedRange] = []
    small: dict[bool, list[PlannedRange]] = {False: [], True: []}
    for each in ranges:
        if not len(each.live):
            empty.append(each)
        elif each.live_bytes > task_bytes:
            units.append(Unit([each], [[share] for share in cut_range(each, 0, task_bytes)]))
        else:
            small[each.is_cleaned].append(each)
    units += _joined(small[False], task_bytes, 1)
    units += _joined(small[True], task_bytes, MAX_TASKS)
    units += [Unit(empty[at : at + MAX_SHARES], []) for at in range(0, len(empty), MAX_SHARES)]
    return sorted(units, key=lambda unit: unit.live_bytes, reverse=True)


def cut_range(found: PlannedRange, range_index: int, task_bytes: int) -> Iterator[Share]:
    """Cuts a range into shares of about equal size, of at most `task_bytes` unless a single extent is larger.

    `range_index` is the index of the range in its unit.
    """
    bounds = (0, *even_cuts(found.live.sizes, task_bytes), len(found.live))
    for start, stop in pairwise(bounds):
        yield _share(found, range_index, ExtentTable.from_columns(found.live.columns(start, stop)))


def even_cuts(sizes: "array[int]", most: int) -> list[int]:
    """Returns where to cut extents into similar parts, each at most `most` bytes unless a single extent is larger."""
    ends = array("q", accumulate(sizes))
    if not ends or ends[-1] <= most:
        return []
    part = -(-ends[-1] // -(-ends[-1] // most))
    # Without this slack, parts that fall short of this size would add up to an additional part.
    part = min(most, part + max(sizes))
    cuts = []
    start = 0
    while start < len(ends):
        cuts.append(start)
        before = ends[start - 1] if start else 0
        start = max(start + 1, bisect_right(ends, before + part, start))
    return cuts[1:]


def _joined(ranges: Sequence[PlannedRange], task_bytes: int, max_tasks: int) -> Iterator[Unit]:
    """Joins ranges that fit into one task. A unit contains only one range of a partition, as a swap requires."""
    unit: list[PlannedRange] = []
    tasks: list[list[Share]] = []
    size = task_bytes + 1
    for found in ranges:
        is_twice = bool(unit) and unit[-1].key == found.key  # its ranges are adjacent
        if is_twice or size + found.live_bytes > task_bytes or len(tasks[-1]) >= MAX_SHARES:
            if is_twice or len(tasks) >= max_tasks:
                yield Unit(unit, tasks)
                unit, tasks = [], []
            tasks.append([])
            size = 0
        tasks[-1].append(_share(found, len(unit), found.live))
        unit.append(found)
        size += found.live_bytes
    if unit:
        yield Unit(unit, tasks)


def _share(found: PlannedRange, range_index: int, extents: ExtentTable) -> Share:
    return Share(
        range_index=range_index,
        topic_id=found.topic_id,
        partition=found.partition,
        extents=extents,
        delete_horizon=found.delete_horizon,
        drops_tombstones=found.drops_tombstones,
    )


def _select(table: ExtentTable, is_wanted: bytearray) -> ExtentTable:
    found = ExtentTable()
    for name in COLUMNS:
        getattr(found, name).extend(compress(getattr(table, name), is_wanted))
    return found
