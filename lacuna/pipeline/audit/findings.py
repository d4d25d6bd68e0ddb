"""The findings of an audit: what is wrong and where, which offsets are affected, and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

#: The maximum number of findings that a task keeps; further ones are only counted.
MAX_FINDINGS: Final = 500
_SHOWN_HITS: Final = 5


class Kind(StrEnum):
    """The kinds of findings. All are errors, except those in NOTES, which are reported but do not fail the audit."""

    DAMAGE = "damaged bytes"
    TRUNCATED = "object too short"
    MISSING = "missing object"
    EXTENT = "extent and object disagree"
    OFFSETS = "wrong offsets"
    LOG_START = "log start behind lost records"
    OUTCOME = "wrong outcome"
    KEYS = "wrong number of keys"
    MARKER = "wrong cluster marker"
    METADATA = "damaged metadata snapshot"
    FUTURE = "segment later than the journal"
    GARBAGE = "unreferenced object"
    FOREIGN = "unknown object"


NOTES: Final = frozenset((Kind.GARBAGE, Kind.FOREIGN))

_ADVICE: Final = {
    Kind.DAMAGE: "restore the object from a copy of the bucket; the rest of the object is intact",
    Kind.TRUNCATED: "restore the object from a copy of the bucket",
    Kind.MISSING: "restore the object from a copy of the bucket (an object version or a backup)",
    Kind.EXTENT: "keep the bucket and the journal as they are, and report this as a bug in Lacuna",
    Kind.OFFSETS: "keep the bucket and the journal as they are, and report this as a bug in Lacuna",
    Kind.LOG_START: "if the topic has retention, compaction in version 0.1 or earlier may have removed "
    "expired records without moving the log start: delete the records below the end of these "
    "offsets (kafka-delete-records.sh, or DeleteRecords in any client), so that consumers learn that these "
    "records are gone, as in Kafka. If it has no retention, keep the bucket and the journal as they are, and "
    "report this as a bug in Lacuna",
    Kind.OUTCOME: "keep the bucket and the journal as they are, and report this as a bug in Lacuna",
    Kind.KEYS: "compact the topic again; if the finding recurs, report it as a bug in Lacuna",
    Kind.MARKER: "restore this object with its original text, which names the cluster",
    Kind.METADATA: "publish a new snapshot with `lacuna metadata publish`",
    Kind.FUTURE: "the journal is older than the bucket: restore a newer copy of the journal before "
    "anything is collected; or start with --accept-loss",
    Kind.GARBAGE: "nothing, because collection will delete it; but if the journal was restored from an older copy, "
    "this object may contain acknowledged records: do not let collection run",
    Kind.FOREIGN: "nothing, or delete it: Lacuna did not write it and never touches it",
}


@dataclass(frozen=True, slots=True)
class Hit:
    """The offsets [first_offset, end_offset) of a partition that a finding affects."""

    topic: str
    partition: int
    first_offset: int
    end_offset: int

    def __str__(self) -> str:
        last = self.end_offset - 1
        offsets = (
            f"offset {last}" if last <= self.first_offset else f"offsets {self.first_offset}-{last}"
        )
        return f"{self.topic} [{self.partition}] {offsets}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding about `size` bytes at `position` in the object `key`.

    `key` is empty if no object is involved, and `position` is -1 if no specific bytes are.
    """

    kind: Kind
    reason: str
    key: str = ""
    position: int = -1
    size: int = 0
    hits: tuple[Hit, ...] = ()

    @property
    def is_note(self) -> bool:
        return self.kind in NOTES

    @property
    def advice(self) -> str:
        return _ADVICE[self.kind]

    def __str__(self) -> str:
        where = ""
        if self.key:
            where = f" {self.key!r}" if self.kind.endswith("object") else f" in object {self.key!r}"
        if self.position >= 0:
            unit = "byte" if self.size == 1 else "bytes"
            where += f", {self.size} {unit} at position {self.position}"
        shown = ", ".join(map(str, self.hits[:_SHOWN_HITS]))
        more = len(self.hits) - _SHOWN_HITS
        hits = f" (affects {shown}{f' and {more} more' if more > 0 else ''})" if shown else ""
        return f"{self.kind}{where}: {self.reason}{hits}"


@dataclass(slots=True)
class Findings:
    """Collects up to `limit` errors and up to `limit` notes. Further ones are only counted."""

    errors: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    errors_left_out: int = 0
    notes_left_out: int = 0
    limit: int = MAX_FINDINGS

    @property
    def found(self) -> list[Finding]:
        """The collected findings: errors first, then notes."""
        return [*self.errors, *self.notes]

    def add(self, finding: Finding) -> None:
        kept = self.notes if finding.is_note else self.errors
        if len(kept) < self.limit:
            kept.append(finding)
        elif finding.is_note:
            self.notes_left_out += 1
        else:
            self.errors_left_out += 1

    def extend(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.add(finding)

    def add_all(self, others: "Findings") -> None:
        """Adds the findings in `others`, and the counts of those that it did not collect."""
        self.extend(others.found)
        self.errors_left_out += others.errors_left_out
        self.notes_left_out += others.notes_left_out
