"""The journal in PostgreSQL.

Each record is one row, and each append one statement, which is its own transaction. The statement carries its fence:
it inserts nothing unless the leader's row still has the writer's epoch, and it holds that row's lock until it has
committed. So an append that comes too late inserts nothing, and a takeover, which updates the row, waits for the append
under way and counts its records.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import asyncpg

from lacuna.controlplane.journal.journal import (
    JournalBatch,
    JournalCorrupt,
    JournalError,
    JournalFenced,
    JournalForeign,
    JournalInDoubt,
    JournalInUse,
    JournalOfAnotherVersion,
    JournalUnreachable,
    OpenedJournal,
    Snapshot,
)
from lacuna.controlplane.journal.postgresql_connection import (
    DATABASE_ERRORS,
    Connection,
    connect,
    connected,
    disconnect,
    errors_of,
    is_from_living_server,
    meaning_of,
    name_of,
    reason_of,
)
from lacuna.controlplane.journal.postgresql_schema import read_or_create
from lacuna.controlplane.journal.postgresql_snapshots import PostgresqlSnapshots
from lacuna.controlplane.journal.rows import check_row, checksum
from lacuna.controlplane.journal.snapshot_store import SnapshotStore

_log = logging.getLogger("lacuna.controlplane")

# The condition is judged again once the row's lock is there, so of two takeovers at a time the later one sees what the
# earlier one has written. A time that is yet to come was written before the server's clock was set back.
_TAKE_OVER: Final = """
    UPDATE lacuna.leader
    SET epoch = epoch + 1, holder = $1, address = $2, renewed_at = clock_timestamp()
    WHERE holder IS NULL OR renewed_at > clock_timestamp()
        OR renewed_at <= clock_timestamp() - make_interval(secs => $3)
    RETURNING epoch"""
_HOLDER: Final = """
    SELECT holder, address, extract(epoch FROM clock_timestamp() - renewed_at)::float8 AS silent
    FROM lacuna.leader"""
_RENEW: Final = "UPDATE lacuna.leader SET renewed_at = clock_timestamp() WHERE epoch = $1"
_RELEASE: Final = "UPDATE lacuna.leader SET holder = NULL, address = NULL WHERE epoch = $1"
_END: Final = """
    SELECT greatest(trimmed, (SELECT max(position) FROM lacuna.records)) FROM lacuna.journal"""
_APPEND: Final = """
    WITH fence AS MATERIALIZED (SELECT FROM lacuna.leader WHERE epoch = $1 FOR SHARE)
    INSERT INTO lacuna.records (position, batch_end, crc, record)
    SELECT new.position, $2, new.crc, new.record
    FROM fence, unnest($3::bigint[], $4::bigint[], $5::bytea[]) AS new (position, crc, record)"""
_READ: Final = """
    SELECT position, batch_end, crc, record FROM lacuna.records
    WHERE position > $1 ORDER BY position LIMIT $2"""
# Fenced as well: the new leader may be about to read what the old one would delete.
_TRIM: Final = """
    WITH fence AS MATERIALIZED (SELECT FROM lacuna.leader WHERE epoch = $1 FOR SHARE),
    gone AS (DELETE FROM lacuna.records USING fence WHERE position <= $2)
    UPDATE lacuna.journal SET trimmed = greatest(trimmed, $2) FROM fence"""

_HAS_ASYNCHRONOUS_STANDBY: Final = """
    SELECT current_setting('synchronous_standby_names') = ''
        AND EXISTS (SELECT FROM pg_stat_replication)"""

_ROWS_A_READ: Final = 512
_ROWS_A_TRIM: Final = 4096


class PostgresqlJournal:
    """A journal in the database at `url`, for example `postgresql://user@host:5432/database`.

    `new_cluster_id` returns an id for a new cluster. `holder` and `address` say in the leader's row who this writer is
    and where it serves. An earlier writer is taken over once it has not renewed its leadership for `lease` seconds by
    the database's clock, or has closed the journal; with 0 at once. An append that is not answered within
    `answer_timeout` seconds is in doubt, and a renewal has failed. Snapshots are in the same database unless
    `snapshots` is another store.

    Raises JournalRefused if `url` is not the URL of a PostgreSQL database.
    """

    def __init__(
        self,
        url: str,
        new_cluster_id: Callable[[], str],
        *,
        holder: str = "",
        address: str = "",
        lease: float = 0.0,
        answer_timeout: float = 10.0,
        snapshots: SnapshotStore | None = None,
    ) -> None:
        #: The URL as it may be shown, without the password.
        self.name = name_of(url)
        self._url = url
        self._new_cluster_id = new_cluster_id
        self._holder = holder
        self._address = address
        self._lease = lease
        self._answer_timeout = answer_timeout
        self._snapshots = snapshots or PostgresqlSnapshots(url)
        self._is_open = False
        self._connection: Connection | None = None
        # A connection does one thing at a time.
        self._turn = asyncio.Lock()
        self._epoch = 0
        self._position = 0
        self._appending: asyncio.Task[int] | None = None
        self._failed: JournalError | None = None

    async def open(self, cluster_id: str | None) -> OpenedJournal:
        """Take the journal over from its last writer, making its tables if there are none.

        Waits until the last writer's append has ended. Raises JournalInUse if that writer's lease has not ended,
        JournalUnreachable, JournalRefused, JournalForeign, and other JournalErrors of the database. Logs a warning if
        the server is set up to acknowledge what it may lose.
        """
        if self._is_open:
            raise JournalInUse("this journal is already open")
        self._is_open = True
        self._epoch = 0
        self._failed = None
        try:
            self._connection = await connect(self._url)
            with errors_of(self.name):
                return await self._open(self._connection, cluster_id)
        except BaseException:
            await self.close()
            raise

    async def _open(self, connection: Connection, cluster_id: str | None) -> OpenedJournal:
        try:
            stored_id = await read_or_create(connection, cluster_id, self._new_cluster_id)
        except JournalOfAnotherVersion as error:
            raise JournalOfAnotherVersion(f"{self.name}: {error.what}") from error
        except JournalForeign as error:
            raise JournalForeign(f"{self.name}: {error}") from error
        if cluster_id not in (None, stored_id):
            raise JournalForeign(
                f"{self.name} belongs to cluster {stored_id}, not {cluster_id}: "
                f"give the database of cluster {cluster_id}, or an empty one"
            )
        await self._warn(connection)
        who = (self._holder, self._address, self._lease)
        epoch = await connection.fetchval(_TAKE_OVER, *who)
        if epoch is None:
            raise JournalInUse(await self._who_is_there(connection))
        self._epoch = epoch
        # A statement of its own: it sees the append that the takeover has waited for.
        self._position = await connection.fetchval(_END)
        return OpenedJournal(stored_id, self._epoch, self._position)

    async def _who_is_there(self, connection: Connection) -> str:
        row = await connection.fetchrow(_HOLDER)
        assert row is not None
        return (
            f"another control plane is running on this data ({self.name}): {row['holder']} at {row['address']}, heard "
            f"of {row['silent']:.1f} s ago. Stop it first, or wait until it has been silent for {self._lease} s"
        )

    async def _warn(self, connection: Connection) -> None:
        """Log how the server may lose what clients were told is durable."""
        for setting, loss in (
            ("synchronous_commit", "a crash of the server can lose the last transactions"),
            ("fsync", "a power cut can lose all transactions"),
        ):
            if await connection.fetchval("SELECT current_setting($1)", setting) == "off":
                _log.warning(
                    "%s: PostgreSQL runs with %s off, so %s that clients were told are durable: set it to on",
                    self.name,
                    setting,
                    loss,
                )
        if await connection.fetchval(_HAS_ASYNCHRONOUS_STANDBY):
            _log.warning(
                "%s: PostgreSQL waits for none of its standbys, so a failover can lose the last transactions that "
                "clients were told are durable: name the standbys in synchronous_standby_names",
                self.name,
            )

    async def renew(self, fencing_token: int) -> None:
        """Tell the others that this writer is alive.

        Raises JournalFenced if one of them has taken over, and JournalUnreachable; then the journal must be opened
        again.
        """
        async with self._turn_at_connection() as connection:
            renewed = await connection.execute(_RENEW, fencing_token, timeout=self._answer_timeout)
        if renewed != "UPDATE 1":
            raise self._fenced(fencing_token)

    async def read(self, after_position: int) -> AsyncIterator[JournalBatch]:
        """Yield all batches after `after_position`. Raises JournalCorrupt at a gap or a wrong checksum.

        Between two batches, the connection is free for appends.
        """
        position = batch_end = after_position
        records: list[bytes] = []
        while rows := await self._read(position):
            for row in rows:
                if not records:
                    batch_end = row["batch_end"]
                follows = row["position"] == position + 1 <= batch_end == row["batch_end"]
                if not follows:
                    raise self._gap(position)
                position += 1
                records.append(
                    check_row("the journal's record", position, row["record"], row["crc"])
                )
                if position == batch_end:
                    yield JournalBatch(position, records)
                    records = []
        if records:
            raise self._gap(position)

    async def _read(self, after_position: int) -> list[asyncpg.Record]:
        async with self._turn_at_connection() as connection:
            return await connection.fetch(_READ, after_position, _ROWS_A_READ)

    def _gap(self, position: int) -> JournalCorrupt:
        return JournalCorrupt(
            f"{self.name} has a gap: the record after position {position}, or the rest of its append, is missing; "
            "restore it from a backup"
        )

    def append(self, records: Sequence[bytes], fencing_token: int) -> "asyncio.Future[int]":
        """Append the records in one statement, which is durable once the future is done.

        The future fails with JournalInDoubt if the connection is lost or the answer does not come in time. After that,
        or after another error of the database, the journal must be opened again.
        """
        if self._appending is not None:
            raise JournalError("an append is under way already: wait for it first")
        if self._failed is not None:
            raise self._failed
        self._opened()
        appended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        # A task of its own, so that an append goes on if nobody waits for it any more.
        self._appending = asyncio.create_task(self._append(records, fencing_token))
        self._appending.add_done_callback(partial(self._settle, appended))
        return appended

    def _settle(self, appended: "asyncio.Future[int]", task: "asyncio.Task[int]") -> None:
        self._appending = None
        if task.cancelled():
            appended.cancel()
            return
        error = task.exception()
        if appended.done():
            return
        if error is not None:
            appended.set_exception(error)
        else:
            appended.set_result(task.result())

    async def _append(self, records: Sequence[bytes], fencing_token: int) -> int:
        async with self._turn:
            first, last = self._position + 1, self._position + len(records)
            positions = range(first, last + 1)
            sums = list(map(checksum, positions, records))
            row = (fencing_token, last, positions, sums, records)
            connection = self._opened()
            if connection.is_closed():
                self._failed = JournalUnreachable(
                    f"{self.name}: PostgreSQL has closed the connection, so this control plane stops: start it again "
                    "once PostgreSQL can be reached"
                )
                raise self._failed
            try:
                done = await connection.execute(_APPEND, *row, timeout=self._answer_timeout)
            except DATABASE_ERRORS as error:
                connection.terminate()
                self._failed = self._why_failed(error, first, last)
                raise self._failed from error
        if done != f"INSERT 0 {len(records)}":
            raise self._fenced(fencing_token)
        self._position = last
        return last

    def _why_failed(self, error: Exception, first: int, last: int) -> JournalError:
        if isinstance(error, asyncpg.UniqueViolationError):
            return JournalFenced(
                f"another control plane has appended position {first} to {self.name}: this one stops"
            )
        if is_from_living_server(error):
            return meaning_of(error, self.name)
        return JournalInDoubt(
            f"{self.name}: the connection was lost in the middle of an append ({reason_of(error)}). "
            f"Whether positions {first} to {last} were written shows when the journal is opened again, so this control "
            "plane stops: start it again once PostgreSQL can be reached"
        )

    def _fenced(self, fencing_token: int) -> JournalFenced:
        return JournalFenced(
            f"another control plane has taken over {self.name} (its epoch is not ours, {fencing_token}): this one stops"
        )

    async def load_snapshot(self) -> Snapshot | None:
        """Return the newest undamaged snapshot, or None if there are no snapshots. Raises JournalCorrupt."""
        return await self._snapshots.load()

    async def store_snapshot(self, snapshot: Snapshot) -> None:
        """Store the snapshot, then delete the records that no restart needs, without holding up appends.

        Raises JournalFenced instead of deleting if another writer has taken over.
        """
        trimmable = await self._snapshots.store(snapshot)
        if trimmable:
            await self._trim(trimmable)

    async def _trim(self, end: int) -> None:
        """Delete the records up to `end`, in statements that each take a few milliseconds."""
        async with connected(self._url) as connection:
            at = await connection.fetchval("SELECT trimmed FROM lacuna.journal")
            while at < end:
                at = min(at + _ROWS_A_TRIM, end)
                if await connection.execute(_TRIM, self._epoch, at) != "UPDATE 1":
                    raise self._fenced(self._epoch)

    async def close(self) -> None:
        """Finish the append under way, and leave the journal to the next writer. Closing again does nothing."""
        if not self._is_open:
            return
        if self._appending is not None:
            await asyncio.wait([self._appending])
        async with self._turn:
            self._is_open = False
            connection, self._connection = self._connection, None
            if connection is None:
                return
            if self._epoch and not connection.is_closed():
                await self._release(connection)
            await disconnect(connection)

    async def _release(self, connection: Connection) -> None:
        """Say that nobody has to wait for the end of the lease. If that fails, they wait."""
        try:
            await connection.execute(_RELEASE, self._epoch, timeout=self._answer_timeout)
        except DATABASE_ERRORS as error:
            _log.info("%s: the leadership could not be given back: %s", self.name, error)
            connection.terminate()

    @asynccontextmanager
    async def _turn_at_connection(self) -> AsyncIterator[Connection]:
        """Run the body with the connection, and terminate that if it was lost or is stalled: asyncpg would wait for it.

        Turns asyncpg's errors into the journal's.
        """
        async with self._turn:
            connection = self._opened()
            try:
                with errors_of(self.name):
                    yield connection
            except JournalUnreachable:
                connection.terminate()
                raise

    def _opened(self) -> Connection:
        if self._connection is None:
            raise JournalError("the journal is closed")
        return self._connection
