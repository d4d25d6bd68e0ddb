"""The journal in SQLite.

It uses a write-ahead log with synchronous=FULL, so a commit is one write and one sync of the log file. Each append is
one row, and one append runs at a time. Hot segments are in a table of their own (`sqlite_hot`). Readers, such as the
snapshot process, do not block the writer. A lock on a file next to the database keeps a second control plane out.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from lacuna.base.pace import Pace
from lacuna.controlplane.journal.connections import (
    FORMAT_VERSION,
    Connect,
    Connection,
    configure,
    connect,
    errors_of,
    transaction,
)
from lacuna.controlplane.journal.evidence import gather
from lacuna.controlplane.journal.hot_segments import in_portions
from lacuna.controlplane.journal.journal import (
    HotKey,
    HotSegment,
    JournalBatch,
    JournalError,
    JournalFenced,
    JournalForeign,
    JournalInUse,
    JournalOfAnotherVersion,
    JournalUnfinished,
    OpenedJournal,
    Seal,
    Snapshot,
)
from lacuna.controlplane.journal.rows import checksum, encode_records
from lacuna.controlplane.journal.snapshots import SnapshotDatabase, snapshots_path
from lacuna.controlplane.journal.sqlite_hot import delete_hot, hot_sizes, insert_hot, read_hot
from lacuna.controlplane.journal.tables import create, last_position, read_batches, read_meta
from lacuna.controlplane.journal.witness import Witness, witness_path
from lacuna.controlplane.journal.worker import Worker, do_nothing

# A single statement, and thus a single transaction, in which SQLite checks the fencing token, writes and syncs.
_APPEND: Final = """
    INSERT INTO batches SELECT ?, ?, ?, ?
    WHERE (SELECT value FROM meta WHERE key='fencing_token') = ? RETURNING position
