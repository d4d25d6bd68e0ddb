"""The hot segments of a journal in PostgreSQL, in tables lacuna.hot_1, lacuna.hot_2, ..., one per range of positions.

Appends insert into the newest table. A table is dropped as a whole once nothing in it is live, so no row is ever
deleted, and there is nothing to vacuum. Partitions of a single table would not do: attaching or dropping one locks the
parent, so a long query by another client, such as a dump, would hold up all appends.

The next table is created ahead of time, without delaying appends. If that fails, the newest table continues to grow.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from lacuna.controlplane.journal.hot_segments import check_hot, hot_checksum, in_portions
from lacuna.controlplane.journal.journal import (
    HotKey,
    HotSegment,
    JournalCorrupt,
    JournalError,
    JournalUnreachable,
)
from lacuna.controlplane.journal.postgresql_connection import (
    Connection,
    connect,
    connected,
    disconnect,
    errors_of,
    name_of,
)
from lacuna.controlplane.journal.postgresql_renewing import fenced

_log = logging.getLogger("lacuna.controlplane")

#: A table is full at this many bytes of segments or this many rows. When it is half full, the next table is created.
TABLE_BYTES: Final = 128 << 20
_TABLE_ROWS: Final = 1 << 16

_READ_BYTES: Final = 4 << 20
_READ_KEYS: Final = 256

_NUMBERS: Final = """
    SELECT substr(relname, 5)::bigint FROM pg_class
    WHERE relnamespace = to_regnamespace($1) AND relkind = 'r' AND relname ~ '^hot_[0-9]{1,18}$' ORDER BY 1"""
# The column is not compressed, since the bytes are compressed batches. A table that only grows until it is dropped
# needs no vacuum.
_CREATE: Final = """
    CREATE TABLE IF NOT EXISTS lacuna.hot_{0} (
        lease_id bigint, sequence bigint, position bigint NOT NULL,
        size integer NOT NULL, crc bigint NOT NULL, bytes bytea NOT NULL,
        PRIMARY KEY (lease_id, sequence)
    ) WITH (autovacuum_enabled = false, toast.autovacuum_enabled = false);
    ALTER TABLE lacuna.hot_{0} ALTER COLUMN bytes SET STORAGE EXTERNAL"""
_SIZES: Final = "SELECT lease_id, sequence, size FROM lacuna.hot_{0}"
_READ: Final = """
    SELECT lease_id, sequence, crc, bytes FROM lacuna.hot_{0}
    JOIN unnest($1::bigint[], $2::bigint[]) AS wanted (lease_id, sequence) USING (lease_id, sequence)"""
_APPEND: Final = """
    WITH fence AS MATERIALIZED (SELECT FROM lacuna.leader WHERE epoch = $1 FOR SHARE),
    hot AS (
        INSERT INTO lacuna.hot_{0} (lease_id, sequence, position, size, crc, bytes)
        SELECT lease_id, sequence, $3, octet_length(bytes), crc, bytes
        FROM fence, unnest($6::bigint[], $7::bigint[], $8::bigint[], $9::bytea[])
            AS sent (lease_id, sequence, crc, bytes)
    )
    INSERT INTO lacuna.appends (first, last, crc, records) SELECT $2, $3, $4, $5 FROM fence"""
_INSERT: Final = """
    INSERT INTO lacuna.hot_1 (lease_id, sequence, position, size, crc, bytes)
    SELECT lease_id, sequence, 0, octet_length(bytes), crc, bytes
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) AS sent (lease_id, sequence, crc, bytes)"""
_FENCE: Final = "SELECT FROM lacuna.leader WHERE epoch = $1 FOR SHARE"
# A query by another client delays the drop, but must not delay a takeover, which waits for the fence.
_WAIT_LITTLE: Final = "SET LOCAL lock_timeout = '500ms'"
_DROP: Final = "DROP TABLE lacuna.hot_{0}"


async def create_table(connection: Connection, number: int) -> None:
    """Create a table unless it exists. Raises asyncpg's errors."""
    await connection.execute(_CREATE.format(number))


async def insert_hot(connection: Connection, hot: Sequence[HotSegment]) -> None:
    """Insert segments into the first table, without an append. Raises asyncpg's errors."""
    await connection.execute(_INSERT, *_columns(hot))


def _columns(hot: Sequence[HotSegment]) -> tuple[list[Any], ...]:
    return (
        [segment.key[0] for segment in hot],
        [segment.key[1] for segment in hot],
        [hot_checksum(*segment) for segment in hot],
        [segment.data for segment in hot],
    )


async def table_numbers(connection: Connection, schema: str = "lacuna") -> list[int]:
    """Return the numbers of the tables, in order. Raises asyncpg's errors."""
    return [number for (number,) in await connection.fetch(_NUMBERS, schema)]


@dataclass(slots=True)
class _Table:
    """How full a table is. `live` counts the rows that have not been dropped."""

    bytes: int = 0
    rows: int = 0
    live: int = 0

    def add(self, size: int) -> None:
        self.bytes += size
        self.rows += 1
        self.live += 1

    def is_filled(self, share: float) -> bool:
        return self.bytes >= share * TABLE_BYTES or self.rows >= share * _TABLE_ROWS


