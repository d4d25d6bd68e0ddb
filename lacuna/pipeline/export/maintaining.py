"""Keeps Iceberg tables small: merges small data files, and deletes old snapshots and the files that only they used."""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
)
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.utils.concurrent import ExecutorFactory

from lacuna.pipeline.export.destination import Destination
from lacuna.pipeline.export.files import ROW_BYTES, write_rows
from lacuna.pipeline.export.partitioning import data_file_of
from lacuna.pipeline.export.tables import (
    TopicTable,
    destination_of,
    iceberg_errors,
    in_summary,
    offsets_summary,
)
from lacuna.pipeline.export.upserts import (
    Deletes,
    can_apply,
    overwrite,
    positions_in,
    without_deleted,
)

#: Contains merged files, in a folder for each merge, whose name begins with the snapshot on which the merge is based.
_FOLDER: Final = "data/merged"
#: The summary property of a merge's snapshot that contains the name of that folder.
_TOKEN: Final = "lacuna.merge"  # noqa: S105 - the name of a property
#: The minimum number of small files to merge.
LEAST_FILES: Final = 8
#: The maximum numbers of bytes and files that a run merges in a table, and of snapshots that it deletes; the rest waits
#: for the next run.
_MOST_BYTES: Final = 1 << 30
_MOST_FILES: Final = 1_000
_MOST_EXPIRED: Final = 100
#: For each table, the snapshot in which there was nothing to merge, so that runs without new records skip manifests.
_MOST_TABLES: Final = 10_000
_nothing_in: dict[tuple[str, int], int] = {}
#: A file is rewritten once at least this share of its rows is deleted.
_WORN_SHARE: Final = 1 / 4
#: Snapshots are deleted once at least this share of them is too old. To find the files that only these use, a run reads
#: the manifests of all others, which would be too much for a single snapshot.
_EXPIRED_SHARE: Final = 1 / 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """The maintenance of a topic's table after a run. The topic must be locked.

    With `merges`, small files are merged into files of about `file_bytes`. Snapshots older than `expire_ms` (None:
    never) are deleted, except those in `kept`.
    """

    into: TopicTable
    merges: bool
    expire_ms: int | None
    file_bytes: int
    compression: str
    sort_by: tuple[str, ...]
    kept: frozenset[int]

    def run(self) -> None:
        """Maintains the table, if it exists. Raises DestinationError."""
        with iceberg_errors(f"the table {self.into.name}"):
            try:
                table = self.into.load()
            except NoSuchTableError:
                return
            if self.merges:
                self._merge(table)
            if self.expire_ms is not None:
                expire_snapshots(table, self.expire_ms, self.kept)

    def _merge(self, table: Table) -> None:
        """Merges small files, unless an earlier run in this process found nothing to merge in the same snapshot."""
        place = (table.location(), self.file_bytes)
        if (now := table.metadata.current_snapshot_id) is None or _nothing_in.get(place) == now:
            return
        if merge_small_files(table, self.file_bytes, self.compression, self.sort_by):
            return
        _nothing_in[place] = now
        if len(_nothing_in) > _MOST_TABLES:
            del _nothing_in[next(iter(_nothing_in))]


def merge_small_files(
    table: Table,
    file_bytes: int,
    compression: str,
    sort_by: Sequence[str] = (),
) -> int:
    """Replaces small data files with larger ones in one snapshot. Returns the number of files replaced.

    On return, `table` has the new snapshot. Rows with position deletes are omitted from the new files. If another
    writer commits first, no snapshot is added, and the next run tries again.
    """
    snapshot = table.current_snapshot()
    if snapshot is None or not snapshot.manifests(table.io):
        return 0
    destination = destination_of(table)
    _delete_orphans(table, destination, snapshot.snapshot_id)
    token = f"{snapshot.snapshot_id}-{uuid.uuid4().hex}"
    deletes = Deletes.of(table)
    merged, new = list[FileScanTask](), list[str]()
    for schema, old in _chosen(table, min(file_bytes, _MOST_BYTES)):
        merged += old
        deleted = {
            task.file.file_path: positions_in(table.io, task.file, task.delete_files)
            for task in old
        }
        if sum(task.file.record_count - len(deleted[task.file.file_path]) for task in old):
            name = f"{_FOLDER}/{token}/{len(new):05d}.parquet"
            with destination.create(name) as sink:
                _write(sink, schema, _row_groups(table, deleted), compression, sort_by)
            new.append(f"{table.location()}/{name}")
    if not merged:
        return 0
    for task in merged:
        deletes.drop(task.file)
    table.metadata.properties["commit.retry.num-retries"] = "0"
    try:
        with (
            table.transaction() as transaction,
            overwrite(
                transaction, table.io, {**offsets_summary(table), _TOKEN: token}, deletes
            ) as update,
        ):
            for each in merged:
                update.delete_data_file(each.file)
            for path in new:
                update.append_data_file(data_file_of(table.io, transaction.table_metadata, path))
    except CommitFailedException:
        destination.delete_folder(f"{_FOLDER}/{token}")
        return 0
    except CommitStateUnknownException:
        return 0  # the next merge deletes the files if no snapshot contains them
    return len(merged)


