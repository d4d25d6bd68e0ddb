"""Snapshots in the database of a journal in PostgreSQL, over connections of their own, so that appends do not wait."""

from typing import Final

from lacuna.controlplane.journal.journal import JournalCorrupt, Snapshot
from lacuna.controlplane.journal.postgresql_connection import Connection, connected
from lacuna.controlplane.journal.rows import check_row, checksum
from lacuna.controlplane.journal.snapshot_store import KEPT_SNAPSHOTS

#: A snapshot is split into rows of at most this many bytes, since the server holds a whole row in memory several times.
_PART_BYTES: Final = 4 << 20

_POSITIONS: Final = "SELECT DISTINCT position FROM lacuna.snapshots ORDER BY position DESC"
_LOAD: Final = "SELECT parts, crc, state FROM lacuna.snapshots WHERE position = $1 ORDER BY part"
_STORE: Final = """
    INSERT INTO lacuna.snapshots (position, part, parts, crc, state) VALUES ($1, $2, $3, $4, $5)"""

_DELETE: Final = "DELETE FROM lacuna.snapshots WHERE position <= $1"


class PostgresqlSnapshots:
    """A SnapshotStore in the database at `url`, in which a journal must have been opened before."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def check(self, _: str | None, /) -> None:
        """Do nothing: a database has one journal, and its snapshots go with it."""

    async def load(self, _: str | None, /) -> Snapshot | None:
        """Return the newest undamaged snapshot, or None if there are none. Raises JournalCorrupt."""
        damage: JournalCorrupt | None = None
        async with (
            connected(self._url) as connection,
            # What is listed is still there when it is read, even if somebody stores another snapshot meanwhile.
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            for position in await _positions(connection):
                try:
                    return await _load(connection, position)
                except JournalCorrupt as error:
                    damage = error
        if damage is not None:
            raise damage
        return None

    async def store(self, snapshot: Snapshot, _: str, /) -> int:
        """Store a snapshot and delete all but the newest two, in one transaction; return what can be trimmed."""
        async with connected(self._url) as connection, connection.transaction():
            # Two that store the same one wait for each other here, and the later one's stays.
            await connection.execute("LOCK TABLE lacuna.snapshots IN SHARE ROW EXCLUSIVE MODE")
            await insert_snapshot(connection, snapshot)
            positions = await _positions(connection)
            if len(positions) < KEPT_SNAPSHOTS:
                return 0
            oldest = positions[KEPT_SNAPSHOTS - 1]
            await connection.execute(_DELETE, oldest - 1)
            return oldest

    async def trimmable(self, _: str, /) -> int:
        """Return the position of the older of two snapshots, or 0 if there are fewer."""
        async with connected(self._url) as connection:
            positions = await _positions(connection)
        return positions[KEPT_SNAPSHOTS - 1] if len(positions) >= KEPT_SNAPSHOTS else 0

    async def newest(self) -> int:
        """Return the position of the newest snapshot, or 0 if there are none."""
        async with connected(self._url) as connection:
            return max(await _positions(connection), default=0)

    async def delete_up_to(self, position: int) -> None:
        """Delete the snapshots up to a position."""
        async with connected(self._url) as connection:
            await connection.execute(_DELETE, position)


async def insert_snapshot(connection: Connection, snapshot: Snapshot) -> None:
    """Store a snapshot in the caller's transaction, in the place of any at the same position."""
    state, position = snapshot.state, snapshot.position
    blobs = [state[at : at + _PART_BYTES] for at in range(0, len(state), _PART_BYTES)] or [b""]
    await connection.execute("DELETE FROM lacuna.snapshots WHERE position = $1", position)
    for part, blob in enumerate(blobs):
        row = (position, part, len(blobs), checksum(position, blob), blob)
        await connection.execute(_STORE, *row)


async def _positions(connection: Connection) -> list[int]:
    return [row["position"] for row in await connection.fetch(_POSITIONS)]


async def _load(connection: Connection, position: int) -> Snapshot:
    rows = await connection.fetch(_LOAD, position)
    if len(rows) != rows[0]["parts"]:
        raise JournalCorrupt(f"the snapshot at position {position} is incomplete")
    parts = (
        check_row("a part of the snapshot", position, row["state"], row["crc"]) for row in rows
    )
    return Snapshot(position, b"".join(parts))
