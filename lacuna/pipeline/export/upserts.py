"""Keeps only the newest row of each key in an Iceberg table, or none after a tombstone (`--upsert`).

A run adds its rows unchanged and, in the same snapshot, position deletes for the rows that they replace. Position
deletes are small files that readers apply; maintenance rewrites data files without the deleted rows. To find replaced
rows, a run reads the table's columns `partition` and `offset` and its key column, in parts of bounded size.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import (
    _MergeAppendFiles,
    _OverwriteFiles,
    _SnapshotProducer,
)
from pyiceberg.typedef import EMPTY_DICT
from pyiceberg.types import IntegerType

from lacuna.pipeline.export.destination import Destination

_U = TypeVar("_U")
#: The ids that Iceberg reserves for the columns of position deletes.
_PATH_ID: Final = 2147483546
_SCHEMA: Final = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(_PATH_ID)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483545"}),
    ]
)
#: The maximum size and number of the rows with keys in memory at a time, once for the run and once for the table.
_KEY_BYTES: Final = 64 << 20
_KEY_ROWS: Final = 1 << 20
#: The number of parts of such rows after which they are joined.
_PIECES: Final = 128
#: Once there are this many manifests of delete files, they are rewritten as one.
_MOST_MANIFESTS: Final = 20
#: By partition: keys, and the offset of the newest record of each.
_Newest = Mapping[int, tuple[pa.Array, pa.Array]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Upserts:
    """The rows that a run replaces by key. `rows` and `tombstones` are its files, and `key` is the column of the key.

    Position deletes are written to `folder`. `found` contains those that were written, by the snapshot and partitioning
    of the table to which they apply.
    """

    key: str
    rows: Sequence[str]
    tombstones: Sequence[str]
    destination: Destination
    folder: str
    found: dict[tuple[int | None, int], "Deletes"] = field(default_factory=dict)

    def deletes(self, table: Table, metadata: TableMetadata, rows: Sequence[DataFile]) -> "Deletes":
        """Writes position deletes for all rows that the run replaces, in the table and among its own rows.

        `rows` are the entries for the run's files. Deletes that were found before are reused. Raises DestinationError,
        OSError.
        """
        state = (metadata.current_snapshot_id, metadata.default_spec_id)
        if state not in self.found:
            self.found.clear()
            self.found[state] = self._find(table, metadata, rows)
        return self.found[state]

    def _find(self, table: Table, metadata: TableMetadata, rows: Sequence[DataFile]) -> "Deletes":
        found = Deletes.of(table)
        files = [*(task.file for task in table.scan().plan_files()), *rows]
        for newest in self._newest(table.io):
            for file in files:
                within = _partitions(file, metadata)
                here = {number: keys for number, keys in newest.items() if number in within}
                if here:
                    positions = self._replaced(table.io, file, here)
                    if len(positions):
                        found.add(table, self.destination, self.folder, file, positions)
        return found

    def _newest(self, io: FileIO) -> Iterator[_Newest]:
        """Yields the run's newest record of each key, in parts of bounded size. A key may occur in several parts."""
        waiting = list[pa.Table]()
        for path in (*self.rows, *self.tombstones):
            for rows in self._rows(io, path):
                waiting.append(rows)
                if _is_full(waiting):
                    waiting = [self._newest_of(waiting)]
                    if _is_full(waiting, 1 / 2):
                        yield _by_partition(waiting.pop(), self.key)
        if waiting:
            yield _by_partition(self._newest_of(waiting), self.key)

    def _newest_of(self, tables: Sequence[pa.Table]) -> pa.Table:
        rows = pa.concat_tables(tables, promote_options="default")
        rows = rows.filter(rows.column(self.key).is_valid())
        newest = rows.group_by(["partition", self.key]).aggregate([("offset", "max")])
        return newest.rename_columns({"offset_max": "offset"}).select(self._columns)

    def _replaced(self, io: FileIO, file: DataFile, newest: _Newest) -> pa.Array:
        found, begin = [pa.array([], pa.int64())], 0
        for rows in self._rows(io, file.file_path):
            partitions, offsets_here = (
                _whole(rows.column(name)) for name in ("partition", "offset")
            )
            keys_here = _whole(rows.column(self.key))
            for number in partitions.unique().to_pylist():
                if number not in newest:
                    continue
                keys, offsets = newest[number]
                own = pc.indices_nonzero(pc.equal(partitions, number))
                # The type of a column may have been widened since the file was written.
                old_keys = keys_here.take(own).cast(keys.type)
                later = offsets.take(pc.index_in(old_keys, value_set=keys))
                is_old = pc.greater(later, offsets_here.take(own))
                positions = own.filter(pc.fill_null(is_old, False)).cast(pa.int64())
                found.append(pc.add(positions, begin))
            begin += rows.num_rows
        return pa.concat_arrays(found)

    def _rows(self, io: FileIO, path: str) -> Iterator[pa.Table]:
        """Yields a file's rows in large tables of bounded size, because each lookup indexes all keys again."""
        with io.new_input(path).open() as source:
            file = pq.ParquetFile(source)
            waiting = list[pa.Table]()
            for index in range(file.num_row_groups):
                for batch in file.iter_batches(_KEY_ROWS, [index], self._columns):
                    waiting.append(pa.Table.from_batches([batch]))
                    if _is_full(waiting):
                        yield pa.concat_tables(waiting)
                        waiting = []
            if waiting:
                yield pa.concat_tables(waiting)

    @property
    def _columns(self) -> list[str]:
        return ["partition", "offset", self.key]


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _is_full(tables: Sequence[pa.Table], share: float = 1.0) -> bool:
    rows, size = (
        sum(found) for found in zip(*((t.num_rows, t.nbytes) for t in tables), strict=True)
    )
    return len(tables) >= _PIECES or rows >= _KEY_ROWS * share or size >= _KEY_BYTES * share


