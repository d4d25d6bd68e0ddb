"""The hot segments in SQLite: the table `hot`, in the same file as the records.

Because of this, hot segments share the transaction of their append, and its single sync. A separate file would need a
second sync per append, and a power cut could tear the transaction: with write-ahead logs, SQLite makes it atomic within
each file but not across files.

SQLite's default limit for checkpoints (1000 pages) is kept. A longer log would not reduce the median delay of appends,
and the whole log is read at startup (`evidence`).
"""

from collections.abc import Iterator, Sequence
from typing import Final

from lacuna.controlplane.journal.connections import Connection, transaction
from lacuna.controlplane.journal.hot_segments import check_hot, hot_checksum
from lacuna.controlplane.journal.journal import HotKey, HotSegment

#: The index alone shows which segments exist and how large they are, so that opening the journal reads none of their
#: bytes. `bytes` is the last column, so that the others can be read without it.
HOT_SCHEMA: Final = (
    """CREATE TABLE hot (
        id INTEGER PRIMARY KEY, lease_id INTEGER NOT NULL, sequence INTEGER NOT NULL,
        size INTEGER NOT NULL, crc INTEGER NOT NULL, bytes BLOB NOT NULL
    )""",
    "CREATE UNIQUE INDEX hot_keys ON hot (lease_id, sequence, size)",
)
_INSERT: Final = "INSERT INTO hot (lease_id, sequence, size, crc, bytes) VALUES (?, ?, ?, ?, ?)"
_SIZES: Final = "SELECT lease_id, sequence, size FROM hot INDEXED BY hot_keys"
_READ: Final = "SELECT sequence, crc, bytes FROM hot WHERE lease_id=? AND sequence BETWEEN ? AND ?"
_DELETE: Final = "DELETE FROM hot WHERE lease_id=? AND sequence=?"


def insert_hot(connection: Connection, hot: Sequence[HotSegment]) -> None:
    for segment in hot:
        size, crc = len(segment.data), hot_checksum(segment.key, segment.data)
        connection.execute(_INSERT, (*segment.key, size, crc, segment.data))


def hot_sizes(connection: Connection) -> dict[HotKey, int]:
    """Return the sizes of all segments by key, without reading the segments' bytes."""
    return {(lease_id, sequence): size for lease_id, sequence, size in connection.execute(_SIZES)}


def read_hot(connection: Connection, name: str, keys: Sequence[HotKey]) -> Iterator[HotSegment]:
    """Yield those segments that exist. Raises JournalCorrupt for a damaged one."""
    for lease_id, first, last in _runs(keys):
        for sequence, crc, data in connection.execute(_READ, (lease_id, first, last)).fetchall():
            key = lease_id, sequence
            yield HotSegment(key, check_hot(name, key, data, crc))


def _runs(keys: Sequence[HotKey]) -> Iterator[tuple[int, int, int]]:
    """Yield the keys as ranges (lease, first sequence, last sequence), each of which one query reads."""
    start = 0
    for end in range(1, len(keys) + 1):
        lease_id, last = keys[end - 1]
        if end == len(keys) or keys[end] != (lease_id, last + 1):
            yield lease_id, keys[start][1], last
            start = end


def delete_hot(connection: Connection, keys: Sequence[HotKey]) -> None:
    with transaction(connection):
        for key in keys:
            connection.execute(_DELETE, key)
