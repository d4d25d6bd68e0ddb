"""The report of an audit."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from lacuna.pipeline.audit.findings import Finding
from lacuna.pipeline.audit.inventory import Inventory, Unreferenced
from lacuna.pipeline.audit.logs import holes_of
from lacuna.pipeline.audit.matching import Counts
from lacuna.pipeline.audit.picture import Sparse, draw
from lacuna.pipeline.audit.tables import Outcome, spans_of
from lacuna.pipeline.extents import PartitionLog

PICTURE_WIDTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCounts:
    """The numbers of committed records, committed records without a key, and distinct keys in a partition."""

    records: int
    null_keys: int
    distinct_keys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """The report on one partition. Offset counts come from the metadata, and record counts from the objects read.

    `committed`, `aborted`, `compacted`, `undecided` and `holes` count offsets, and add up to high_watermark -
    log_start_offset. If no objects were read, the four record counts are None, and holes within compacted extents,
    which are then unknown, count as `compacted`.
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
    """The report of an audit. The audit took `seconds`, and its tasks took `task_seconds` in total.

    Sizes are in bytes. `unsettled` is the number of partitions whose last stable offset could not be checked.
    """

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
        return [finding for finding in self.findings if not finding.is_note]

    @property
    def notes(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.is_note]

    @property
    def is_sound(self) -> bool:
        """Whether there are no errors. Notes are ignored."""
        return not self.errors and not self.errors_left_out

    def as_json(self) -> dict[str, Any]:
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
    """Returns a report for each log, in order. `keys` contains key counts by log index, if keys were counted."""
    hits: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for finding in findings:
        for hit in () if finding.is_note else finding.hits:
            found = hits.setdefault((hit.topic, hit.partition), [])
            found.append((hit.first_offset, hit.end_offset))
    reports = []
    for index, log in enumerate(logs):
        own = None if read.counts is None else read.counts.get(index, Counts())
        damaged = hits.get((log.topic, log.partition), [])
        reports.append(
            _partition_report(log, own, read.sparse.get(index, ()), damaged, keys.get(index))
        )
    return reports


def _partition_report(
    log: PartitionLog,
    counts: Counts | None,
    sparse: Sequence[Sparse],
    damaged: list[tuple[int, int]],
    keys: KeyCounts | None,
) -> PartitionReport:
    offsets = _offsets(log)
    within = min(sum(each.held for each in sparse), offsets[Outcome.COMPACTED])
    between = sum(hole.end_offset - hole.first_offset for hole in holes_of(log))
    records = [None] * len(Outcome) if counts is None else counts.records
    return PartitionReport(
        topic=log.topic,
        partition=log.partition,
        log_start_offset=log.log_start_offset,
        last_stable_offset=log.last_stable_offset,
        high_watermark=log.high_watermark,
        extents=len(log.extents),
        objects=len(set(zip(log.extents.lease_ids, log.extents.sequences, strict=True))),
        bytes=sum(log.extents.sizes),
        dead_ranges=len(log.dead),
        committed=offsets[Outcome.COMMITTED],
        aborted=offsets[Outcome.ABORTED],
        compacted=offsets[Outcome.COMPACTED] - within,
        undecided=offsets[Outcome.UNDECIDED],
        holes=between + within,
        committed_records=records[Outcome.COMMITTED],
        aborted_records=records[Outcome.ABORTED],
        compacted_records=records[Outcome.COMPACTED],
        undecided_records=records[Outcome.UNDECIDED],
        findings=len(damaged),
        picture=draw(log, damaged, PICTURE_WIDTH, sparse),
        keys=keys,
    )


def _offsets(log: PartitionLog) -> list[int]:
    found = [0] * len(Outcome)
    for first, end, outcome in spans_of(log):
        found[outcome] += max(end - max(first, log.log_start_offset), 0)
    return found


@dataclass(slots=True)
class Read:
    """The counts from listing and reading the objects."""

    inventory: Inventory
    unreferenced: Unreferenced = field(default_factory=Unreferenced)
    objects_checked: int = 0
    bytes_read: int = 0
    unreferenced_batch_bytes: int = 0
    task_seconds: float = 0.0
    counts: dict[int, Counts] | None = None
    sparse: dict[int, list[Sparse]] = field(default_factory=dict)
    """The extents that contain holes, in order, by the index of their partition."""
