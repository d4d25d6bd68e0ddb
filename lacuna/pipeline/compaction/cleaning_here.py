"""Compaction by key without Spark: SQLite finds the superseded records in a temporary database."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa

from lacuna.pipeline.compaction.rewriting import RewriteTask, TaskResult, rewrite
from lacuna.pipeline.compaction.superseding import DAMAGE, OffsetStream, scan_task
from lacuna.pipeline.stores import shared_store

_ROWS_AT_ONCE: Final = 10_000
_GONE: Final = pa.schema([("share", pa.int32()), ("offset", pa.int64()), ("payload", pa.binary())])


def clean(tasks: Sequence[RewriteTask], now_ms: int, attempts: Iterator[int]) -> list[TaskResult]:
    """Rewrites a unit as `cleaning.clean` does on Spark. A large database spills to disk, so memory is bounded."""
    with closing(sqlite3.connect("")) as database:
        _find_superseded(database, tasks, now_ms)
        return [
            rewrite(
                task,
                shared_store(task.store_url),
                next(attempts),
                OffsetStream(pa.RecordBatch.from_pylist([], _GONE), _gone(database, number)),
            )
            for number, task in enumerate(tasks)
        ]


def _find_superseded(
    database: sqlite3.Connection, tasks: Sequence[RewriteTask], now_ms: int
) -> None:
    """Fills the table `gone` with the task, share and offset of each record that `cleaning` would remove."""
    database.execute("CREATE TABLE keys (task, share, range, offset, key BLOB, is_past)")
    for number, task in enumerate(tasks):
        for batch in scan_task(number, task, now_ms):
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            database.executemany("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?)", rows)
    database.execute(
        "CREATE TABLE gone AS SELECT task, share, offset, CASE WHEN offset = ? THEN key END AS payload "
        "FROM (SELECT *, lead(offset) OVER (PARTITION BY range, key ORDER BY offset) AS later FROM keys) "
        "WHERE later IS NOT NULL OR is_past",
        (DAMAGE,),
    )
    database.execute("CREATE INDEX by_task ON gone (task, share, offset)")


def _gone(database: sqlite3.Connection, number: int) -> Iterator[pa.RecordBatch]:
    found = database.execute(
        "SELECT share, offset, payload FROM gone WHERE task = ? ORDER BY share, offset", (number,)
    )
    while rows := found.fetchmany(_ROWS_AT_ONCE):
        columns = zip(*rows, strict=True)
        arrays = [pa.array(each, field.type) for each, field in zip(columns, _GONE, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_GONE)
