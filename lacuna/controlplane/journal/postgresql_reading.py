"""Reads a journal in PostgreSQL, for its writer and, over connections of their own, for standbys."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import asyncpg

from lacuna.controlplane.journal.formats import check_journal_format, formats_of
from lacuna.controlplane.journal.journal import (
    Fit,
    JournalBatch,
    JournalCorrupt,
    JournalReplaced,
    JournalTrimmed,
    JournalUnreachable,
    Leader,
    Seal,
    Snapshot,
)
from lacuna.controlplane.journal.leader_watch import LeaderWatch
from lacuna.controlplane.journal.postgresql_connection import (
    Connection,
    connect,
    disconnect,
    errors_of,
    name_of,
)
from lacuna.controlplane.journal.postgresql_schema import (
    FORMAT_VERSION,
    check_version,
    is_there,
    read_cluster_id,
)
from lacuna.controlplane.journal.rows import check_row, decode_records
from lacuna.controlplane.journal.snapshot_store import SnapshotStore

#: Rows are read in groups of at most this many bytes, or one row if it is larger.
_ROWS: Final = 512
_BYTES: Final = 16 << 20
# The previous row is returned as well, without its records, to check that it is still the one that was read.
_READ: Final = """
    (SELECT first, last, crc, NULL AS records FROM lacuna.appends WHERE first <= $1 ORDER BY first DESC LIMIT 1)
    UNION ALL
    SELECT first, last, crc, records FROM (
        SELECT *, sum(octet_length(records)) OVER (ORDER BY first) - octet_length(records) AS before FROM (
            SELECT * FROM lacuna.appends WHERE first > $1 ORDER BY first LIMIT $2
        ) AS next
    ) AS summed WHERE before < $3 ORDER BY first"""
_TRIMMED: Final = "SELECT trimmed FROM lacuna.journal"
_FIT: Final = """
    SELECT EXISTS (SELECT FROM lacuna.appends WHERE first = $1 AND last = $2 AND crc = $3) AS is_there,
        EXISTS (SELECT FROM lacuna.appends WHERE first <= $2) AS begins_before,
        trimmed, greatest(trimmed, (SELECT last FROM lacuna.appends ORDER BY first DESC LIMIT 1)) AS last
    FROM lacuna.journal"""
_LEADER: Final = """
    SELECT epoch, address, last_value AS renewals, format_version
    FROM lacuna.leader, lacuna.renewals, lacuna.journal"""
_READ_SECONDS: Final = 5.0

Connected = Callable[[], AbstractAsyncContextManager[Connection]]


async def read_batches(
    connected: Connected, name: str, after_position: int, seal: Seal | None = None
) -> AsyncIterator[JournalBatch]:
    """Yield the appends after `after_position` in the journal `name`. Other work may use the connection between two
    reads.

    Raises JournalTrimmed if they have been deleted, JournalReplaced if the row before them does not have `seal`,
    JournalCorrupt at a gap or a wrong checksum, and the same errors as `connected`.
    """
    position = after_position
    while True:
        async with connected() as connection:
            rows = await connection.fetch(_READ, position, _ROWS, _BYTES)
            before = rows.pop(0) if rows and rows[0]["first"] <= position else None
            is_other = seal is not None and (before is None or _seal(before) != seal)
            follows = rows and rows[0]["first"] == position + 1 and not is_other
            if not follows and await connection.fetchval(_TRIMMED) > position:
                raise JournalTrimmed(
                    f"{name}: the records after position {position} have been deleted, since a "
                    "later snapshot covers them; if that snapshot is lost, restore it from a "
                    "backup"
                )
            if is_other:
                raise JournalReplaced(
                    f"{name}: the append at position {position} is no longer the one that was read, as "
                    "happens after a failover that lost it: the journal is read again from its "
                    "newest snapshot"
                )
        if not rows:
            return
        for row in rows:
            if row["first"] != position + 1:
                raise JournalCorrupt(
                    f"{name} has a gap after position {position}: restore it from a backup"
                )
            yield _batch(row)
            position, seal = row["last"], _seal(row)


def _seal(row: asyncpg.Record) -> Seal:
    return Seal(row["first"], row["crc"])


def _batch(row: asyncpg.Record) -> JournalBatch:
    first, last = row["first"], row["last"]
    what = f"the journal's append with positions {first} to {last}"
    try:
        records = decode_records(check_row(what, last, row["records"], row["crc"]))
    except ValueError as error:
        raise JournalCorrupt(
            f"{what} cannot be read ({error}): restore it from a backup"
        ) from error
    if len(records) != last - first + 1:
        raise JournalCorrupt(f"{what} contains {len(records)} records: restore it from a backup")
    return JournalBatch(last, records, _seal(row))


class PostgresqlReader:
    """A JournalReader for the database at `url`, whose snapshots are in `snapshots`. It connects on first use."""

    def __init__(self, url: str, snapshots: SnapshotStore, watch: LeaderWatch) -> None:
        self._url = url
        self._name = name_of(url)
        self._snapshots = snapshots
        self._watch = watch
        self._connection: Connection | None = None
        self._cluster_id: str | None = None

    async def load_snapshot(self) -> Snapshot | None:
        if not await self._is_there():
            return None
        return await self._snapshots.load(self._cluster_id, self.fit)

    async def read(
        self, after_position: int, seal: Seal | None = None, /
    ) -> AsyncIterator[JournalBatch]:
        """Yield the batches that are durable now. Raises JournalTrimmed, JournalReplaced, JournalCorrupt and
        JournalUnreachable.
        """
        if not await self._is_there():
            return
        async for batch in read_batches(self._connected, self._name, after_position, seal):
            yield batch

    async def fit(self, position: int, seal: Seal, /) -> Fit:
        async with self._connected() as connection:
            return await fit(connection, position, seal)

    async def leader(self) -> Leader | None:
        """Return the leader. Raises JournalOfAnotherVersion, JournalForeign and JournalUnreachable."""
        if not await self._is_there():
            return None
        async with self._connected() as connection:
            leader = await read_leader(connection, self._watch)
        return None if leader is None else leader[0]

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await disconnect(connection)

    async def _is_there(self) -> bool:
        """Whether there are tables that this version can read."""
        if self._cluster_id is None:
            async with self._connected() as connection:
                if await is_there(connection):
                    await check_version(connection)
                    self._cluster_id = await read_cluster_id(connection)
        return self._cluster_id is not None

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(self._url, statement_seconds=_READ_SECONDS)
        try:
            with errors_of(self._name), formats_of(self._name):
                yield self._connection
        except JournalUnreachable:
            connection, self._connection = self._connection, None
            connection.terminate()
            raise


async def fit(connection: Connection, position: int, seal: Seal) -> Fit:
    """Return whether a snapshot fits the journal, or why not, as `JournalReader.fit` does. Raises asyncpg's errors."""
    row = await connection.fetchrow(_FIT, seal.place, position, seal.crc)
    if row is None:
        raise JournalCorrupt("the table lacuna.journal is empty: restore it from a backup")
    if row["is_there"]:
        return Fit.FITS
    if position > row["last"]:
        return Fit.AHEAD
    # A trim keeps the last append of any snapshot that may still be loaded.
    is_spent = position < row["trimmed"] or not row["begins_before"]
    return Fit.SPENT if is_spent else Fit.BESIDE


async def read_leader(
    connection: Connection, watch: LeaderWatch
) -> tuple[Leader, asyncpg.Record] | None:
    """Return the leader and its row, or None if it has left the journal. Raises asyncpg's errors."""
    asked_ms = watch.now_ms()
    row = await connection.fetchrow(_LEADER)
    if row is None:
        raise JournalCorrupt(
            "the table lacuna.leader or lacuna.journal is empty: restore both tables from a backup"
        )
    # A later version, which writes different tables, may have taken over.
    check_journal_format("its format", row["format_version"], FORMAT_VERSION)
    watch.see(tuple(row), asked_ms)
    if row["address"] is None:
        return None
    return Leader(row["epoch"], row["address"], watch.silent), row
