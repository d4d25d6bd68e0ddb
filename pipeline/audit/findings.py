"""What an audit finds, as values: what is wrong, where, whom it hits and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

#: Findings of one task that are kept whole; of the others only their number is.
MAX_FINDINGS: Final = 500
_SHOWN_HITS: Final = 5


class Kind(StrEnum):
    """What is wrong. Those of NOTES are not: they are said and do not fail an audit."""

    DAMAGE = "damaged bytes"
    TRUNCATED = "object too short"
    MISSING = "missing object"
    EXTENT = "extent and object disagree"
    OFFSETS = "wrong offsets"
    OUTCOME = "wrong outcome"
    KEYS = "wrong number of keys"
    MARKER = "wrong cluster marker"
    METADATA = "damaged metadata snapshot"
    FUTURE = "unknown lease"
    GARBAGE = "unreferenced object"
    FOREIGN = "unknown object"


NOTES: Final = frozenset((Kind.GARBAGE, Kind.FOREIGN))

_ADVICE: Final = {
    Kind.DAMAGE: "restore the object from a copy of the bucket; its other bytes are whole",
    Kind.TRUNCATED: "restore the object from a copy of the bucket",
    Kind.MISSING: "restore the object from a copy of the bucket (its versions, a backup)",
    Kind.EXTENT: "keep the bucket and the journal as they are and report this as a bug of Lacuna",
    Kind.OFFSETS: "keep the bucket and the journal as they are and report this as a bug of Lacuna",
    Kind.OUTCOME: "keep the bucket and the journal as they are and report this as a bug of Lacuna",
    Kind.KEYS: "compact the topic anew; if it comes again, report it as a bug of Lacuna",
    Kind.MARKER: "put the object back as a text that names the cluster",
    Kind.METADATA: "publish a new snapshot with `lacuna metadata publish`",
    Kind.FUTURE: "the journal is older than the bucket: restore a newer copy of the journal before "
    "anything is collected",
    Kind.GARBAGE: "nothing, collection removes it; but if the journal was restored from an older copy, "
    "these may be acknowledged records: keep collection off",
    Kind.FOREIGN: "nothing, or remove it: Lacuna did not write it and never touches it",
}


@dataclass(frozen=True, slots=True)
class Hit:
    """Offsets [first_offset, end_offset) of a partition that a finding is about."""

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
    """One thing. `size` bytes at `position` of the object `key`; empty and -1 where it is about none."""

    kind: Kind
    reason: str
    key: str = ""
    position: int = -1
    size: int = 0
    hits: tuple[Hit, ...] = ()

    @property
    def is_note(self) -> bool:
        """Whether nothing is wrong for all that."""
        return self.kind in NOTES

    @property
    def advice(self) -> str:
        """What to do."""
        return _ADVICE[self.kind]

    def with_hits(self, hits: Iterable[Hit]) -> "Finding":
        """The same with those."""
        return replace(self, hits=tuple(hits))

    def __str__(self) -> str:
        where = ""
        if self.key:
            where = f" {self.key!r}" if self.kind.endswith("object") else f" in object {self.key!r}"
        if self.position >= 0:
            unit = "byte" if self.size == 1 else "bytes"
            where += f", {self.size} {unit} at position {self.position}"
        shown = ", ".join(map(str, self.hits[:_SHOWN_HITS]))
        more = len(self.hits) - _SHOWN_HITS
        hits = f" (hits {shown}{f' and {more} more' if more > 0 else ''})" if shown else ""
        return f"{self.kind}{where}: {self.reason}{hits}"


@dataclass(slots=True)
class Findings:
    """Findings and notes, of each at most `limit`; the others are counted only."""

    errors: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    errors_left_out: int = 0
    notes_left_out: int = 0
    limit: int = MAX_FINDINGS

    @property
    def found(self) -> list[Finding]:
        """All that were kept, the notes last."""
        return [*self.errors, *self.notes]

    def add(self, finding: Finding) -> None:
        """Keeps one, while there is room for its like."""
        kept = self.notes if finding.is_note else self.errors
        if len(kept) < self.limit:
            kept.append(finding)
        elif finding.is_note:
            self.notes_left_out += 1
        else:
            self.errors_left_out += 1

    def add_all(self, others: "Findings") -> None:
        """Keeps those of another list, while there is room."""
        for finding in others.found:
            self.add(finding)
        self.errors_left_out += others.errors_left_out
        self.notes_left_out += others.notes_left_out
