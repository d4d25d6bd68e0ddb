"""The directory store's system calls, in one class.

Tests replace it with a file system that loses unsynced data, as a power cut would. As in POSIX, syncing a file's bytes
(`fsync`) and syncing the names in a directory (`fsync_directory`) are therefore separate operations.
"""

from __future__ import annotations

import fcntl
import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from lacuna.logstore.objects.reading import read_files
from lacuna.logstore.objects.store import Part, Reads, WritableBuffer

_IOV_MAX = 1024
"""The maximum number of buffers that one writev takes on Linux; POSIX lets each system set its own limit."""


def sync(path: str | os.PathLike[str]) -> None:
    """Sync the bytes of a file, or the names in a directory."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file's size in bytes, the time of its last change (ms since 1970), and the number of its hard links."""

    size: int
    modified_ms: int
    links: int
    is_directory: bool


class FileSystem:
    """A thin layer over `os`. Every method raises `OSError` as `os` does."""

    def create(self, path: str) -> int:
        """Open a new file for writing. Raises `FileExistsError` if the name is taken."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def open(self, path: str) -> int:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def is_at(self, fd: int, path: str) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), os.stat(path))
        except FileNotFoundError:
            return False

    def lock(self, fd: int) -> bool:
        """Take the file's advisory lock until `close`. Return False immediately if another process holds it."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def write(self, fd: int, parts: Sequence[Part]) -> None:
        """Append all parts completely."""
        left = [memoryview(part).cast("B") for part in parts if len(part)]
        while left:
            left = _after(left, os.writev(fd, left[:_IOV_MAX]))

    def read_into(self, fd: int, buffer: memoryview, position: int) -> int:
        """Read from `position` until `buffer` is full or the file ends. Return the number of bytes read."""
        filled = 0
        while filled < len(buffer):
            count = os.preadv(fd, [buffer[filled:]], position + filled)
            if not count:
                break
            filled += count
        return filled

    def read_ranges(
        self, paths: list[str], firsts: array[int], reads: Reads, buffer: WritableBuffer
    ) -> Sequence[int]:
        """Read the parts of `reads` into `buffer`; parts firsts[i] to firsts[i + 1] - 1 come from the file paths[i].

        Return the number of bytes read for each part, or -errno.
        """
        return read_files(paths, firsts, reads.positions, reads.sizes, reads.starts, buffer)

    def fsync(self, fd: int) -> None:
        """Make a file's bytes durable, but not its name."""
        os.fsync(fd)

    def close(self, fd: int) -> None:
        """Close a file without making anything durable."""
        os.close(fd)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name, atomically. Raises `FileExistsError` if the name is taken."""
        os.link(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def make_directory(self, path: str) -> None:
        """Create one directory. Raises `FileExistsError` if the name is taken."""
        os.mkdir(path)

    def fsync_directory(self, path: str) -> None:
        """Make the names in a directory durable, but not those in its parent or subdirectories."""
        sync(path)

    def info(self, path: str) -> FileInfo:
        return _info(os.stat(path))

    def info_of(self, fd: int) -> FileInfo:
        return _info(os.fstat(fd))

    def names(self, path: str) -> list[tuple[str, bool]]:
        """Return the names in a directory, in any order, and whether each is a directory."""
        with os.scandir(path) as entries:
            return [(entry.name, entry.is_dir()) for entry in entries]


def _info(result: os.stat_result) -> FileInfo:
    is_directory = (result.st_mode & 0o170000) == 0o040000
    return FileInfo(result.st_size, result.st_mtime_ns // 1_000_000, result.st_nlink, is_directory)


def _after(views: list[memoryview], written: int) -> list[memoryview]:
    first = 0
    while first < len(views) and written >= len(views[first]):
        written -= len(views[first])
        first += 1
    left = views[first:]
    if written:
        left[0] = left[0][written:]
    return left
