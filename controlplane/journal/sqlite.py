"""The journal in SQLite: the embedded default.

WAL with synchronous=FULL, so a commit is one write and one sync of the log file; one row an append;
one thread that writes. Readers (the snapshot process) do not hold the writer up. A lock on a file
beside the database keeps a second control plane out, whatever it thinks of itself.
"""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from controlplane.journal.connections import (
    APPLICATION_ID,
    FORMAT_VERSION,
    Connect,
    Connection,
    configure,
    connect,
    errors_of,
    transaction,
)
from controlplane.journal.journal import (
    JournalBatch,
    JournalCorrupt,
    JournalError,
    JournalFenced,
    JournalForeign,
    JournalInUse,
    OpenedJournal,
    Pace,
    Snapshot,
)
from controlplane.journal.rows import check_row, checksum, decode_records, encode_records
from controlplane.journal.snapshots import SnapshotDatabase, snapshots_path
from controlplane.journal.worker import Worker

_SCHEMA: Final = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE batches (
        position INTEGER PRIMARY KEY, count INTEGER NOT NULL,
        crc INTEGER NOT NULL, records BLOB NOT NULL
    )""",
)
# One statement is one transaction: it begins, looks who holds the journal, writes and syncs.
_APPEND: Final = """
    INSERT INTO batches SELECT ?, ?, ?, ?
    WHERE (SELECT value FROM meta WHERE key='fencing_token') = ? RETURNING position
"""
_Result = TypeVar("_Result")

_ROWS_A_READ: Final = 256
_ROWS_A_TRIM: Final = 64


class SqliteJournal:
    """A journal in the file `path`; its directory must exist.

    `new_cluster_id` names a cluster that begins here. `connect` is the way to the
    disk, handed in so that a test can lose what was not synced. `pace` says when the event loop
    appends by itself; without it the thread always does.
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
        self._position = 0

    async def open(self, cluster_id: str | None) -> OpenedJournal:
        """Takes the file, makes it where there is none, and fences whoever had it before."""
        if self._worker is not None:
            raise JournalInUse("this journal is open already")
        self._worker = Worker("journal")
        try:
            return await self._submit(partial(self._open, cluster_id))
        except BaseException:
            await self.close()
            raise

    def _open(self, cluster_id: str | None) -> OpenedJournal:
        self._lock = _lock(self.path)
        self._connection = self._connect(self.path)
        try:
            stored = _read_meta(self._connection)
        except (sqlite3.DatabaseError, JournalForeign) as error:
            raise JournalForeign(f"{self.path} is no journal of Lacuna: {error}") from error
        configure(self._connection)
        if stored is None:
            stored = {"cluster_id": cluster_id or self._new_cluster_id(), "fencing_token": 0}
            _create(self._connection, str(stored["cluster_id"]))
        stored_id = str(stored["cluster_id"])
        if cluster_id not in (None, stored_id):
            raise JournalForeign(
                f"{self.path} belongs to cluster {stored_id}, not {cluster_id}: "
                "give the data folder of that cluster, or an empty one"
            )
        fencing_token = int(stored["fencing_token"]) + 1
        execute = self._connection.execute
        execute("UPDATE meta SET value=? WHERE key='fencing_token'", (fencing_token,))
        self._snapshots = SnapshotDatabase(snapshots_path(self.path), stored_id, self._connect)
        self._position = int(execute("SELECT value FROM meta WHERE key='trimmed'").fetchone()[0])
        newest = execute("SELECT max(position) FROM batches").fetchone()[0]
        self._position = max(self._position, newest or 0)
        return OpenedJournal(stored_id, fencing_token, self._position)

    async def read(self, after_position: int) -> AsyncIterator[JournalBatch]:
        """All batches behind `after_position`. Raises JournalCorrupt at a gap or wrong bytes."""
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

    def append(self, records: Sequence[bytes], fencing_token: int) -> "asyncio.Future[int]":
        """One row, durable when the future is done; it may be when it is returned."""
        job = partial(self._append, records, fencing_token)
        pace, worker = self._pace, self._worker
        if pace is None or worker is None:
            return self._submit(job)
        if worker.is_idle and pace.allows():
            return self._append_here(partial(pace.timed, job))
        return self._submit(partial(pace.timed, job))

    def _append_here(self, job: Callable[[], int]) -> "asyncio.Future[int]":
        """In the event loop: nothing else can use the connection meanwhile."""
        appended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        try:
            appended.set_result(self._run(job))
        except JournalError as error:
            appended.set_exception(error)
        return appended

    def _append(self, records: Sequence[bytes], fencing_token: int) -> int:
        blob = encode_records(records)
        position = self._position + len(records)
        row = (position, len(records), checksum(position, blob), blob, fencing_token)
        # Only with its last row does a statement end, and its transaction with it.
        if not self._opened().execute(_APPEND, row).fetchall():
            raise JournalFenced(
                f"another control plane has taken over {self.path} (its token is not ours, "
                f"{fencing_token}): this one stops"
            )
        self._position = position
        return position

    async def load_snapshot(self) -> Snapshot | None:
        """The newest whole snapshot."""
        return await self._submit(self._load_snapshot)

    def _load_snapshot(self) -> Snapshot | None:
        assert self._snapshots is not None
        return self._snapshots.load()

    async def store_snapshot(self, snapshot: Snapshot) -> None:
        """Keeps a snapshot from this process; a cluster with many partitions has `SnapshotProcess`
        do it.
        """
        await self._submit(lambda: self._store_snapshot(snapshot))
        await self.trim()

    def _store_snapshot(self, snapshot: Snapshot) -> None:
        assert self._snapshots is not None
        self._snapshots.store(snapshot)

    async def trim(self) -> None:
        """Forgets the rows that snapshots make needless, a few at a time, so that appends come
        between.
        """
        while await self._submit(self._trim_some):
            pass

    def _trim_some(self) -> bool:
        """Deletes at most `_ROWS_A_TRIM` rows; whether there may be more."""
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
        """Ends what is queued and gives the file back."""
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
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _submit(self, job: Callable[[], _Result]) -> "asyncio.Future[_Result]":
        if self._worker is None:
            raise JournalError("the journal is closed")
        return self._worker.submit(partial(self._run, job))

    def _run(self, job: Callable[[], _Result]) -> _Result:
        with errors_of(self.path):
            return job()

    def _opened(self) -> Connection:
        if self._connection is None:
            raise JournalError("the journal is closed")
        return self._connection


