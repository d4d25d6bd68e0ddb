"""Compares the batches of an object with the control plane's extents, without side effects.

Both are sorted by position, so a single pass suffices, with one extent in progress at a time.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from lacuna.controlplane.shared.extents import FLAG_LOG_APPEND_TIME, FLAG_TRUE_OFFSETS
from lacuna.controlplane.shared.ids import show_id
from lacuna.logstore.records.batch import BatchHeader
from lacuna.logstore.records.layout import NO_PRODUCER_ID, TimestampType
from lacuna.logstore.segments.audit import AuditedPart, Damage
from lacuna.pipeline.audit.findings import MAX_FINDINGS, Finding, Findings, Hit, Kind
from lacuna.pipeline.audit.tables import ExtentRow, Outcome


class PartitionName(NamedTuple):
    """A partition, to which a table's rows refer by index."""

    topic: str
    topic_id: bytes
    partition: int


@dataclass(slots=True)
class Counts:
    """The number of batches found in a partition, and the number of its records by `Outcome`."""

    records: list[int] = field(default_factory=lambda: [0] * len(Outcome))
    batches: int = 0

    def add(self, other: "Counts") -> None:
        self.records = [one + two for one, two in zip(self.records, other.records, strict=True)]
        self.batches += other.batches


class _Span(NamedTuple):
    """An intact batch: its position and size in the object, its stored base offset, and its number of offsets."""

    position: int
    size: int
    base_offset: int
    offsets: int


@dataclass(slots=True)
class _Damaged:
    """Damage, whether it affects a part that holds records, and the offsets that may be affected."""

    damage: Damage
    is_payload: bool
    hits: list[Hit] = field(default_factory=list)


class Matcher:
    """Compares one object with its extents, given as rows in order of position.

    For each intact extent with holes, four numbers are appended to `sparse`: the partition index, the base offset, the
    next offset, and the number of offsets without a record.
    """

    def __init__(
        self,
        key: str,
        rows: Iterable[ExtentRow],
        names: Mapping[int, PartitionName],
        findings: Findings,
    ) -> None:
        self.counts: dict[int, Counts] = {}
        self.sparse: array[int] = array("q")
        self.unreferenced_bytes = 0
        self._key = key
        self._names = names
        self._findings = findings
        self._damages: list[_Damaged] = []
        self._extents = [_Extent(row) for row in rows]
        self._apart()
        self._at = 0

    def add(self, part: AuditedPart, *, is_payload: bool) -> None:
        """Processes the next part of the object. `is_payload` is False for its header and end."""
        for damage in part.damages:
            if len(self._damages) == MAX_FINDINGS:
                self._findings.errors_left_out += 1
                continue
            self._damages.append(_Damaged(damage, is_payload))
        owner = None if part.found is None else (part.found.topic_id, part.found.partition)
        for position, header in part.batches:
            self._add_batch(position, header, owner)

    def finish(self) -> None:
        """Checks the remaining extents, and reports damage. Call this after the last part."""
        while self._at < len(self._extents):
            self._finish_extent(self._extents[self._at])
            self._at += 1
        for each in self._damages:
            damage = each.damage
            lost = "" if each.hits else "; no partition's records are affected"
            self._findings.add(
                Finding(
                    kind=Kind.DAMAGE,
                    reason=damage.reason + lost,
                    key=self._key,
                    position=damage.position,
                    size=damage.size,
                    hits=tuple(each.hits),
                )
            )

    def _apart(self) -> None:
        kept: list[_Extent] = []
        for extent in self._extents:
            if kept and extent.row.position < kept[-1].row.end:
                self._tell(extent, "it overlaps the previous extent in the object")
            else:
                kept.append(extent)
        self._extents = kept

    def _add_batch(
        self, position: int, header: BatchHeader, owner: tuple[bytes, int] | None
    ) -> None:
        while self._at < len(self._extents):
            extent = self._extents[self._at]
            row, row_end = extent.row, extent.row.end
            if position < row_end:
                break
            self._finish_extent(extent)
            self._at += 1
        end = position + header.size
        if self._at == len(self._extents) or end <= row.position:
            self.unreferenced_bytes += header.size
            return
        if position < row.position or end > row_end:
            extent.is_told = True
            self._tell(extent, f"its bounds differ from those of the batch at {position}")
            return
        reason = extent.take(position, header)
        name = self._names[row.partition]
        if owner is not None and owner != (name.topic_id, name.partition):
            reason = f"according to the object, these bytes belong to partition {owner[1]} of topic {show_id(owner[0])}"
        if reason and not extent.is_told:
            extent.is_told = True
            self._tell(extent, reason)
        counts = self.counts.setdefault(row.partition, Counts())
        counts.records[row.outcome] += header.record_count
        counts.batches += 1

    def _finish_extent(self, extent: "_Extent") -> None:
        hit = False
        for each in self._damages:
            damage, row = each.damage, extent.row
            is_behind = damage.position < row.end
            if each.is_payload and is_behind and row.position < damage.position + damage.size:
                hit = True
                each.hits.append(self._hit(extent, *extent.offsets_of(damage)))
        if not hit and not extent.is_told:
            reason = extent.fault()
            if reason:
                self._tell(extent, reason)
            elif extent.holes:
                row = extent.row
                self.sparse.extend((row.partition, row.base_offset, row.next_offset, extent.holes))
        extent.spans = []

    def _tell(self, extent: "_Extent", reason: str) -> None:
        self._findings.add(
            Finding(
                kind=Kind.EXTENT,
                reason=reason,
                key=self._key,
                position=extent.row.position,
                size=extent.row.size,
                hits=(self._hit(extent, extent.row.base_offset, extent.row.next_offset),),
            )
        )

    def _hit(self, extent: "_Extent", first_offset: int, end_offset: int) -> Hit:
        name = self._names[extent.row.partition]
        return Hit(name.topic, name.partition, first_offset, end_offset)


