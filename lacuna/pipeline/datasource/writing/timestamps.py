"""Checks the timestamps of rows as a broker checks those of a producer (S11)."""

import pyarrow as pa
import pyarrow.compute as pc

from lacuna.pipeline.datasource.writing.topics import Target
from lacuna.pipeline.errors import PipelineError


def check_timestamps(timestamps: pa.Array, target: Target, now_ms: int) -> None:
    """Raises PipelineError if a timestamp (in ms) is one that the topic `target` does not accept at `now_ms`."""
    bounds = pc.min_max(timestamps).as_py()
    smallest, largest = bounds["min"], bounds["max"]
    if smallest is None:
        return
    if smallest < 0:
        raise PipelineError(
            f"a row's timestamp lies {-smallest} ms before 1970, but Kafka has no such "
            "timestamps: filter out such rows, or drop the column 'timestamp' to use the time of "
            "writing"
        )
    if target.is_log_append_time:
        return
    if largest - now_ms > target.max_after_ms:
        raise _outside(target, largest, "after", "ahead of", largest - now_ms)
    if now_ms - smallest > target.max_before_ms:
        raise _outside(target, smallest, "before", "behind", now_ms - smallest)


def _outside(
    target: Target, timestamp: int, bound: str, word: str, distance_ms: int
) -> PipelineError:
    return PipelineError(
        f"a row's timestamp {timestamp} is {distance_ms} ms {word} the time of writing, more than topic "
        f"{target.name!r} accepts (message.timestamp.{bound}.max.ms): raise that, or drop the column "
        "'timestamp'"
    )
