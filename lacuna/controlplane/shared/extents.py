"""The extents and dead ranges of one partition, as columns.

There are many extents, so they are kept in arrays rather than as objects. The control plane's table is authoritative;
an agent's view contains the same table, updated by deltas. Offsets are log offsets; positions and sizes are bytes in an
object. docs/adr/0001-flat-extents.md explains why an extent is a run of batches.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from hashlib import blake2b
from operator import attrgetter
from struct import Struct
from typing import Final

from lacuna.controlplane.shared.invariants import InvariantBroken
from lacuna.controlplane.v1.log_pb2 import ExtentColumns, Extents

FLAG_LOG_APPEND_TIME: Final = 1
FLAG_TRUE_OFFSETS: Final = 2
#: The source cluster of an import has aborted the extent, so it is dead from the start.
FLAG_ABORTED_BEFORE: Final = 4

LARGEST_EXTENT_BYTES: Final = 1 << 20  # unless one batch is larger

#: column name -> array typecode, in the order of the message's fields.
COLUMNS: Final = {
    "lease_ids": "q",
    "sequences": "q",
    "positions": "q",
    "sizes": "q",
    "base_offsets": "q",
    "next_offsets": "q",
    "max_timestamps": "q",
    "producer_ids": "q",
    "producer_epochs": "h",
    "transactions": "q",
    "flags": "B",
}

#: A new extent as bytes in a journal record or a delta: the values of the columns, in order. Packing or reading such a
#: row takes a tenth of the time needed for a message with eleven fields.
EXTENT_ROW: Final = Struct("<qqqiqqqqhqB")

_columns_of: Final = attrgetter(*COLUMNS)
_IS_LITTLE_ENDIAN: Final = sys.byteorder == "little"


def extent_rows(extents: Extents) -> bytes:
    """Encode the extents in a message as consecutive rows of EXTENT_ROW."""
    return b"".join(map(EXTENT_ROW.pack, *_columns_of(extents)))


def to_little_endian(column: "array[int]") -> bytes:
    """Return a column's bytes in the form used in messages."""
    if not _IS_LITTLE_ENDIAN:
        column = column[:]
        column.byteswap()
    return column.tobytes()


def from_little_endian(typecode: str, data: bytes) -> "array[int]":
    """Decode the output of `to_little_endian`. Raises ValueError if `data` ends within a value."""
    column = array(typecode, data)
    if not _IS_LITTLE_ENDIAN:
        column.byteswap()
    return column


def fence_of(columns: ExtentColumns) -> bytes:
    """Return a digest (BLAKE2b, 16 bytes) that identifies extents in a swap, so that their columns need not be sent.

    It covers the bytes of the columns in order. Since all rows have the same length, tables that differ also differ in
    these bytes.
    """
    digest = blake2b(digest_size=16)
    for column in _columns_of(columns):
        digest.update(column)
    return digest.digest()


