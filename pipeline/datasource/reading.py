"""What a task does: reads its pieces, and gives Arrow batches."""

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.types import StructType

from logstore.objects import ObjectStore
from pipeline.datasource.columns import arrow_batches
from pipeline.datasource.failing import explained
from pipeline.datasource.planning import Bucket, PieceTable, ReadTask
from pipeline.errors import DataLossError
from pipeline.extents import Piece
from pipeline.loading import BLOCK_BYTES, Block, cut_pieces, load_block, load_blocks
from pipeline.stores import shared_store

_log = logging.getLogger("lacuna.datasource")


def read_task(task: ReadTask, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The task's records in the columns of `schema`.

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
        _log.warning("%s; passed over, as failOnDataLoss=false says", error)
