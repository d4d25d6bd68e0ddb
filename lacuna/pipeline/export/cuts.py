"""The cut up to which a run exports: an end for each partition of each of its topics, such that no transaction is
split.

A cut is complete once every topic has been exported up to it. Complete cuts are recorded next to Parquet files as small
objects (`CutLog`), and next to Iceberg tables in a table of their own (`together.CutsTable`).
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.errors import DestinationError, NameTakenError
from lacuna.pipeline.export.destination import Destination

#: How many of the newest complete cuts are kept.
MOST_CUTS: Final = 1_000

#: The table of complete cuts, in the same namespace as the exported tables.
CUTS: Final = "lacuna_cuts"

_FOLDER: Final = "_lacuna/cuts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """An open transaction that holds a cut back in some partitions, until it times out. Times are in ms."""

    transactional_id: str
    producer_id: int
    start_time_ms: int
    timeout_ms: int
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCut:
    """The cut of a run, and the run's existing topics by name. `id` is unique to the run."""

    id: str
    at_ms: int
    topics: Mapping[str, Topic]
    ends: Mapping[PartitionKey, int]
    holders: tuple[Holder, ...]

    def ends_of(self, topic: Topic) -> dict[int, int]:
        keys = ((topic.topic_id, number) for number in range(topic.partition_count))
        return {key[1]: self.ends[key] for key in keys if key in self.ends}

    def is_reached(self, topic: str, positions: Mapping[int, int]) -> bool:
        """Whether a topic has been exported exactly up to the cut."""
        known = self.topics.get(topic)
        return known is not None and self.ends_of(known) == positions


def plan_cut(control: JobClient, names: Sequence[str]) -> RunCut:
    """Returns the current cut of these topics. Raises PipelineError if they have too many partitions for one cut."""
    there = control.topics()
    topics = {name: there[name] for name in names if name in there}
    keys = [
        (topic.topic_id, number)
        for topic in topics.values()
        for number in range(topic.partition_count)
    ]
    cut = control.cut(keys)
    return RunCut(
        id=uuid.uuid4().hex,
        at_ms=cut.at_ms,
        topics=topics,
        ends={
            key: each.end_offset
            for key, each in cut.partitions.items()
            if each.error_code == ErrorCode.NONE
        },
        holders=tuple(
            Holder(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                start_time_ms=each.start_time_ms,
                timeout_ms=each.transaction_timeout_ms,
                partitions=each.partitions,
            )
            for each in cut.holders
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CutReport:
    """The cut in a run's report. `is_complete` is True if all topics have been exported up to it."""

    id: str
    at_ms: int
    topics: int
    is_complete: bool
    holders: tuple[Holder, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "at_ms": self.at_ms,
            "topics": self.topics,
            "complete": self.is_complete,
            "held_by": [asdict(each) for each in self.holders],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteCut:
    """A complete cut. `states` contains, for each topic, the last run or the snapshot to read."""

    id: str
    at_ms: int
    states: Mapping[str, int]

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, name: str, data: bytes) -> Self:
        """Parses the cut in the object `name`. Raises DestinationError."""
        try:
            return cls(**json.loads(data))
        except (ValueError, TypeError) as error:
            raise DestinationError(f"{name} is not an export cut: {error!r}") from error


class CutLog:
    """The complete cuts of exports to Parquet files: one object each, with names that sort by time."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination

    def note(self, cut: CompleteCut) -> None:
        """Records a cut, unless the newest one has the same states, and deletes the oldest cuts beyond the limit."""
        names = self._destination.names(_FOLDER)
        newest = self._read(names[-1]) if names else None
        if newest is not None and newest.states == cut.states:
            return
        try:
            self._destination.put_new(f"{_FOLDER}/{cut.at_ms:015d}-{cut.id}.json", cut.encode())
        except NameTakenError:
            return  # recorded by an earlier attempt whose reply was lost
        self._destination.delete(names[: -MOST_CUTS + 1])

    def complete(self) -> list[CompleteCut]:
        """Returns the complete cuts, oldest first."""
        found = map(self._read, self._destination.names(_FOLDER))
        return [cut for cut in found if cut is not None]

    def _read(self, name: str) -> CompleteCut | None:
        data = self._destination.read(name)
        return None if data is None else CompleteCut.decode(self._destination.uri(name), data)
