"""SQLite connections of the journal, behind a Protocol so that tests can inject faults."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Protocol
from urllib.parse import quote

from lacuna.base.errors import advice_on
from lacuna.controlplane.journal.journal import JournalCorrupt, JournalError, JournalForeign

#: Written to the file's header ("Lacu") to distinguish Lacuna's databases from those of other programs.
APPLICATION_ID = 0x4C616375
FORMAT_VERSION = 1


class Cursor(Protocol):
    """The part of an SQLite cursor that the journal uses. Rows are tuples."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection in autocommit mode, in which transactions begin and end with explicit statements."""

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> Cursor: ...

    def close(self) -> None: ...

    @property
    def in_transaction(self) -> bool: ...


Connect = Callable[[str], Connection]


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Run the body in a transaction, which is committed durably, or rolled back if the body raises an error.

    If the disk fails, SQLite has already rolled it back.
    """
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
    """Turn errors of SQLite and the operating system into journal errors.

    Raises JournalForeign if the file is not an SQLite database, JournalCorrupt if it is damaged, and otherwise
    JournalError.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            raise JournalForeign(f"{path} is not a Lacuna journal: {error}") from error
        if code == sqlite3.SQLITE_CORRUPT:
            raise JournalCorrupt(
                f"{path} or a file next to it was damaged ({error}): restore it from a backup"
            ) from error
        why = f"{path} cannot be read or written: {error}"
        if code == sqlite3.SQLITE_CANTOPEN:
            why += _unless_files_can_be_opened()
        raise JournalError(why) from error
    except UnicodeDecodeError as error:  # from a name in the schema, or from SQLite's own message
        raise JournalCorrupt(f"{path} was damaged ({error}): restore it from a backup") from error
    except OSError as error:
        advice = advice_on(error, "")
        why = f"a file next to {path} cannot be read or written: {error}{advice and f'; {advice}'}"
        raise JournalError(why) from error


def _unless_files_can_be_opened() -> str:
    """Return advice if no file can be opened at all, or "" otherwise. SQLite does not report this case as such."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        advice = advice_on(error, "")
        return f" ({error.strerror}){advice and f'; {advice}'}"
    return ""


def connect(path: str) -> Connection:
    """Open a connection for reading and writing. Only tests replace this function."""
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)


def connect_read_only(path: str) -> Connection:
    """Open a connection that changes neither the database nor its write-ahead log, not even when closed."""
    return sqlite3.connect(
        f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None, timeout=10.0
    )


@contextmanager
def writing(path: str) -> Iterator[Connection]:
    """Open a configured connection for the body. Closing it moves the whole write-ahead log into the database."""
    with closing(connect(path)) as connection:
        configure(connection)
        yield connection


def configure(connection: Connection) -> None:
    """Make every commit durable, and let readers work without blocking the writer.

    SQLite syncs the directory of a new file before the first commit ends. Deleted rows are not overwritten, which some
    builds of SQLite would do by default, writing each row twice.
    """
    connection.execute("PRAGMA secure_delete=OFF")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
