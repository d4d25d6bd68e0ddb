"""The log of a topic's exports to one destination, with the exported offsets of each run.

Records are numbered objects under `_lacuna/topic=TOPIC/log/`, each created only if absent and never changed. An export
appends record n+1 only after it has read record n, so if two exports run at the same time, one of them fails. A run
writes three records, of which only the last one is kept:

    begun       the positions before the run, its offset ranges, and the location of its unfinished files
    prepared    all its files are written and durable, so the run will certainly be published
    committed   readers see its files; it contains the positions after the run
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from lacuna.pipeline.errors import DestinationError, ExportRunningError, NameTakenError
from lacuna.pipeline.export.damage import Skipped
from lacuna.pipeline.export.destination import Destination, Move
from lacuna.pipeline.export.opening import open_destination

Kind: TypeAlias = Literal["begun", "prepared", "committed"]

_FORMAT: Final = 2
#: The contents of a run's files: rows that readers see; the tombstones of an export by key; or records that do not
#: match their schema.
ROWS: Final = "rows"
TOMBSTONES: Final = "tombstones"
QUARANTINE: Final = "quarantine"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """A file of a run, with its hidden name `staged`, its visible `name`, and its first and last offset."""

    staged: str
    name: str
    partition: int
    first_offset: int
    last_offset: int
    records: int
    size: int
    kind: str = ROWS

    @property
    def move(self) -> Move:
        return Move(self.staged, self.name, self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The properties that must not change between runs. `columns` contains the types of all columns by path.

    `upserts` is the column of the key if the table has one row for each key, and otherwise "".
    """

    cluster_id: str
    topic: str
    topic_id: str
    partition_by: str
    columns: Mapping[str, str]
    upserts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(Identity):
    """One record of the log.

    `positions` are the next offsets to export after the last *committed* run, by partition; empty before the first run.
    `ranges` contains the run's offsets [first, end) by partition, including `skipped` ones that could not be read.
    `token` is unique to the run.
    """

    sequence: int
    kind: Kind
    run: int
    token: str
    positions: Mapping[int, int]
    ranges: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    files: tuple[ExportedFile, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    began_ms: int = 0

    @property
    def moved(self) -> Mapping[int, tuple[int, int]]:
        """The run's non-empty offset ranges, by partition."""
        return {key: bounds for key, bounds in self.ranges.items() if bounds[0] < bounds[1]}

    def encode(self) -> bytes:
        return json.dumps({"format": _FORMAT, **asdict(self)}, indent=1).encode()

    @classmethod
    def decode(cls, name: str, data: bytes) -> "RunRecord":
        """Parses the record in the object `name`. Raises DestinationError."""
        try:
            raw: dict[str, Any] = json.loads(data)
            if raw.pop("format") != _FORMAT:
                raise DestinationError(
                    f"{name} was written by a different version of Lacuna: export with that version, or to a "
                    "different destination"
                )
            raw["positions"] = {int(key): end for key, end in raw["positions"].items()}
            raw["ranges"] = {int(key): (low, high) for key, (low, high) in raw["ranges"].items()}
            raw["files"] = tuple(ExportedFile(**file) for file in raw["files"])
            raw["skipped"] = tuple(Skipped(**each) for each in raw["skipped"])
            return cls(**raw)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DestinationError(f"{name} is not an export record: {error!r}") from error

    def committed(self) -> "RunRecord":
        ends = {partition: end for partition, (_, end) in self.ranges.items()}
        return replace(
            self,
            sequence=self.sequence + 1,
            kind="committed",
            positions={**self.positions, **ends},
        )


class RunLog:
    """The log of exports of `topic` to `destination`."""

    def __init__(self, destination: Destination, topic: str) -> None:
        self._destination = destination
        self._topic = topic
        self._folder = f"_lacuna/topic={topic}/log"

    @property
    def lock_name(self) -> str:
        return f"_lacuna/topic={self._topic}/lock"

    def last(self) -> RunRecord | None:
        """Returns the newest record, or None before the first export."""
        names = self._destination.names(self._folder)
        return self._read(names[-1]) if names else None

    def last_committed(self) -> RunRecord | None:
        """Returns the newest committed record, or None. Later runs that died do not matter to the next run."""
        for name in reversed(self._destination.names(self._folder)):
            record = self._read(name)
            if record.kind == "committed":
                return record
        return None

    def committed(self) -> list[RunRecord]:
        """Returns the records of all committed runs, in order. May be called while an export prunes the log."""
        records = map(self._find, self._destination.names(self._folder))
        return [record for record in records if record is not None and record.kind == "committed"]

    def unfinished(self) -> dict[str, RunRecord]:
        """Returns, by name, the records of unfinished runs that directly precede the newest record."""
        begun: dict[str, RunRecord] = {}
        for name in reversed(self._destination.names(self._folder)[:-1]):
            record = self._read(name)
            if record.kind == "committed":
                break
            begun[name] = record
        return begun

    def append(self, record: RunRecord) -> None:
        """Appends a record. Raises ExportRunningError if another export has appended one since `last`."""
        name = f"{self._folder}/{record.sequence:012d}.json"
        try:
            self._destination.put_new(name, record.encode())
        except NameTakenError:
            raise self._overtaken() from None
        # The number may only be free because `prune` deleted its record, in which case higher ones exist.
        if self._destination.names(self._folder)[-1] != name:
            raise self._overtaken()

    def prune(self) -> None:
        """Deletes the `unfinished` records."""
        self._destination.delete(self.unfinished())

    def _overtaken(self) -> ExportRunningError:
        return ExportRunningError(
            f"another export of {self._topic} to {self._destination.uri('')} ran at the same time: "
            "nothing from this run was published; run it again"
        )

    def _read(self, name: str) -> RunRecord:
        record = self._find(name)
        if record is None:
            raise DestinationError(
                f"{self._destination.uri(name)} was deleted: do not delete files in _lacuna/; restore it"
            )
        return record

    def _find(self, name: str) -> RunRecord | None:
        data = self._destination.read(name)
        return None if data is None else RunRecord.decode(self._destination.uri(name), data)


def run_folder(topic: str, run: int) -> str:
    """Returns the folder in which readers find the files of a run."""
    return f"topic={topic}/run={run:06d}"


def staging_folder(topic: str, token: str = "") -> str:
    """Returns the folder of an unpublished run's files or, without `token`, the parent folder of all runs."""
    return "/".join(filter(None, (f"_staging/topic={topic}", token)))


def check_same(last: Identity, now: Identity, where: str) -> None:
    """Raises DestinationError, which names `where`, if the export `now` does not match the earlier one."""
    if last.cluster_id != now.cluster_id:
        raise DestinationError(
            f"{where} contains topic {last.topic} of a different cluster ({last.cluster_id}): export to a "
            "different destination"
        )
    if last.topic_id != now.topic_id:
        raise DestinationError(
            f"topic {last.topic} has been deleted and recreated since the last export to {where}, so "
            "its offsets started again at 0; export the new topic to a different destination"
        )
    if last.partition_by != now.partition_by:
        raise DestinationError(
            f"{where} is partitioned by {last.partition_by}: continue with --partition-by "
            f"{last.partition_by}, or export to a different destination"
        )
    if changed := changed_columns(last.columns, now.columns):
        raise DestinationError(
            f"{where} has different columns: {changed}; columns may be added, but existing ones must keep "
            "their types: export to a different destination"
        )


def changed_columns(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Describes the columns whose types differ. Returns "" if there are none."""
    changed = [
        f"{name} was {old[name]} and would be {new[name]}"
        for name in sorted(old.keys() & new.keys())
        if old[name] != new[name]
    ]
    changed += [f"{name} had fields and would be {new[name]}" for name in _within(old, new)]
    changed += [f"{name} was {old[name]} and would have fields" for name in _within(new, old)]
    return ", ".join(changed)


def _within(inner: Iterable[str], outer: Iterable[str]) -> list[str]:
    return [name for name in outer if any(path.startswith(f"{name}.") for path in inner)]


def committed_files(url: str, topic: str) -> Sequence[str]:
    """Returns the full names of all Parquet files of a topic's committed runs at the destination `url`.

    A reader that lists a bucket while a run is being published could not tell that run's files from these.
    """
    destination = open_destination(url)
    return [
        destination.uri(file.name)
        for record in RunLog(destination, topic).committed()
        for file in record.files
        if file.kind == ROWS
    ]
