"""Objects as files below one directory: the store that `lacuna up --data DIR` uses.

An object becomes visible complete and durable, or not at all:

    write .tmp/<name>  →  fsync it  →  link it to its key, which fails if the key is taken
                       →  fsync the key's directory  →  unlink .tmp/<name>
"""

import errno
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

from lacuna.logstore.objects.directories import NOT_THERE, DurableDirectories, store_error
from lacuna.logstore.objects.filesystem import FileInfo, FileSystem
from lacuna.logstore.objects.kind import KEYS_OPTION, StoreKind
from lacuna.logstore.objects.reading import grow
from lacuna.logstore.objects.store import (
    ObjectExistsError,
    ObjectInfo,
    ObjectNotFoundError,
    ObjectStoreError,
    Part,
    RangeRead,
    Reads,
    ShortReadError,
    StoreMetrics,
    StoreMisconfiguredError,
    WritableBuffer,
    check_key,
    check_prefix,
    check_range,
    delete_each,
    is_prefix,
)
from lacuna.logstore.objects.temporary import TemporaryFiles

Outcomes: TypeAlias = list[ObjectStoreError | None]

_EARLIER = ".packs"
"""The folder in which an earlier development version kept small objects."""

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})


class DirectoryStore:
    """An `ObjectStore` below `root`, which is created if missing. A forked child process may keep using the store."""

    read_gap = 0
    # A read from the page cache is so short that threads mostly wait for the interpreter's lock.
    reads_at_once = 2

    def __init__(self, root: str | Path, *, file_system: FileSystem | None = None) -> None:
        self.metrics = StoreMetrics()
        self._root = os.path.abspath(root)
        self._fs = FileSystem() if file_system is None else file_system
        self._durable = DurableDirectories(self._fs, self._root)
        with self._errors():
            self._durable.ensure_root()
            self._check_format()
            self._temporary = TemporaryFiles(self._fs, self._path(".tmp"))

    def check(self) -> None:
        """Lock, write, sync, link and remove a temporary file, as a put would."""
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
        self._check_folder()
        try:
            self._durable.ensure(directory)
            is_new = self._create(directory, target, parts)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                self._durable.forget()  # so that the next attempt creates the directory again
            raise store_error(self._root, error) from error
        if not is_new:
            raise ObjectExistsError(key)
        self.metrics.count_put(sum(map(len, parts)))

    def get(self, key: str, position: int, size: int) -> bytearray:
        check_range(key, position, size)
        buffer = grow(bytearray(), size)
        (error,) = self.get_into([RangeRead(key, position, size, [(position, size, 0)])], buffer)
        if error is not None:
            raise error
        return buffer

    def get_up_to(self, key: str, position: int, size: int) -> bytearray:
        check_range(key, position, size)
        available = self.size(key) - position
        if available < 1:
            raise ShortReadError(key, position, size, 0)
        return self.get(key, position, min(size, available))

    def get_into(self, reads: Sequence[RangeRead], buffer: WritableBuffer) -> Outcomes:
        """Perform all reads in one call to the file system. Consecutive reads of one object share an open file."""
        if not reads:
            return []
        asked = Reads.of(reads)
        paths: list[str] = []
        firsts = array("q")
        for key, first in zip(asked.keys, asked.firsts, strict=False):
            path = self._path(check_key(key))
            if not paths or paths[-1] != path:
                paths.append(path)
                firsts.append(first)
        firsts.append(len(asked.positions))
        return self._outcomes(asked, self._fs.read_ranges(paths, firsts, asked, buffer))

    def get_all(self, key: str) -> bytearray:
        with self._errors(key):
            fd = self._fs.open(self._path(check_key(key)))
            try:
                size = _size_of(self._fs.info_of(fd))
                data = grow(bytearray(), size)
                count = self._fs.read_into(fd, memoryview(data), 0)
            finally:
                self._fs.close(fd)
        if count < size:
            raise ShortReadError(key, 0, size, count)
        self.metrics.count_get(size)
        return data

    def size(self, key: str) -> int:
        with self._errors(key):
            size = _size_of(self._fs.info(self._path(check_key(key))))
        self.metrics.count_size()
        return size

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ObjectInfo]:
        above, _, _ = check_prefix(prefix).rpartition("/")
        with self._errors():
            yield from self._walk(above + "/" if above else "", prefix, start_after)

    def delete(self, keys: Iterable[str]) -> None:
        def delete(key: str) -> None:
            with self._errors(), suppress(*NOT_THERE):
                self._fs.unlink(self._path(key))
            self.metrics.count_deletes(1)

        delete_each([check_key(key) for key in keys], delete)

    def close(self) -> None:
        with self._errors():
            self._temporary.close()

    def _outcomes(self, reads: Reads, counts: Sequence[int]) -> Outcomes:
        outcomes: Outcomes = [None] * len(reads)
        if counts == reads.sizes:
            self.metrics.count_get(sum(reads.sizes), len(reads))
            return outcomes
        for at, read in enumerate(reads):
            found = counts[reads.firsts[at] : reads.firsts[at + 1]]
            for (position, size, _), count in zip(read.parts, found, strict=True):
                if count != size:
                    outcomes[at] = self._error(read, position, count)
                    break
            else:
                self.metrics.count_get(sum(size for _, size, _ in read.parts))
        return outcomes

    def _error(self, read: RangeRead, position: int, count: int) -> ObjectStoreError:
        """Return the error for a part at `position`, given the number of bytes read or -errno as `count`."""
        if count >= 0:
            available = max(0, position + count - read.position)
            return ShortReadError(read.key, read.position, read.size, available)
        error = OSError(-count, os.strerror(-count))
        if isinstance(error, NOT_THERE):
            return ObjectNotFoundError(read.key)
        return store_error(self._root, error)

    def _check_format(self) -> None:
        if any(name == _EARLIER for name, _ in self._fs.names(self._root)):
            raise StoreMisconfiguredError(
                f"{self._root} was written by an earlier development version of Lacuna, and this "
                f"version cannot read the objects in {_EARLIER}: use the earlier version, or start "
                "with a new folder"
            )

    def _check_folder(self) -> None:
        """Raise StoreMisconfiguredError if the folder has been deleted or replaced since it was opened."""
        with self._errors():
            is_there = self._temporary.are_there()
        if not is_there:
            raise StoreMisconfiguredError(
                f"{self._root} was deleted, emptied or replaced while it was open, so no more "
                "objects are stored there: stop everything that uses it, and restore the folder "
                "or a backup before starting again"
            )

    def _create(self, directory: str, target: str, parts: Sequence[Part]) -> bool:
        """Create a durable file. Return False if the name is taken; the existing name is then durable as well."""
        file = self._temporary.create()
        try:
            self._fs.write(file.fd, parts)
            self._fs.fsync(file.fd)
            is_new = self._link(file.path, target)
            self._fs.fsync_directory(directory)
        finally:
            self._temporary.discard(file)
        return is_new

    def _link(self, source: str, target: str) -> bool:
        try:
            self._fs.link(source, target)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise StoreMisconfiguredError(
                    f"the file system of {self._root} cannot link files ({error}): "
                    "use a directory on one that can, such as ext4, xfs or apfs"
                ) from error
            raise
        return True

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _walk(self, above: str, prefix: str, start_after: str) -> Iterator[ObjectInfo]:
        """Yield the objects below a directory in key order, depth first. `above` is "" or ends with a slash."""
        try:
            names = self._fs.names(self._path(above))
        except (FileNotFoundError, NotADirectoryError):
            names = []
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
                with suppress(FileNotFoundError):
                    info = self._fs.info(self._path(child))
                    yield ObjectInfo(child, info.size, info.modified_ms)

    @contextmanager
    def _errors(self, key: str | None = None) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if key is not None and isinstance(error, NOT_THERE):
                raise ObjectNotFoundError(key) from None
            raise store_error(self._root, error) from error


def _size_of(info: FileInfo) -> int:
    if info.is_directory:
        raise IsADirectoryError
    return info.size


def _may_hold(directory: str, prefix: str) -> bool:
    return directory.startswith(prefix) or prefix.startswith(directory)


def _wholly_before(directory: str, key: str) -> bool:
    return directory < key and not key.startswith(directory)


def folder_url(folder: str | Path) -> str:
    return f"{DIRECTORY.scheme}://{quote(str(Path(folder).resolve()))}"


DIRECTORY: Final = StoreKind(
    scheme="file",
    form="file:///FOLDER",
    is_store=lambda parts: not parts.netloc and len(parts.path) > 1,
    open=lambda parts, _: DirectoryStore(unquote(parts.path)),
    options=(KEYS_OPTION,),
    folder=lambda parts: unquote(parts.path),
)
