"""The segment table: the objects that extents refer to, the replaced objects and when they were replaced, and readers'
pins.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Final, NamedTuple

from lacuna.controlplane.shared.invariants import InvariantBroken

#: (lease id, sequence)
SegmentKey = tuple[int, int]

_FORGOTTEN = -1

#: The number of references that one journal record releases immediately; ticks release the rest. Every control plane on
#: a journal must use the same number.
RELEASED_AT_ONCE: Final = 10_000


class Pin(NamedTuple):
    """A job's pin, which keeps objects that were live at `starts_ms` until `ends_ms`."""

    starts_ms: int
    ends_ms: int


class SegmentRow(NamedTuple):
    """A segment, with the size of its object in bytes and the number of extents that refer to it."""

    key: SegmentKey
    object_size: int
    live_extents: int


class _Columns:
    """The segments of one lease, ordered by sequence, 20 bytes each.

    Segments arrive nearly in order. The rows of dropped segments are removed once they outnumber the others.
    """

    __slots__ = ("forgotten", "live", "sequences", "sizes")

    def __init__(self) -> None:
        self.sequences: array[int] = array("q")
        self.sizes: array[int] = array("q")
        self.live: array[int] = array("i")
        self.forgotten = 0

    def find(self, sequence: int) -> int | None:
        """Return a segment's row, or None if it is not in the table."""
        row = bisect_left(self.sequences, sequence)
        if row < len(self.sequences) and self.sequences[row] == sequence:
            return row if self.live[row] != _FORGOTTEN else None
        return None

    def add(self, sequence: int, object_size: int, live: int) -> None:
        """Add a segment. Raises ValueError if it is already in the table."""
        if not self.sequences or sequence > self.sequences[-1]:
            self.sequences.append(sequence)
            self.sizes.append(object_size)
            self.live.append(live)
            return
        row = bisect_left(self.sequences, sequence)
        if self.sequences[row] == sequence:
            if self.live[row] != _FORGOTTEN:
                raise ValueError(f"the segment with sequence {sequence} was already added")
            self.forgotten -= 1
            self.sizes[row], self.live[row] = object_size, live
            return
        self.sequences.insert(row, sequence)
        self.sizes.insert(row, object_size)
        self.live.insert(row, live)

    def forget(self, row: int) -> None:
        self.live[row] = _FORGOTTEN
        self.forgotten += 1
        if 2 * self.forgotten > len(self.live):
            kept = self.without_forgotten()
            self.sequences, self.sizes, self.live = kept.sequences, kept.sizes, kept.live
            self.forgotten = 0

    def without_forgotten(self) -> "_Columns":
        """Return the remaining segments: this object itself if it has no forgotten rows."""
        if not self.forgotten:
            return self
        rows = [row for row, each in enumerate(self.live) if each != _FORGOTTEN]
        kept = _Columns()
        kept.sequences.extend(map(self.sequences.__getitem__, rows))
        kept.sizes.extend(map(self.sizes.__getitem__, rows))
        kept.live.extend(map(self.live.__getitem__, rows))
        return kept


class References:
    """References from extents to segments, as columns of equal length."""

    __slots__ = ("lease_ids", "sequences")

    def __init__(self, lease_ids: Iterable[int] = (), sequences: Iterable[int] = ()) -> None:
        """Arrays are stored without being copied."""
        self.lease_ids = lease_ids if isinstance(lease_ids, array) else array("q", lease_ids)
        self.sequences = sequences if isinstance(sequences, array) else array("q", sequences)

    def __len__(self) -> int:
        return len(self.lease_ids)

    def extend(self, others: "References") -> None:
        self.lease_ids.extend(others.lease_ids)
        self.sequences.extend(others.sequences)

    def take(self, most: int) -> "References":
        """Remove and return up to `most` references from the end, at a cost independent of their total number."""
        start = max(0, len(self) - most)
        taken = References(self.lease_ids[start:], self.sequences[start:])
        del self.lease_ids[start:], self.sequences[start:]
        return taken


class SegmentRows:
    """Segments ordered by lease id and sequence, as columns of equal length."""

    __slots__ = ("lease_ids", "live_extents", "sequences", "sizes")

    def __init__(
        self,
        lease_ids: Iterable[int],
        sequences: Iterable[int],
        sizes: Iterable[int],
        live_extents: Iterable[int],
    ) -> None:
        self.lease_ids = array("q", lease_ids)
        self.sequences = array("q", sequences)
        self.sizes = array("q", sizes)
        self.live_extents = array("i", live_extents)


