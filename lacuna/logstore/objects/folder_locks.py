"""The locks that coordinate the processes using a directory store: bytes of one file, `.packs/locks`.

They are open file description locks. They exclude other processes, also on other machines that mount the folder, and
are released when a process dies. Callers must coordinate the threads of one process.

    a directory's   held for long by the process that puts objects of this directory into its pack
    a key's         held while an object is put under this key
    the folder's    held while objects are deleted or moved, and while a dead process's pack is sealed

A key and a directory have a byte by their checksum. Two with the same byte merely wait for each other.
"""

from __future__ import annotations

import errno
import threading
from contextlib import suppress

from lacuna.logstore.objects.filesystem import FileSystem
from lacuna.logstore.records.crc import crc32c

FOLDER = 0
"""The folder's byte."""

_KEYS = 1 << 32
_DIRECTORIES = 2 << 32
_NOT_YET, _CLOSED = -1, -2


def key_byte(key: str) -> int:
    """Return the byte that is locked while an object is put under `key`."""
    return _KEYS + crc32c(key.encode())


def directory_byte(directory: str) -> int:
    """Return the byte that a process locks to pack objects of a directory, which is a part of their keys."""
    return _DIRECTORIES + crc32c(directory.encode())


class FolderLocks:
    """The locks of this process in the file at `path`, which the first lock creates. Thread-safe."""

    def __init__(self, file_system: FileSystem, path: str) -> None:
        self._fs = file_system
        self._path = path
        self._fd = _NOT_YET
        self._opening = threading.Lock()

    def wait_for(self, byte: int) -> None:
        """Wait until no other process holds the lock on a byte, then lock it."""
        self._fs.lock_byte(self._file(), byte)

    def take(self, byte: int) -> bool:
        """Lock a byte, or return at once if another process has it."""
        return self._fs.try_lock_byte(self._file(), byte)

    def release(self, byte: int) -> None:
        """Unlock a byte."""
        self._fs.unlock_byte(self._file(), byte)

    def are_there(self) -> bool:
        """Whether the file of the locks is still the one in the folder, if it was opened."""
        return self._fd < 0 or self._fs.is_at(self._fd, self._path)

    def close(self) -> None:
        """Release all locks. Later calls fail."""
        with self._opening:
            if self._fd >= 0:
                self._fs.close(self._fd)
            self._fd = _CLOSED

    def _file(self) -> int:
        if self._fd == _NOT_YET:
            with self._opening:
                if self._fd == _NOT_YET:
                    with suppress(FileExistsError):
                        self._fs.close(self._fs.create(self._path))
                    self._fd = self._fs.open_for_update(self._path)
        if self._fd == _CLOSED:
            raise OSError(errno.EBADF, "the store is closed", self._path)
        return self._fd


class Turns:
    """Admits one holder of a byte at a time, among all threads of all processes."""

    def __init__(self, locks: FolderLocks) -> None:
        self._locks = locks
        self._changed = threading.Condition()
        self._taken: set[int] = set()

    def begin(self, byte: int) -> None:
        """Wait until no other holder has the byte, and take it."""
        with self._changed:
            self._changed.wait_for(lambda: byte not in self._taken)
            self._taken.add(byte)
        try:
            self._locks.wait_for(byte)
        except BaseException:
            self._leave(byte)
            raise

    def end(self, byte: int) -> None:
        """Release the byte."""
        try:
            self._locks.release(byte)
        finally:
            self._leave(byte)

    def _leave(self, byte: int) -> None:
        with self._changed:
            self._taken.discard(byte)
            self._changed.notify_all()
