"""Objects as files below one directory; the store of `lacuna up --data DIR`.

An object becomes visible whole and durable, or not at all:

    write .tmp/<name>  →  fsync it  →  link it to its key, which fails if the key is taken
                       →  fsync the key's directory  →  unlink .tmp/<name>

Small objects of a store that puts many of them are made durable by one append to a log in `.log`
instead, and synced later, many at a time (`put_log`).
"""

import errno
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path

from lacuna.logstore.objects.directories import DurableDirectories
from lacuna.logstore.objects.filesystem import FileRanges, FileSystem, OsFileSystem
from lacuna.logstore.objects.put_folder import PutLogFolder
from lacuna.logstore.objects.put_log import PutLog, PutLogLimits
from lacuna.logstore.objects.store import (
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
    is_prefix,
)
from lacuna.logstore.objects.temporary import TemporaryFiles

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class DirectoryStore:
    """An `ObjectStore` below `root`, which is created.

    Opening it waits until the put logs that dead processes left are recovered, by this process or another.
    """

    read_gap = 0
    # A read from the page cache is so short that threads mostly wait for the interpreter's lock.
    reads_at_once = 2

    def __init__(
        self,
        root: str | Path,
        *,
        file_system: FileSystem | None = None,
        put_log: PutLogLimits | None = None,
    ) -> None:
        self.metrics = StoreMetrics()
        self._root = os.path.abspath(root)
        self._fs = OsFileSystem() if file_system is None else file_system
        self._durable = DurableDirectories(self._fs, self._root)
        with self._errors():
            self._durable.ensure_root()
            self._temporary = TemporaryFiles(self._fs, self._path(".tmp"))
            self._temporary.sweep()
            self._logs = PutLogFolder(self._fs, self._root, self._durable, self._temporary)
            self._logs.recover()
        self._limits = PutLogLimits() if put_log is None else put_log
        self._log = PutLog(self._fs, self._logs, self._temporary, self._limits)

    def check(self) -> None:
        """Write, sync, link and remove a temporary file, as a put would."""
        with self._errors():
            file = self._temporary.create()
            try:
                self._fs.write(file.fd, [b"lacuna"])
                self._fs.fsync(file.fd)
                self._link(file.path, file.path + ".link")
                self._fs.unlink(file.path + ".link")
            finally:
                self._temporary.discard(file)

    def put(self, key: str, parts: Sequence[Part]) -> None:
        target = self._path(check_key(key))
        directory, _, _ = target.rpartition("/")
        size = sum(map(len, parts))
        try:
            self._durable.ensure(directory)
            if size > self._limits.largest_object or not self._log.put(
                key, directory, target, parts
            ):
                self._put_synced(directory, target, parts)
        except FileExistsError:
            raise ObjectExistsError(key) from None
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                self._durable.forget()  # so that the next attempt makes the directory anew
            raise self._system_error(error) from error
        self.metrics.count_put(size)

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
        if not reads:
            return []
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
        with self._errors():
            # A later recovery would bring back what is deleted now.
            self._logs.recover(own=self._log.path)
        for key in keys:
            path = self._path(check_key(key))
            with self._errors(), suppress(*_NOT_THERE):
                self._log.forget(key, path)
                self._fs.unlink(path)
            self.metrics.count_deletes(1)

    def close(self) -> None:
        with self._errors():
            self._log.close()

    def _put_synced(self, directory: str, target: str, parts: Sequence[Part]) -> None:
        file = self._temporary.create()
        try:
            self._fs.write(file.fd, parts)
            self._fs.fsync(file.fd)
            self._link(file.path, target)
            self._fs.fsync_directory(directory)
        finally:
            self._temporary.discard(file)

    def _link(self, source: str, target: str) -> None:
        try:
            self._fs.link(source, target)
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise StoreMisconfiguredError(
                    f"the file system of {self._root} cannot link files ({error}): "
                    "use a directory on one that can, such as ext4, xfs or apfs"
                ) from error
            raise

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _read_error(self, read: RangeRead, position: int, count: int) -> ObjectStoreError:
        """The error for a part at `position` of which only `count` bytes were read; a negative one is -errno."""
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

    def _walk(self, above: str, prefix: str, start_after: str) -> Iterator[ObjectInfo]:
        """Depth first in key order; `above` is "" or ends with a slash."""
        try:
            names = self._fs.names(self._path(above))
        except (FileNotFoundError, NotADirectoryError):
            return
        except PermissionError:
            if is_prefix(above):
                raise
            return  # such as the lost+found of a volume, which holds no objects
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
                f"{self._root} cannot be used: give this user permission to write there ({error})"
            )
        return StoreUnavailableError(f"directory {self._root} failed: {error}")


def _may_hold(directory: str, prefix: str) -> bool:
    return directory.startswith(prefix) or prefix.startswith(directory)


def _wholly_before(directory: str, key: str) -> bool:
    """Whether every key in `directory` (which ends with a slash) is at most `key`."""
    return directory < key and not key.startswith(directory)