def _chosen(table: Table, file_bytes: int) -> Iterator[tuple[pa.Schema, list[FileScanTask]]]:
    """Yields groups of files to merge into one file each, with their columns. Limits their total size and number."""
    bytes_left, files_left = _MOST_BYTES, _MOST_FILES
    for group in _groups(table, file_bytes):
        files_left -= len(group)
        if files_left < 0:
            return
        for schema, files in _alike(table, group, file_bytes):
            bytes_left -= sum(task.file.file_size_in_bytes for task in files)
            if bytes_left < 0:
                return
            yield schema, files


def _is_worn(task: FileScanTask) -> bool:
    """Whether so many rows of a file are deleted that it should be rewritten regardless of its size."""
    deleted = sum(each.record_count for each in task.delete_files)
    return bool(deleted and deleted >= task.file.record_count * _WORN_SHARE)


def _groups(table: Table, file_bytes: int) -> Iterator[list[FileScanTask]]:
    """Yields up to `_MOST_FILES` files worth merging from each partition, starting with those with many deleted rows.

    The others follow in order of size, and a file is merged only if the smaller ones add up to at least its size. A
    byte is therefore rewritten only into a file of at least double the size, however often files are added.
    """
    worn, small = dict[Any, list[FileScanTask]](), dict[Any, list[FileScanTask]]()
    for task in table.scan().plan_files():
        file = task.file
        if file.spec_id != table.spec().spec_id or not all(map(can_apply, task.delete_files)):
            continue
        if _is_worn(task):
            worn.setdefault(file.partition, []).append(task)
        elif file.file_size_in_bytes < file_bytes // 2:
            small.setdefault(file.partition, []).append(task)
    yield from (tasks[:_MOST_FILES] for tasks in worn.values())
    for tasks in small.values():
        tasks = sorted(tasks, key=lambda task: (task.file.file_size_in_bytes, task.file.file_path))[
            :_MOST_FILES
        ]
        sizes = [task.file.file_size_in_bytes for task in tasks]
        before = accumulate(sizes, initial=0)
        worth = [
            index
            for index, (size, sum_) in enumerate(zip(sizes, before, strict=False))
            if size <= sum_
        ]
        if worth and worth[-1] + 1 >= LEAST_FILES:
            yield tasks[: worth[-1] + 1]


def _alike(
    table: Table, tasks: Sequence[FileScanTask], most_bytes: int
) -> Iterator[tuple[pa.Schema, list[FileScanTask]]]:
    """Divides files by columns and size, in the order of their names, which is also offset order."""
    by_schema: dict[bytes, tuple[pa.Schema, list[FileScanTask]]] = {}
    for task in sorted(tasks, key=lambda task: task.file.file_path.rpartition("/")[2]):
        with table.io.new_input(task.file.file_path).open() as source:
            schema = pq.read_schema(source).remove_metadata()
        by_schema.setdefault(schema.serialize().to_pybytes(), (schema, []))[1].append(task)
    for schema, alike in by_schema.values():
        chosen: list[FileScanTask] = []
        size = 0
        for task in alike:
            is_full = size + task.file.file_size_in_bytes > most_bytes
            if is_full and _is_worth_it(chosen):
                yield schema, chosen
                chosen, size = [], 0
            chosen.append(task)
            size += task.file.file_size_in_bytes
        if _is_worth_it(chosen):
            yield schema, chosen


def _is_worth_it(tasks: Sequence[FileScanTask]) -> bool:
    return len(tasks) > 1 or any(map(_is_worn, tasks))


