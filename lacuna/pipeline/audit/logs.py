"""Checks the metadata of partitions for consistency, without side effects.

Lacuna stores no control records, so markers take up no offsets, and ranges that have never been rewritten contain no
holes. Below the last stable offset, compaction leaves holes within an extent that it wrote, between two such extents,
and in place of a range from which it has removed every record, which may lie between untouched extents. A hole at the
front of the log is explained up to the offset below which, according to the control plane, no live record was lost.
From the last stable offset on, nothing is ever rewritten, so a hole there means that data was lost.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from operator import sub
from typing import Final, TypeVar

from lacuna.controlplane.shared.extents import (
    FLAG_ABORTED_BEFORE,
    FLAG_LOG_APPEND_TIME,
    FLAG_TRUE_OFFSETS,
)
from lacuna.controlplane.shared.log.live import is_dead
from lacuna.pipeline.audit.findings import Finding, Hit, Kind
from lacuna.pipeline.audit.tables import ExtentRow, Outcome, Rows, bounds_of, rows_of
from lacuna.pipeline.extents import PartitionLog

T = TypeVar("T")

_KNOWN_FLAGS: Final = FLAG_LOG_APPEND_TIME | FLAG_TRUE_OFFSETS | FLAG_ABORTED_BEFORE
#: The maximum number of findings that a check reports for a partition.
_MOST: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """Offsets [first, end) without an extent. `is_explained` is True if compaction may have left the hole."""

    first_offset: int
    end_offset: int
    is_explained: bool


def holes_of(log: PartitionLog) -> list[Hole]:
    """Returns the holes from the log start to the high watermark, split at the last stable offset."""
    found = []
    first = log.log_start_offset
    ends = (*log.extents.base_offsets, log.high_watermark)
    nexts = (*log.extents.next_offsets, log.high_watermark)
    for end, following in zip(ends, nexts, strict=True):
        stable = min(end, log.last_stable_offset)
        if first < stable:
            found.append(Hole(first_offset=first, end_offset=stable, is_explained=True))
        if max(first, stable) < end:
            found.append(Hole(first_offset=max(first, stable), end_offset=end, is_explained=False))
        first = max(following, log.log_start_offset)
    return found


def check_log(log: PartitionLog) -> list[Finding]:
    """Finds errors in the metadata of a single partition."""
    rows = rows_of(log)
    checks = (_check_offsets, _check_front, _check_order, _check_identity, _check_dead)
    findings = [found for check in checks for found in check(log, rows)]
    reason = (
        f"acknowledged records above the last stable offset {log.last_stable_offset} are in no extent, although "
        "compaction never removes records there"
    )
    findings.extend(
        _finding(log, Kind.OFFSETS, hole.first_offset, hole.end_offset, reason)
        for hole in holes_of(log)
        if not hole.is_explained
    )
    return findings


def _finding(log: PartitionLog, kind: Kind, first: int, end: int, reason: str) -> Finding:
    return Finding(kind=kind, reason=reason, hits=(Hit(log.topic, log.partition, first, end),))


def _of_extent(log: PartitionLog, kind: Kind, row: ExtentRow, reason: str) -> Finding:
    return _finding(log, kind, row.base_offset, row.next_offset, reason)


def _check_offsets(log: PartitionLog, rows: Rows) -> Iterator[Finding]:
    start, stable, end = log.log_start_offset, log.last_stable_offset, log.high_watermark
    if not 0 <= start <= stable <= end:
        yield _finding(
            log,
            Kind.OFFSETS,
            start,
            end,
            f"log start {start}, last stable offset {stable} and high watermark {end} are out of "
            "order",
        )
    bases, nexts = log.extents.base_offsets, log.extents.next_offsets
    if len(rows) and nexts[-1] > end:
        reason = f"an extent ends beyond the high watermark {end}"
        yield _finding(log, Kind.OFFSETS, end, nexts[-1], reason)
    if len(rows) and nexts[0] <= start:
        reason = f"an extent lies wholly below the log start {start}"
        yield _finding(log, Kind.OFFSETS, bases[0], nexts[0], reason)


def _check_front(log: PartitionLog, rows: Rows) -> Iterator[Finding]:
    """Checks that nothing live was lost before the first extent: only aborted and superseded records may be gone."""
    known_to = max(log.log_start_offset, log.vacated_to)
    front = log.extents.base_offsets[0] if len(rows) else log.high_watermark
    front = min(front, log.last_stable_offset)
    if known_to < front:
        yield _finding(
            log,
            Kind.LOG_START,
            known_to,
            front,
            f"the log begins at {log.log_start_offset} but its first extent begins at {front}, and "
            "nothing shows that the offsets in between were aborted or superseded",
        )


def _check_order(log: PartitionLog, rows: Rows) -> Iterator[Finding]:
    for row in _some(row for row in rows if row.base_offset >= row.next_offset):
        yield _of_extent(log, Kind.OFFSETS, row, "an extent without offsets")
    bases, nexts = log.extents.base_offsets, log.extents.next_offsets
    for end, base in _some(
        (end, base) for end, base in zip(nexts, islice(bases, 1, None), strict=False) if base < end
    ):
        yield _finding(
            log,
            Kind.OFFSETS,
            base,
            end,
            f"two extents overlap: one ends at offset {end}, but the next one begins at {base}",
        )


def _check_identity(log: PartitionLog, rows: Rows) -> Iterator[Finding]:
    """Checks that the columns of each extent are consistent with one another."""
    for row in _some(filter(_contradicts_itself, rows)):
        shown = ("position", "size", "producer_id", "transaction", "flags")
        values = ", ".join(f"{name} {getattr(row, name)}" for name in shown)
        reason = f"the columns of an extent contradict each other: {values}"
        yield _of_extent(log, Kind.EXTENT, row, reason)


def _contradicts_itself(row: ExtentRow) -> bool:
    is_transactional = row.transaction != 0
    return (
        row.flags & ~_KNOWN_FLAGS != 0
        or row.size <= 0
        or row.position < 0
        or is_transactional != (row.producer_id >= 0)
        or (is_transactional and row.flags & FLAG_TRUE_OFFSETS != 0)
        or (row.flags & FLAG_ABORTED_BEFORE != 0 and row.outcome != Outcome.ABORTED)
    )


def _check_dead(log: PartitionLog, rows: Rows) -> Iterator[Finding]:
    """Checks that dead ranges are in order, consist of whole extents, and belong to a transaction or to an import."""
    edge = 0
    disordered = []
    for first, end in zip(log.dead.firsts, log.dead.ends, strict=True):
        if first >= end or first < edge or end > log.high_watermark:
            disordered.append((first, end))
        edge = end
    for first, end in _some(disordered):
        yield _finding(log, Kind.OUTCOME, first, end, "a dead range is out of order")
    if not len(log.dead):
        return
    for row in _some(row for row in rows if _is_cut(log, row)):
        yield _of_extent(log, Kind.OUTCOME, row, "a dead range ends within an extent")
    for row in _some(filter(_is_aborted_by_nobody, rows)):
        yield _of_extent(log, Kind.OUTCOME, row, "an extent without a transaction is aborted")
    yield from _check_dead_are_filled(log)


def _is_aborted_by_nobody(row: ExtentRow) -> bool:
    is_of_any = row.transaction or row.flags & FLAG_ABORTED_BEFORE
    return row.outcome == Outcome.ABORTED and not is_of_any


def _is_cut(log: PartitionLog, row: ExtentRow) -> bool:
    return (row.outcome == Outcome.ABORTED) != is_dead(log.dead, row.next_offset - 1)


def _check_dead_are_filled(log: PartitionLog) -> Iterator[Finding]:
    """Checks that extents fill the dead ranges above the log start, since compaction removes both together."""
    bases, nexts = log.extents.base_offsets, log.extents.next_offsets
    if not bases:
        return
    filled = list(accumulate(map(sub, nexts, bases), initial=0))
    start = min(log.log_start_offset, bases[0])
    for first, end in _some(
        (first, end)
        for first, end in zip(log.dead.firsts, log.dead.ends, strict=True)
        if filled[bisect_left(bases, end)] - filled[bisect_left(bases, first)]
        < end - max(first, start)
    ):
        reason = "a dead range contains offsets that are in no extent"
        yield _finding(log, Kind.OUTCOME, first, end, reason)


def _some(wrong: Iterable[T]) -> Iterator[T]:
    return islice(wrong, _MOST)


def check_outcomes(logs: Sequence[PartitionLog], table: Rows) -> list[Finding]:
    """Finds transactions whose outcome differs between partitions (S1), or that have several producers.

    A transaction may have been undecided when a partition was read; its extents there do not contradict any outcome.
    """
    dead: set[int] = set()
    committed: set[int] = set()
    producers: dict[int, int] = {}
    several: set[int] = set()
    for row in table:
        if row.transaction:
            if row.outcome == Outcome.ABORTED:
                dead.add(row.transaction)
            elif row.outcome == Outcome.COMMITTED:
                committed.add(row.transaction)
            if producers.setdefault(row.transaction, row.producer_id) != row.producer_id:
                several.add(row.transaction)
    findings = []
    for found in _some(sorted(dead & committed)):
        reason = (
            f"transaction {found} of producer {producers[found]} is aborted in one "
            "partition and committed in another"
        )
        findings.append(_of_transaction(logs, table, found, reason))
    for found in _some(sorted(several)):
        own = sorted({row.producer_id for row in table if row.transaction == found})
        reason = f"transaction {found} has several producers: {', '.join(map(str, own))}"
        findings.append(_of_transaction(logs, table, found, reason))
    return findings


def _of_transaction(
    logs: Sequence[PartitionLog], table: Rows, transaction: int, reason: str
) -> Finding:
    own = (row for row in table if row.transaction == transaction)
    hits = tuple(
        Hit(logs[index].topic, logs[index].partition, first, end)
        for index, first, end in bounds_of(own)[:_MOST]
    )
    return Finding(kind=Kind.OUTCOME, reason=reason, hits=hits)
