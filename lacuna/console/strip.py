"""A strip that shows a window of a partition's offsets as ranges or, if these are too many, as columns.

It shows as much detail as fits: single extents, or consecutive extents of one transaction, or neighbouring extents of
one kind. If none of these fit, the window is divided into columns of equally many offsets, each with a count for each
kind of offset. The module performs no I/O.
"""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import compress, pairwise, repeat
from operator import and_, ne, or_
from typing import Final, NamedTuple, TypeAlias

from lacuna.console.limits import COLUMNS, RANGES
from lacuna.controlplane.client.views import PartitionView
from lacuna.controlplane.shared.extents import FLAG_TRUE_OFFSETS
from lacuna.controlplane.shared.log.live import live_mask
from lacuna.controlplane.v1.transactions_pb2 import ActiveProducer


class Kind(StrEnum):
    """The kind of a range of offsets. Columns stack kinds in this order, from the bottom."""

    COMMITTED = "committed"
    MERGED = "merged"
    WAITING = "waiting"
    OPEN = "open"
    ABORTED = "aborted"
    HOLE = "hole"
    EXPIRED = "expired"


#: The meaning of each kind, for legends.
MEANINGS: Final[Mapping[Kind, str]] = {
    Kind.COMMITTED: "delivered to every consumer",
    Kind.MERGED: "delivered, from an object that a merge or a compaction wrote",
    Kind.WAITING: "outside any open transaction, but after the start of one: held back from read_committed",
    Kind.OPEN: "part of a transaction that has not ended",
    Kind.ABORTED: "part of an aborted transaction: skipped",
    Kind.HOLE: "no records: compacted away, or dropped with an abort",
    Kind.EXPIRED: "below the log start: deleted or past retention",
}


#: A kind, offsets [first, end), and the indexes [start, stop) of the extents, or -1 if there are none.
_Part: TypeAlias = tuple[Kind, int, int, int, int]

#: Codes for kinds: whether an extent is live, a flag for merged extents, and two more codes for unstable offsets.
_LIVE: Final = 1
_OPEN: Final = 4
_WAITING: Final = 5
_KINDS: Final = {
    0: Kind.ABORTED,
    _LIVE: Kind.COMMITTED,
    FLAG_TRUE_OFFSETS: Kind.ABORTED,
    _LIVE | FLAG_TRUE_OFFSETS: Kind.MERGED,
    _OPEN: Kind.OPEN,
    _WAITING: Kind.WAITING,
}


#: A range that fills less than this share of its strip may be narrower than a pixel.
_NARROW: Final = 1 / 150


class Range(NamedTuple):
    """The offsets [first, end), all of one kind.

    `extents` is the number of joined extents, or 0 for a hole. The fields after `size` describe the first extent.
    `transaction` is 0 for none and -1 for several. `timestamp` is the first extent's largest timestamp, or -1.
    """

    kind: Kind
    first: int
    end: int
    extents: int = 0
    size: int = 0
    transaction: int = 0
    producer_id: int = -1
    timestamp: int = -1
    lease_id: int = 0
    sequence: int = 0


class Column(NamedTuple):
    """The offsets [first, end), and how many of them are of each kind."""

    first: int
    end: int
    counts: Mapping[Kind, int]

    def bands(self, height: float, least: float) -> list[tuple[Kind, float, float]]:
        """Return each kind's top and height in a column of this height, from the bottom up.

        Each is at least `least` high, so that none becomes invisible.
        """
        rest = (height - least * len(self.counts)) / (self.end - self.first)
        bands, top = [], height
        for kind, count in self.counts.items():
            top -= least + rest * count
            bands.append((kind, top, least + rest * count))
        return bands


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A copy of the offsets [first, end) of a view, which another thread may read.

    `open_from` maps each producer with an open transaction in the partition to the transaction's first offset.
    """

    first: int
    end: int
    log_start_offset: int
    last_stable_offset: int
    base_offsets: "array[int]"
    next_offsets: "array[int]"
    sizes: "array[int]"
    max_timestamps: "array[int]"
    producer_ids: "array[int]"
    transactions: "array[int]"
    flags: "array[int]"
    lease_ids: "array[int]"
    sequences: "array[int]"
    is_live: bytearray
    open_from: Mapping[int, int]

    @classmethod
    def of(
        cls, view: PartitionView, first: int, end: int, open_from: Mapping[int, int]
    ) -> "Window":
        """Copy [first, end) of a view that is ready. The copy takes 70 bytes per extent."""
        extents = view.extents
        start, stop = extents.first_ending_after(first), extents.first_at_or_after(end)
        stop = max(start, stop)
        return cls(
            first=first,
            end=end,
            log_start_offset=view.log_start_offset,
            last_stable_offset=view.last_stable_offset,
            base_offsets=extents.base_offsets[start:stop],
            next_offsets=extents.next_offsets[start:stop],
            sizes=extents.sizes[start:stop],
            max_timestamps=extents.max_timestamps[start:stop],
            producer_ids=extents.producer_ids[start:stop],
            transactions=extents.transactions[start:stop],
            flags=extents.flags[start:stop],
            lease_ids=extents.lease_ids[start:stop],
            sequences=extents.sequences[start:stop],
            is_live=live_mask(extents, view.dead, start, stop),
            open_from=open_from,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """The offsets [first, end) as either ranges or columns.

    `totals` counts offsets by kind, `sizes` gives the bytes of their entire extents, and `extents` is the number of
    extents. `level` says what each range stands for.
    """

    first: int
    end: int
    ranges: list[Range]
    columns: list[Column]
    totals: Mapping[Kind, int]
    sizes: Mapping[Kind, int]
    extents: int
    level: str

    def is_narrow(self, part: Range) -> bool:
        """Whether a range is too narrow for a gap, so that it needs an outline in its own colour."""
        return part.end - part.first < _NARROW * (self.end - self.first)

    def gaps(self) -> list[int]:
        """Return the offsets at which to draw a gap: those where the ranges on both sides are wide enough."""
        return [
            other.first
            for one, other in pairwise(self.ranges)
            if not self.is_narrow(one) and not self.is_narrow(other)
        ]


def open_from(producers: Iterable[ActiveProducer]) -> Mapping[int, int]:
    """Return the first offset of each producer's open transaction."""
    return {
        each.producer_id: each.current_txn_start_offset
        for each in producers
        if each.current_txn_start_offset >= 0
    }