def read_batches(connection: Connection, after_position: int) -> list[JournalBatch]:
    """The next batches behind `after_position`, a bounded number; empty at the end."""
    found = connection.execute(
        "SELECT position, count, crc, records FROM batches WHERE position>?"
        " ORDER BY position LIMIT ?",
        (after_position, _ROWS_A_READ),
    )
    batches: list[JournalBatch] = []
    for position, count, crc, blob in found:
        records = decode_records(check_row("the journal's batch", position, blob, crc))
        if len(records) != count or position - count != after_position:
            raise JournalCorrupt(
                f"the journal has a gap: the batch that ends at position {position} does not "
                f"follow position {after_position}; restore it from a backup"
            )
        batches.append(JournalBatch(position, records))
        after_position = position
    return batches


def read_cluster_id(connection: Connection) -> str:
    """The cluster that a journal belongs to. Raises JournalForeign where it is none of ours."""
    stored = _read_meta(connection)
    if stored is None:
        raise JournalForeign("the journal is empty")
    return str(stored["cluster_id"])


def _read_meta(connection: Connection) -> dict[str, Any] | None:
    """The meta table, or None in an empty database."""
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application_id == 0 and tables == 0:
        return None
    if application_id != APPLICATION_ID:
        raise JournalForeign("the database is another program's")
    stored = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    if stored["format_version"] != FORMAT_VERSION:
        raise JournalForeign(
            f"its format is {stored['format_version']} and this program writes {FORMAT_VERSION}"
        )
    return stored


def _create(connection: Connection, cluster_id: str) -> None:
    rows = (
        ("format_version", FORMAT_VERSION),
        ("cluster_id", cluster_id),
        ("fencing_token", 0),
        ("trimmed", 0),
    )
    with transaction(connection):
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        for statement in _SCHEMA:
            connection.execute(statement)
        for row in rows:
            connection.execute("INSERT INTO meta VALUES (?, ?)", row)


def _lock(path: str) -> int:
    """A descriptor that holds the lock until it is closed, by the process' end at the latest."""
    try:
        descriptor = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise JournalError(f"cannot write beside {path}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise JournalInUse(
            f"another control plane runs on this data ({path}): stop it first, "
            "or give another folder"
        ) from None
    return descriptor