class SegmentTable:
    """The segments that have been committed and not yet collected. Only replay changes it."""

    __slots__ = ("_leases", "pins", "releasing", "replaced")

    def __init__(self) -> None:
        self._leases: dict[int, _Columns] = {}
        # segment -> when its last reference was removed, in that order
        self.replaced: dict[SegmentKey, int] = {}
        self.releasing = References()
        self.pins: dict[int, Pin] = {}

    def __contains__(self, key: SegmentKey) -> bool:
        columns = self._leases.get(key[0])
        return columns is not None and columns.find(key[1]) is not None

    def __len__(self) -> int:
        return sum(len(each.live) - each.forgotten for each in self._leases.values())

    def __iter__(self) -> Iterator[SegmentRow]:
        for lease_id, columns in sorted(self._leases.items()):
            rows = zip(columns.sequences, columns.sizes, columns.live, strict=True)
            for sequence, object_size, live in rows:
                if live != _FORGOTTEN:
                    yield SegmentRow((lease_id, sequence), object_size, live)

    def rows(self, most: int) -> Iterator[SegmentRows]:
        """Yield all segments, at most `most` at a time."""
        for lease_id, columns in sorted(self._leases.items()):
            kept = columns.without_forgotten()
            for start in range(0, len(kept.live), most):
                stop = start + most
                sequences = kept.sequences[start:stop]
                yield SegmentRows(
                    array("q", (lease_id,)) * len(sequences),
                    sequences,
                    kept.sizes[start:stop],
                    kept.live[start:stop],
                )

    def add_rows(self, found: SegmentRows) -> None:
        """Add the next segments that `rows` yielded."""
        start, end = 0, len(found.lease_ids)
        while start < end:
            lease_id = found.lease_ids[start]
            stop = bisect_right(found.lease_ids, lease_id, start)
            columns = self._leases.setdefault(lease_id, _Columns())
            columns.sequences.extend(found.sequences[start:stop])
            columns.sizes.extend(found.sizes[start:stop])
            columns.live.extend(found.live_extents[start:stop])
            start = stop

    def last_sequence(self, lease_id: int) -> int:
        """Return the highest sequence in the table for a lease, or 0 if there is none."""
        columns = self._leases.get(lease_id)
        return columns.sequences[-1] if columns is not None else 0

    def size_of(self, key: SegmentKey) -> int:
        """Return the size of a segment's object in bytes. Raises KeyError if it is not in the table."""
        columns, row = self._find(key)
        return columns.sizes[row]

    def add(self, key: SegmentKey, object_size: int, extents: int, now_ms: int) -> None:
        """Add a segment with `extents` references. Without any, it counts as replaced at `now_ms`.

        Raises ValueError if it is already in the table.
        """
        columns = self._leases.get(key[0])
        if columns is None:
            columns = self._leases[key[0]] = _Columns()
        columns.add(key[1], object_size, extents)
        if not extents:
            self.replaced[key] = now_ms

    def release(self, references: Sequence["References"], now_ms: int) -> None:
        """Remove references immediately if they are few, or else leave them for `release_waiting`.

        Segments with waiting references are not collected, though the extents are already gone. Raises KeyError if a
        segment is not in the table.
        """
        if sum(map(len, references)) > RELEASED_AT_ONCE:
            for each in references:
                self.releasing.extend(each)
            return
        for each in references:
            self._release(each, now_ms)

    def release_waiting(self, most: int, now_ms: int) -> None:
        """Remove up to `most` waiting references."""
        self._release(self.releasing.take(most), now_ms)

    def _release(self, references: "References", now_ms: int) -> None:
        gone = Counter(zip(references.lease_ids, references.sequences, strict=True))
        for key, count in gone.items():
            columns, row = self._find(key)
            if count > columns.live[row]:
                raise InvariantBroken(
                    f"segment {key} would lose {count} extents but has only {columns.live[row]}"
                )
            columns.live[row] -= count
            if not columns.live[row]:
                self.replaced[key] = now_ms

    def hold_back(self, now_ms: int) -> None:
        """Move times after `now_ms` to `now_ms`, because the clock was set back."""
        for key, replaced_ms in self.replaced.items():
            self.replaced[key] = min(replaced_ms, now_ms)

    def forget(self, key: SegmentKey) -> None:
        """Remove a replaced segment whose object has been deleted from the bucket."""
        if self.replaced.pop(key, None) is not None:
            columns, row = self._find(key)
            columns.forget(row)
            if not len(columns.live):
                del self._leases[key[0]]

    def _find(self, key: SegmentKey) -> tuple[_Columns, int]:
        columns = self._leases[key[0]]
        row = columns.find(key[1])
        if row is None:
            raise KeyError(key)
        return columns, row

    def collectable(
        self, now_ms: int, grace_ms: int, limit: int, avoided: Set[SegmentKey] = frozenset()
    ) -> list[SegmentKey]:
        """Return up to `limit` segments replaced at least `grace_ms` ago, oldest first.

        Segments in `avoided` or protected by a pin are left out.
        """
        last_ms = now_ms - grace_ms
        held_from_ms = min((pin.starts_ms for pin in self.pins.values()), default=None)
        if held_from_ms is not None:
            last_ms = min(last_ms, held_from_ms - 1)
        found: list[SegmentKey] = []
        for key, replaced_ms in self.replaced.items():
            if replaced_ms > last_ms or len(found) >= limit:
                break
            if key not in avoided:
                found.append(key)
        return found
