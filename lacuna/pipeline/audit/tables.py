"""The extents of all partitions in one table, sorted so that the extents of an object are adjacent.

The table does not use numpy, because the audit must run with only Lacuna itself installed.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import groupby
from typing import Final, NamedTuple, Self

from lacuna.controlplane.shared.extents import COLUMNS, FLAG_TRUE_OFFSETS
from lacuna.controlplane.shared.log.live import dead_slices
from lacuna.logstore.segments.hot import HOT
from lacuna.pipeline.extents import PartitionLog


class Outcome(IntEnum):
    """The outcome of an extent's records, in the order of the picture's legend."""

    COMMITTED = 0
    ABORTED = 1
    COMPACTED = 2
    UNDECIDED = 3


class ExtentRow(NamedTuple):
    """An extent's columns in the order of `COLUMNS`, followed by its partition and its `Outcome`.

    `partition` is an index into the list of logs from which the table was built.
    """

    lease_id: int
    sequence: int
    position: int
    size: int
    base_offset: int
    next_offset: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    transaction: int
    flags: int
    partition: int
    outcome: int

    @property
    def end(self) -> int:
        """The position after the extent's last byte."""
        return self.position + self.size


_TYPECODES: Final = (*COLUMNS.values(), "i", "B")
_LEASE_IDS, _SEQUENCES, _POSITIONS = range(3)
_ABORTED: Final = bytes((Outcome.ABORTED,))


class Rows:
    """A sequence of `ExtentRow`s, stored in columns that take about 80 bytes per extent."""

    __slots__ = ("_columns",)

    def __init__(self, columns: Sequence["array[int]"]) -> None:
        self._columns = columns

    @classmethod
    def of(cls, rows: Iterable[ExtentRow]) -> Self:
        columns = [array(code) for code in _TYPECODES]
        for row in rows:
            for column, value in zip(columns, row, strict=True):
                column.append(value)
        return cls(columns)

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[ExtentRow]:
        return map(ExtentRow._make, zip(*self._columns, strict=True))

    def __getitem__(self, some: slice) -> "Rows":
        return Rows([column[some] for column in self._columns])

    def objects(self) -> Iterator[tuple[tuple[int, int], int]]:
        """Yields each run of adjacent rows in the same segment, as (lease id, sequence) and the number of rows."""
        ids = zip(self._columns[_LEASE_IDS], self._columns[_SEQUENCES], strict=True)
        return ((segment, sum(1 for _ in same)) for segment, same in groupby(ids))

    def cut_at_hot(self) -> "tuple[Rows, Rows]":
        """Returns the rows for objects, and the rows for hot segments. The rows must be sorted by object."""
        first = bisect_left(self._columns[_LEASE_IDS], HOT)
        return self[:first], self[first:]

    def by_object(self) -> "Rows":
        """Returns a copy that is sorted by object and position."""
        order = list(range(len(self)))
        for key in (_POSITIONS, _SEQUENCES, _LEASE_IDS):
            order.sort(key=self._columns[key].__getitem__)
        return Rows(
            [
                array(code, map(column.__getitem__, order))
                for code, column in zip(_TYPECODES, self._columns, strict=True)
            ]
        )


def rows_of(log: PartitionLog, index: int = 0) -> Rows:
    """Returns the extents of one partition, in offset order, with `index` as their partition index."""
    columns = [getattr(log.extents, name) for name in COLUMNS]
    partition = array("i", (index,)) * len(log.extents)
    return Rows([*columns, partition, array("B", outcomes_of(log))])


def table_of(logs: Sequence[PartitionLog]) -> Rows:
    """Returns the extents of all logs, sorted by object and position."""
    columns: list[array[int]] = [array(code) for code in _TYPECODES]
    for index, log in enumerate(logs):
        for column, values in zip(columns, rows_of(log, index)._columns, strict=True):
            column.extend(values)
    return Rows(columns).by_object()


def bounds_of(rows: Iterable[ExtentRow]) -> list[tuple[int, int, int]]:
    """Returns the index, first offset and next offset of each partition that has extents in `rows`."""
    found: dict[int, tuple[int, int]] = {}
    for row in rows:
        first, end = found.get(row.partition, (row.base_offset, row.next_offset))
        found[row.partition] = min(first, row.base_offset), max(end, row.next_offset)
    return [(partition, *found[partition]) for partition in sorted(found)]


def spans_of(log: PartitionLog) -> Iterator[tuple[int, int, int]]:
    """Yields the base offset, next offset and `Outcome` of each extent, in order."""
    extents = log.extents
    return zip(extents.base_offsets, extents.next_offsets, outcomes_of(log), strict=True)


def outcomes_of(log: PartitionLog) -> bytearray:
    """Returns the `Outcome` of each extent. Extents and dead ranges must be in order, which other checks verify."""
    extents = log.extents
    outcomes = bytearray(len(extents))
    for index in range(extents.first_ending_after(log.last_stable_offset), len(extents)):
        if extents.transactions[index]:
            outcomes[index] = Outcome.UNDECIDED
    if any(extents.flags):
        for index, flags in enumerate(extents.flags):
            if flags & FLAG_TRUE_OFFSETS:
                outcomes[index] = Outcome.COMPACTED
    for start, stop in dead_slices(extents, log.dead, 0, len(extents)):
        outcomes[start:stop] = _ABORTED * (stop - start)
    return outcomes
