"""Creates and reads the tables of a journal in SQLite."""

from typing import Any, Final

from lacuna.controlplane.journal.connections import (
    APPLICATION_ID,
    FORMAT_VERSION,
    Connection,
    transaction,
)
from lacuna.controlplane.journal.formats import check_journal_format
from lacuna.controlplane.journal.journal import (
    JournalBatch,
    JournalCorrupt,
    JournalForeign,
)
from lacuna.controlplane.journal.rows import check_row, decode_records
from lacuna.controlplane.journal.sqlite_hot import HOT_SCHEMA

_SCHEMA: Final = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE batches (
        position INTEGER PRIMARY KEY, count INTEGER NOT NULL,
        crc INTEGER NOT NULL, records BLOB NOT NULL
    )""",
    *HOT_SCHEMA,
)
_ROWS_A_READ: Final = 256


def read_batches(connection: Connection, after_position: int) -> list[JournalBatch]:
    """Return at most `_ROWS_A_READ` batches after `after_position`, or none at the journal's end.

    Raises JournalCorrupt at a gap or a wrong checksum.
    """
    found = connection.execute(
        "SELECT position, count, crc, records FROM batches WHERE position>?"
        " ORDER BY position LIMIT ?",
        (after_position, _ROWS_A_READ),
    )
    batches: list[JournalBatch] = []
    for position, count, crc, blob in found:
        records = decode_records(
            check_row(f"the journal's batch at position {position}", position, blob, crc)
        )
        if len(records) != count or position - count != after_position:
            raise JournalCorrupt(
                f"the journal has a gap: the batch that ends at position {position} does not "
                f"follow position {after_position}; restore it from a backup"
            )
        batches.append(JournalBatch(position, records))
        after_position = position
    return batches


def read_cluster_id(connection: Connection) -> str:
    """Return the id of the journal's cluster. Raises JournalForeign if the file is empty or not a Lacuna journal."""
    stored = read_meta(connection)
    if stored is None:
        raise JournalForeign("the journal is empty")
    return str(stored["cluster_id"])


def last_position(connection: Connection) -> int:
    """Return the position of the last record, or 0 if there has never been one. Raises JournalCorrupt."""
    row = connection.execute("SELECT value FROM meta WHERE key='trimmed'").fetchone()
    # A damaged index lacks rows of the table, and a damaged row has values of the wrong type.
    if row is None or not isinstance(row[0], int):
        raise JournalCorrupt("the journal's trimmed position is damaged: restore it from a backup")
    newest = connection.execute("SELECT max(position) FROM batches").fetchone()[0]
    return max(row[0], newest or 0)


def read_meta(connection: Connection) -> dict[str, Any] | None:
    """Return the contents of the meta table, or None if the database is empty. Raises JournalForeign if it is not a
    Lacuna journal, JournalOfAnotherVersion and JournalCorrupt.
    """
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application_id == 0 and tables == 0:
        return None
    if application_id != APPLICATION_ID:
        raise JournalForeign("the database belongs to another program")
    stored = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    missing = {"format_version", "cluster_id", "fencing_token", "trimmed"} - stored.keys()
    if missing:
        raise JournalCorrupt(f"the journal has no {min(missing)}: restore it from a backup")
    check_journal_format("its format", stored["format_version"], FORMAT_VERSION)
    return stored


def create(
    connection: Connection,
    cluster_id: str,
    fencing_token: int = 0,
    position: int = 0,
    format_version: int = FORMAT_VERSION,
) -> None:
    """Create the tables of a journal that counts as trimmed up to `position`."""
    rows = (
        ("format_version", format_version),
        ("cluster_id", cluster_id),
        ("fencing_token", fencing_token),
        ("trimmed", position),
    )
    with transaction(connection):
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        for statement in _SCHEMA:
            connection.execute(statement)
        for row in rows:
            connection.execute("INSERT INTO meta VALUES (?, ?)", row)
