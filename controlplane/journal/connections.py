"""SQLite connections as the journal opens them, behind a Protocol, so that a test can put a fault
layer below.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

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


Connect = Callable[[str], Connection]


def connect(path: str) -> Connection:
    """The connection in use outside of tests."""
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)


def configure(connection: Connection) -> None:
    """Durable at every commit; readers do not hold a writer up."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def sync_directory(path: str) -> None:
    """Makes the names in the directory of the file `path` durable."""
    descriptor = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
