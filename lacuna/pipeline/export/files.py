"""Writes rows to Parquet files, divided by time. Limits the size of each file, and the memory of all open files."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lacuna.pipeline.export.destination import Destination
from lacuna.pipeline.export.layout import NONE, PARTITIONINGS, time_folder
from lacuna.pipeline.export.runs import ROWS, ExportedFile

if TYPE_CHECKING:
    from lacuna.pipeline.export.partitioning import Divider

#: The maximum size of the rows that wait in memory to become row groups, across all open files of a writer.
ROW_BYTES: Final = 32 << 20
FILE_BYTES: Final = 128 << 20
#: The number of row groups into which rows that were sorted together are divided.
_SORTED_PARTS: Final = 8
#: The maximum number of files that a writer keeps open. Beyond it, the least recently used one is finished.
OPEN_FILES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """Where and how a task writes its files.

    Files are written to the folder `staged`; readers will see them in the folder `final`. Rows that wait in memory take
    up to `row_bytes`, and a file takes about `file_bytes`. Rows that are written together are sorted by the columns in
    `sort_by`.
    """

    staged: str
    final: str
    partition_by: str = NONE
    sort_by: tuple[str, ...] = ()
    compression: str = "zstd"
    row_bytes: int = ROW_BYTES
    file_bytes: int = FILE_BYTES

    def within(self, folder: str) -> "FileSettings":
        """Returns a copy that stages files in the subfolder `folder`."""
        return replace(self, staged=f"{self.staged}/{folder}")


@dataclass(slots=True)
class _Open:
    staged: str
    folder: str
    first_offset: int
    sink: pa.NativeFile
    writer: pq.ParquetWriter
    closing: ExitStack
    last_offset: int = 0
    records: int = 0
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0


class FileWriter:
    """Writes the files of one slice of a partition. Rows must be added in offset order.

    Must be ended with `finish`, or with `abandon`, which leaves useless files in the staging folder.
    """

    def __init__(
        self,
        destination: Destination,
        settings: FileSettings,
        partition: int,
        kind: str = ROWS,
    ) -> None:
        self._destination = destination
        self._settings = settings
        self._partition = partition
        self._kind = kind
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._waiting_bytes = 0
        self._finished: list[ExportedFile] = []
        self._divider: Divider | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds rows to the files to which they belong. Raises DestinationError."""
        for folder, part in self._divided(rows):
            self._add(folder, part)
        while self._waiting_bytes > self._settings.row_bytes:
            file = max(self._open.values(), key=lambda each: each.waiting_bytes)
            self._write_waiting(file)
            if file.sink.tell() >= self._settings.file_bytes:
                self._close(file)

    def finish(self) -> list[ExportedFile]:
        """Finishes all files and returns them. Raises DestinationError."""
        while self._open:
            self._close(next(iter(self._open.values())))
        return self._finished

    def abandon(self) -> None:
        """Closes all open files without finishing them."""
        for file in self._open.values():
            file.writer.close()
            file.closing.close()
        self._open.clear()

    def _divided(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        partition_by = self._settings.partition_by
        if partition_by in PARTITIONINGS:
            return _by_time(rows, partition_by)
        if self._divider is None:
            from lacuna.pipeline.export.partitioning import Divider

            self._divider = Divider(partition_by, rows.schema)
        return self._divider.divide(rows)

    def _add(self, folder: str, rows: pa.RecordBatch) -> None:
        file = self._open.pop(folder, None)
        if file is None:
            if len(self._open) >= OPEN_FILES:
                self._close(next(iter(self._open.values())))
            file = self._begin(folder, rows)
        self._open[folder] = file
        file.waiting.append(rows)
        file.waiting_bytes += rows.nbytes
        self._waiting_bytes += rows.nbytes
        file.records += rows.num_rows
        file.last_offset = rows.column("offset")[-1].as_py()

    def _begin(self, folder: str, rows: pa.RecordBatch) -> _Open:
        first_offset = rows.column("offset")[0].as_py()
        staged = (
            f"{self._settings.staged}/{folder}{self._partition:05d}-{first_offset:020d}.parquet"
        )
        with ExitStack() as closing:
            sink = closing.enter_context(self._destination.create(staged))
            writer = pq.ParquetWriter(
                sink, rows.schema, compression=self._settings.compression, version="2.6"
            )
            return _Open(staged, folder, first_offset, sink, writer, closing.pop_all())

    def _write_waiting(self, file: _Open) -> None:
        if file.waiting:
            write_rows(file.writer, pa.Table.from_batches(file.waiting), self._settings.sort_by)
            self._waiting_bytes -= file.waiting_bytes
            file.waiting, file.waiting_bytes = [], 0

    def _close(self, file: _Open) -> None:
        del self._open[file.folder]
        self._write_waiting(file)
        file.writer.close()
        size = file.sink.tell()
        file.closing.close()
        name = f"{self._partition:05d}-{file.first_offset:020d}-{file.last_offset:020d}.parquet"
        self._finished.append(
            ExportedFile(
                staged=file.staged,
                name=f"{self._settings.final}/{file.folder}{name}",
                partition=self._partition,
                first_offset=file.first_offset,
                last_offset=file.last_offset,
                records=file.records,
                size=size,
                kind=self._kind,
            )
        )


def write_rows(writer: pq.ParquetWriter, rows: pa.Table, sort_by: Sequence[str]) -> None:
    """Writes rows as one row group or, if they are sorted, as several smaller ones, so that readers can skip some."""
    if sort_by:
        rows = rows.sort_by([(name, "ascending") for name in sort_by])
    parts = _SORTED_PARTS if sort_by else 1
    writer.write_table(rows, row_group_size=max(1, -(-rows.num_rows // parts)))


def _by_time(rows: pa.RecordBatch, partition_by: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    if rows.num_rows == 0:
        return
    if partition_by == NONE:
        yield "", rows
        return
    hours = _whole_hours(rows.column("timestamp"), partition_by)
    values = hours.unique()
    for value in values:
        folder = time_folder(partition_by, value.as_py())
        if len(values) == 1:
            yield folder, rows
        else:
            is_here = pc.equal(hours, value) if value.is_valid else pc.is_null(hours)
            yield folder, rows.filter(pc.fill_null(is_here, False))


def _whole_hours(times: pa.Array, unit: str) -> pa.Array:
    """Returns the start of each time's day or hour (`unit`), in hours since 1970."""
    micros = times.cast(pa.int64())
    size = 3_600_000_000 * (24 if unit == "day" else 1)
    # Arrow's integer division rounds towards 0, but times before 1970 must be rounded down.
    down = pc.if_else(pc.less(micros, 0), pc.subtract(micros, size - 1), micros)
    return pc.multiply(pc.divide(down, size), size // 3_600_000_000)
