"""A journal in PostgreSQL that begins with a snapshot."""

import secrets
from collections.abc import Sequence
from typing import Final, Self

from lacuna.controlplane.journal.formats import UNFINISHED
from lacuna.controlplane.journal.journal import (
    HotSegment,
    JournalCorrupt,
    JournalForeign,
    JournalInUse,
    JournalUnfinished,
)
from lacuna.controlplane.journal.moving.beginning import Beginning, occupied
from lacuna.controlplane.journal.postgresql_connection import Connection, connected, name_of
from lacuna.controlplane.journal.postgresql_hot import insert_hot
from lacuna.controlplane.journal.postgresql_schema import (
    FORMAT_VERSION,
    check_version,
    is_there,
    make_tables,
)
from lacuna.controlplane.journal.postgresql_snapshots import PostgresqlSnapshots, insert_snapshot

_CLAIM: Final = "UPDATE lacuna.leader SET address = $1"
_READ: Final = """
    SELECT cluster_id, epoch, greatest(trimmed, (SELECT max(last) FROM lacuna.appends)) AS position
    FROM lacuna.journal, lacuna.leader WHERE address = $1"""
_RELEASE: Final = "UPDATE lacuna.leader SET address = NULL WHERE address = $1"
_FINISH: Final = "UPDATE lacuna.journal SET format_version = $1"


class PostgresqlTarget:
    """The database at `url`. The initial snapshot is stored there too, wherever later ones will be."""

    def __init__(self, url: str) -> None:
        self.name = name_of(url)
        self._url = url
        self._snapshots = PostgresqlSnapshots(url)
        #: Stands in for the leader's address until the tables are finished. A later copy to this place creates new
        #: tables.
        self._copy = f"copy {secrets.token_hex(8)}"

    async def __aenter__(self) -> Self:
        async with connected(self._url) as connection:
            await self._is_unfinished(connection)
        return self

    async def __aexit__(self, *error: object) -> None:
        """Do nothing, since there is nothing to release."""

    async def _is_unfinished(self, connection: Connection) -> bool:
        """Whether an interrupted copy has left tables here. Raises JournalForeign if they belong to a journal."""
        if not await is_there(connection):
            return False
        try:
            await check_version(connection)
        except JournalUnfinished:
            return True
        cluster_id = await connection.fetchval("SELECT cluster_id FROM lacuna.journal")
        remedy = "specify an empty database, or ALTER SCHEMA lacuna RENAME TO another name"
        raise JournalForeign(occupied(self.name, cluster_id, remedy))

    async def write(self, beginning: Beginning) -> None:
        async with connected(self._url) as connection, connection.transaction():
            if await self._is_unfinished(connection):
                await connection.execute("DROP SCHEMA lacuna CASCADE")
            await make_tables(
                connection,
                beginning.cluster_id,
                epoch=beginning.epoch,
                position=beginning.snapshot.position,
                format_version=UNFINISHED,
            )
            await connection.execute(_CLAIM, self._copy)
            await insert_snapshot(connection, beginning.snapshot)

    async def add_hot(self, hot: Sequence[HotSegment]) -> None:
        async with connected(self._url) as connection:
            await insert_hot(connection, hot)

    async def read_back(self) -> Beginning:
        """Read the tables over new connections."""
        async with connected(self._url) as connection:
            row = await connection.fetchrow(_READ, self._copy)
        if row is None:
            raise self._in_use()
        snapshot = await self._snapshots.load(row["cluster_id"])
        if snapshot is None or snapshot.position != row["position"]:
            raise JournalCorrupt(f"{self.name} does not contain what was written: copy it again")
        return Beginning(row["cluster_id"], row["epoch"], snapshot)

    async def finish(self) -> None:
        """Give the journal a valid format, in a transaction that excludes other copies."""
        async with connected(self._url) as connection, connection.transaction():
            if await connection.execute(_RELEASE, self._copy) != "UPDATE 1":
                raise self._in_use()
            await connection.execute(_FINISH, FORMAT_VERSION)

    def _in_use(self) -> JournalInUse:
        return JournalInUse(
            f"another copy to {self.name} is in progress: let one of them finish first"
        )