class HotTables:
    """The hot segments in the database at `url`, as the journal's leader tracks them.

    They are read over a separate connection, so that appends never wait for a read.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._name = name_of(url)
        #: The size of every live segment.
        self.sizes: dict[HotKey, int] = {}
        self._table_of: dict[HotKey, int] = {}
        self._tables: dict[int, _Table] = {}
        self._epoch = 0
        self._creating: asyncio.Task[None] | None = None
        #: When the newest table is filled to this share, the next one is created.
        self._create_at = 0.5
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None

    async def open(self, connection: Connection, epoch: int) -> None:
        """Find all tables and segments, without reading the segments' bytes. Raises JournalCorrupt and asyncpg's
        errors.
        """
        self._epoch = epoch
        self.sizes, self._table_of, self._tables = {}, {}, {}
        for number in await table_numbers(connection):
            table = self._tables[number] = _Table()
            for lease_id, sequence, size in await connection.fetch(_SIZES.format(number)):
                self._add(number, table, (lease_id, sequence), size)
        if not self._tables:
            raise JournalCorrupt("the table lacuna.hot_1 is missing: restore it from a backup")

    def _add(self, number: int, table: _Table, key: HotKey, size: int) -> None:
        table.add(size)
        self.sizes[key] = size
        self._table_of[key] = number

    @property
    def _newest(self) -> int:
        """The table for the next append: the first one that is not full, or the last one if all are full."""
        numbers = list(self._tables)
        if len(numbers) > 1 and not self._tables[numbers[-2]].is_filled(1.0):
            return numbers[-2]
        return numbers[-1]

    def statement(self, hot: Sequence[HotSegment]) -> tuple[str, tuple[list[Any], ...]]:
        """Return the statement for an append with hot segments, and the parameters for the segments, which follow five
        others.
        """
        return _APPEND.format(self._newest), _columns(hot)

    def note(self, hot: Sequence[HotSegment]) -> None:
        """Record that the append of these segments is durable."""
        number = self._newest
        table = self._tables[number]
        for segment in hot:
            self._add(number, table, segment.key, len(segment.data))
        is_last = number == list(self._tables)[-1]
        if is_last and table.is_filled(self._create_at) and self._creating is None:
            self._creating = asyncio.create_task(self._create(number + 1))

    async def _create(self, number: int) -> None:
        try:
            async with connected(self._url) as connection, connection.transaction():
                await self._check_fence(connection)
                await create_table(connection, number)
        except JournalError as error:
            _log.warning(
                "%s: the next table of hot segments, lacuna.hot_%d, could not be created, so the newest one "
                "keeps growing: %s",
                self._name,
                number,
                error,
            )
            self._create_at *= 2
        else:
            self._tables[number] = _Table()
            self._create_at = 0.5
        self._creating = None

    async def _check_fence(self, connection: Connection) -> None:
        if await connection.fetchrow(_FENCE, self._epoch) is None:
            raise fenced(self._name, self._epoch)

    async def read(self, keys: Sequence[HotKey]) -> Mapping[HotKey, bytes]:
        """Return the bytes of those segments that are live. Raises JournalCorrupt and JournalUnreachable."""
        found: dict[HotKey, bytes] = {}
        for portion in in_portions(keys, self.sizes, _READ_BYTES, _READ_KEYS):
            tables: dict[int, list[HotKey]] = {}
            for key in portion:
                if key in self._table_of:
                    tables.setdefault(self._table_of[key], []).append(key)
            async with self._connected() as connection:
                for number, wanted in tables.items():
                    found.update(await self._read(connection, number, wanted))
        return found

    async def _read(
        self, connection: Connection, number: int, keys: Sequence[HotKey]
    ) -> list[HotSegment]:
        columns = [key[0] for key in keys], [key[1] for key in keys]
        try:
            rows = await connection.fetch(_READ.format(number), *columns)
        except asyncpg.UndefinedTableError:
            # The whole table has been dropped in the meantime.
            return []
        segments: list[HotSegment] = []
        for lease_id, sequence, crc, data in rows:
            key = (lease_id, sequence)
            segments.append(HotSegment(key, check_hot(self._name, key, data, crc)))
        return segments

    async def drop(self, keys: Collection[HotKey]) -> None:
        """Forget segments, then drop all tables without live ones, except the newest.

        A table that another connection is using is dropped later. Raises JournalFenced and JournalUnreachable.
        """
        for key in keys:
            if self.sizes.pop(key, None) is not None:
                self._tables[self._table_of.pop(key)].live -= 1
        newest = self._newest
        dead = [n for n, table in self._tables.items() if n < newest and not table.live]
        if not dead:
            return
        async with connected(self._url) as connection:
            for number in dead:
                with suppress(asyncpg.LockNotAvailableError):
                    await self._drop(connection, number)
                    del self._tables[number]

    async def _drop(self, connection: Connection, number: int) -> None:
        async with connection.transaction():
            await connection.execute(_WAIT_LITTLE)
            await self._check_fence(connection)
            await connection.execute(_DROP.format(number))

    async def close(self) -> None:
        """Wait for a table that is being created, and close the connection. Closing again has no effect."""
        if self._creating is not None:
            await asyncio.wait([self._creating])
        async with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None:
                await disconnect(connection)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        async with self._turn:
            if self._connection is None or self._connection.is_closed():
                self._connection = await connect(self._url)
            try:
                with errors_of(self._name):
                    yield self._connection
            except JournalUnreachable:
                self._connection.terminate()
                raise