@dataclass(slots=True)
class _Extent:
    row: ExtentRow
    is_told: bool = False
    newest: int = -1
    records: int = 0
    spans: list[_Span] = field(default_factory=list)

    @property
    def has_true_offsets(self) -> bool:
        return self.row.flags & FLAG_TRUE_OFFSETS != 0

    @property
    def holes(self) -> int:
        """The number of offsets without a record, once all batches have been passed to `take`."""
        return self.row.next_offset - self.row.base_offset - self.records

    def take(self, position: int, header: BatchHeader) -> str:
        """Counts an intact batch of the extent. Returns an error message, or ""."""
        offsets = header.last_offset_delta + 1
        before = self.spans[-1] if self.spans else None
        self.spans.append(_Span(position, header.size, header.base_offset, offsets))
        self.newest = max(self.newest, header.max_timestamp)
        self.records += header.record_count
        is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        if is_append_time != bool(self.row.flags & FLAG_LOG_APPEND_TIME):
            return f"the batch at {position} has a different timestamp type"
        if self.has_true_offsets:
            first = self.row.base_offset if before is None else before.base_offset + before.offsets
            if not first <= header.base_offset < header.next_offset <= self.row.next_offset:
                return (
                    f"the batch at {position} holds offsets {header.base_offset}-"
                    f"{header.last_offset}, which do not belong there"
                )
            return ""
        if header.record_count != offsets:
            return f"the batch at {position} has {header.record_count} records in {offsets} offsets"
        if header.producer_id == NO_PRODUCER_ID:
            return ""
        if header.is_transactional != (self.row.producer_id != NO_PRODUCER_ID):
            return f"the batch at {position} is transactional but the extent is not, or vice versa"
        if header.is_transactional and (header.producer_id, header.producer_epoch) != (
            self.row.producer_id,
            self.row.producer_epoch,
        ):
            return (
                f"the batch at {position} belongs to producer {header.producer_id}, epoch "
                f"{header.producer_epoch}, not to {self.row.producer_id}, epoch {self.row.producer_epoch}"
            )
        return ""

    def fault(self) -> str:
        """Returns the error in an undamaged extent, or "", once all its batches have been passed to `take`."""
        if not self.spans:
            return "it contains no batch"
        edge = self.row.position
        for span in self.spans:
            if span.position != edge:
                return f"no batch begins at {edge}"
            edge += span.size
        if edge != self.row.end:
            return f"its batches end at {edge}, not at {self.row.end}"
        if not self.has_true_offsets:
            offsets = sum(span.offsets for span in self.spans)
            if offsets != self.row.next_offset - self.row.base_offset:
                return f"its batches have {offsets} offsets in total"
        newest, stated = self.newest, self.row.max_timestamp
        if newest == stated or (newest < stated and self.has_true_offsets):
            return ""
        return f"max_timestamp is {stated}, but that of its batches is {newest}"

    def offsets_of(self, damage: Damage) -> tuple[int, int]:
        """Returns the offsets [first, end) that damage may affect: those between the intact batches around it."""
        first, edge = self.row.base_offset, self.row.position
        for span in self.spans:
            if span.position != edge or span.position + span.size > damage.position:
                break
            first = (
                span.base_offset + span.offsets if self.has_true_offsets else first + span.offsets
            )
            edge += span.size
        end, edge = self.row.next_offset, self.row.end
        behind = bisect_left(self.spans, damage.position + damage.size, key=attrgetter("position"))
        for span in reversed(self.spans[behind:]):
            if span.position + span.size != edge:
                break
            end = span.base_offset if self.has_true_offsets else end - span.offsets
            edge = span.position
        return first, max(end, first + 1)
