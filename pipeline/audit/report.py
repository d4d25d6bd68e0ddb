"""What an audit says at its end, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from pipeline.audit.findings import Finding
from pipeline.audit.inventory import Inventory, Unreferenced
from pipeline.audit.logs import holes_of
from pipeline.audit.matching import Counts
from pipeline.audit.picture import Sparse, draw
from pipeline.audit.tables import Column, Fate, Rows, rows_of
from pipeline.extents import PartitionLog

PICTURE_WIDTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCounts:
    """Committed records of a partition by key: all, those without one, distinct keys."""

    records: int
    null_keys: int
    distinct_keys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """One partition. Offsets are counted from metadata, records from the objects that were read.

    `committed`, `aborted`, `compacted`, `undecided` and `holes` are numbers of offsets and add up to
    high_watermark - log_start_offset; holes within what was compacted are known, and told from it,
    only where objects were read. The four of records are None where none was.
    """

    topic: str
    partition: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    extents: int
    objects: int
    bytes: int
    dead_ranges: int
    committed: int
    aborted: int
    compacted: int
    undecided: int
    holes: int
    committed_records: int | None
    aborted_records: int | None
    compacted_records: int | None
    undecided_records: int | None
    findings: int
    picture: str
    keys: KeyCounts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole of it. `seconds` of the audit, `task_seconds` of all tasks together; sizes in bytes."""

    cluster_id: str
    metadata: str
    store: str
    objects: int
    bytes: int
    objects_checked: int
    bytes_read: int
    seconds: float
    task_seconds: float
    unreferenced_batch_bytes: int
    unreferenced: Unreferenced
    partitions: list[PartitionReport]
    findings: list[Finding]
    errors_left_out: int = 0
    notes_left_out: int = 0
    unsettled: int = 0
    remarks: list[str] = field(default_factory=list)

    @property
    def errors(self) -> list[Finding]:
        """Findings that are more than a note."""
        return [finding for finding in self.findings if not finding.is_note]

    @property
    def notes(self) -> list[Finding]:
        """The others."""
        return [finding for finding in self.findings if finding.is_note]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong; notes do not count."""
        return not self.errors and not self.errors_left_out

    def as_json(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        found = asdict(self)
        found["unreferenced"] = self.unreferenced._asdict()
        found["is_sound"] = self.is_sound
        found["findings"] = [
            {**asdict(each), "is_note": each.is_note, "advice": each.advice}
            for each in self.findings
        ]
        return found


def partition_reports(
    logs: Sequence[PartitionLog],
    read: "Read",
    findings: Sequence[Finding],
    keys: Mapping[int, KeyCounts],
) -> list[PartitionReport]:
    """A report for each log; `keys` by its index."""
    hits: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for finding in findings:
        for hit in () if finding.is_note else finding.hits:
            found = hits.setdefault((hit.topic, hit.partition), [])
            found.append((hit.first_offset, hit.end_offset))
    reports = []
    for index, log in enumerate(logs):
        own = None if read.counts is None else read.counts.get(index, Counts.empty())
        damaged = hits.get((log.topic, log.partition), [])
        reports.append(_partition_report(log, own, read.sparse_of(index), damaged, keys.get(index)))
    return reports


def _partition_report(
    log: PartitionLog,
    counts: Counts | None,
    sparse: Sparse,
    damaged: list[tuple[int, int]],
    keys: KeyCounts | None,
) -> PartitionReport:
    rows = rows_of(log)
    offsets = {fate: _offsets(rows, fate, log) for fate in Fate}
    within = min(int(sparse[:, 2].sum()), offsets[Fate.COMPACTED])
    between = sum(hole.end_offset - hole.first_offset for hole in holes_of(log))
    records = [None] * len(Fate) if counts is None else counts.records.tolist()
    return PartitionReport(
        topic=log.topic,
        partition=log.partition,
        log_start_offset=log.log_start_offset,
        last_stable_offset=log.last_stable_offset,
        high_watermark=log.high_watermark,
        extents=len(rows),
        objects=len(np.unique(rows[["lease_id", "sequence"]])),
        bytes=int(rows["size"].sum()),
        dead_ranges=len(log.dead),
        committed=offsets[Fate.COMMITTED],
        aborted=offsets[Fate.ABORTED],
        compacted=offsets[Fate.COMPACTED] - within,
        undecided=offsets[Fate.UNDECIDED],
        holes=between + within,
        committed_records=records[Fate.COMMITTED],
        aborted_records=records[Fate.ABORTED],
        compacted_records=records[Fate.COMPACTED],
        undecided_records=records[Fate.UNDECIDED],
        findings=len(damaged),
        picture=draw(log, damaged, PICTURE_WIDTH, sparse),
        keys=keys,
    )


def _offsets(rows: Rows, fate: Fate, log: PartitionLog) -> int:
    own = rows[rows["fate"] == fate]
    first = np.maximum(own["base_offset"], log.log_start_offset)
    return int(np.maximum(own["next_offset"] - first, 0).sum())


@dataclass(slots=True)
class Read:
    """What reading the objects gave: numbers for the report."""

    inventory: Inventory | None = None
    unreferenced: Unreferenced = field(default_factory=Unreferenced)
    objects_checked: int = 0
    bytes_read: int = 0
    unreferenced_batch_bytes: int = 0
    task_seconds: float = 0.0
    counts: dict[int, Counts] | None = None
    sparse: Column = field(default_factory=lambda: np.empty((0, 4), np.int64))
    """As `Matcher` says, ordered by partition and base offset."""

    def sparse_of(self, partition: int) -> Sparse:
        """Extents with holes in them of the partition with that index, in order."""
        first, end = np.searchsorted(self.sparse[:, 0], (partition, partition + 1))
        own: Sparse = self.sparse[first:end, 1:]
        return own
