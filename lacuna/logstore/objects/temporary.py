"""The temporary files of a directory store, which are linked to their keys to become objects.

A process locks the files that it is writing. When another store opens the same directory, it can thus recognize the
files that a dead process left behind: no process holds their locks.
"""

from __future__ import annotations

import errno
import itertools
import os
from contextlib import suppress
from dataclasses import dataclass

from lacuna.logstore.objects.filesystem import FileSystem


@dataclass(frozen=True, slots=True)
class TemporaryFile:
    path: str
    fd: int


class TemporaryFiles:
    """The temporary files in `folder`, which is created but never synced, since none of them needs to survive a crash.

    Files that a dead process left behind are removed. The folder stays open, so that its deletion or replacement is
    noticed.
    """

    def __init__(self, file_system: FileSystem, folder: str) -> None:
        self._fs = file_system
        self._folder = folder
        self._names = itertools.count()
        with suppress(FileExistsError):
            self._fs.make_directory(folder)
        self._sweep()
        self._fd: int | None = self._fs.open(folder)

    def are_there(self) -> bool:
        if self._fd is None:
            raise OSError(errno.EBADF, "the store is closed", self._folder)
        return self._fs.is_at(self._fd, self._folder)

    def close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            self._fs.close(fd)

    def create(self) -> TemporaryFile:
        """Create a file. Several names may have to be tried, since processes in different containers may have the same
        pid.
        """
        while True:
            path = f"{self._folder}/{os.getpid()}-{next(self._names)}"
            try:
                fd = self._fs.create(path)
            except FileExistsError:
                continue
            if self._fs.lock(fd) and self._fs.info_of(fd).links:
                return TemporaryFile(path, fd)
            self._fs.close(fd)  # a store that is just starting mistook it for a leftover

    def discard(self, file: TemporaryFile) -> None:
        try:
            self._fs.unlink(file.path)
        finally:
            self._fs.close(file.fd)

    def _sweep(self) -> None:
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
                pass  # another store removed it first
            finally:
                self._fs.close(fd)
