"""Temporary files of a directory store, which become objects once they are linked to their keys.

Temporary files are locked while they are written, so that a store which opens the same directory
can tell the leftovers of a dead process (no one holds the lock) from the work of a live one.

Creating a file is the most expensive step of a put that does not wait for the disk. So some files are
created in advance: `take` hands one out, and `refill`, called in another thread, replaces them.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from lacuna.logstore.objects.filesystem import FileSystem

_FEW = 4
_MOST = 64


@dataclass(frozen=True, slots=True)
class TemporaryFile:
    """An empty file, open for writing, and locked."""

    path: str
    fd: int
    inode: int


class TemporaryFiles:
    """The temporary files in `folder`, which is created but never synced: none need survive a crash."""

    def __init__(self, file_system: FileSystem, folder: str) -> None:
        self._fs = file_system
        self._folder = folder
        self._names = itertools.count()
        self._ready: deque[TemporaryFile] = deque()
        self._used: deque[TemporaryFile] = deque()
        self._wanted = _FEW
        with suppress(FileExistsError):
            self._fs.make_directory(folder)

    def create(self) -> TemporaryFile:
        """Create a file; it loops because processes in two containers may have the same pid."""
        while True:
            path = f"{self._folder}/{os.getpid()}-{next(self._names)}"
            try:
                fd = self._fs.create(path)
            except FileExistsError:
                continue
            if self._fs.lock(fd) and (info := self._fs.info_of(fd)).links:
                return TemporaryFile(path, fd, info.inode)
            self._fs.close(fd)  # a store that is just starting took it for a leftover

    def discard(self, file: TemporaryFile) -> None:
        """Close the file and remove its name, at once."""
        try:
            self._fs.unlink(file.path)
        finally:
            self._fs.close(file.fd)

    def take(self) -> TemporaryFile:
        """A file that was created in advance, or else a new one."""
        try:
            return self._ready.popleft()
        except IndexError:
            self._wanted = min(2 * self._wanted, _MOST)
            return self.create()

    def give_back(self, file: TemporaryFile) -> None:
        """Let the next `refill` discard a file that has been linked to its key."""
        if len(self._used) < 2 * _MOST:
            self._used.append(file)
        else:
            self.discard(file)

    def is_low(self) -> bool:
        """Whether `refill` should be called."""
        return 2 * len(self._ready) < self._wanted or len(self._used) > _MOST

    def refill(self) -> None:
        """Discard the files that were given back, and create files in advance: 4, or up to 64 if `take` ran out."""
        while self._used:
            self.discard(self._used.popleft())
        while len(self._ready) < self._wanted:
            self._ready.append(self.create())

    def close(self) -> None:
        """Discard all files that were given back or created in advance."""
        self._wanted = 0
        self.refill()
        while self._ready:
            self.discard(self._ready.popleft())

    def sweep(self) -> None:
        """Remove the temporary files that no live process holds."""
        for name, is_directory in self._fs.names(self._folder):
            path = f"{self._folder}/{name}"
            if is_directory:
                continue
            try:
                fd = self._fs.open(path)
            except FileNotFoundError:
                continue
            try:
                if self._fs.lock(fd):
                    self._fs.unlink(path)
            except FileNotFoundError:
                pass  # another store swept it first
            finally:
                self._fs.close(fd)
