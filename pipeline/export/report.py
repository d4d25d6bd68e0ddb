"""What a run did."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.export.runs import ExportedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReport:
    """One topic's run; `run` is its number, None where there was nothing new. `bytes` are those of
    Parquet files, `offsets` [from, to) by partition. `recovered`: a run before was finished first.
    """

    topic: str
    target: str
    run: int | str | None = None
    records: int = 0
    files: int = 0
    bytes: int = 0
    misfits: int = 0
    quarantined: int = 0
    offsets: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    recovered: bool = False
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """For --json."""
        return {
            "topic": self.topic,
            "target": self.target,
            "run": self.run,
            "records": self.records,
            "files": self.files,
            "bytes": self.bytes,
            "misfits": self.misfits,
            "quarantined": self.quarantined,
            "offsets": {
                str(partition): {"from": first, "to": end}
                for partition, (first, end) in sorted(self.offsets.items())
            },
            "recovered": self.recovered,
            "seconds": round(self.seconds, 3),
        }


def totals(files: Iterable[ExportedFile]) -> dict[str, Any]:
    """Counts over the files of a run, as TopicReport names them."""
    found = list(files)
    return {
        "records": sum(file.records for file in found if not file.is_quarantine),
        "quarantined": sum(file.records for file in found if file.is_quarantine),
        "files": len(found),
        "bytes": sum(file.size for file in found),
    }
