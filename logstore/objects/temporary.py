"""The files of a directory store that are no objects yet.

Temporary files are locked while they are written, so that a store which opens the same directory
can tell the leftovers of a dead process (no one holds the lock) from the work of a live one.

To make a file is the dearest step of a put that does not wait for the disk, so some are made
beforehand: `take` gives one of them, `refill` makes as many anew, in another thread.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from logstore.objects.filesystem import FileSystem

_FEW = 4
_MOST = 64


@dataclass(frozen=True, slots=True)
class TemporaryFile:
    """An empty file, open for writing, and locked."""

    path: str
    fd: int
    inode: int


class TemporaryFiles:
    """The directory `folder`, which is created. Not synced: nothing in it is to survive a crash."""

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
        """A new file; the loop since processes of two containers may share a pid."""
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
        """Close it and take its name away, at once."""
        try:
            self._fs.unlink(file.path)
        finally:
            self._fs.close(file.fd)

    def take(self) -> TemporaryFile:
        """A file that was made beforehand, or else a new one."""
        try:
            return self._ready.popleft()
        except IndexError:
            self._wanted = min(2 * self._wanted, _MOST)
            return self.create()

    def give_back(self, file: TemporaryFile) -> None:
        """Let the next `refill` take away the name of a file that has its other name."""
        if len(self._used) < 2 * _MOST:
            self._used.append(file)
        else:
            self.discard(file)

    def is_low(self) -> bool:
        """Whether `refill` is due."""
        return 2 * len(self._ready) < self._wanted or len(self._used) > _MOST

    def refill(self) -> None:
        """Make files beforehand, up to 64 by use, and take away the names of those that were used."""
        while self._used:
            self.discard(self._used.popleft())
        while len(self._ready) < self._wanted:
            self._ready.append(self.create())

    def close(self) -> None:
        """Give up what was made beforehand."""
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
