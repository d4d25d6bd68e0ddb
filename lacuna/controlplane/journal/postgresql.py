"""The journal in PostgreSQL.

Each append is one row, and is inserted with its hot segments (`postgresql_hot`) by a single statement, which is a
transaction of its own. The statement inserts nothing unless the leader's row still contains the writer's epoch, and it
locks that row until it commits. Therefore, a late append inserts nothing, and a takeover, which updates the row, waits
for the current append and includes its records.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import asyncpg

from lacuna.controlplane.journal.formats import formats_of
from lacuna.controlplane.journal.journal import (
    Fit,
    HotKey,
    HotSegment,
    JournalBatch,
    JournalError,
    JournalFenced,
    JournalForeign,
    JournalInDoubt,
    JournalInUse,
    JournalOfAnotherVersion,
    JournalUnfinished,
    JournalUnreachable,
    OpenedJournal,
    Seal,
    Snapshot,
)
from lacuna.controlplane.journal.leader_watch import LeaderWatch
from lacuna.controlplane.journal.one_append import OneAppend
from lacuna.controlplane.journal.place import Place
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
from lacuna.controlplane.journal.postgresql_hot import HotTables
from lacuna.controlplane.journal.postgresql_reading import (
    PostgresqlReader,
    fit,
    read_batches,
    read_leader,
)
from lacuna.controlplane.journal.postgresql_renewing import (
    PostgresqlRenewer,
    Warnings,
    fenced,
    renew,
)
from lacuna.controlplane.journal.postgresql_schema import (
    check_version,
    is_there,
    raise_version,
    read_cluster_id,
    read_or_create,
)
from lacuna.controlplane.journal.postgresql_snapshots import PostgresqlSnapshots
from lacuna.controlplane.journal.rows import checksum, encode_records
from lacuna.controlplane.journal.snapshot_store import SnapshotStore

_log = logging.getLogger("lacuna.controlplane")

# Everything must still be as it was read. Of two concurrent takeovers, one finds that the row has changed; a takeover
# concurrent with a renewal finds a different number. The number is read under the row's lock, since its query depends
# on the locked row.
_TAKE_OVER: Final = """
    WITH locked AS MATERIALIZED (SELECT epoch FROM lacuna.leader WHERE epoch = $2 FOR UPDATE)
    UPDATE lacuna.leader SET epoch = leader.epoch + 1, address = $1 FROM locked
    WHERE leader.epoch = locked.epoch
        AND (SELECT last_value FROM lacuna.renewals WHERE locked.epoch IS NOT NULL) = $3
    RETURNING leader.epoch"""
_TAKE_FREE: Final = """
    UPDATE lacuna.leader SET epoch = epoch + 1, address = $1 WHERE address IS NULL RETURNING epoch"""
_SEIZE: Final = "UPDATE lacuna.leader SET epoch = epoch + 1, address = $1 RETURNING epoch"
_RELEASE: Final = "UPDATE lacuna.leader SET address = NULL WHERE epoch = $1"
_END: Final = "SELECT greatest(trimmed, (SELECT max(last) FROM lacuna.appends)) FROM lacuna.journal"
_APPEND: Final = """
    WITH fence AS MATERIALIZED (SELECT FROM lacuna.leader WHERE epoch = $1 FOR SHARE)
    INSERT INTO lacuna.appends (first, last, crc, records) SELECT $2, $3, $4, $5 FROM fence"""
# A trim is fenced as well, since a new leader may be about to read rows that the old one would delete. The append that
# ends at the trim position is kept, because the snapshot there is checked against it.
_TRIM: Final = """
    WITH fence AS MATERIALIZED (SELECT FROM lacuna.leader WHERE epoch = $1 FOR SHARE),
    gone AS (DELETE FROM lacuna.appends USING fence WHERE last < $2)
    UPDATE lacuna.journal SET trimmed = greatest(trimmed, $2) FROM fence"""

_HAS_ASYNCHRONOUS_STANDBY: Final = """
    SELECT current_setting('synchronous_standby_names') = ''
        AND EXISTS (SELECT FROM pg_stat_replication)"""

_ROWS_A_TRIM: Final = 4096

_LOST_WITH_STANDBY: Final = "a failover can lose the last transactions"
#: Setting → value → what may be lost. The connection requests a better value, but a pooler may drop that request.
_LOSSES: Final = {
    "synchronous_commit": {
        "off": "a crash of the server can lose the last transactions",
        "local": _LOST_WITH_STANDBY,
        "remote_write": _LOST_WITH_STANDBY,
    },
    "fsync": {"off": "a power cut can lose all transactions"},
}


class PostgresqlJournal:
    """A journal in the database at `url`, for example `postgresql://user@host:5432/database`.

    `new_cluster_id` returns an id for a new cluster. `address` is where this writer serves. It takes over from an
    earlier writer that has closed the journal, or that `watch` or `open` has observed to be silent for `lease` seconds.
    If there is no answer within `answer_timeout` seconds, an append is in doubt, and a renewal is treated as failed.
    Snapshots are in the same database unless `snapshots` is a different store, which `place` then names.

    Raises JournalRefused if `url` is not the URL of a PostgreSQL database.
    """

    snapshot_appends: int | None = None

    def __init__(
        self,
        url: str,
        new_cluster_id: Callable[[], str],
        *,
        address: str = "",
        lease: float = 0.0,
        answer_timeout: float = 10.0,
        snapshots: SnapshotStore | None = None,
        place: Place | None = None,
        watch: LeaderWatch | None = None,
    ) -> None:
        self._place = place or Place(url)
        #: The URL for display, without the password.
        self.name = name_of(url)
        self._url = url
        self._new_cluster_id = new_cluster_id
        self._address = address
        self.lease = lease
        self._answer_timeout = answer_timeout
        self._snapshots = snapshots or PostgresqlSnapshots(url)
        self._watch = watch or LeaderWatch()
        self._is_open = False
        self._connection: Connection | None = None
        # A connection does one thing at a time.
        self._turn = asyncio.Lock()
        self._cluster_id = ""
        self._epoch = 0
        self._position = 0
        self._appending = OneAppend()
        self._hot = HotTables(url)
        self._failed: JournalError | None = None
        self._warnings = Warnings(self.name)

    @property
    def place(self) -> str:
        return self._place.text()

    async def check(self) -> None:
        """Log a warning if the server's settings put acknowledged data at risk.

        Raises JournalForeign if the place where snapshots are stored belongs to a different cluster,
        JournalUnreachable, JournalRefused, and other JournalErrors of the database.
        """
        cluster_id = None
        async with connected(self._url) as connection:
            await self._warn(connection)
            if await is_there(connection):
                with formats_of(self.name):
                    await check_version(connection)
                cluster_id = await read_cluster_id(connection)
        await self._snapshots.check(cluster_id)

    async def open(self, cluster_id: str | None) -> OpenedJournal:
        """Take the journal over from its last writer, creating its tables if there are none.

        Waits until the last writer's append has ended. Raises JournalInUse if that writer's lease has not ended,
        JournalUnreachable, JournalRefused, JournalForeign, and other JournalErrors of the database.
        """
        if self._is_open:
            raise JournalInUse("this journal is already open")
        self._is_open = True
        self._epoch = 0
        self._failed = None
        try:
            self._connection = await connect(self._url)
            self._warnings.listen(self._connection)
            with errors_of(self.name):
                return await self._open(self._connection, cluster_id)
        except BaseException:
            await self.close()
            raise

    async def _open(self, connection: Connection, cluster_id: str | None) -> OpenedJournal:
        try:
            stored_id = await read_or_create(connection, cluster_id, self._new_cluster_id)
        except (JournalOfAnotherVersion, JournalUnfinished) as error:
            raise type(error)(f"{self.name}: {error.what}") from error
        except JournalForeign as error:
            raise JournalForeign(f"{self.name}: {error}") from error
        if cluster_id not in (None, stored_id):
            raise JournalForeign(
                f"{self.name} belongs to cluster {stored_id}, not {cluster_id}: "
                f"specify the database of cluster {cluster_id}, or an empty one"
            )
        self._cluster_id = stored_id
        self._warnings.forget()
        self._epoch = await self._take_over(connection)
        self._warnings.check()
        await raise_version(connection)
        # This is a separate statement, so that it sees the append that the takeover waited for.
        self._position = await connection.fetchval(_END)
        await self._hot.open(connection, self._epoch)
        return OpenedJournal(stored_id, self._epoch, self._position)

    async def _take_over(self, connection: Connection) -> int:
        if self.lease == 0:
            return int(await connection.fetchval(_SEIZE, self._address))
        found = await read_leader(connection, self._watch)
        epoch = None
        if found is None:
            epoch = await connection.fetchval(_TAKE_FREE, self._address)
        elif found[0].silent >= self.lease:
            row = found[1]
            epoch = await connection.fetchval(
                _TAKE_OVER, self._address, row["epoch"], row["renewals"]
            )
        if epoch is None:
            where = "" if found is None else f" at {found[0].address}"
            raise JournalInUse(
                f"another control plane is running on this data ({self.name}){where}. Stop it first, or wait until it "
                f"has been silent for {self.lease:g} s"
            )
        return int(epoch)

    async def _warn(self, connection: Connection) -> None:
        """Log the ways in which the server could lose data that was acknowledged to clients."""
        for setting, losses in _LOSSES.items():
            value = await connection.fetchval("SELECT current_setting($1)", setting)
            if value in losses:
                _log.warning(
                    "%s: PostgreSQL runs with %s %s, so %s that were acknowledged to clients: set it to on",
                    self.name,
                    setting,
                    value,
                    losses[value],
                )
        if await connection.fetchval(_HAS_ASYNCHRONOUS_STANDBY):
            _log.warning(
                "%s: PostgreSQL waits for none of its standbys, so a failover can lose the last transactions that "
                "were acknowledged to clients: name the standbys in synchronous_standby_names",
                self.name,
            )

    def renewer(self, fencing_token: int) -> PostgresqlRenewer:
        """Return the renewer of this writer's lease, which has a connection of its own."""
        return PostgresqlRenewer(self._url, fencing_token, self._answer_timeout)

    async def confirm(self, fencing_token: int) -> None:
        """Make sure, by renewing the lease, that no other writer has taken over. Raises JournalFenced and
        JournalUnreachable.

        A mere read would also succeed on a server whose standby has been promoted. After JournalUnreachable, the
        journal must be opened again.
        """
        async with self._turn_at_connection() as connection:
            await renew(connection, self._warnings, self.name, fencing_token, self._answer_timeout)

    def read(self, after_position: int, seal: Seal | None = None, /) -> AsyncIterator[JournalBatch]:
        """Yield all batches after `after_position`. The connection is free for appends between two batches.

        Raises JournalReplaced, and JournalCorrupt at a gap or a wrong checksum.
        """
        return read_batches(self._turn_at_connection, self.name, after_position, seal)

    def reader(self) -> PostgresqlReader:
        return PostgresqlReader(self._url, self._snapshots, self._watch)

    @property
    def hot(self) -> Mapping[HotKey, int]:
        return self._hot.sizes

    async def read_hot(self, keys: Sequence[HotKey]) -> Mapping[HotKey, bytes]:
        """Return the bytes of hot segments, over a separate connection. Raises JournalCorrupt."""
        self._opened()
        return await self._hot.read(keys)

    async def drop_hot(self, keys: Collection[HotKey]) -> None:
        """Forget hot segments, and drop each table that then contains no live ones. Raises JournalFenced.

        Segments in a remaining table reappear when the journal is opened again.
        """
        self._opened()
        await self._hot.drop(keys)

    def append(
        self, records: Sequence[bytes], fencing_token: int, hot: Sequence[HotSegment] = ()
    ) -> "asyncio.Future[int]":
        """Append the records in one statement, which is durable once the future is done.

        The future fails with JournalInDoubt if the connection is lost or no answer arrives in time. After any error of
        the database, the journal must be opened again.
        """
        if self._failed is not None:
            raise self._failed
        self._opened()
        return self._appending.begin(partial(self._append, records, fencing_token, hot))

    async def _append(
        self, records: Sequence[bytes], fencing_token: int, hot: Sequence[HotSegment]
    ) -> int:
        async with self._turn:
            first, last = self._position + 1, self._position + len(records)
            blob = encode_records(records)
            row = (fencing_token, first, last, checksum(last, blob), blob)
            statement, columns = self._hot.statement(hot) if hot else (_APPEND, ())
            connection = self._opened()
            if connection.is_closed():
                self._failed = JournalUnreachable(
                    f"{self.name}: PostgreSQL has closed the connection, so this control plane "
                    "is not the leader until it has reopened the journal"
                )
                raise self._failed
            self._warnings.forget()
            try:
                done = await connection.execute(
                    statement, *row, *columns, timeout=self._answer_timeout
                )
                self._warnings.check()
            except JournalUnreachable as error:
                connection.terminate()
                self._failed = JournalInDoubt(
                    f"{error}. Reopening the journal will show whether positions {first} to {last} "
                    "survive a failover"
                )
                raise self._failed from error
            except DATABASE_ERRORS as error:
                connection.terminate()
                self._failed = self._why_failed(error, first, last)
                raise self._failed from error
        if done != "INSERT 0 1":
            raise fenced(self.name, fencing_token)
        self._position = last
        if hot:
            self._hot.note(hot)
        return last

    def _why_failed(self, error: Exception, first: int, last: int) -> JournalError:
        if isinstance(error, asyncpg.UniqueViolationError):
            return JournalFenced(
                f"another control plane has appended position {first} to {self.name}: this one is stepping down"
            )
        if is_from_living_server(error):
            return meaning_of(error, self.name)
        return JournalInDoubt(
            f"{self.name}: the connection was lost during an append ({reason_of(error)}). "
            f"Reopening the journal will show whether positions {first} to {last} were written"
        )

    async def load_snapshot(self) -> Snapshot | None:
        return await self._snapshots.load(self._cluster_id, self._fit)

    async def _fit(self, position: int, seal: Seal) -> Fit:
        async with self._turn_at_connection() as connection:
            return await fit(connection, position, seal)

    async def store_snapshot(self, snapshot: Snapshot) -> None:
        """Store the snapshot, then delete the records that are no longer needed for a restart, without delaying
        appends.

        Raises JournalFenced instead of deleting if another writer has taken over.
        """
        async with connected(self._url) as connection:
            await self._snapshots.store(snapshot, self._cluster_id, partial(fit, connection))
        await self.trim()

    async def trim(self) -> None:
        """Delete the records that are no longer needed for a restart, in statements that take a few ms each. Raises
        JournalFenced if another writer has taken over.
        """
        async with connected(self._url) as connection:
            end = await self._snapshots.trimmable(self._cluster_id, partial(fit, connection))
            at = await connection.fetchval("SELECT trimmed FROM lacuna.journal")
            while at < end:
                at = min(at + _ROWS_A_TRIM, end)
                if await connection.execute(_TRIM, self._epoch, at) != "UPDATE 1":
                    raise fenced(self.name, self._epoch)

    async def close(self) -> None:
        if not self._is_open:
            return
        await self._appending.finish()
        await self._hot.close()
        async with self._turn:
            self._is_open = False
            connection, self._connection = self._connection, None
            if connection is None:
                return
            if self._epoch and not connection.is_closed():
                await self._release(connection)
            await disconnect(connection)

    def abandon(self) -> None:
        """Make `close` leave the leader's row unchanged."""
        self._epoch = 0

    async def _release(self, connection: Connection) -> None:
        """Record that no other writer has to wait for the end of the lease. If this fails, others do wait."""
        try:
            await connection.execute(_RELEASE, self._epoch, timeout=self._answer_timeout)
        except DATABASE_ERRORS as error:
            _log.info("%s: the leadership could not be released: %s", self.name, error)
            connection.terminate()

    @asynccontextmanager
    async def _turn_at_connection(self) -> AsyncIterator[Connection]:
        """Run the body with the connection, turning asyncpg's errors into journal errors. A connection that is lost or
        stalled is terminated, since asyncpg would wait for it.
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
