"""The work of a task: it reads its pieces and yields Arrow batches."""

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.types import StructType

from lacuna.pipeline.datasource.columns import arrow_batches
from lacuna.pipeline.datasource.failing import explained
from lacuna.pipeline.datasource.pinning import held
from lacuna.pipeline.datasource.planning import ReadTask
from lacuna.pipeline.loading import load_blocks
from lacuna.pipeline.salvage import Lost
from lacuna.pipeline.stores import shared_store

_log = logging.getLogger("lacuna.datasource")


def read_task(task: ReadTask, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yields the task's records with the columns of `schema`.

    Raises DataLossError, DamagedDataError, PipelineError.
    """
    bucket = task.bucket
    skip = warn_of if bucket.is_tolerant else None
    with explained(), held(task.hold):
        store = shared_store(bucket.store_url)
        blocks = load_blocks(store, bucket.cluster_id, task.pieces, skip=skip)
        yield from arrow_batches(blocks, task, schema, skip)


def warn_of(lost: Lost) -> None:
    """Logs a warning about records that a tolerant reader leaves out."""
    _log.warning(
        "offsets %d to %d are skipped because of failOnDataLoss=false: %s",
        lost.first_offset,
        lost.end_offset - 1,
        lost.error,
    )
