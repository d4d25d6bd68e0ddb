"""The extents of all partitions in one table, so that those of an object are found together."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from controlplane.extents import FLAG_TRUE_OFFSETS
from pipeline.extents import PartitionLog

#: A structured array of `ROW`s.
Rows: TypeAlias = NDArray[np.void]
Column: TypeAlias = NDArray[np.int64]


class Fate(IntEnum):
    """What became of an extent, in the order of a picture's legend."""

    COMMITTED = 0
    ABORTED = 1
    COMPACTED = 2
    UNDECIDED = 3


#: `partition` is the index of a log in the list that the table was made of.
ROW: Final = np.dtype(
    [
        ("lease_id", "i8"),
        ("sequence", "i8"),
        ("position", "i8"),
        ("size", "i8"),
        ("base_offset", "i8"),
        ("next_offset", "i8"),
        ("max_timestamp", "i8"),
        ("producer_id", "i8"),
        ("transaction", "i8"),
        ("partition", "i4"),
        ("producer_epoch", "i2"),
        ("flags", "u1"),
        ("fate", "u1"),
    ]
)

_COLUMNS: Final = {
    "lease_id": "lease_ids",
    "sequence": "sequences",
    "position": "positions",
    "size": "sizes",
    "base_offset": "base_offsets",
    "next_offset": "next_offsets",
    "max_timestamp": "max_timestamps",
    "producer_id": "producer_ids",
    "transaction": "transactions",
    "producer_epoch": "producer_epochs",
    "flags": "flags",
}


def rows_of(log: PartitionLog, index: int = 0) -> Rows:
    """The extents of one partition, in order of offset."""
    rows = np.empty(len(log.extents), ROW)
    for name, column in _COLUMNS.items():
        rows[name] = getattr(log.extents, column)
    rows["partition"] = index
    rows["fate"] = _fates(log, rows)
    return rows


def table_of(logs: Sequence[PartitionLog]) -> Rows:
    """The extents of all, ordered by object and position."""
    if not logs:
        return np.empty(0, ROW)
    rows = np.concatenate([rows_of(log, index) for index, log in enumerate(logs)])
    order = np.lexsort((rows["position"], rows["sequence"], rows["lease_id"]))
    return rows[order]


def within_dead(log: PartitionLog, offsets: Column) -> NDArray[np.bool_]:
    """Whether each offset lies in a range of aborted records."""
    firsts, ends = np.asarray(log.dead.firsts), np.asarray(log.dead.ends)
    if not len(firsts):
        return np.zeros(len(offsets), bool)
    index = np.searchsorted(firsts, offsets, side="right") - 1
    return (index >= 0) & (ends[np.maximum(index, 0)] > offsets)


def _fates(log: PartitionLog, rows: Rows) -> NDArray[np.uint8]:
    fates = np.full(len(rows), Fate.COMMITTED, np.uint8)
    is_open = (rows["transaction"] != 0) & (rows["base_offset"] >= log.last_stable_offset)
    fates[is_open] = Fate.UNDECIDED
    fates[(rows["flags"] & FLAG_TRUE_OFFSETS) != 0] = Fate.COMPACTED
    fates[within_dead(log, rows["base_offset"])] = Fate.ABORTED
    return fates