"""
_Result = TypeVar("_Result")

_ROWS_A_TRIM: Final = 64
#: How much one job of the worker reads or deletes. An append may have to wait for such a job.
_HOT_BYTES_AT_ONCE: Final = 2 << 20
_HOT_AT_ONCE: Final = 1_000


class SqliteJournal:
    """A journal in the file `path`, whose directory must exist.

    `new_cluster_id` returns an id for a new cluster. `connect` opens the database; tests replace it to lose unsynced
    data. `pace` decides which appends run in the event loop; without it, all of them run in the worker thread.
    """

    def __init__(
        self,
        path: str,
        new_cluster_id: Callable[[], str],
        *,
        connect: Connect = connect,
        pace: Pace | None = None,
    ) -> None:
        self.path = path
        self._new_cluster_id = new_cluster_id
        self._connect = connect
        self._pace = pace
        self._worker: Worker | None = None
        self._lock: int | None = None
        self._connection: Connection | None = None
        self._snapshots: SnapshotDatabase | None = None
        self._witness: Witness | None = None
        self._position = 0
        self._hot: dict[HotKey, int] = {}
        self._files = OpenFiles(())

    @property
    def place(self) -> str:
        return self.path

    async def open(self, cluster_id: str | None) -> OpenedJournal:
        """Lock the file, create the journal if it does not exist, and fence earlier writers."""
        if self._worker is not None:
            raise JournalInUse("this journal is already open")
        self._worker = Worker("journal")
        try:
            return await self._submit(partial(self._open, cluster_id))
        except BaseException:
            await self.close()
            raise

    def _open(self, cluster_id: str | None) -> OpenedJournal:
        self._lock = take_lock(self.path)
        try:
            gather(self.path).check()
            self._connection = self._connect(self.path)
            stored = read_meta(self._connection)
        except (JournalOfAnotherVersion, JournalUnfinished) as error:
            raise type(error)(f"{self.path}: {error.what}") from error
        except JournalForeign as error:
            raise JournalForeign(f"{self.path} is not a Lacuna journal: {error}") from error
        configure(self._connection)
        if stored is None:
            stored = {"cluster_id": cluster_id or self._new_cluster_id(), "fencing_token": 0}
            create(self._connection, str(stored["cluster_id"]))
        stored_id = str(stored["cluster_id"])
        if cluster_id not in (None, stored_id):
            raise JournalForeign(
                f"{self.path} belongs to cluster {stored_id}, not {cluster_id}: "
                f"specify the data folder of cluster {cluster_id}, or an empty one"
            )
        fencing_token = int(stored["fencing_token"]) + 1
        execute = self._connection.execute
        execute("UPDATE meta SET value=? WHERE key='fencing_token'", (fencing_token,))
        execute("UPDATE meta SET value=? WHERE key='format_version'", (FORMAT_VERSION,))
        self._snapshots = SnapshotDatabase(snapshots_path(self.path), stored_id, self._connect)
        self._position = last_position(self._connection)
        self._hot = hot_sizes(self._connection)
        self._witness = Witness(witness_path(self.path), stored_id, self._position)
        self._files = OpenFiles((self.path, f"{self.path}-wal"))
        return OpenedJournal(stored_id, fencing_token, self._position)

    async def read(self, after_position: int, _: Seal | None = None) -> AsyncIterator[JournalBatch]:
        """Yield all batches after `after_position`, without seals, since the lock keeps other processes from writing.
        Raises JournalCorrupt at a gap or a wrong checksum.
        """
        position = after_position
        while True:
            batches = await self._submit(partial(self._read, position))
            for batch in batches:
                yield batch
            if not batches:
                return
            position = batches[-1].position

    def _read(self, after_position: int) -> list[JournalBatch]:
        return read_batches(self._opened(), after_position)

    @property
    def hot(self) -> Mapping[HotKey, int]:
        """The sizes of the hot segments. This mapping changes only in the event loop."""
        return self._hot

    def append(
        self, records: Sequence[bytes], fencing_token: int, hot: Sequence[HotSegment] = ()
    ) -> "asyncio.Future[int]":
        """Append the records as one row. The future, which may already be done on return, is done once the row is
        durable.
        """
        job = partial(self._append, records, fencing_token, hot)
        then = partial(self._note_hot, hot)
        pace, worker = self._pace, self._worker
        if pace is None or worker is None:
            return self._submit(job, then)
        if worker.is_idle and pace.allows():
            return self._append_here(partial(pace.timed, job), then)
        return self._submit(partial(pace.timed, job), then)

    def _append_here(
        self, job: Callable[[], int], then: Callable[[], None]
    ) -> "asyncio.Future[int]":
        """Append in the event loop, while the worker is idle and not using the connection."""
        appended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        try:
            appended.set_result(self._run(job))
            then()
        except JournalError as error:
            appended.set_exception(error)
        return appended

    def _note_hot(self, hot: Sequence[HotSegment]) -> None:
        for segment in hot:
            self._hot[segment.key] = len(segment.data)

    def _append(
        self, records: Sequence[bytes], fencing_token: int, hot: Sequence[HotSegment]
    ) -> int:
        blob = encode_records(records)
        position = self._position + len(records)
        row = (position, len(records), checksum(position, blob), blob, fencing_token)
        if hot:
            with transaction(self._opened()):
                self._insert(row)
                insert_hot(self._opened(), hot)
        else:
            self._insert(row)
        self.check_files()
        self._position = position
        self._opened_witness().note(position)
        return position

    def _insert(self, row: tuple[int, int, int, bytes, int]) -> None:
        # The statement, which is a transaction of its own, ends only once its last row has been fetched.
        if not self._opened().execute(_APPEND, row).fetchall():
            raise JournalFenced(
                f"another control plane has taken over {self.path} (the token is no longer "
                f"{row[-1]}): this one is shutting down"
            )

    async def read_hot(self, keys: Sequence[HotKey]) -> Mapping[HotKey, bytes]:
        """Return the bytes of hot segments, read a few MiB at a time so that appends can run in between."""
        found: dict[HotKey, bytes] = {}
        for portion in in_portions(keys, self._hot, _HOT_BYTES_AT_ONCE, _HOT_AT_ONCE):
            found.update(await self._submit(partial(self._read_hot, portion)))
        return found

    def _read_hot(self, keys: Sequence[HotKey]) -> list[HotSegment]:
        return list(read_hot(self._opened(), self.path, keys))

    async def drop_hot(self, keys: Collection[HotKey]) -> None:
        """Delete hot segments in small transactions, so that appends can run in between."""
        for portion in in_portions(keys, self._hot, _HOT_BYTES_AT_ONCE, _HOT_AT_ONCE):
            await self._submit(partial(self._drop_hot, portion), partial(self._forget_hot, portion))

    def _drop_hot(self, keys: Sequence[HotKey]) -> None:
        delete_hot(self._opened(), keys)

    def _forget_hot(self, keys: Sequence[HotKey]) -> None:
        for key in keys:
            self._hot.pop(key, None)

    def check_files(self) -> None:
        """Raise JournalError if the files in the journal's folder are no longer those that are open."""
        self._files.check()

    async def load_snapshot(self) -> Snapshot | None:
        """Return the newest undamaged snapshot, or None if there are none. Raises JournalCorrupt."""
        return await self._submit(self._load_snapshot)

    def _load_snapshot(self) -> Snapshot | None:
        assert self._snapshots is not None
        return self._snapshots.load()

    async def store_snapshot(self, snapshot: Snapshot) -> None:
        """Store a snapshot in this process, then trim the journal. Large clusters use `SnapshotProcess` instead."""
        await self._submit(lambda: self._store_snapshot(snapshot))
        await self.trim()

    def _store_snapshot(self, snapshot: Snapshot) -> None:
        assert self._snapshots is not None
        self._snapshots.store(snapshot)

    async def trim(self) -> None:
        """Delete the rows that are no longer needed for a restart, a few at a time, letting appends run in between."""
        while await self._submit(self._trim_some):
            pass

    def _trim_some(self) -> bool:
        """Delete at most `_ROWS_A_TRIM` rows, and return whether there may be more."""
        assert self._snapshots is not None
        last = self._snapshots.trimmable()
        execute = self._opened().execute
        found = execute(
            "SELECT position FROM batches WHERE position<=? ORDER BY position LIMIT ?",
            (last, _ROWS_A_TRIM),
        ).fetchall()
        if not found:
            return False
        with transaction(self._opened()):
            execute("DELETE FROM batches WHERE position<=?", (found[-1][0],))
            execute("UPDATE meta SET value=? WHERE key='trimmed'", (found[-1][0],))
        return len(found) == _ROWS_A_TRIM

    async def close(self) -> None:
        """Finish the queued jobs and release the file. Closing again has no effect."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        try:
            await worker.submit(self._close)
        finally:
            worker.stop()

    def _close(self) -> None:
        if self._snapshots is not None:
            self._snapshots.close()
            self._snapshots = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._witness is not None:
            self._witness.close()
            self._witness = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _submit(
        self, job: Callable[[], _Result], then: Callable[[], None] = do_nothing
    ) -> "asyncio.Future[_Result]":
        if self._worker is None:
            raise JournalError("the journal is closed")
        return self._worker.submit(partial(self._run, job), then)

    def _run(self, job: Callable[[], _Result]) -> _Result:
        with errors_of(self.path):
            return job()

    def _opened(self) -> Connection:
        if self._connection is None:
            raise JournalError("the journal is closed")
        return self._connection

    def _opened_witness(self) -> Witness:
        assert self._witness is not None
        return self._witness


def take_lock(path: str) -> int:
    """Lock the journal, and return the descriptor that holds the lock until it is closed or the process ends.

    Raises JournalInUse if another process holds the lock, and JournalError if the lock file cannot be written.
    """
    try:
        descriptor = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise JournalError(f"cannot write next to {path}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise JournalInUse(
            f"another control plane is running on this data ({path}): stop it first, or "
            "use a different folder"
        ) from None
    return descriptor


class OpenFiles:
    """The files that currently exist at `paths`.

    A deleted file can be written and synced while it is open, but its contents are lost when the process ends.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._found = {path: found for path in paths if (found := _identity(path)) is not None}

    def check(self) -> None:
        """Raise JournalError if one of them has been deleted, moved or replaced."""
        for path, found in self._found.items():
            if _identity(path) != found:
                raise JournalError(
                    f"{path} was deleted, moved or replaced while it was open. Nothing is "
                    "acknowledged any more: stop everything that uses the folder, and restore "
                    "the files or a backup before the next start"
                )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
