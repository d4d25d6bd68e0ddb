"""Objects below one directory; the store of `lacuna up --data DIR`.

An object becomes visible whole and durable, or not at all. An object stored as a separate file:

    write .tmp/<name>  →  fsync it  →  link it to its key, which fails if the key is taken
                       →  fsync the key's directory  →  unlink .tmp/<name>

A store that puts many small objects keeps them in packs below `.packs` instead, many in one file (`pack_puts`,
`pack_folder`). An object found in a pack is read there, even if there is a file.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote, unquote

from lacuna.logstore.objects.directories import DurableDirectories
from lacuna.logstore.objects.directory_errors import NOT_THERE, store_error
from lacuna.logstore.objects.filesystem import FileSystem, OsFileSystem
from lacuna.logstore.objects.kind import KEYS_OPTION, StoreKind
from lacuna.logstore.objects.pack_folder import PackFolder
from lacuna.logstore.objects.pack_index import Place
from lacuna.logstore.objects.pack_puts import PackLimits, PackPuts
from lacuna.logstore.objects.range_reads import RangeReads
from lacuna.logstore.objects.reading import grow
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
    WritableBuffer,
    check_key,
    check_prefix,
    check_range,
    delete_each,
    is_prefix,
    wall_clock_ms,
)
from lacuna.logstore.objects.temporary import TemporaryFiles

T = TypeVar("T")


_LOOKS = 2
"""How often an object that is not found is looked for again: it may be in a new pack, or have left one."""

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})


class DirectoryStore:
    """An `ObjectStore` below `root`, which is created.

    Opening it waits until the packs that dead processes left are synced, by this process or another.
    """

    read_gap = 0
    # A read from the page cache is so short that threads mostly wait for the interpreter's lock.
    reads_at_once = 2

    def __init__(
        self,
        root: str | Path,
        *,
        file_system: FileSystem | None = None,
        packs: PackLimits | None = None,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.metrics = StoreMetrics()
        self._root = os.path.abspath(root)
        self._fs = OsFileSystem() if file_system is None else file_system
        self._limits = PackLimits() if packs is None else packs
        self._now_ms = now_ms
        self._open()

    def _open(self) -> None:
        """Open the folder for this process, or for one forked from it."""
        self._pid = os.getpid()
        self._durable = DurableDirectories(self._fs, self._root)
        with self._errors():
            self._durable.ensure_root()
            self._temporary = TemporaryFiles(self._fs, self._path(".tmp"))
            self._temporary.sweep()
            self._folder = PackFolder(
                self._fs,
                self._root,
                self._durable,
                self._temporary,
                now_ms=self._now_ms,
                move_after_ms=int(self._limits.move_after_s * 1000),
                keep=self._keep_as_file,
            )
            self._folder.refresh()
            self._reads = RangeReads(self._fs, self._root, self._folder.index, self.metrics)
            self._puts = PackPuts(
                self._fs,
                self._folder,
                self._limits,
                now_ms=self._now_ms,
                put_file=self._put_file,
            )

    def check(self) -> None:
        """Lock the folder, and write, sync, link and remove a temporary file, as a put would."""
        with self._errors(), self._folder.locked():
            file = self._temporary.create()
            try:
                self._fs.write(file.fd, [b"lacuna"])
                self._fs.fsync(file.fd)
                self._link(file.path, file.path + ".link")
                self._fs.unlink(file.path + ".link")
            finally:
                self._temporary.discard(file)

    def put(self, key: str, parts: Sequence[Part]) -> None:
        self._use()
        target = self._path(check_key(key))
        self._check_folder()
        directory, _, _ = target.rpartition("/")
        size = sum(map(len, parts))
        try:
            self._durable.ensure(directory)
            self._puts.put(key, directory, target, parts, size)
        except FileExistsError:
            raise ObjectExistsError(key) from None
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                self._durable.forget()  # so that the next attempt creates the directory again
            raise store_error(self._root, error) from error
        self.metrics.count_put(size)

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

    def get_into(
        self, reads: Sequence[RangeRead], buffer: WritableBuffer
    ) -> list[ObjectStoreError | None]:
        if not reads:
            return []
        self._use()
        outcomes = self._reads.read(reads, buffer)
        for _ in range(_LOOKS):
            if outcomes.count(None) == len(outcomes):
                break
            missing = [
                at for at, each in enumerate(outcomes) if isinstance(each, ObjectNotFoundError)
            ]
            if not missing:
                break
            again = [reads[at] for at in missing]
            with self._errors():
                self._folder.look_for([read.key for read in again])
            for at, outcome in zip(missing, self._reads.read(again, buffer), strict=True):
                outcomes[at] = outcome
        return outcomes

    def get_all(self, key: str) -> bytearray:
        data = self._look(key, self._all_of)
        self.metrics.count_get(len(data))
        return data

    def size(self, key: str) -> int:
        size = self._look(key, self._size_of)
        self.metrics.count_size()
        return size

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ObjectInfo]:
        above, _, _ = check_prefix(prefix).rpartition("/")
        self._use()
        with self._errors():
            self._folder.refresh()
            yield from self._walk(above + "/" if above else "", prefix, start_after)

    def delete(self, keys: Iterable[str]) -> None:
        self._use()
        keys = [check_key(key) for key in keys]
        try:
            in_packs: Mapping[str, OSError] = self._folder.delete(keys)
        except OSError as error:
            in_packs = dict.fromkeys(keys, error)

        def delete(key: str) -> None:
            with self._errors(), suppress(*NOT_THERE):
                self._fs.unlink(self._path(key))
            if key in in_packs:
                raise store_error(self._root, in_packs[key]) from in_packs[key]
            self.metrics.count_deletes(1)

        delete_each(keys, delete)

    def close(self) -> None:
        if os.getpid() == self._pid:
            with self._errors():
                self._puts.close()

    def _check_folder(self) -> None:
        """Raise StoreMisconfiguredError if the folder is not the one that was opened, since its objects are gone."""
        with self._errors():
            is_there = self._folder.locks.are_there()
        if not is_there:
            raise StoreMisconfiguredError(
                f"{self._root} was deleted, emptied or replaced while it was open, so no more "
                "objects are put there: stop everything that uses it, and restore the folder or "
                "a backup before the next start"
            )

    def _use(self) -> None:
        """After a fork, the packs, locks and threads belong to the parent, so the child creates new ones."""
        if os.getpid() != self._pid:
            self._open()

    def _look(self, key: str, answer: Callable[[str, Place | None], T]) -> T:
        """Answer a question about an object from its place in the index, or from its file."""
        self._use()
        check_key(key)
        with self._errors():
            for attempt in range(_LOOKS + 1):
                try:
                    return answer(key, self._folder.index.find(key))
                except NOT_THERE:
                    if attempt < _LOOKS:
                        self._folder.look_for([key])
        raise ObjectNotFoundError(key)

    def _all_of(self, key: str, place: Place | None) -> bytearray:
        size = self._size_of(key, place)
        path, position = (self._path(key), 0) if place is None else (place.path, place.position)
        fd = self._fs.open(path)
        try:
            data = bytearray(size)
            count = self._fs.read_into(fd, memoryview(data), position)
        finally:
            self._fs.close(fd)
        if count < size:
            raise ShortReadError(key, 0, size, count)
        return data

    def _size_of(self, key: str, place: Place | None) -> int:
        if place is not None:
            return place.size
        info = self._fs.info(self._path(key))
        if info.is_directory:
            raise IsADirectoryError(key)
        return info.size

    def _put_file(self, directory: str, target: str, parts: Sequence[Part]) -> None:
        file = self._temporary.create()
        try:
            self._fs.write(file.fd, parts)
            self._fs.fsync(file.fd)
            self._link(file.path, target)
            self._fs.fsync_directory(directory)
        finally:
            self._temporary.discard(file)

    def _keep_as_file(self, key: str, data: bytes) -> None:
        """Turn an object into a file, unless it is one already. Durable on return."""
        target = self._path(check_key(key))
        directory, _, _ = target.rpartition("/")
        self._durable.ensure(directory)
        try:
            self._put_file(directory, target, [data])
        except FileExistsError:
            self._fs.fsync_directory(directory)

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

    def _walk(self, above: str, prefix: str, start_after: str) -> Iterator[ObjectInfo]:
        """Walk depth first in key order; `above` is "" or ends with a slash."""
        # First those in packs, since an object that leaves a pack in the meantime is a file by then.
        names = self._folder.index.names(above)
        try:
            names |= set(self._fs.names(self._path(above)))
        except (FileNotFoundError, NotADirectoryError):
            pass
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
                    yield self._info_of(child)

    def _info_of(self, key: str) -> ObjectInfo:
        place = self._folder.index.find(key)
        if place is not None:
            return ObjectInfo(key, place.size, place.modified_ms)
        info = self._fs.info(self._path(key))
        return ObjectInfo(key, info.size, info.modified_ms)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the errors of the file system into those of a store."""
        try:
            yield
        except OSError as error:
            raise store_error(self._root, error) from error


def _may_hold(directory: str, prefix: str) -> bool:
    return directory.startswith(prefix) or prefix.startswith(directory)


def _wholly_before(directory: str, key: str) -> bool:
    """Whether every key in `directory` (which ends with a slash) is at most `key`."""
    return directory < key and not key.startswith(directory)


def folder_url(folder: str | Path) -> str:
    """Return the URL of a folder."""
    return f"{DIRECTORY.scheme}://{quote(str(Path(folder).resolve()))}"


DIRECTORY: Final = StoreKind(
    scheme="file",
    form="file:///FOLDER",
    is_store=lambda parts: not parts.netloc and len(parts.path) > 1,
    open=lambda parts, _: DirectoryStore(unquote(parts.path)),
    options=(KEYS_OPTION,),
    folder=lambda parts: unquote(parts.path),
)
