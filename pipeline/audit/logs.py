"""Whether what metadata says of the partitions makes sense by itself; pure.

Lacuna stores no control records, so markers take no offsets: what was never rewritten has no holes. Below
the last stable offset compaction leaves some: within an extent that it wrote, between two, and where of
everything that it looked at nothing was left, also between extents that it never touched. At and above
the last stable offset nothing is ever rewritten: a hole there is lost data.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from controlplane.extents import FLAG_LOG_APPEND_TIME, FLAG_TRUE_OFFSETS
from pipeline.audit.findings import Finding, Hit, Kind
from pipeline.audit.tables import Column, Fate, Rows, rows_of, within_dead
from pipeline.extents import PartitionLog

_KNOWN_FLAGS: Final = FLAG_LOG_APPEND_TIME | FLAG_TRUE_OFFSETS
#: Of one kind of finding in one partition, only so many are told.
_MOST: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """Offsets [first_offset, end_offset) in no extent; `is_explained` where compaction may leave it."""

    first_offset: int
    end_offset: int
    is_explained: bool


def holes_of(log: PartitionLog) -> list[Hole]:
    """What lies in no extent, from the log start to the high watermark, cut at the last stable offset."""
    bases = np.asarray(log.extents.base_offsets, dtype=np.int64)
    nexts = np.asarray(log.extents.next_offsets, dtype=np.int64)
    firsts = np.concatenate(([log.log_start_offset], np.maximum(nexts, log.log_start_offset)))
    ends = np.concatenate((bases, [log.high_watermark]))
    found = []
    for index in np.flatnonzero(firsts < ends):
        first, end = int(firsts[index]), int(ends[index])
        stable = min(end, log.last_stable_offset)
        if first < stable:
            found.append(Hole(first_offset=first, end_offset=stable, is_explained=True))
        if max(first, stable) < end:
            found.append(Hole(first_offset=max(first, stable), end_offset=end, is_explained=False))
    return found


def check_log(log: PartitionLog) -> list[Finding]:
    """What is wrong with one partition's metadata."""
    rows = rows_of(log)
    checks = (_check_offsets, _check_order, _check_identity, _check_dead)
    findings = [found for check in checks for found in check(log, rows)]
    reason = (
        "acknowledged records are in no extent, above the last stable offset "
        f"{log.last_stable_offset}, where nothing is ever compacted away"
    )
    findings.extend(
        _finding(log, Kind.OFFSETS, hole.first_offset, hole.end_offset, reason)
        for hole in holes_of(log)
        if not hole.is_explained
    )
    return findings


def _finding(log: PartitionLog, kind: Kind, first: int, end: int, reason: str) -> Finding:
    return Finding(
        kind=kind, reason=reason, hits=(Hit(log.topic, log.partition, int(first), int(end)),)
    )


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
    if len(rows) and rows["next_offset"][-1] > end:
        yield _finding(
            log,
            Kind.OFFSETS,
            end,
            rows["next_offset"][-1],
            f"an extent ends behind the high watermark {end}",
        )
    if len(rows) and rows["next_offset"][0] <= start:
        yield _finding(
            log,
            Kind.OFFSETS,
            rows["base_offset"][0],
            rows["next_offset"][0],
            f"an extent lies wholly below the log start {start}",
        )


def _check_order(log: PartitionLog, rows: Rows) -> Iterator[Finding]:
    bases, nexts = rows["base_offset"], rows["next_offset"]
    for index in _some(bases >= nexts):
        yield _finding(log, Kind.OFFSETS, bases[index], nexts[index], "an extent without offsets")
    for index in _some(bases[1:] < nexts[:-1]):
        yield _finding(
            log,
            Kind.OFFSETS,
            bases[index + 1],
            max(bases[index + 1], nexts[index]),
            f"two extents hold the same offsets: one ends at {nexts[index]}, the next one begins at "
            f"{bases[index + 1]}",
        )


def _check_identity(log: PartitionLog, rows: Rows) -> Iterator[Finding]:
    """Transactional extents have a producer; rewritten ones have neither; no flag is unknown."""
    is_merged = (rows["flags"] & FLAG_TRUE_OFFSETS) != 0
    is_transactional = rows["transaction"] != 0
    wrong = (
        ((rows["flags"] & ~np.uint8(_KNOWN_FLAGS)) != 0)
        | (rows["size"] <= 0)
        | (rows["position"] < 0)
        | (is_transactional != (rows["producer_id"] >= 0))
        | (is_merged & is_transactional)
    )
    for index in _some(wrong):
        yield _finding(
            log,
            Kind.EXTENT,
            rows["base_offset"][index],
            rows["next_offset"][index],
            "an extent whose columns contradict each other: "
            + ", ".join(
                f"{name} {rows[name][index]}"
                for name in ("position", "size", "producer_id", "transaction", "flags")
            ),
        )


