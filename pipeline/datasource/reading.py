"""The work of a task: it reads its pieces and yields Arrow batches."""

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.types import StructType

from lacuna.controlplane.shared.log.pieces import Piece
from lacuna.logstore.objects import ObjectStore
from lacuna.pipeline.datasource.columns import arrow_batches
from lacuna.pipeline.datasource.failing import explained
from lacuna.pipeline.datasource.planning import Bucket, PieceTable, ReadTask
from lacuna.pipeline.errors import DataLossError
from lacuna.pipeline.loading import BLOCK_BYTES, Block, cut_pieces, load_block, load_blocks
from lacuna.pipeline.stores import shared_store

_log = logging.getLogger("lacuna.datasource")


def read_task(task: ReadTask, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yields the task's records with the columns of `schema`.

    Raises DataLossError, DamagedDataError, PipelineError.
    """
    with explained():
        yield from arrow_batches(_blocks(task.bucket, task.pieces), task, schema)


def _blocks(bucket: Bucket, pieces: PieceTable) -> Iterator[Block]:
    store = shared_store(bucket.store_url)
    if not bucket.is_tolerant:
        yield from load_blocks(store, bucket.cluster_id, pieces)
        return
    for group in cut_pieces(pieces, BLOCK_BYTES):
        try:
            yield load_block(store, bucket.cluster_id, group)
        except DataLossError:
            for piece in group:
                yield from _if_there(store, bucket, piece)


def _if_there(store: ObjectStore, bucket: Bucket, piece: Piece) -> Iterator[Block]:
    try:
        yield load_block(store, bucket.cluster_id, [piece])
    except DataLossError as error:
        _log.warning("%s; skipped because of failOnDataLoss=false", error)
