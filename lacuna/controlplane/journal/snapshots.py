"""Snapshots in a separate database next to the journal, so that writing one does not delay commits.

The two newest are kept, and the journal is trimmed only up to the older one, so that a damaged snapshot makes a replay
longer but does not destroy the cluster.
"""

from typing import Final

from lacuna.controlplane.journal.connections import (
    APPLICATION_ID,
    Connect,
    Connection,
    configure,
    connect,
    errors_of,
    transaction,
)
from lacuna.controlplane.journal.journal import JournalCorrupt, JournalForeign, Snapshot
from lacuna.controlplane.journal.rows import check_row, checksum, numbered

_KEPT: Final = 2

# `parts` is the number of parts in the last row, and otherwise 0.
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS snapshots (
    position INTEGER NOT NULL, part INTEGER NOT NULL, parts INTEGER NOT NULL,
    cluster_id TEXT NOT NULL, crc INTEGER NOT NULL, state BLOB NOT NULL,
    PRIMARY KEY (position, part)
)"""


def snapshots_path(journal_path: str) -> str:
    return journal_path + ".snapshots"


class SnapshotDatabase:
    """The snapshots of one journal. Its methods block, so call them from a worker thread or a separate process.

    Errors name this database rather than the journal, since the two may be on different disks.
    """

    def __init__(
        self,
        path: str,
        cluster_id: str,
        connect: Connect = connect,
    ) -> None:
        self._path = path
        self._cluster_id = cluster_id
        with errors_of(path):
            self._connection: Connection = connect(path)
            configure(self._connection)
            self._connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            self._connection.execute(_SCHEMA)

    def load(self) -> Snapshot | None:
        """Return the newest undamaged snapshot, or None if there are none. Raises JournalForeign if one belongs to a
        different cluster, and JournalCorrupt if all are damaged.
        """
        with errors_of(self._path):
            return load_newest(self._connection, self._cluster_id)

    def positions(self) -> list[int]:
        """Return the positions of the snapshots, newest first."""
        with errors_of(self._path):
            return _positions(self._connection)

    def store(self, snapshot: Snapshot) -> None:
        """Store a snapshot durably, and delete all but the two newest, in one transaction."""
        execute, position = self._connection.execute, snapshot.position
        with errors_of(self._path), transaction(self._connection):
            execute("DELETE FROM snapshots WHERE position=?", (position,))
            for part, parts, blob in numbered(snapshot.parts):
                row = (position, part, parts, self._cluster_id, checksum(position, blob), blob)
                execute("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?)", row)
            for position in self.positions()[_KEPT:]:
                execute("DELETE FROM snapshots WHERE position=?", (position,))

    def trimmable(self) -> int:
        """Return the position up to which the journal can be trimmed: that of the older snapshot, or 0 if there is only
        one.
        """
        positions = self.positions()
        return positions[_KEPT - 1] if len(positions) >= _KEPT else 0

    def close(self) -> None:
        self._connection.close()


def load_newest(connection: Connection, cluster_id: str) -> Snapshot | None:
    """Return the same as SnapshotDatabase.load, over a connection that may be read-only."""
    damage: JournalCorrupt | None = None
    for position in _positions(connection):
        try:
            return _load(connection, cluster_id, position)
        except JournalCorrupt as error:
            damage = error
    if damage is not None:
        raise damage
    return None


def _positions(connection: Connection) -> list[int]:
    found = connection.execute("SELECT DISTINCT position FROM snapshots ORDER BY position DESC")
    return [position for (position,) in found]


def _load(connection: Connection, cluster_id: str, position: int) -> Snapshot:
    found = connection.execute(
        "SELECT parts, cluster_id, crc, state FROM snapshots WHERE position=? ORDER BY part",
        (position,),
    )
    rows = found.fetchall()
    if rows[0][1] != cluster_id:
        raise JournalForeign(
            f"the snapshots belong to cluster {rows[0][1]}, not {cluster_id}: keep each journal "
            "together with its .snapshots file"
        )
    if len(rows) != rows[-1][0]:
        raise JournalCorrupt(f"the snapshot at position {position} is incomplete")
    parts = tuple(
        check_row(f"a part of the snapshot at position {position}", position, blob, crc)
        for _, _, crc, blob in rows
    )
    return Snapshot(position, parts)
