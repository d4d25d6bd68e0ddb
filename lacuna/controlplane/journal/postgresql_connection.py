"""Connections to a journal's PostgreSQL database, and what its errors mean to operators."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import asyncpg

from lacuna.controlplane.journal.journal import (
    JournalCorrupt,
    JournalError,
    JournalForeign,
    JournalRefused,
    JournalUnreachable,
)

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

_CONNECT_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 5.0
#: Longer than any statement takes or waits for a lock, so that a stalled connection fails rather than waiting forever.
_STATEMENT_SECONDS: Final = 30.0

_SETTINGS: Final = {
    "application_name": "lacuna",
    # The fence of an append is checked after the leader's row has been locked, which happens only at this isolation
    # level. A role or database may have a different default.
    "default_transaction_isolation": "read committed",
    # A role or database may have a weaker default, under which a failover or crash loses acknowledged data.
    "synchronous_commit": "on",
    # A time-out set for the role would end the wait for a synchronous standby. The client has time-outs of its own.
    "statement_timeout": "0",
    # No append or takeover waits longer than this for a lock.
    "lock_timeout": "10s",
    # If a leader's machine or network fails during an append, it still holds its lock, and keeps everyone else out,
    # until the server notices. By default, that takes two hours.
    "tcp_keepalives_idle": "3",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "6000",
}
_SCHEMES: Final = ("postgresql", "postgres")
_EXAMPLE: Final = "postgresql://USER@HOST:5432/DATABASE"

#: The kinds of errors that asyncpg raises: the server's, its own, and those of the socket (TimeoutError is one of
#: them).
DATABASE_ERRORS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
_UNREACHABLE: Final = (
    asyncpg.AdminShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.CrashShutdownError,
    asyncpg.PostgresConnectionError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
_READ_ONLY: Final = (
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.TargetServerAttributeNotMatched,
)
_PASSWORD: Final = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidPasswordError,
)
_NOT_OUR_TABLES: Final = (
    asyncpg.UndefinedColumnError,
    asyncpg.UndefinedTableError,
    asyncpg.WrongObjectTypeError,
)

#: The meaning of each error, and what to do about it. The first match applies.
_MEANINGS: Final = (
    (
        _READ_ONLY,
        JournalUnreachable,
        (
            ": this server is a read-only replica. Specify the address of the primary, or those of all servers and "
            "?target_session_attrs=read-write"
        ),
    ),
    (
        asyncpg.ProtocolViolationError,
        JournalRefused,
        (
            ". A pooler such as pgbouncer rejects settings that the journal needs for safety "
            f"({', '.join(_SETTINGS)}). Use PostgreSQL's own host and port in the URL instead of "
            "the pooler's"
        ),
    ),
    (
        _UNREACHABLE,
        JournalUnreachable,
        (
            ": PostgreSQL cannot be reached. Check that it is running and accepts connections from this machine, "
            "and that the URL "
            "names its host and port"
        ),
    ),
    (
        asyncpg.InvalidCatalogNameError,
        JournalRefused,
        ". Create it with createdb, or correct the URL",
    ),
    (
        _PASSWORD,
        JournalRefused,
        (
            ". Correct the user or the password in the URL (or PGPASSWORD, or ~/.pgpass), or "
            "allow the user with a line in the server's pg_hba.conf"
        ),
    ),
    (
        asyncpg.InsufficientPrivilegeError,
        JournalRefused,
        (
            ". The journal's user creates the schema `lacuna` and owns its tables: GRANT CREATE "
            "ON DATABASE … TO this user, or connect as the user that created them"
        ),
    ),
    (
        _NOT_OUR_TABLES,
        JournalForeign,
        ": the schema `lacuna` is not a Lacuna journal. Specify a different database",
    ),
    (
        (asyncpg.DataCorruptedError, asyncpg.IndexCorruptedError),
        JournalCorrupt,
        ": the database is damaged. Restore it from a backup",
    ),
    (
        asyncpg.LockNotAvailableError,
        JournalError,
        (
            ": another connection has held a lock on the journal for too long. "
            "Find it in pg_stat_activity, and end it with SELECT pg_terminate_backend(PID)"
        ),
    ),
    (
        asyncpg.InsufficientResourcesError,
        JournalError,
        ". Free resources on the server, then start again",
    ),
)


def name_of(url: str) -> str:
    """Return a database URL for display, without the password or options. Raises JournalRefused if it is not the URL of
    a PostgreSQL database.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise JournalRefused(f"the journal's URL is malformed ({error}): use {_EXAMPLE}") from None
    if parts.scheme not in _SCHEMES:
        raise JournalRefused(f"the journal's URL does not begin with postgresql://: use {_EXAMPLE}")
    credentials, at, hosts = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{credentials.partition(':')[0]}{at}{hosts}{parts.path}"


async def connect(url: str, statement_seconds: float = _STATEMENT_SECONDS) -> Connection:
    """Open a connection whose statements may take `statement_seconds` each. Raises JournalUnreachable and
    JournalRefused, as `errors_of` does.
    """
    name = name_of(url)
    try:
        with errors_of(name):
            return await asyncpg.connect(
                url,
                timeout=_CONNECT_SECONDS,
                command_timeout=statement_seconds,
                server_settings=_SETTINGS,
            )
    except (
        ValueError
    ) as error:  # asyncpg parses the URL; its ClientConfigurationError is a ValueError too
        raise JournalRefused(
            f"{name}: the journal's URL is malformed ({error}): use {_EXAMPLE}"
        ) from error


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    """Run the body with a new connection, turning the database's errors into journal errors."""
    connection = await connect(url)
    try:
        with errors_of(name_of(url)):
            yield connection
    finally:
        await disconnect(connection)


async def disconnect(connection: Connection) -> None:
    """Close a connection, without waiting for a server that does not answer. An open transaction is rolled back."""
    try:
        await connection.close(timeout=_CLOSE_SECONDS)
    except DATABASE_ERRORS:
        connection.terminate()


@contextmanager
def errors_of(name: str) -> Iterator[None]:
    """Turn asyncpg's errors into journal errors. `name` is the name of the database.

    Raises JournalUnreachable if the database does not answer, JournalRefused if it denies something that a journal
    needs, JournalForeign if its tables are not a journal's, JournalCorrupt if it is damaged, and otherwise
    JournalError.
    """
    try:
        yield
    except asyncpg.ClientConfigurationError:
        raise
    except DATABASE_ERRORS as error:
        raise meaning_of(error, name) from error


def meaning_of(error: Exception, name: str) -> JournalError:
    """Return the journal error for one of `DATABASE_ERRORS`: what happened, why, and what to do."""
    for kinds, meaning, what_to_do in _MEANINGS:
        if isinstance(error, kinds):
            return meaning(f"{name}: {reason_of(error)}{what_to_do}")
    return JournalError(f"{name}: {reason_of(error)}. See the server's log for details")


def is_from_living_server(error: Exception) -> bool:
    """Whether the server rejected a statement but stayed up, so the statement had no effect."""
    return isinstance(error, asyncpg.PostgresError) and error.severity_en == "ERROR"


def reason_of(error: Exception) -> str:
    """Return the text of one of `DATABASE_ERRORS`, as part of a sentence."""
    if isinstance(error, asyncpg.PostgresError):
        return str(error.message or error)
    if isinstance(error, asyncio.TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return f"the host's name is unknown ({error.strerror})"
    return str(error) or type(error).__name__
