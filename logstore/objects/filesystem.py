"""Every system call that the directory store makes, behind one Protocol.

The point is the fault layer: `logstore.objects.unsynced` keeps the same interface and forgets what
was not synced. So the interface tells apart what POSIX tells apart: the bytes of a file (`fsync`)
and the names in a directory (`fsync_dir`).
"""

from __future__ import annotations

import errno
import fcntl
import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from logstore.objects.reading import read_files
from logstore.objects.store import Part

_IOV_MAX = 1024
"""Buffers that one writev may take; POSIX allows systems a limit and this is Linux'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRanges:
    """Ranges of files, as `reading.read_files` takes them: those of paths[i] begin at firsts[i].

    Range k: `sizes[k]` bytes from `positions[k]` of its file, to `starts[k]` in a buffer.
    """

    paths: list[str]
    firsts: array[int]
    positions: array[int]
    sizes: array[int]
    starts: array[int]


@dataclass(frozen=True, slots=True)
class FileInfo:
    """`size` in bytes, `modified_ms` since 1970, `links` the number of names the file has."""

    size: int
    modified_ms: int
    links: int
    is_directory: bool


class FileSystem(Protocol):
    """Thin over `os`; every method raises `OSError` as `os` does."""

    def create(self, path: str) -> int:
        """Open a new file for writing; `FileExistsError` if the name is taken."""

    def open(self, path: str) -> int:
        """Open a file for reading."""

    def lock(self, fd: int) -> bool:
        """Take the file's advisory lock until `close`, or say at once that someone else has it."""

    def write(self, fd: int, parts: Sequence[Part]) -> None:
        """Append all bytes of all parts."""

    def read_into(self, fd: int, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from `position`; how many bytes there were."""

    def read_ranges(self, ranges: FileRanges, buffer: bytearray) -> Sequence[int]:
        """Open, read and close many files: for each range its bytes, or the negative errno."""

    def fsync(self, fd: int) -> None:
        """Make the bytes of a file durable, not its name."""

    def close(self, fd: int) -> None:
        """Close; says nothing about durability."""

    def link(self, source: str, target: str) -> None:
        """Give a file a second name, atomically; `FileExistsError` if that is taken."""

    def unlink(self, path: str) -> None:
        """Take a name away."""

    def make_directory(self, path: str) -> None:
        """Create one directory; `FileExistsError` if the name is taken."""

    def fsync_directory(self, path: str) -> None:
        """Make the names in a directory durable (not those above or below it)."""

    def info(self, path: str) -> FileInfo:
        """What the name stands for."""

    def info_of(self, fd: int) -> FileInfo:
        """The same of an open file."""

    def names(self, path: str) -> list[tuple[str, bool]]:
        """The names in a directory and whether each is a directory itself, in any order."""


class OsFileSystem:
    """The real one."""

    def create(self, path: str) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def open(self, path: str) -> int:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def lock(self, fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def write(self, fd: int, parts: Sequence[Part]) -> None:
        views = [memoryview(part).cast("B") for part in parts if len(part)]
        first = 0
        while first < len(views):
            written = os.writev(fd, views[first : first + _IOV_MAX])
            while first < len(views) and written >= len(views[first]):
                written -= len(views[first])
                first += 1
            if written:
                views[first] = views[first][written:]

    def read_into(self, fd: int, buffer: memoryview, position: int) -> int:
        filled = 0
        while filled < len(buffer):
            count = os.preadv(fd, [buffer[filled:]], position + filled)
            if not count:
                break
            filled += count
        return filled

    def read_ranges(self, ranges: FileRanges, buffer: bytearray) -> Sequence[int]:
        return read_files(
            ranges.paths, ranges.firsts, ranges.positions, ranges.sizes, ranges.starts, buffer
        )

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def make_directory(self, path: str) -> None:
        os.mkdir(path)

    def fsync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def info(self, path: str) -> FileInfo:
        return _info(os.stat(path))

    def info_of(self, fd: int) -> FileInfo:
        return _info(os.fstat(fd))

    def names(self, path: str) -> list[tuple[str, bool]]:
        with os.scandir(path) as entries:
            return [(entry.name, entry.is_dir()) for entry in entries]


def read_ranges_by_steps(
    file_system: FileSystem, ranges: FileRanges, buffer: bytearray
) -> Sequence[int]:
    """`read_ranges` by means of `open`, `read_into` and `close`."""
    view = memoryview(buffer)
    counts: list[int] = []
    for index, path in enumerate(ranges.paths):
        places = range(ranges.firsts[index], ranges.firsts[index + 1])
        try:
            fd = file_system.open(path)
            try:
                for k in places:
                    out = view[ranges.starts[k] : ranges.starts[k] + ranges.sizes[k]]
                    counts.append(file_system.read_into(fd, out, ranges.positions[k]))
            finally:
                file_system.close(fd)
        except OSError as error:
            counts += [-(error.errno or errno.EIO)] * (places.stop - len(counts))
    return counts


def _info(result: os.stat_result) -> FileInfo:
    is_directory = (result.st_mode & 0o170000) == 0o040000
    return FileInfo(result.st_size, result.st_mtime_ns // 1_000_000, result.st_nlink, is_directory)
