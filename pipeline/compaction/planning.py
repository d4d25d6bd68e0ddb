"""From the control plane's plan to tasks; pure.

A **share** is what one task rewrites of one range: consecutive live extents. A **unit** is what is
swapped in one command: small ranges that share a task, or the tasks of a large one that is cleaned by key.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress, pairwise
from typing import Final

from controlplane.extents import COLUMNS, DeadRanges, ExtentTable
from controlplane.v1.log_pb2 import CompactionRange
from pipeline.extents import PartitionKey, Piece

#: A plan is cut into about so many tasks, unless they would be smaller or larger than asked: all cores
#: have work to its end, while segments are as large as that allows.
WANTED_TASKS: Final = 32
LEAST_TASK_BYTES: Final = 16 << 20
#: Of one task, so that its result and its segments' footers stay small.
MAX_SHARES: Final = 1_000
#: Of one unit of small partitions that are compacted by key: they share one shuffle.
MAX_TASKS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRange:
    """What is to be rewritten of one partition at a time: all extents of [first_offset, end_offset).

    `live` are those that are read, the rest is aborted or expired. `is_cleaned`: newer values of a key
    supersede older ones, and `dirty_bytes` were not looked at for it yet; then tombstones without a
    delete horizon get `delete_horizon` (ms, -1: none), and those past theirs go where
    `drops_tombstones` says that nothing older can remain.
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
    dirty_bytes: int
    is_cleaned: bool
    drops_tombstones: bool
    delete_horizon: int

    @property
    def key(self) -> PartitionKey:
        """Topic id and partition."""
        return self.topic_id, self.partition

    @property
    def name(self) -> str:
        """As people call it."""
        return f"{self.topic}-{self.partition}"

    @property
    def live_bytes(self) -> int:
        """What is to be read."""
        return sum(self.live.sizes)

    def waste(self, size: int, extents: int, small_bytes: int) -> float:
        """How much of a partition of `size` bytes in so many `extents` is worth compacting, 0 to 1.

        The largest of: bytes that go, bytes whose keys may be superseded, extents that are small.
        """
        small = sum(1 for each in self.live.sizes if each < small_bytes)
        gone = self.aborted_bytes + self.expired_bytes
        return max(max(gone, self.dirty_bytes) / max(1, size), small / max(1, extents))


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The extents that one task rewrites of one partition; `range_index` is that in the unit."""

    range_index: int
    topic_id: bytes
    partition: int
    extents: ExtentTable
    delete_horizon: int
    drops_tombstones: bool

    @property
    def end_offset(self) -> int:
        """Behind the last record."""
        return self.extents.next_offsets[-1]

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(self.extents.sizes)

    def pieces(self) -> Iterator[Piece]:
        """What to read, in order."""
        table = self.extents
        return map(
            Piece,
            table.lease_ids,
            table.sequences,
            table.positions,
            table.sizes,
            table.base_offsets,
            table.next_offsets,
            table.max_timestamps,
            table.transactions,
            table.flags,
        )


@dataclass(frozen=True, slots=True)
class Unit:
    """What is swapped together, and the shares of each task. No task: nothing is left of the ranges."""

    ranges: Sequence[PlannedRange]
    tasks: Sequence[Sequence[Share]]

    @property
    def is_cleaned(self) -> bool:
        """Whether keys have to be looked at; of all ranges or of none."""
        return self.ranges[0].is_cleaned

    @property
    def live_bytes(self) -> int:
        """What is to be read."""
        return sum(share.size for task in self.tasks for share in task)


class FoundRange:
    """A range of the control plane's plan, which was made at `now_ms`; not yet cut."""

    def __init__(self, topic: str, found: CompactionRange, now_ms: int) -> None:
        self._topic = topic
        self._found = found
        self._now_ms = now_ms
        self._table = table = ExtentTable.from_columns(found.extents)
        self._is_at_start = found.first_offset <= found.log_start_offset
        expired = _expired_extents(found, table, now_ms) if self._is_at_start else 0
        is_live = live_mask(table, DeadRanges.from_pairs(found.dead))
        self._expired_bytes = sum(compress(table.sizes[:expired], is_live))
        is_live[:expired] = bytes(expired)
        self._live = _select(table, is_live)
        self._is_live = is_live

    @property
    def live_bytes(self) -> int:
        """What is to be read."""
        return sum(self._live.sizes)

    def pieces(self, task_bytes: int) -> Iterator[PlannedRange]:
        """In pieces of about `task_bytes` to read, each with a fence and a swap of its own: what changes at
        one end while a huge partition is compacted costs that piece alone. Cleaned by key it is one piece.
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
            live = _slice(self._live, live_start, live_stop)
            yield self._piece(start, stop, live, is_cleaned=is_cleaned)
            live_start = live_stop

    def _piece(self, start: int, stop: int, live: ExtentTable, *, is_cleaned: bool) -> PlannedRange:
        """The extents with these indexes, of which `live` are."""
        found, table = self._found, self._table
        is_first, is_last = not start, stop == len(table)
        # All before the first live extent is of the first piece.
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
            dirty_bytes=sum(live.sizes[clean:]) if is_cleaned else 0,
            is_cleaned=is_cleaned,
            drops_tombstones=is_cleaned and self._is_at_start,
            delete_horizon=self._now_ms + found.delete_retention_ms if is_cleaned else -1,
        )


def fitting_task_bytes(live_bytes: int, most: int) -> int:
    """What a task reads of a plan: little enough that a small one occupies all cores, at most `most`."""
    return min(most, max(LEAST_TASK_BYTES, -(-live_bytes // WANTED_TASKS)))


def _expired_extents(found: CompactionRange, table: ExtentTable, now_ms: int) -> int:
    """How many extents at the front are past retention.ms: the control plane is about to let go of them.

    Only from the front, as Kafka deletes whole segments; without a timestamp (-1) nothing expires.
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


