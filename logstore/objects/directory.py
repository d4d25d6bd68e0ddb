"""Objects as files below one directory; the store of `lacuna up --data DIR`.

An object becomes visible whole and durable, or not at all:

    write .tmp/<name>  →  fsync it  →  link it to its key, which fails if the key is taken
                       →  fsync the key's directory  →  unlink .tmp/<name>

A name survives a crash only if the directory it stands in was synced, so the directories of a key
are created from the top and each one's parent is synced before anything is put below it, once a
store. That a directory exists proves nothing: another process may have made it a moment ago and not
synced it yet.

Temporary files are locked while they are written, so that a store which opens the same directory
can tell the leftovers of a dead process (no one holds the lock) from the work of a live one.
"""

import errno
import itertools
import os
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path

from logstore.objects.filesystem import FileRanges, FileSystem, OsFileSystem
from logstore.objects.store import (
    ObjectExistsError,
    ObjectInfo,
    ObjectNotFoundError,
    ObjectStoreError,
    Part,
    RangeRead,
    ShortReadError,
    StoreMetrics,
    StoreMisconfiguredError,
    StoreUnavailableError,
    check_key,
    check_prefix,
    check_range,
)

_TEMPORARY = ".tmp"
_KNOWN_DIRECTORIES = 1024
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class DirectoryStore:
    """An `ObjectStore` below `root`, which is created."""

    read_gap = 0
    # A read out of the page cache is so short that threads mostly wait for the interpreter's lock.
    reads_at_once = 2

    def __init__(
        self,
        root: str | Path,
        *,
        file_system: FileSystem | None = None,
    ) -> None:
        self.metrics = StoreMetrics()
        self._root = os.path.abspath(root)
        self._fs = OsFileSystem() if file_system is None else file_system
        self._names = itertools.count()
        self._durable = _DurableDirectories(self._fs, self._root)
        with self._errors():
            self._durable.ensure_root()
            self._make_temporary_directory()
            self._sweep()

    def check(self) -> None:
        """Write, sync, link and remove a temporary file, as a put would."""
        with self._errors():
            path, fd = self._create_temporary()
            try:
                self._fs.write(fd, [b"lacuna"])
                self._fs.fsync(fd)
                self._link(path, path + ".link")
                self._fs.unlink(path + ".link")
            finally:
                self._fs.unlink(path)
                self._fs.close(fd)

    def put(self, key: str, parts: Sequence[Part]) -> None:
        target = self._path(check_key(key))
        with self._errors():
            self._durable.ensure(os.path.dirname(target))
            temporary, fd = self._create_temporary()
            try:
                self._fs.write(fd, parts)
                self._fs.fsync(fd)
                self._link(temporary, target)
                self._fs.fsync_directory(os.path.dirname(target))
            except FileExistsError:
                raise ObjectExistsError(key) from None
            except FileNotFoundError:
                self._durable.forget()  # so that the next attempt makes the directory anew
                raise
            finally:
                self._fs.unlink(temporary)
                self._fs.close(fd)
        self.metrics.count_put(sum(len(part) for part in parts))

    def get(self, key: str, position: int, size: int) -> bytearray:
        check_range(key, position, size)
        data = bytearray(size)
        (error,) = self.get_into([RangeRead(key, position, size, [(position, size, 0)])], data)
        if error is not None:
            raise error
        return data

    def get_into(
        self, reads: Sequence[RangeRead], buffer: bytearray
    ) -> list[ObjectStoreError | None]:
        parts = [part for read in reads for part in read.parts]
        positions, sizes, starts = (array("q", column) for column in zip(*parts, strict=True))
        firsts = array("q", (0, *accumulate(len(read.parts) for read in reads)))
        paths = [self._path(check_key(read.key)) for read in reads]
        ranges = FileRanges(
            paths=paths, firsts=firsts, positions=positions, sizes=sizes, starts=starts
        )
        counts = self._fs.read_ranges(ranges, buffer)
        if counts == sizes:
            self.metrics.count_get(sum(sizes), len(reads))
            return [None] * len(reads)
        outcomes: list[ObjectStoreError | None] = []
        for index, read in enumerate(reads):
            outcome = None
            for k in range(firsts[index], firsts[index + 1]):
                if counts[k] != sizes[k]:
                    outcome = self._read_error(read, positions[k], counts[k])
                    break
            else:
                self.metrics.count_get(sum(size for _, size, _ in read.parts))
            outcomes.append(outcome)
        return outcomes

    def get_all(self, key: str) -> bytearray:
        path = self._path(check_key(key))
        with self._reading(key):
            info = self._fs.info(path)
            if info.is_directory:
                raise ObjectNotFoundError(key)
            fd = self._fs.open(path)
            try:
                data = bytearray(info.size)
                count = self._fs.read_into(fd, memoryview(data), 0)
            finally:
                self._fs.close(fd)
        if count < info.size:
            raise ShortReadError(key, 0, info.size, count)
        self.metrics.count_get(len(data))
        return data

    def size(self, key: str) -> int:
        with self._reading(key):
            info = self._fs.info(self._path(check_key(key)))
        if info.is_directory:
            raise ObjectNotFoundError(key)
        self.metrics.count_size()
        return info.size

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ObjectInfo]:
        above, _, _ = check_prefix(prefix).rpartition("/")
        with self._errors():
            yield from self._walk(above + "/" if above else "", prefix, start_after)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            path = self._path(check_key(key))
            with self._errors(), suppress(*_NOT_THERE):
                self._fs.unlink(path)
            self.metrics.count_deletes(1)

    def close(self) -> None:
        """Nothing is kept open between two calls."""

    def _link(self, source: str, target: str) -> None:
        try:
            self._fs.link(source, target)
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise StoreMisconfiguredError(
                    f"the file system of {self._root} cannot link files ({error}): "
                    "use a directory on one that can, as ext4, xfs or apfs"
                ) from error
            raise

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _read_error(self, read: RangeRead, position: int, count: int) -> ObjectStoreError:
        """What it means that a part from `position` on gave only `count` bytes, or an errno."""
        if count >= 0:
            return ShortReadError(
                read.key, read.position, read.size, max(0, position + count - read.position)
            )
        error = OSError(-count, os.strerror(-count))
        return (
            ObjectNotFoundError(read.key)
            if isinstance(error, _NOT_THERE)
            else (self._system_error(error))
        )

    def _make_temporary_directory(self) -> None:
        """Unless it is there. Not synced: nothing in it is to survive a crash."""
        with suppress(FileExistsError):
            self._fs.make_directory(self._path(_TEMPORARY))

    def _create_temporary(self) -> tuple[str, int]:
        """A new locked file in .tmp; the loop since processes of two containers may share a pid."""
        while True:
            path = self._path(f"{_TEMPORARY}/{os.getpid()}-{next(self._names)}")
            try:
                fd = self._fs.create(path)
            except FileExistsError:
                continue
            if self._fs.lock(fd) and self._fs.info_of(fd).links:
                return path, fd
            self._fs.close(fd)  # a store that is just starting took it for a leftover

    def _sweep(self) -> None:
        """Remove the temporary files that no live process holds."""
        for name, is_directory in self._fs.names(self._path(_TEMPORARY)):
            path = self._path(f"{_TEMPORARY}/{name}")
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

    def _walk(self, above: str, prefix: str, start_after: str) -> Iterator[ObjectInfo]:
        """Depth first in key order; `above` is "" or ends with a slash."""
        try:
            names = self._fs.names(self._path(above))
        except (FileNotFoundError, NotADirectoryError):
            return
        self.metrics.count_list()
        children = sorted(above + name + "/" * is_directory for name, is_directory in names)
        for child in children:
            if child.startswith("."):
                continue
            if child.endswith("/"):
                if _may_hold(child, prefix) and not _wholly_before(child, start_after):
                    yield from self._walk(child, prefix, start_after)
            elif child.startswith(prefix) and child > start_after:
                try:
                    info = self._fs.info(self._path(child))
                except FileNotFoundError:
                    continue
                yield ObjectInfo(child, info.size, info.modified_ms)

    @contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        """Turn the errors of the file system into those of a store that reads an object."""
        with self._errors():
            try:
                yield
            except _NOT_THERE:
                raise ObjectNotFoundError(key) from None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the errors of the file system into those of a store."""
        try:
            yield
        except OSError as error:
            raise self._system_error(error) from error

    def _system_error(self, error: OSError) -> ObjectStoreError:
        if error.errno == errno.ENOTDIR:
            return StoreMisconfiguredError(
                f"{self._root} holds a file where a directory must be ({error}): move it away"
            )
        if error.errno in _NO_SPACE:
            return StoreMisconfiguredError(f"no space left below {self._root}: free some ({error})")
        if error.errno in _REFUSED:
            return StoreMisconfiguredError(
                f"{self._root} cannot be used: give this user the right to write there ({error})"
            )
        return StoreUnavailableError(f"directory {self._root} failed: {error}")


class _DurableDirectories:
    """Directories whose whole path is known to survive a crash."""

    def __init__(self, file_system: FileSystem, root: str) -> None:
        self._fs = file_system
        self._root = root
        self._lock = threading.Lock()
        self._known: set[str] = set()

    def ensure_root(self) -> None:
        """Create the store's own directory. Whatever stood above it already is the operator's."""
        if self._exists(self._root):
            # a parent that we may not open is one that we cannot have created it in
            with suppress(PermissionError):
                self._fs.fsync_directory(os.path.dirname(self._root))
        else:
            parent = os.path.dirname(self._root)
            while not self._exists(parent):
                parent = os.path.dirname(parent)
            self._known.add(parent)
            self.ensure(self._root)
        self.forget()

    def forget(self) -> None:
        """Know of the root alone."""
        self._known = {self._root}

    def ensure(self, path: str) -> None:
        """Create `path` and what is missing above it, each name synced before the next is made."""
        if path in self._known:
            return
        with self._lock:
            if len(self._known) > _KNOWN_DIRECTORIES:
                self.forget()
            missing = []
            while path not in self._known:
                missing.append(path)
                path = os.path.dirname(path)
            for directory in reversed(missing):
                self._make(directory)
                self._known.add(directory)

    def _exists(self, path: str) -> bool:
        try:
            info = self._fs.info(path)
        except FileNotFoundError:
            return False
        if not info.is_directory:
            raise NotADirectoryError(errno.ENOTDIR, "is a file, not a directory", path)
        return True

    def _make(self, directory: str) -> None:
        try:
            self._fs.make_directory(directory)
        except FileExistsError:
            self._exists(directory)
        self._fs.fsync_directory(os.path.dirname(directory))


def _may_hold(directory: str, prefix: str) -> bool:
    return directory.startswith(prefix) or prefix.startswith(directory)


def _wholly_before(directory: str, key: str) -> bool:
    """Whether every key in `directory` (which ends with a slash) is at most `key`."""
    return directory < key and not key.startswith(directory)