def _write(
    sink: pa.NativeFile,
    schema: pa.Schema,
    row_groups: Iterable[pa.Table],
    compression: str,
    sort_by: Sequence[str],
) -> None:
    """Writes rows to one file. About `ROW_BYTES` of rows at a time are held in memory and sorted together.

    Files that predate a sort column do not contain it.
    """
    order = [name for name in sort_by if name in schema.names]
    with pq.ParquetWriter(sink, schema, compression=compression, version="2.6") as writer:
        waiting, size = list[pa.Table](), 0
        for rows in row_groups:
            waiting.append(rows)
            size += rows.nbytes
            if size >= ROW_BYTES:
                write_rows(writer, pa.concat_tables(waiting), order)
                waiting, size = [], 0
        if waiting:
            write_rows(writer, pa.concat_tables(waiting), order)


def _row_groups(table: Table, deleted: Mapping[str, pa.Array]) -> Iterator[pa.Table]:
    for path, positions in deleted.items():
        begin = 0
        with table.io.new_input(path).open() as source:
            file = pq.ParquetFile(source)
            for index in range(file.num_row_groups):
                rows = file.read_row_group(index).replace_schema_metadata()
                yield without_deleted(rows, begin, positions)
                begin += rows.num_rows


def _delete_orphans(table: Table, destination: Destination, current: int) -> None:
    """Deletes the files of merges that died before they added their snapshot.

    A merge based on the current snapshot may still commit, so its files are kept for now; other merges no longer can.
    Manifests, whose number grows with each snapshot, are read only if there are files from other merges.
    """
    snapshots = table.snapshots()
    done = {in_summary(each, _TOKEN) for each in snapshots}
    followed = {str(each.parent_snapshot_id) for each in snapshots} - {str(current)}

    def is_dead(name: str) -> bool:
        token = name.removeprefix(f"{_FOLDER}/").partition("/")[0]
        return token not in done and token.partition("-")[0] in followed

    names = [name for name in destination.names(_FOLDER) if is_dead(name)]
    if names:
        known = _data_files(table, {m.manifest_path: m for m in _manifests(table, snapshots)})
        destination.delete(name for name in names if f"{table.location()}/{name}" not in known)


def expire_snapshots(table: Table, expire_ms: int, kept: frozenset[int]) -> None:
    """Deletes the snapshots that were too old at the table's last change, and the files that only they used.

    Nothing is deleted while these make up less than `_EXPIRED_SHARE` of all snapshots. Snapshots in `kept`, and those
    of branches and tags, are kept regardless of their age.
    """
    stay = {*kept, *(each.snapshot_id for each in table.refs().values())}
    until_ms = table.metadata.last_updated_ms - expire_ms
    snapshots = table.snapshots()
    old = [
        each for each in snapshots if each.timestamp_ms < until_ms and each.snapshot_id not in stay
    ]
    if not old or len(old) < len(snapshots) * _EXPIRED_SHARE:
        return
    old = old[:_MOST_EXPIRED]
    gone = {each.snapshot_id for each in old}
    left = [each for each in snapshots if each.snapshot_id not in gone]
    used = {each.manifest_path: each for each in _manifests(table, left)}
    unused = {
        each.manifest_path: each
        for each in _manifests(table, old)
        if each.manifest_path not in used
    }
    paths = {each.manifest_list for each in old} | unused.keys()
    if any(map(_has_removed, snapshots)):
        paths |= _data_files(table, unused) - _data_files(table, used)
    try:
        table.maintenance.expire_snapshots().by_ids(sorted(gone)).commit()
    except (CommitFailedException, CommitStateUnknownException):
        return  # the next run tries again
    for path in paths:
        with suppress(FileNotFoundError):
            table.io.delete(path)


def _has_removed(snapshot: Snapshot) -> bool:
    """Whether a snapshot may have removed files. If none has, all files of older snapshots are still in use."""
    return snapshot.summary is None or snapshot.summary.operation != Operation.APPEND


def _manifests(table: Table, snapshots: Iterable[Snapshot]) -> Iterator[ManifestFile]:
    read = ExecutorFactory.get_or_create().map(lambda each: each.manifests(table.io), snapshots)
    return chain.from_iterable(read)


def _data_files(table: Table, manifests: "dict[str, ManifestFile]") -> set[str]:
    return {
        entry.data_file.file_path
        for each in manifests.values()
        for entry in each.fetch_manifest_entry(table.io, discard_deleted=True)
    }
