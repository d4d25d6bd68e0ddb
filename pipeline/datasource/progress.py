"""How far a query is behind, from its progress."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.datasource.bounds import TopicPartition, of_json


@dataclass(frozen=True, slots=True)
class Lag:
    """Offsets between what a query has read and the latest, by partition and over all of them.

    The three have the names of the metrics of Spark's Kafka source.
    """

    partitions: Mapping[TopicPartition, int]
    min_offsets_behind_latest: int
    max_offsets_behind_latest: int
    avg_offsets_behind_latest: float


def lag(progress: Mapping[str, Any] | None, source: int = 0) -> Lag | None:
    """Of `query.lastProgress`; `source` is the index of one that reads format("lacuna").

    None where the query has made no progress yet.
    """
    if progress is None:
        return None
    found = progress["sources"][source]
    ends, latest = _offsets(found["endOffset"]), _offsets(found["latestOffset"])
    if not latest:
        return None
    behind = {each: max(0, offset - ends.get(each, 0)) for each, offset in latest.items()}
    values = behind.values()
    return Lag(behind, min(values), max(values), sum(values) / len(values))


def _offsets(value: Any) -> dict[TopicPartition, int]:
    """An offset as text or as what the text says."""
    if isinstance(value, str):
        value = json.loads(value)
    return of_json(value) if value else {}
