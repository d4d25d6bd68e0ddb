"""The report of an export."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from lacuna.pipeline.export.cuts import CutReport
from lacuna.pipeline.export.damage import Skipped
from lacuna.pipeline.export.runs import QUARANTINE, RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFailure:
    """A topic whose export failed, and the reason. Other topics are not affected."""

    topic: str
    error: Exception

    def as_json(self) -> dict[str, Any]:
        return {"topic": self.topic, "error": str(self.error)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReport:
    """The report on one topic.

    `run` is the run's number (for Iceberg, the snapshot's id), or None if there was nothing new. `bytes` is the size of
    the Parquet files; `offsets` contains the exported offsets [from, to) by partition. `misfits` counts records that
    did not match their schema. `skipped` lists unreadable offsets with confirmed damage. `recovered` is True if an
    interrupted run was finished first. `positions` are the next offsets to export. Readers find everything below them
    in all runs up to `state` or, for Iceberg, in the snapshot with that id.
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
    skipped: tuple[Skipped, ...] = ()
    positions: Mapping[int, int] = field(default_factory=dict)
    state: int | None = None
    cut: CutReport | None = None
    recovered: bool = False
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
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
            "skipped": [
                {
                    "partition": each.partition,
                    "from": each.first_offset,
                    "to": each.end_offset,
                    "object": each.key,
                    "damage": each.kind,
                }
                for each in self.skipped
            ],
            "cut": None if self.cut is None else self.cut.as_json(),
            "recovered": self.recovered,
            "seconds": round(self.seconds, 3),
        }

    def of_run(
        self, committed: RunRecord, run: int | str | None, state: int | None, seconds: float
    ) -> Self:
        """Returns the report of a committed run. `seconds` is how long the commit took."""
        files = committed.files
        return replace(
            self,
            run=run,
            records=sum(file.records for file in files if file.kind != QUARANTINE),
            files=len(files),
            bytes=sum(file.size for file in files),
            quarantined=sum(file.records for file in files if file.kind == QUARANTINE),
            offsets=committed.moved,
            skipped=committed.skipped,
            positions=committed.positions,
            state=state,
            seconds=self.seconds + seconds,
        )