def draw(window: Window, most_ranges: int = RANGES, columns: int = COLUMNS) -> Strip:
    """Return a window's strip, with at most `most_ranges` ranges or `columns` columns."""
    kinds = _kinds(window)
    by_kind = _parts(window, kinds, _edges(window, kinds))
    totals, sizes = dict.fromkeys(Kind, 0), dict.fromkeys(Kind, 0)
    for kind, first, end, start, stop in by_kind:
        totals[kind] += end - first
        sizes[kind] += sum(window.sizes[start:stop]) if start >= 0 else 0
    level, parts, bars = "one extent", by_kind, list[Column]()
    edges: Sequence[int] = range(_begin(window), len(kinds) + 1)
    if len(edges) > most_ranges + 1:
        level = "a run of neighbouring extents from one transaction"
        edges = _edges(window, kinds, window.transactions)
    if len(edges) <= most_ranges + 1:
        parts = _parts(window, kinds, edges)
    if len(edges) > most_ranges + 1 or len(parts) > most_ranges:
        level, parts = "a run of neighbouring extents of one kind", by_kind
    if len(parts) > most_ranges:
        level, parts, bars = (
            "a column, with the same number of offsets in each",
            [],
            _columns(window, by_kind, columns),
        )
    return Strip(
        first=window.first,
        end=window.end,
        ranges=[_range(window, part) for part in parts],
        columns=bars,
        totals={kind: count for kind, count in totals.items() if count},
        sizes=sizes,
        extents=len(window.base_offsets),
        level=level,
    )


def _kinds(window: Window) -> bytearray:
    """Return a code for the kind of each extent. For speed, most steps process entire columns."""
    merged = map(and_, window.flags, repeat(FLAG_TRUE_OFFSETS))
    codes = bytearray(map(or_, window.is_live, merged))
    stable = bisect_right(window.next_offsets, window.last_stable_offset)
    for index in range(stable, len(codes)):
        if codes[index] & _LIVE:
            since = window.open_from.get(window.producer_ids[index], sys.maxsize)
            is_open = window.transactions[index] and window.base_offsets[index] >= since
            codes[index] = _OPEN if is_open else _WAITING
    return codes


def _begin(window: Window) -> int:
    """Return the index of the first extent that ends above the log start."""
    return bisect_right(window.next_offsets, window.log_start_offset)


def _edges(window: Window, kinds: bytearray, *columns: "array[int]") -> list[int]:
    """Return the indexes of extents that follow a hole or differ from the extent before, and the end."""
    begin, count = _begin(window), len(kinds)
    if begin == count:
        return [count]
    differs = map(ne, window.base_offsets[begin + 1 :], window.next_offsets[begin:-1])
    for column in (kinds, *columns):
        differs = map(or_, differs, map(ne, column[begin + 1 :], column[begin:-1]))
    return [begin, *compress(range(begin + 1, count), differs), count]


def _parts(window: Window, kinds: bytearray, edges: Iterable[int]) -> list[_Part]:
    """Return the extents between edges and the holes between them, cut to the window and the log start."""
    parts: list[_Part] = []
    reached = window.first
    if reached < window.log_start_offset:
        end = min(window.end, window.log_start_offset)
        parts.append((Kind.EXPIRED, reached, end, -1, -1))
        reached = end
    bases, following = window.base_offsets, window.next_offsets
    for start, stop in pairwise(edges):
        if bases[start] > reached:
            parts.append((Kind.HOLE, reached, bases[start], -1, -1))
            reached = bases[start]
        end = min(following[stop - 1], window.end)
        parts.append((_KINDS[kinds[start]], reached, end, start, stop))
        reached = end
    if reached < window.end:
        parts.append((Kind.HOLE, reached, window.end, -1, -1))
    return parts


def _range(window: Window, part: _Part) -> Range:
    kind, first, end, start, stop = part
    if start < 0:
        return Range(kind, first, end)
    is_one = len(set(window.transactions[start:stop])) == 1
    return Range(
        kind,
        first,
        end,
        extents=stop - start,
        size=sum(window.sizes[start:stop]),
        transaction=window.transactions[start] if is_one else -1,
        producer_id=window.producer_ids[start] if is_one else -1,
        timestamp=window.max_timestamps[start],
        lease_id=window.lease_ids[start],
        sequence=window.sequences[start],
    )


def _columns(window: Window, parts: Iterable[_Part], count: int) -> list[Column]:
    width = -(-(window.end - window.first) // count)
    columns: list[dict[Kind, int]] = [{} for _ in range(-(-(window.end - window.first) // width))]
    for kind, first, end, _, _ in parts:
        number = (first - window.first) // width
        while first < end:
            cut = min(end, window.first + (number + 1) * width)
            counts = columns[number]
            counts[kind] = counts.get(kind, 0) + cut - first
            first, number = cut, number + 1
    return [
        Column(
            window.first + number * width,
            min(window.end, window.first + (number + 1) * width),
            {kind: counts[kind] for kind in Kind if kind in counts},
        )
        for number, counts in enumerate(columns)
    ]
