"""A disk below SQLite that loses everything that was not synced.

The files are real, so SQLite behaves as usual. The disk also records what a power cut would leave: the contents of each
file and the names in the directory, each as of its last sync. `cut_at` selects the moments, counted in system calls, at
which it records this.

SQLite's unix layer syncs the directory only on the first sync of a new journal or log file (as `strace` shows). This
layer cannot observe that, so it simulates it.
"""

import os
import random
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from lacuna.controlplane.journal.connections import Connection

Change = tuple[int, bytes | None]


@dataclass
class _File:
    """`durable` is the content as of the last sync. `changes` are later writes (position, bytes) and truncations."""

    durable: bytes = b""
    changes: list[Change] = field(default_factory=list)
    syncs_directory: bool = False


@dataclass(frozen=True)
class Remains:
    """What a power cut leaves, and the number of records acknowledged before it."""

    acknowledged: int
    names: dict[str, tuple[bytes, tuple[Change, ...]]]

    def lay_out(self, directory: Path, rng: random.Random) -> None:
        """Write the files. Any subset of the unsynced changes may have reached the disk."""
        for name, (durable, changes) in self.names.items():
            content = bytearray(durable)
            share = rng.choice((0.0, 0.5, 0.9))
            for change in changes:
                if rng.random() < share:
                    _apply(content, change)
            (directory / name).write_bytes(content)


class FaultyDisk:
    """`skips` lists syncs that do nothing: "log", "database" or "directory". `pragmas` replaces statements.
    `acknowledged` returns the number of acknowledged records.
    """

    def __init__(
        self,
        acknowledged: Callable[[], int],
        cut_at: Container[int] = (),
        skips: Container[str] = (),
        pragmas: dict[str, str] | None = None,
    ) -> None:
        self.calls = 0
        self.remains: list[Remains] = []
        self._acknowledged = acknowledged
        self._cut_at = cut_at
        self._skips = skips
        self._pragmas = pragmas or {}
        self._names: dict[str, _File] = {}
        self._durable_names: dict[str, _File] = {}
        self._vfs = _Vfs(self, f"faulty-{id(self)}")

    def connect(self, path: str) -> Connection:
        """The connection factory for a journal."""
        return _Connection(apsw.Connection(path, vfs=self._vfs.name), self._pragmas)

    def opened(self, path: str, flags: int) -> _File:
        name = os.path.basename(path)
        if name not in self._names:
            kinds = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
            self._names[name] = _File(syncs_directory=bool(flags & kinds))
        return self._names[name]

    def deleted(self, path: str) -> None:
        self._count()
        self._names.pop(os.path.basename(path), None)

    def changed(self, file: _File, change: Change) -> None:
        self._count()
        file.changes.append(change)

    def synced(self, file: _File, kind: str) -> None:
        self._count()
        if kind not in self._skips:
            content = bytearray(file.durable)
            for change in file.changes:
                _apply(content, change)
            file.durable = bytes(content)
            file.changes = []
        if file.syncs_directory:
            file.syncs_directory = False
            if "directory" not in self._skips:
                self._durable_names = dict(self._names)

    def _count(self) -> None:
        """Count a system call. The power may be cut before any of them."""
        self.calls += 1
        if self.calls in self._cut_at:
            names = {
                name: (file.durable, tuple(file.changes))
                for name, file in self._durable_names.items()
            }
            self.remains.append(Remains(self._acknowledged(), names))


class _Connection:
    """An apsw connection with some statements replaced."""

    def __init__(self, connection: apsw.Connection, pragmas: dict[str, str]) -> None:
        self._connection = connection
        self._pragmas = pragmas
        self.close = connection.close

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> apsw.Cursor:
        statement = self._pragmas.get(statement, statement)
        return self._connection.execute(statement, tuple(parameters))


class _Vfs(apsw.VFS):
    def __init__(self, disk: FaultyDisk, name: str) -> None:
        self.name = name
        self._disk = disk
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "_VfsFile":  # noqa: N802
        return _VfsFile(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self._disk.deleted(filename)
        super().xDelete(filename, syncdir)


class _VfsFile(apsw.VFSFile):
    def __init__(
        self, disk: FaultyDisk, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._disk = disk
        self._kind = "database" if flags[0] & apsw.SQLITE_OPEN_MAIN_DB else "log"
        self._file = disk.opened(path, flags[0])
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.changed(self._file, (offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.changed(self._file, (newsize, None))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.synced(self._file, self._kind)
        super().xSync(flags)


def _apply(content: bytearray, change: Change) -> None:
    position, data = change
    if data is None:
        del content[position:]
        return
    content.extend(bytes(max(0, position + len(data) - len(content))))
    content[position : position + len(data)] = data
