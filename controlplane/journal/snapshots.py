"""Snapshots, in a database of their own beside the journal, so that writing one holds no commit up.

Two generations are kept: the journal forgets only what the older one covers, so a snapshot that was
damaged costs a longer replay and not the cluster.
"""

from typing import Final

from controlplane.journal.connections import (
    APPLICATION_ID,
    Connect,
    Connection,
    configure,
    connect,
    transaction,
)
from controlplane.journal.journal import JournalCorrupt, JournalForeign, Snapshot
from controlplane.journal.rows import check_row, checksum

#: A snapshot lies in rows of at most this many bytes (SQLite's own limit for one is 1 GB).
_PART_BYTES: Final = 16 << 20
_KEPT: Final = 2

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS snapshots (
    position INTEGER NOT NULL, part INTEGER NOT NULL, parts INTEGER NOT NULL,
    cluster_id TEXT NOT NULL, crc INTEGER NOT NULL, state BLOB NOT NULL,
    PRIMARY KEY (position, part)
)"""


def snapshots_path(journal_path: str) -> str:
    """Where the snapshots of a journal lie."""
    return journal_path + ".snapshots"


class SnapshotDatabase:
    """The snapshots of one journal. Blocking: call it from a worker thread or another process."""

    def __init__(
        self,
        path: str,
        cluster_id: str,
        connect: Connect = connect,
    ) -> None:
        self._cluster_id = cluster_id
        self._connection: Connection = connect(path)
        configure(self._connection)
        self._connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        self._connection.execute(_SCHEMA)

    def load(self) -> Snapshot | None:
        """The newest snapshot that is whole; an older one where that is damaged.

        Raises JournalForeign where they are another cluster's, JournalCorrupt where none is whole.
        """
        damage: JournalCorrupt | None = None
        for position in self.positions():
            try:
                return self._load(position)
            except JournalCorrupt as error:
                damage = error
        if damage is not None:
            raise damage
        return None

    def positions(self) -> list[int]:
        """Positions of the snapshots, newest first."""
        found = self._connection.execute(
            "SELECT DISTINCT position FROM snapshots ORDER BY position DESC"
        )
        return [position for (position,) in found]

    def _load(self, position: int) -> Snapshot:
        found = self._connection.execute(
            "SELECT parts, cluster_id, crc, state FROM snapshots WHERE position=? ORDER BY part",
            (position,),
        )
        rows = found.fetchall()
        if rows[0][1] != self._cluster_id:
            raise JournalForeign(
                f"the snapshots belong to cluster {rows[0][1]}, not {self._cluster_id}: "
                "keep each journal and its .snapshots file together"
            )
        if len(rows) != rows[0][0]:
            raise JournalCorrupt(f"the snapshot at position {position} is not whole")
        state = b"".join(
            check_row("a part of the snapshot", position, blob, crc) for _, _, crc, blob in rows
        )
        return Snapshot(position, state)

    def store(self, snapshot: Snapshot) -> None:
        """Keeps a snapshot durably and drops those beyond the second newest, in one transaction."""
        state = snapshot.state
        blobs = [state[at : at + _PART_BYTES] for at in range(0, len(state), _PART_BYTES)] or [b""]
        execute = self._connection.execute
        with transaction(self._connection):
            for part, blob in enumerate(blobs):
                crc = checksum(snapshot.position, blob)
                execute(
                    "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?, ?)",
                    (snapshot.position, part, len(blobs), self._cluster_id, crc, blob),
                )
            for position in self.positions()[_KEPT:]:
                execute("DELETE FROM snapshots WHERE position=?", (position,))

    def trimmable(self) -> int:
        """The journal's records up to this position are needed by no restart, even from the older
        snapshot.
        """
        positions = self.positions()
        return positions[_KEPT - 1] if len(positions) >= _KEPT else 0

    def close(self) -> None:
        """Closes the database."""
        self._connection.close()
