"""Computes a streaming query's lag from the progress that it reports."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lacuna.pipeline.datasource.bounds import TopicPartition
from lacuna.pipeline.datasource.positions import Position
from lacuna.pipeline.datasource.spark_api import HAS_LIMITS, VERSION
from lacuna.pipeline.errors import PipelineError


@dataclass(frozen=True, slots=True)
class Lag:
    """A query's lag in offsets, by partition and overall. The last three fields are metrics of Spark's Kafka source."""

    partitions: Mapping[TopicPartition, int]
    min_offsets_behind_latest: int
    max_offsets_behind_latest: int
    avg_offsets_behind_latest: float


def lag(progress: Mapping[str, Any] | None, source: int = 0) -> Lag | None:
    """Returns the lag according to `query.lastProgress`, or None if the query has made no progress yet.

    `source` is the index of a source with the format "lacuna". Raises PipelineError if Spark reports no latest
    offsets.
    """
    if not HAS_LIMITS:
        raise PipelineError(
            f"PySpark {VERSION} does not report the latest offsets of a Python data source, so the lag is "
            "unknown; install pyspark 4.2 or later"
        )
    if progress is None:
        return None
    found = progress["sources"][source]
    ends, latest = _offsets(found["endOffset"]), _offsets(found["latestOffset"])
    if not latest:
        return None
    behind = {each: max(0, offset - ends.get(each, 0)) for each, offset in latest.items()}
    values = behind.values()
    return Lag(behind, min(values), max(values), sum(values) / len(values))


def _offsets(value: Any) -> Mapping[TopicPartition, int]:
    if isinstance(value, str):
        value = json.loads(value)
    return Position.of_json(value).offsets if value else {}
