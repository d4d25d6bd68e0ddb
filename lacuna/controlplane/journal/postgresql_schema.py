"""The tables of a journal in PostgreSQL. They are in the schema `lacuna`, so a database has room for one journal.

journal    one row: format version, cluster id, and the position up to which records were trimmed
leader     one row: the last writer's epoch, which is its fencing token, and its address
renewals   a sequence, which each renewal by the leader advances
appends    one row per append, with the positions of its first and last record
hot_1 ...  the hot segments (`postgresql_hot`)
snapshots  the parts of snapshots; before a snapshot's first part, the seal of the last append that it covers
"""

from collections.abc import Callable
from typing import Final

import asyncpg

from lacuna.controlplane.journal.formats import check_journal_format
from lacuna.controlplane.journal.journal import JournalForeign
from lacuna.controlplane.journal.postgresql_connection import Connection
from lacuna.controlplane.journal.postgresql_hot import create_table

FORMAT_VERSION: Final = 1

_TABLES: Final = (
    """CREATE TABLE lacuna.journal (
        is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
        format_version integer NOT NULL, cluster_id text NOT NULL, trimmed bigint NOT NULL
    )""",
    """CREATE TABLE lacuna.leader (
        is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
        epoch bigint NOT NULL, address text
    )""",
    "CREATE SEQUENCE lacuna.renewals",
    """CREATE TABLE lacuna.appends (
        first bigint PRIMARY KEY, last bigint NOT NULL, crc bigint NOT NULL, records bytea NOT NULL
    )""",
    """CREATE TABLE lacuna.snapshots (
        position bigint, part integer, parts integer NOT NULL,
        crc bigint NOT NULL, state bytea NOT NULL,
        PRIMARY KEY (position, part)
    )""",
)
_ADD_LEADER: Final = "INSERT INTO lacuna.leader (epoch) VALUES ($1)"
# A new sequence starts with this number marked as used.
_BEGIN_RENEWALS: Final = "SELECT setval('lacuna.renewals', 1)"
_ADD_JOURNAL: Final = (
    "INSERT INTO lacuna.journal (format_version, cluster_id, trimmed) VALUES ($1, $2, $3)"
)
_IS_THERE: Final = "SELECT to_regclass('lacuna.journal') IS NOT NULL"
_HAS_SCHEMA: Final = "SELECT to_regnamespace('lacuna') IS NOT NULL"
_STRANGERS_TABLE: Final = """
    SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('lacuna') ORDER BY relname LIMIT 1"""


async def read_or_create(
    connection: Connection, cluster_id: str | None, new_cluster_id: Callable[[], str]
) -> str:
    """Return the id of the journal's cluster, creating the tables if there are none.

    Raises JournalForeign and JournalOfAnotherVersion, both without the name of the database, and asyncpg's errors.
    """
    if not await is_there(connection):
        await _create(connection, cluster_id or new_cluster_id())
    await check_version(connection)
    return await read_cluster_id(connection)


async def read_cluster_id(connection: Connection) -> str:
    """Return the id of the journal's cluster. The tables must exist and be of this version."""
    return str(await connection.fetchval("SELECT cluster_id FROM lacuna.journal"))


async def is_there(connection: Connection) -> bool:
    return bool(await connection.fetchval(_IS_THERE))


async def check_version(connection: Connection) -> None:
    """Raise JournalForeign or JournalOfAnotherVersion if this version cannot interpret the tables."""
    version = await connection.fetchval("SELECT format_version FROM lacuna.journal")
    if version is None:
        raise JournalForeign("the table lacuna.journal is empty: restore it from a backup")
    check_journal_format("its format", version, FORMAT_VERSION)


async def raise_version(connection: Connection) -> None:
    """Record, for a leader, that this version writes the journal from now on, so that earlier versions reject it."""
    await connection.execute(
        "UPDATE lacuna.journal SET format_version = $1 WHERE format_version < $1", FORMAT_VERSION
    )


async def _create(connection: Connection, cluster_id: str) -> None:
    """Create the tables in one transaction, unless another connection does so at the same time."""
    try:
        async with connection.transaction():
            await make_tables(connection, cluster_id)
    except (
        asyncpg.DuplicateSchemaError,
        asyncpg.DuplicateTableError,
        asyncpg.UniqueViolationError,
    ):
        # If two connections create the same name, the later one waits for the earlier, and then fails in PostgreSQL's
        # catalog.
        return
    except JournalForeign:
        # Tables of the other connection are not foreign, provided there were none when the caller looked.
        if not await is_there(connection):
            raise


async def make_tables(
    connection: Connection,
    cluster_id: str,
    *,
    epoch: int = 0,
    position: int = 0,
    format_version: int = FORMAT_VERSION,
) -> None:
    """Create the tables of a journal that counts as trimmed up to `position`, in the caller's transaction.

    `epoch` is that of its last leader. Raises JournalForeign and asyncpg's errors.
    """
    if not await connection.fetchval(_HAS_SCHEMA):
        await connection.execute("CREATE SCHEMA lacuna")
    elif stranger := await connection.fetchval(_STRANGERS_TABLE):
        raise JournalForeign(
            f"the schema `lacuna` contains a table {stranger}, so it is not a Lacuna journal: "
            "specify a different database"
        )
    for statement in _TABLES:
        await connection.execute(statement)
    await create_table(connection, 1)
    await connection.execute(_ADD_LEADER, epoch)
    await connection.execute(_BEGIN_RENEWALS)
    await connection.execute(_ADD_JOURNAL, format_version, cluster_id, position)
