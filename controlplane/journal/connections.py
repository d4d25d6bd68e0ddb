"""SQLite connections as the journal opens them, behind a Protocol, so that a test can put a fault
layer below.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from controlplane.journal.journal import JournalCorrupt, JournalError

#: What sits in the file's header, so that a stranger's database is told from ours ("Lacu").
APPLICATION_ID = 0x4C616375
FORMAT_VERSION = 1


class Cursor(Protocol):
    """As far as the journal uses one; rows are tuples."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection in autocommit mode: transactions are begun and ended by statements."""

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> Cursor: ...

    def close(self) -> None: ...

    @property
    def in_transaction(self) -> bool: ...


Connect = Callable[[str], Connection]


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Commits, durably, or rolls back (SQLite does so itself where the disk fails it)."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def errors_of(path: str) -> Iterator[None]:
    """SQLite's errors as the journal's: JournalCorrupt where the file is damaged, else JournalError."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise JournalCorrupt(
                f"{path} or a file beside it was damaged ({error}): restore it from a backup"
            ) from error
        raise JournalError(f"{path} cannot be read or written: {error}") from error


def connect(path: str) -> Connection:
    """The connection in use outside of tests."""
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)


def configure(connection: Connection) -> None:
    """Durable at every commit; readers do not hold a writer up.

    SQLite itself syncs the directory when it makes a file, before the first commit there ends.
    """
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