def _by_partition(rows: pa.Table, key: str) -> _Newest:
    found = {}
    for number in rows.column("partition").unique().to_pylist():
        own = rows.filter(pc.equal(rows.column("partition"), number))
        found[number] = (_whole(own.column(key)), _whole(own.column("offset")))
    return found


def _partitions(file: DataFile, metadata: TableMetadata) -> range:
    """Returns the topic's partitions from which a file may contain rows, according to its statistics."""
    column = metadata.schema().find_field("partition")
    lower, upper = (
        (each or {}).get(column.field_id) for each in (file.lower_bounds, file.upper_bounds)
    )
    if lower is None or upper is None:
        return range(1 << 31)
    return range(int(from_bytes(IntegerType(), lower)), int(from_bytes(IntegerType(), upper)) + 1)


@dataclass(slots=True)
class Deletes:
    """The delete files of the next snapshot: those in the current one's manifests, except `removed`, and those in
    `added`.

    `removed` is indexed by the paths of delete files, and `added` by the paths of data files. A data file has at most
    one position delete file of its own, as some readers require.
    """

    manifests: list[tuple[ManifestFile, list[ManifestEntry]]] = field(default_factory=list)
    added: dict[str, DataFile] = field(default_factory=dict)
    removed: dict[str, DataFile] = field(default_factory=dict)
    #: The files of position deletes that are kept and apply to a single data file, by its path.
    _about_one: dict[str, list[DataFile]] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, snapshot_id: int | None = None) -> "Deletes":
        """Returns the delete files of the current snapshot, or of the given one, with nothing added or removed."""
        snapshot = (
            table.current_snapshot() if snapshot_id is None else table.snapshot_by_id(snapshot_id)
        )
        found = cls()
        for manifest in [] if snapshot is None else snapshot.manifests(table.io):
            if manifest.content == ManifestContent.DELETES:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                found.manifests.append((manifest, entries))
                for file in (entry.data_file for entry in entries):
                    if can_apply(file) and (subject := _subject_of(file)) is not None:
                        found._about_one.setdefault(subject, []).append(file)
        return found

    def paths(self) -> list[str]:
        kept = (entry for _, entries in self.manifests for entry in self.left(entries))
        files = [*(entry.data_file for entry in kept), *self.added.values()]
        return [file.file_path for file in files]

    def left(self, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
        return [entry for entry in entries if entry.data_file.file_path not in self.removed]

    def add(
        self,
        table: Table,
        destination: Destination,
        folder: str,
        file: DataFile,
        positions: pa.Array,
    ) -> None:
        """Deletes rows of a data file, unless they are already deleted. Raises DestinationError, OSError."""
        known = self._about(file)
        before = positions_in(table.io, file, known)
        positions = pa.concat_arrays([before, positions]).unique()
        if len(positions) == len(before):
            return
        self.drop(file)
        name = f"{folder}/deletes-{uuid.uuid4().hex}.parquet"
        self.added[file.file_path] = _write(table, destination, name, file, positions)

    def drop(self, file: DataFile) -> None:
        """Removes the deletes that apply only to this data file."""
        self.removed |= {each.file_path: each for each in self._about_one.pop(file.file_path, ())}
        self.added.pop(file.file_path, None)

    def _about(self, file: DataFile) -> list[DataFile]:
        added = self.added.get(file.file_path)
        return [*filter(None, [added]), *self._about_one.get(file.file_path, ())]


def _subject_of(delete_file: DataFile) -> str | None:
    """Returns the path of the data file to which position deletes apply, or None if there may be several."""
    lower, upper = (
        (each or {}).get(_PATH_ID) for each in (delete_file.lower_bounds, delete_file.upper_bounds)
    )
    return lower.decode() if lower is not None and lower == upper else None


def positions_in(io: FileIO, file: DataFile, delete_files: Iterable[DataFile]) -> pa.Array:
    """Returns the distinct positions in a data file that are listed in files of position deletes."""
    found = [pa.array([], pa.int64())]
    for each in delete_files:
        with io.new_input(each.file_path).open() as source:
            rows = pq.ParquetFile(source).read(columns=["file_path", "pos"])
        own = rows.filter(pc.equal(rows.column("file_path"), file.file_path))
        found.append(_whole(own.column("pos")))
    return pa.concat_arrays(found).unique()


def _write(
    table: Table, destination: Destination, name: str, file: DataFile, positions: pa.Array
) -> DataFile:
    positions = positions.take(pc.sort_indices(positions))
    rows = pa.table([pa.repeat(file.file_path, len(positions)), positions], schema=_SCHEMA)
    with destination.create(name) as sink:
        pq.write_table(rows, sink, compression="zstd")
        size = sink.tell()
    bound = {_PATH_ID: file.file_path.encode()}
    entry = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=f"{table.location()}/{name}",
        file_format=FileFormat.PARQUET,
        partition=file.partition,
        record_count=len(positions),
        file_size_in_bytes=size,
        lower_bounds=bound,
        upper_bounds=bound,
    )
    entry.spec_id = file.spec_id
    return entry