class ExtentTable:
    """Extents ordered by base_offset, with one array per column. Gaps between neighbours are holes."""

    __slots__ = tuple(COLUMNS)

    lease_ids: "array[int]"
    sequences: "array[int]"
    positions: "array[int]"
    sizes: "array[int]"
    base_offsets: "array[int]"
    next_offsets: "array[int]"
    max_timestamps: "array[int]"
    producer_ids: "array[int]"
    producer_epochs: "array[int]"
    transactions: "array[int]"
    flags: "array[int]"

    def __init__(self) -> None:
        for name, typecode in COLUMNS.items():
            setattr(self, name, array(typecode))

    def __len__(self) -> int:
        return len(self.base_offsets)

    def append(self, extents: Extents) -> None:
        """Append extents. Raises InvariantBroken if they begin before the next_offset of the table's last extent."""
        self._check_end(extents.base_offsets[0] if len(extents.base_offsets) else None)
        for column, values in zip(_columns_of(self), _columns_of(extents), strict=True):
            column.extend(values)

    def append_row(self, row: Sequence[int]) -> None:
        """Append one extent, given in the order of the columns. Raises InvariantBroken if it is empty or precedes the
        table's end.
        """
        (
            lease_id,
            sequence,
            position,
            size,
            base_offset,
            next_offset,
            max_timestamp,
            producer_id,
            producer_epoch,
            transaction,
            flags,
        ) = row
        if size < 1 or base_offset >= next_offset:
            raise InvariantBroken(f"the extent at offset {base_offset} is empty")
        self._check_end(base_offset)
        self.lease_ids.append(lease_id)
        self.sequences.append(sequence)
        self.positions.append(position)
        self.sizes.append(size)
        self.base_offsets.append(base_offset)
        self.next_offsets.append(next_offset)
        self.max_timestamps.append(max_timestamp)
        self.producer_ids.append(producer_id)
        self.producer_epochs.append(producer_epoch)
        self.transactions.append(transaction)
        self.flags.append(flags)

    def columns(self, start: int = 0, stop: int | None = None) -> ExtentColumns:
        """Return the extents with index in [start, stop), by default all, as the bytes of their columns."""
        return ExtentColumns(
            **{name: to_little_endian(getattr(self, name)[start:stop]) for name in COLUMNS}
        )

    @classmethod
    def from_columns(cls, columns: ExtentColumns) -> "ExtentTable":
        """Build a table from the output of `columns`. Raises ValueError if a column ends within a value."""
        table = cls()
        for name, typecode in COLUMNS.items():
            setattr(table, name, from_little_endian(typecode, getattr(columns, name)))
        return table

    def fence(self, start: int, stop: int) -> bytes:
        """Return the digest (`fence_of`) of the extents with index in [start, stop)."""
        return fence_of(self.columns(start, stop))

    def prepend(self, columns: ExtentColumns) -> None:
        """Insert extents, given as the output of `columns`, before all others."""
        for name, typecode in COLUMNS.items():
            getattr(self, name)[:0] = from_little_endian(typecode, getattr(columns, name))

    def first_ending_after(self, offset: int) -> int:
        """Return the index of the first extent whose next_offset is above `offset`, or len(self) if there is none."""
        return bisect_right(self.next_offsets, offset)

    def first_at_or_after(self, offset: int) -> int:
        """Return the index of the first extent whose base_offset is at least `offset`, or len(self) if there is
        none.
        """
        return bisect_left(self.base_offsets, offset)

    def slice(self, start: int, stop: int) -> Extents:
        return Extents(**{name: getattr(self, name)[start:stop] for name in COLUMNS})

    def replace(self, first_offset: int, end_offset: int, extents: Extents) -> None:
        """Replace the extents that begin in [first_offset, end_offset) with `extents`. Raises InvariantBroken if these
        do not fit between their neighbours.
        """
        start, stop = self.range_of(first_offset, end_offset)
        if len(extents.base_offsets):
            first, end = extents.base_offsets[0], extents.next_offsets[-1]
            if start and first < self.next_offsets[start - 1]:
                raise InvariantBroken(f"the extent at offset {first} overlaps the one before it")
            if stop < len(self) and end > self.base_offsets[stop]:
                raise InvariantBroken(f"the extent that ends at {end} overlaps the one after it")
        for name, typecode in COLUMNS.items():
            getattr(self, name)[start:stop] = array(typecode, getattr(extents, name))

    def _check_end(self, base_offset: int | None) -> None:
        if base_offset is not None and self.next_offsets and base_offset < self.next_offsets[-1]:
            raise InvariantBroken(
                f"the extent at offset {base_offset} overlaps the end {self.next_offsets[-1]}"
            )

    def range_of(self, first_offset: int, end_offset: int) -> tuple[int, int]:
        """Return the indexes (start, stop) of the extents that begin in [first_offset, end_offset)."""
        start = self.first_at_or_after(first_offset)
        return start, max(start, self.first_at_or_after(end_offset))

    def drop_below(self, offset: int) -> None:
        """Remove the extents that end at or below `offset`."""
        stop = self.first_ending_after(offset)
        for name in COLUMNS:
            del getattr(self, name)[:stop]


