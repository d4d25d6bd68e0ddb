"""A partition as a strip: what lies in a range of offsets, as ranges or, where these are too many, as columns; pure.

A strip adds up only as much as it must: extents, then the extents of a transaction that follow each other, then
neighbours of one kind. If even these are too many, the range is divided into columns of equally many offsets, and each
says how many offsets of each kind it has.
"""

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from lacuna.console.limits import COLUMNS, RANGES
from lacuna.controlplane.client.views import PartitionView
from lacuna.controlplane.shared.extents import FLAG_TRUE_OFFSETS
from lacuna.controlplane.shared.log.live import live_mask
from lacuna.controlplane.v1.transactions_pb2 import ActiveProducer


class Kind(StrEnum):
    """What a range of offsets is; the order is that in which a column stacks them, from below."""

    COMMITTED = "committed"
    MERGED = "merged"
    WAITING = "waiting"
    OPEN = "open"
    ABORTED = "aborted"
    HOLE = "hole"
    EXPIRED = "expired"


#: What each kind means, for legends.
MEANINGS: Final[Mapping[Kind, str]] = {
    Kind.COMMITTED: "delivered to every consumer",
    Kind.MERGED: "delivered, from an object that a merge or a compaction wrote",
    Kind.WAITING: "not of an open transaction, but behind the start of one: held back from read_committed",
    Kind.OPEN: "of a transaction that has not ended",
    Kind.ABORTED: "of an aborted transaction: skipped",
    Kind.HOLE: "no records: compacted away, or dropped with an abort",
    Kind.EXPIRED: "below the log start: deleted or past retention",
}


#: A kind, offsets [first, end), and the index of the extent, or -1 for what has none.
_Single: TypeAlias = tuple[Kind, int, int, int]


class Range(NamedTuple):
    """Offsets [first, end) of one kind.

    `extents` is how many extents were joined, 0 for holes; the fields behind `size` are those of the first one.
    `transaction` is 0 without one, and -1 for those of several; `timestamp` is the largest of that extent, or -1.
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
    """Offsets [first, end), and how many of them are of each kind, without those of which it has none."""

    first: int
    end: int
    counts: Mapping[Kind, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A copy of what a view knows of the offsets [first, end), which another thread may read.

    `open_from` are the producers with an open transaction in the partition, and its first offset there.
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
        """Copy [first, end) of a view that is ready. It takes 70 bytes an extent."""
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
    """What lies in [first, end): either ranges, or columns.

    `totals` are the offsets of each kind, and `extents` counts the extents. `level` says what a range is.
    """

    first: int
    end: int
    ranges: list[Range]
    columns: list[Column]
    totals: Mapping[Kind, int]
    extents: int
    level: str


def open_from(producers: Iterable[ActiveProducer]) -> Mapping[int, int]:
    """Return where the open transactions of producers begin."""
    return {
        each.producer_id: each.current_txn_start_offset
        for each in producers
        if each.current_txn_start_offset >= 0
    }


def draw(window: Window, most_ranges: int = RANGES, columns: int = COLUMNS) -> Strip:
    """Return the strip of a window, with at most `most_ranges` ranges or `columns` columns."""
    singles = list(_singles(window))
    totals = dict.fromkeys(Kind, 0)
    for kind, first, end, _ in singles:
        totals[kind] += end - first
    level, groups = (
        "one extent",
        [[each] for each in singles] if len(singles) <= most_ranges else [],
    )
    if not groups:
        transactions = window.transactions
        level = "neighbouring extents of one transaction"
        groups = _grouped(
            singles,
            lambda each: (each[0], transactions[each[3]] if each[3] >= 0 else 0),
            most_ranges,
        )
    if len(groups) > most_ranges:
        level = "neighbouring extents of one kind"
        groups = _grouped(singles, itemgetter(0), most_ranges)
    found: list[Column] = []
    if len(groups) > most_ranges:
        level, groups = "a column of equally many offsets", []
        found = _columns(window, singles, columns)
    return Strip(
        first=window.first,
        end=window.end,
        ranges=[_range(window, group) for group in groups],
        columns=found,
        totals={kind: count for kind, count in totals.items() if count},
        extents=len(window.base_offsets),
        level=level,
    )


def _singles(window: Window) -> Iterator[_Single]:
    """Yield extents and holes in order, cut to the window and the log start."""
    reached, last_stable, open_from = window.first, window.last_stable_offset, window.open_from
    if reached < window.log_start_offset:
        end = min(window.end, window.log_start_offset)
        yield Kind.EXPIRED, reached, end, -1
        reached = end
    columns = zip(
        window.base_offsets,
        window.next_offsets,
        window.transactions,
        window.producer_ids,
        window.flags,
        window.is_live,
        strict=True,
    )
    for index, (base, following, transaction, producer_id, flags, is_live) in enumerate(columns):
        if following <= reached:
            continue  # below the log start
        if base > reached:
            yield Kind.HOLE, reached, base, -1
            reached = base
        if not is_live:
            kind = Kind.ABORTED
        elif following <= last_stable:
            kind = Kind.MERGED if flags & FLAG_TRUE_OFFSETS else Kind.COMMITTED
        elif transaction and base >= open_from.get(producer_id, sys.maxsize):
            kind = Kind.OPEN
        else:
            kind = Kind.WAITING
        end = min(following, window.end)
        yield kind, reached, end, index
        reached = end
    if reached < window.end:
        yield Kind.HOLE, reached, window.end, -1


def _grouped(
    singles: Iterable[_Single], key: Callable[[_Single], object], most: int
) -> list[list[_Single]]:
    """Return the groups of neighbours with the same key, or the first `most` + 1 of them if there are more."""
    groups = (list(group) for _, group in groupby(singles, key))
    return list(islice(groups, most + 1))


def _range(window: Window, group: Sequence[_Single]) -> Range:
    kind, first, _, index = group[0]
    end, last = group[-1][2], group[-1][3]
    if index < 0:
        return Range(kind, first, end)
    stop = last + 1
    is_one = len(set(window.transactions[index:stop])) == 1
    return Range(
        kind,
        first,
        end,
        extents=stop - index,
        size=sum(window.sizes[index:stop]),
        transaction=window.transactions[index] if is_one else -1,
        producer_id=window.producer_ids[index] if is_one else -1,
        timestamp=window.max_timestamps[index],
        lease_id=window.lease_ids[index],
        sequence=window.sequences[index],
    )


def _columns(window: Window, singles: Iterable[_Single], count: int) -> list[Column]:
    width = -(-(window.end - window.first) // count)
    columns: list[dict[Kind, int]] = [{} for _ in range(-(-(window.end - window.first) // width))]
    for kind, first, end, _ in singles:
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