def _check_dead(log: PartitionLog, rows: Rows) -> Iterator[Finding]:
    """Ranges of aborted records are ordered and made of whole transactional extents."""
    firsts = np.asarray(log.dead.firsts, dtype=np.int64)
    ends = np.asarray(log.dead.ends, dtype=np.int64)
    out_of_order = firsts >= ends
    out_of_order[1:] |= firsts[1:] < ends[:-1]
    for index in _some(out_of_order | (ends > log.high_watermark)):
        yield _finding(
            log, Kind.OUTCOME, firsts[index], ends[index], "a dead range is out of order"
        )
    is_dead = within_dead(log, rows["base_offset"])
    is_cut = is_dead != within_dead(log, rows["next_offset"] - 1)
    for index in _some(is_cut):
        yield _finding(
            log,
            Kind.OUTCOME,
            rows["base_offset"][index],
            rows["next_offset"][index],
            "a dead range ends within an extent",
        )
    for index in _some(is_dead & (rows["transaction"] == 0)):
        yield _finding(
            log,
            Kind.OUTCOME,
            rows["base_offset"][index],
            rows["next_offset"][index],
            "an extent of no transaction is aborted",
        )
    yield from _check_dead_are_filled(log, firsts, ends, rows)


def _check_dead_are_filled(
    log: PartitionLog, firsts: Column, ends: Column, rows: Rows
) -> Iterator[Finding]:
    """Above the log start a dead range is made of extents: compaction takes both away together."""
    if not len(firsts) or not len(rows):
        return
    bases, nexts = rows["base_offset"], rows["next_offset"]
    filled = np.concatenate(([0], np.cumsum(nexts - bases)))
    first = np.searchsorted(bases, firsts, side="left")
    last = np.searchsorted(bases, ends, side="left")
    begins = np.maximum(firsts, min(log.log_start_offset, int(bases[0])))
    for index in _some(filled[last] - filled[first] < ends - begins):
        yield _finding(
            log,
            Kind.OUTCOME,
            firsts[index],
            ends[index],
            "a dead range has offsets that are in no extent",
        )


def _some(wrong: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> list[int]:
    return [int(index) for index in np.flatnonzero(wrong)[:_MOST]]


def check_outcomes(logs: Sequence[PartitionLog], table: Rows) -> list[Finding]:
    """Whether every transaction has one fate in all partitions (S1), and one producer.

    What is not decided yet in the moment that a partition was looked at contradicts nothing.
    """
    rows = table[table["transaction"] != 0]
    transactions = rows["transaction"]
    is_dead = rows["fate"] == Fate.ABORTED
    is_committed = rows["fate"] == Fate.COMMITTED
    findings = []
    for found in np.intersect1d(transactions[is_dead], transactions[is_committed])[:_MOST]:
        own = rows[transactions == found]
        findings.append(
            Finding(
                kind=Kind.OUTCOME,
                reason=f"transaction {found} of producer {own['producer_id'][0]} is aborted in one "
                "place and committed in another",
                hits=_hits(logs, own),
            )
        )
    pairs = np.unique(np.stack((transactions, rows["producer_id"]), axis=1), axis=0)
    numbers, counts = np.unique(pairs[:, 0], return_counts=True)
    for found in numbers[counts > 1][:_MOST]:
        own = rows[transactions == found]
        findings.append(
            Finding(
                kind=Kind.OUTCOME,
                reason=f"transaction {found} has several producers: "
                + ", ".join(str(each) for each in np.unique(own["producer_id"])),
                hits=_hits(logs, own),
            )
        )
    return findings


def _hits(logs: Sequence[PartitionLog], rows: Rows) -> tuple[Hit, ...]:
    """A hit for each partition of some extents."""
    found = []
    for index in np.unique(rows["partition"])[:_MOST]:
        own, log = rows[rows["partition"] == index], logs[index]
        first, end = int(own["base_offset"].min()), int(own["next_offset"].max())
        found.append(Hit(log.topic, log.partition, first, end))
    return tuple(found)