class DeadRanges:
    """The dead ranges [first, end) of a partition, ordered and disjoint. Ranges that touch are joined into one."""

    __slots__ = ("ends", "firsts")

    def __init__(self) -> None:
        self.firsts: array[int] = array("q")
        self.ends: array[int] = array("q")

    def __len__(self) -> int:
        return len(self.firsts)

    def add(self, first: int, end: int) -> None:
        """Add [first, end), joining it with the ranges that it touches or overlaps."""
        ends = self.ends
        if not ends or first > ends[-1]:  # nearly always, since the aborted records are new
            self.firsts.append(first)
            ends.append(end)
            return
        if first == ends[-1]:
            ends[-1] = end
            return
        start = bisect_left(self.ends, first)
        stop = bisect_right(self.firsts, end)
        if start < stop:
            first = min(first, self.firsts[start])
            end = max(end, self.ends[stop - 1])
        self.firsts[start:stop] = array("q", (first,))
        self.ends[start:stop] = array("q", (end,))

    def add_all(self, pairs: "array[int]") -> None:
        """Add ranges, given in order as first, end, first, end, ..., in a single pass.

        If they were added one by one in the middle, each addition would move all later ranges.
        """
        if len(pairs) == 2:  # nearly always
            self.add(pairs[0], pairs[1])
        elif pairs:
            self._merge(pairs)

    def _merge(self, pairs: "array[int]") -> None:
        start = bisect_left(self.ends, pairs[0])
        stop = bisect_right(self.firsts, pairs[-1])
        ranges = list(zip(self.firsts[start:stop], self.ends[start:stop], strict=True))
        ranges.extend(zip(pairs[::2], pairs[1::2], strict=True))
        ranges.sort()
        merged = DeadRanges()
        for first, end in ranges:
            if merged.ends and first <= merged.ends[-1]:
                merged.ends[-1] = max(end, merged.ends[-1])
            else:
                merged.firsts.append(first)
                merged.ends.append(end)
        self.firsts[start:stop] = merged.firsts
        self.ends[start:stop] = merged.ends

    def remove(self, first: int, end: int) -> None:
        """Remove [first, end), cutting ranges that extend beyond it."""
        start = bisect_right(self.ends, first)
        stop = bisect_left(self.firsts, end)
        if start >= stop:
            return
        firsts, ends = array("q"), array("q")
        if self.firsts[start] < first:
            firsts.append(self.firsts[start])
            ends.append(first)
        if self.ends[stop - 1] > end:
            firsts.append(end)
            ends.append(self.ends[stop - 1])
        self.firsts[start:stop] = firsts
        self.ends[start:stop] = ends

    def drop_below(self, offset: int) -> None:
        """Remove the ranges that end at or below `offset`, without cutting one that contains it.

        The extent that contains the log start is not cut either, and is live or dead as a whole. If its dead range were
        cut, a merge would treat the extent as live.
        """
        stop = bisect_right(self.ends, offset)
        del self.firsts[:stop], self.ends[:stop]

    def skip(self, offset: int) -> int:
        """Return the end of the range that contains `offset`, or `offset` itself if it is not dead."""
        index = bisect_right(self.firsts, offset) - 1
        if index >= 0 and self.ends[index] > offset:
            return self.ends[index]
        return offset

    def pairs(self) -> bytes:
        """Encode all ranges as first, end, first, end, ..., each eight bytes, little-endian."""
        pairs = array("q", bytes(16 * len(self)))
        pairs[::2] = self.firsts
        pairs[1::2] = self.ends
        return to_little_endian(pairs)

    @classmethod
    def from_pairs(cls, data: bytes) -> "DeadRanges":
        """Decode the output of `pairs`. The ranges must be in order and must not touch."""
        pairs = from_little_endian("q", data)
        ranges = cls()
        ranges.firsts, ranges.ends = pairs[::2], pairs[1::2]
        return ranges

    def add_pairs(self, data: bytes) -> None:
        """Add ranges encoded like the output of `pairs`."""
        self.add_all(from_little_endian("q", data))

    def within(self, first: int, end: int) -> "DeadRanges":
        """Return the parts of the ranges that lie within [first, end)."""
        start = bisect_right(self.ends, first)
        stop = max(start, bisect_left(self.firsts, end))
        found = DeadRanges()
        found.firsts, found.ends = self.firsts[start:stop], self.ends[start:stop]
        if found.firsts:
            found.firsts[0] = max(first, found.firsts[0])
            found.ends[-1] = min(end, found.ends[-1])
        return found