def live_mask(table: ExtentTable, dead: DeadRanges) -> bytearray:
    """1 for each extent that no dead range holds, else 0; an extent is dead as a whole or not."""
    is_live = bytearray(b"\1") * len(table)
    start = 0
    for first, end in zip(dead.firsts, dead.ends, strict=True):
        start = bisect_left(table.base_offsets, first, start)
        stop = bisect_left(table.base_offsets, end, start)
        is_live[start:stop] = bytes(stop - start)
        start = stop
    return is_live


def make_units(ranges: Iterable[PlannedRange], task_bytes: int) -> list[Unit]:
    """All ranges in units, the largest first; a task reads about `task_bytes`, or one larger extent.

    A range that is larger is cut; smaller ones fill tasks together.
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
    """Shares of about equal size, at most `task_bytes` unless one extent is larger."""
    bounds = (0, *even_cuts(found.live.sizes, task_bytes), len(found.live))
    for start, stop in pairwise(bounds):
        yield _share(found, range_index, _slice(found.live, start, stop))


def even_cuts(sizes: "array[int]", most: int) -> list[int]:
    """Indexes at which to cut, so that the parts are about equal and at most `most`, or one extent."""
    ends = array("q", accumulate(sizes))
    if not ends or ends[-1] <= most:
        return []
    part = -(-ends[-1] // -(-ends[-1] // most))
    part = min(most, part + max(sizes))  # or what all parts fall short of that would be one more
    cuts = []
    start = 0
    while start < len(ends):
        cuts.append(start)
        before = ends[start - 1] if start else 0
        start = max(start + 1, bisect_right(ends, before + part, start))
    return cuts[1:]


def _joined(ranges: Sequence[PlannedRange], task_bytes: int, max_tasks: int) -> Iterator[Unit]:
    """Units of ranges that fit in a task each; a swap names each partition once."""
    unit: list[PlannedRange] = []
    tasks: list[list[Share]] = []
    size = task_bytes + 1
    for found in ranges:
        is_twice = bool(unit) and unit[-1].key == found.key  # pieces of one come one behind another
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


def _slice(table: ExtentTable, start: int, stop: int) -> ExtentTable:
    found = ExtentTable()
    for name in COLUMNS:
        getattr(found, name).extend(getattr(table, name)[start:stop])
    return found


def _select(table: ExtentTable, is_wanted: bytearray) -> ExtentTable:
    found = ExtentTable()
    for name in COLUMNS:
        getattr(found, name).extend(compress(getattr(table, name), is_wanted))
    return found
