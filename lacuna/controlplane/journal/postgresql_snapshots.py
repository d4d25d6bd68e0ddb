"""Snapshots in the database of a journal in PostgreSQL, over separate connections so that appends do not wait.

A snapshot is stored as rows with parts of the state, the last of which contains the number of parts. A row with part
number -1 contains the seal of the last append that the snapshot covers; a snapshot at the beginning of a journal lacks
this row.
"""

import struct
from typing import Final, NamedTuple

from lacuna.controlplane.journal.journal import JournalCorrupt, Judge, Seal, Snapshot
from lacuna.controlplane.journal.postgresql_connection import Connection, connected, name_of
from lacuna.controlplane.journal.rows import check_row, checksum, numbered
from lacuna.controlplane.journal.snapshot_store import (
    KEPT_SNAPSHOTS,
    SnapshotStore,
    fitting,
    loadable,
)

#: The part number of the row with the seal.
_SEAL_PART: Final = -1
_SEAL: Final = struct.Struct("<qI")

_LIST: Final = """
    SELECT stored.position, seal.crc, seal.state
    FROM (SELECT DISTINCT position FROM lacuna.snapshots) AS stored
    LEFT JOIN lacuna.snapshots AS seal ON seal.position = stored.position AND seal.part = -1
    ORDER BY stored.position"""
_NEWEST: Final = "SELECT coalesce(max(position), 0) FROM lacuna.snapshots"
_LOAD: Final = """
    SELECT parts, crc, state FROM lacuna.snapshots WHERE position = $1 AND part >= 0 ORDER BY part"""
_STORE: Final = """
    INSERT INTO lacuna.snapshots (position, part, parts, crc, state) VALUES ($1, $2, $3, $4, $5)"""

_DELETE: Final = "DELETE FROM lacuna.snapshots WHERE position <= $1"


class _Stored(NamedTuple):
    position: int
    seal: Seal | None


class PostgresqlSnapshots:
    """A SnapshotStore in the database at `url`, whose tables must exist."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def check(self, _: str | None, /) -> None:
        """Do nothing, since a database has one journal with its snapshots."""

    async def load(self, _: str | None, judge: Judge | None = None, /) -> Snapshot | None:
        async with (
            connected(self._url) as connection,
            # Ensures that a listed snapshot still exists when it is read, even if another one is stored in the
            # meantime.
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            stored, damage = await _listed(connection)
            for each in reversed(await loadable(name_of(self._url), stored, judge)):
                try:
                    return await _load(connection, each)
                except JournalCorrupt as error:
                    damage = error
        if damage is not None:
            raise damage
        return None

    async def store(self, snapshot: Snapshot, _: str, judge: Judge | None = None, /) -> int:
        """Store a snapshot and delete all but the newest two that fit, in one transaction. Return the position to trim
        to.
        """
        async with connected(self._url) as connection, connection.transaction():
            # If two processes store the same snapshot, the second waits here for the first, and then replaces what the
            # first has stored.
            await connection.execute("LOCK TABLE lacuna.snapshots IN SHARE ROW EXCLUSIVE MODE")
            await insert_snapshot(connection, snapshot)
            oldest = await _oldest_kept(connection, judge)
            await connection.execute(_DELETE, oldest - 1)
            return oldest

    async def trimmable(self, _: str, judge: Judge | None = None, /) -> int:
        async with connected(self._url) as connection:
            return await _oldest_kept(connection, judge)

    async def newest(self) -> int:
        """Return the position of the newest snapshot, or 0 if there are none."""
        async with connected(self._url) as connection:
            return int(await connection.fetchval(_NEWEST))

    async def delete_up_to(self, position: int) -> None:
        async with connected(self._url) as connection:
            await connection.execute(_DELETE, position)


async def insert_snapshot(connection: Connection, snapshot: Snapshot) -> None:
    """Store a snapshot in the caller's transaction, replacing any at the same position."""
    position = snapshot.position
    await connection.execute("DELETE FROM lacuna.snapshots WHERE position = $1", position)
    if snapshot.seal is not None:
        blob = _SEAL.pack(*snapshot.seal)
        await connection.execute(_STORE, position, _SEAL_PART, 0, checksum(position, blob), blob)
    for part, parts, blob in numbered(snapshot.parts):
        await connection.execute(_STORE, position, part, parts, checksum(position, blob), blob)


async def _oldest_kept(connection: Connection, judge: Judge | None) -> int:
    stored, _ = await _listed(connection)
    positions = [each.position for each in await fitting(stored, judge)]
    return positions[-KEPT_SNAPSHOTS] if len(positions) >= KEPT_SNAPSHOTS else 0


async def _listed(connection: Connection) -> tuple[list[_Stored], JournalCorrupt | None]:
    """Return the snapshots in the order of their positions, and the error of one whose seal is damaged."""
    stored: list[_Stored] = []
    damage: JournalCorrupt | None = None
    for position, crc, blob in await connection.fetch(_LIST):
        try:
            stored.append(_Stored(position, None if blob is None else _seal(position, blob, crc)))
        except JournalCorrupt as error:
            damage = error
    return stored, damage


def _seal(position: int, blob: object, crc: object) -> Seal:
    return Seal(
        *_SEAL.unpack(
            check_row(f"the seal of the snapshot at position {position}", position, blob, crc)
        )
    )


async def _load(connection: Connection, stored: _Stored) -> Snapshot:
    position = stored.position
    rows = await connection.fetch(_LOAD, position)
    if not rows or len(rows) != rows[-1]["parts"]:
        raise JournalCorrupt(f"the snapshot at position {position} is incomplete")
    parts = tuple(
        check_row(
            f"a part of the snapshot at position {position}", position, row["state"], row["crc"]
        )
        for row in rows
    )
    return Snapshot(position, parts, stored.seal)


class MovedSnapshots:
    """A SnapshotStore that writes to `now`, and reads from both `now` and `earlier`.

    A journal that was copied to a database begins with a snapshot there, while later ones are in the bucket.
    """

    def __init__(self, now: SnapshotStore, earlier: PostgresqlSnapshots) -> None:
        self._now = now
        self._earlier = earlier

    async def check(self, cluster_id: str | None, /) -> None:
        """Raise JournalForeign if `now` belongs to a different cluster."""
        await self._now.check(cluster_id)

    async def load(self, cluster_id: str | None, judge: Judge | None = None, /) -> Snapshot | None:
        """Return the newest undamaged snapshot that fits in either place, or None if there is none."""
        snapshot = await self._now.load(cluster_id, judge)
        position = 0 if snapshot is None else snapshot.position
        if await self._earlier.newest() > position:
            earlier = await self._earlier.load(cluster_id, judge)
            if earlier is not None and earlier.position > position:
                return earlier
        return snapshot

    async def store(
        self, snapshot: Snapshot, cluster_id: str, judge: Judge | None = None, /
    ) -> int:
        """Store a snapshot, and delete those in either place that are no longer needed."""
        trimmable = await self._now.store(snapshot, cluster_id, judge)
        await self._earlier.delete_up_to(trimmable)
        return trimmable

    async def trimmable(self, cluster_id: str, judge: Judge | None = None, /) -> int:
        """Return the position to trim to, judging by the snapshots in `now`."""
        return await self._now.trimmable(cluster_id, judge)