def can_apply(delete_file: DataFile) -> bool:
    """Whether a file contains position deletes in Parquet. Other deletes are left to the tools that wrote them."""
    is_position = delete_file.content == DataFileContent.POSITION_DELETES
    return is_position and delete_file.file_format == FileFormat.PARQUET


def without_deleted(rows: pa.Table, begin: int, deleted: pa.Array) -> pa.Table:
    """Returns rows of a file, the first of which is at position `begin`, without the deleted ones."""
    if not len(deleted) or not rows.num_rows:
        return rows
    ones = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
    positions = pc.add(pc.cumulative_sum(ones), begin - 1)
    return rows.filter(pc.invert(pc.is_in(positions, value_set=deleted)))


# pyiceberg does not write delete files yet, so their manifests are added to its snapshots here.


class _DeleteManifestWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def _delete_manifests(producer: "_SnapshotProducer[Any]", deletes: Deletes) -> list[ManifestFile]:
    """Returns the manifests of delete files: new ones, and earlier ones, which are rewritten if there are many."""
    found = [
        manifest
        for manifest, entries in deletes.manifests
        if entries and len(deletes.left(entries)) == len(entries)
    ]
    if len(found) >= _MOST_MANIFESTS:
        found = []
    unchanged = {manifest.manifest_path for manifest in found}
    by_spec: dict[int, list[ManifestEntry]] = {}
    for manifest, entries in deletes.manifests:
        for entry in () if manifest.manifest_path in unchanged else deletes.left(entries):
            by_spec.setdefault(entry.data_file.spec_id, []).append(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.EXISTING,
                    snapshot_id=entry.snapshot_id,
                    sequence_number=entry.sequence_number,
                    file_sequence_number=entry.file_sequence_number,
                    data_file=entry.data_file,
                )
            )
    for file in deletes.added.values():
        by_spec.setdefault(file.spec_id, []).append(
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=producer.snapshot_id,
                sequence_number=None,
                file_sequence_number=None,
                data_file=file,
            )
        )
    for spec_id, entries in by_spec.items():
        spec: PartitionSpec = producer.spec(spec_id)
        with _DeleteManifestWriter(
            spec,
            producer.schema(),
            producer.new_manifest_output(),
            producer.snapshot_id,
            producer._compression,
        ) as writer:
            for entry in entries:
                writer.add_entry(entry)
        found.append(writer.to_manifest_file())
    return found


class _WithDeletes(_SnapshotProducer[_U]):
    deletes: Deletes

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        data = [each for each in manifests if each.content == ManifestContent.DATA]
        return [*super()._process_manifests(data), *_delete_manifests(self, self.deletes)]

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        added, removed = self._added_data_files, self._deleted_data_files
        self._added_data_files = [*added, *self.deletes.added.values()]
        self._deleted_data_files = {*removed, *self.deletes.removed.values()}
        try:
            return super()._summary(snapshot_properties)
        finally:
            self._added_data_files, self._deleted_data_files = added, removed


class _Upsert(_WithDeletes[Any], _MergeAppendFiles):
    pass


class _Merge(_WithDeletes[Any], _OverwriteFiles):
    pass


def upsert(
    transaction: Transaction, io: FileIO, summary: Mapping[str, str], deletes: Deletes
) -> _MergeAppendFiles:
    is_first = transaction.table_metadata.current_snapshot_id is None
    operation = Operation.APPEND if is_first else Operation.OVERWRITE
    found = _Upsert(operation, transaction, io, snapshot_properties=dict(summary))
    found.deletes = deletes
    return cast("_MergeAppendFiles", found)


def overwrite(
    transaction: Transaction, io: FileIO, summary: Mapping[str, str], deletes: Deletes
) -> _OverwriteFiles:
    found = _Merge(Operation.OVERWRITE, transaction, io, snapshot_properties=dict(summary))
    found.deletes = deletes
    return cast("_OverwriteFiles", found)
