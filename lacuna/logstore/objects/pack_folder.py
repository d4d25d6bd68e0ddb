"""The packs of a directory store, as every process that uses it sees them.

The folder `.packs` has the packs of all processes. The first byte of a pack is locked while its process fills it. It is
sealed when it is full or the store is closed. A pack that is neither sealed nor locked was left by a dead process; the
first process that finds it syncs and seals it. A file beside each pack lists its deleted objects. A sealed pack is
unlinked once all its objects are deleted. A process that still knows objects in it looks again when it finds no file.

A process locks the folder (`folder_locks`) while it deletes objects, seals another process's pack, or moves objects out
of a pack.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from lacuna.logstore.objects import pack_format
from lacuna.logstore.objects.directories import DurableDirectories
from lacuna.logstore.objects.filesystem import FileSystem
from lacuna.logstore.objects.folder_locks import FOLDER, FolderLocks
from lacuna.logstore.objects.pack_format import BLOCK, TRAILER_SIZE, NewerFormatError, Packed
from lacuna.logstore.objects.pack_index import Pack, PackIndex
from lacuna.logstore.objects.pack_writer import PackWriter
from lacuna.logstore.objects.store import (
    ObjectStoreError,
    StoreMisconfiguredError,
    StoreUnavailableError,
)
from lacuna.logstore.objects.temporary import TemporaryFiles
from lacuna.logstore.records.crc import crc32c

log = logging.getLogger("lacuna.objects")

_PACK = ".pack"
_DELETIONS = ".gone"
_ZEROS = bytes(1 << 20)
_WINDOW = 64 << 10
_MOST_LOOKS = 10
_SPARSE = 4
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_numbers = itertools.count()


class PackFolder:
    """The folder `.packs` of the directory store at `root`, which is created. Thread-safe.

    `now_ms` returns the time. `keep` makes an object durable as a file, unless there is one. A sealed pack is
    dissolved, so that its objects become files, if its last object was put more than `move_after_ms` ago and less than
    a quarter of it is left.
    """

    def __init__(
        self,
        file_system: FileSystem,
        root: str,
        directories: DurableDirectories,
        temporary: TemporaryFiles,
        *,
        now_ms: Callable[[], int],
        move_after_ms: int,
        keep: Callable[[str, bytes], None],
    ) -> None:
        self.index = PackIndex()
        self.path = f"{root}/.packs"
        self.locks = FolderLocks(file_system, f"{self.path}/locks")
        self._fs = file_system
        self._directories = directories
        self._temporary = temporary
        self._now_ms = now_ms
        self._move_after_ms = move_after_ms
        self._keep = keep
        self._packs: dict[str, Pack] = {}
        self._own: set[str] = set()
        self._mutex = threading.RLock()
        self._holders = 0
        with suppress(FileExistsError):
            self._fs.make_directory(self.path)

    # The contents of the packs.

    def refresh(self) -> None:
        """Find out what other processes have put, sealed, deleted and unlinked.

        Raises StoreMisconfiguredError for a pack of a newer version, and OSError.
        """
        with self._mutex:
            for _ in range(_MOST_LOOKS):
                # A pack that is unlinked after it was listed may have passed objects to a pack that was not listed.
                with suppress(FileNotFoundError):
                    names = self._names()
                    self._forget_all_but(names)
                    for name in sorted(names):
                        if name.endswith(_PACK):
                            self._read(self._pack(name))
                    return
        raise StoreUnavailableError(
            f"the packs in {self.path} change too often to be read: try again"
        )

    def look_for(self, keys: Sequence[str]) -> None:
        """Search for objects that were not found, first in packs that others are writing, which is quick."""
        with self._mutex:
            if all(self.index.find(key) is None for key in keys):
                with suppress(FileNotFoundError):
                    for pack in self._packs.values():
                        if not pack.is_sealed:
                            self._read_objects(pack, set())
                if all(self.index.find(key) is not None for key in keys):
                    return
            self.refresh()

    def _names(self) -> set[str]:
        try:
            return {name for name, _ in self._fs.names(self.path)}
        except FileNotFoundError:
            return set()  # the folder has been removed

    def _forget_all_but(self, names: set[str]) -> None:
        for name in self._packs.keys() - names:
            self.index.drop(self._packs.pop(name))
        for name in names:
            if name.endswith(_DELETIONS) and name.removesuffix(_DELETIONS) not in names:
                with suppress(FileNotFoundError):
                    self._fs.unlink(f"{self.path}/{name}")

    def _pack(self, name: str) -> Pack:
        pack = self._packs.get(name)
        if pack is None:
            pack = self._packs[name] = self.index.new_pack(name, f"{self.path}/{name}")
        return pack

    def _read(self, pack: Pack) -> None:
        # The deletions first, so that each belongs to an object that is read now, or was read before.
        deleted = self._apply_deletions(pack)
        try:
            self._read_objects(pack, deleted)
        except BaseException:
            pack.deletions_end = 0
            raise

    def _read_objects(self, pack: Pack, deleted: set[tuple[str, int]]) -> None:
        """Read the new records of a pack, except for objects in `deleted`."""
        if pack.is_sealed or pack.name in self._own:
            return
        fd = self._fs.open(pack.path)
        try:
            objects = self._sealed(pack, fd)
            if objects is None and self._fs.is_byte_locked(fd, 0):
                objects = self._tail(pack, fd)
        finally:
            self._fs.close(fd)
        if objects is None:
            objects = self._adopt(pack)
        if pack.is_sealed:
            deleted = set(self._deletions(pack, 0))
        self.index.add(pack, (each for each in objects if (each.key, each.position) not in deleted))

    def _sealed(self, pack: Pack, fd: int) -> list[Packed] | None:
        """Return the new objects of a sealed pack, or None if it is not sealed."""
        self._read_header(pack, fd)
        size = self._fs.info_of(fd).size
        trailer = pack_format.read_trailer(self._bytes(fd, size - TRAILER_SIZE, TRAILER_SIZE))
        if trailer is None:
            return None
        position, index_size, crc = trailer
        entries = self._bytes(fd, position, index_size)
        if position + index_size + TRAILER_SIZE != size or crc != crc32c(entries):
            return None
        pack.is_sealed, pack.size = True, position
        return [each for each in pack_format.read_index(entries) if each.position >= pack.end]

    def _read_header(self, pack: Pack, fd: int) -> None:
        if pack.pack_id is not None:
            return
        try:
            pack.pack_id = pack_format.read_header(self._bytes(fd, 0, BLOCK))
        except NewerFormatError as error:
            raise StoreMisconfiguredError(
                f"{pack.path} was written by a newer version of Lacuna (format {error}, but this "
                f"version reads up to {pack_format.FORMAT}): use that version"
            ) from None

    def _tail(self, pack: Pack, fd: int) -> list[Packed]:
        """Return the whole records after the known ones, in a pack that another process fills."""
        found: list[Packed] = []
        size = _WINDOW
        while True:
            content = memoryview(self._bytes(fd, pack.end, size))
            objects, end = pack_format.read_next(content, pack.end, pack.pack_id)
            found += objects
            if end > pack.end:
                pack.end = end
            elif len(content) == size and pack_format.is_record(content):
                size *= 2  # the record may be larger
            else:
                return found

    def _adopt(self, pack: Pack) -> list[Packed]:
        """Seal a pack that a dead process left, and return its new objects."""
        try:
            with self.locked():
                fd = self._fs.open_for_update(pack.path)
                try:
                    objects = self._sealed(pack, fd)
                    if objects is None:
                        objects = self._recover(pack, fd, is_sealed=True)
                finally:
                    self._fs.close(fd)
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
            fd = self._fs.open(pack.path)
            try:
                objects = self._recover(pack, fd, is_sealed=False)
            finally:
                self._fs.close(fd)
        return objects

    def _recover(self, pack: Pack, fd: int, *, is_sealed: bool) -> list[Packed]:
        """Find the valid objects of an abandoned pack, and seal it, or only read it."""
        content = self._bytes(fd, 0, self._fs.info_of(fd).size)
        found = pack_format.read_all(content, pack.pack_id)
        damaged = [(0, BLOCK)] * (pack.pack_id is None) + list(found.damaged)
        if damaged:
            log.error(
                "%s is damaged at bytes %s. Everything else in it is served; objects stored at "
                "those bytes may be missing or damaged. Check the disk.",
                pack.path,
                ", ".join(f"{start}-{end}" for start, end in damaged),
            )
        if is_sealed and not found.objects:
            self._set_aside(pack, is_damaged=bool(damaged))
            raise FileNotFoundError(pack.path)
        if is_sealed:
            try:
                self._fs.fsync(
                    fd
                )  # a process that was killed may have left objects only in the page cache
                self._seal(fd, found.objects, found.end)
            except OSError as error:
                log.error(
                    "%s is read without an index, because it cannot be sealed: %s", pack.path, error
                )
        pack.is_sealed, pack.size = True, found.end
        return [each for each in found.objects if each.position >= pack.end]

    def _set_aside(self, pack: Pack, *, is_damaged: bool) -> None:
        """Remove a pack without objects, or rename it so that no process looks for objects in it."""
        if is_damaged:
            self._fs.rename(pack.path, f"{pack.path}.damaged")
        else:
            self._fs.unlink(pack.path)

    def _seal(self, fd: int, objects: Iterable[Packed], end: int) -> None:
        """Write the index. It need not be synced, since without it the records are read."""
        index = pack_format.index(objects, end)
        self._fs.write_at(fd, [index], end)
        self._fs.truncate(fd, end + len(index))

    # The puts of this process.

    def create(self, size: int) -> PackWriter:
        """Create a pack of `size` bytes for this process.

        It is filled with zeros and synced, so that later writes only change existing bytes. It gets its name once it is
        locked and complete.
        """
        self._directories.ensure(self.path)
        name = f"{self._now_ms():x}-{os.getpid()}-{next(_numbers)}{_PACK}"
        pack_id = int.from_bytes(os.urandom(8))
        file = self._temporary.create()
        try:
            self._fs.lock_byte(file.fd, 0)
            for start in range(0, size, len(_ZEROS)):
                self._fs.write_at(file.fd, [_ZEROS[: size - start]], start)
            self._fs.write_at(file.fd, [pack_format.header(pack_id)], 0)
            self._fs.fsync(file.fd)
            with self._mutex:
                pack = self._pack(name)
                pack.pack_id = pack_id
                self._own.add(name)
                self._fs.rename(file.path, pack.path)
        except BaseException:
            self._own.discard(name)
            self._temporary.discard(file)
            raise
        writer = PackWriter(self._fs, pack, file.fd, pack_id, size)
        try:
            self._fs.fsync_directory(self.path)
        except BaseException:
            self.close(writer)
            raise
        return writer

    def add(self, writer: PackWriter, packed: Packed) -> None:
        """Record that an object is durable in a pack of this process."""
        self.index.add(writer.pack, [packed])

    def close(self, writer: PackWriter) -> None:
        """Seal a pack of this process, or unlink it if no object is left in it."""
        writer.finish()
        pack = writer.pack
        objects = self.index.objects(pack)
        try:
            if objects:
                self._seal(writer.fd, objects, writer.end)
        except OSError as error:
            log.error(
                "%s is not sealed, so each process that opens it has to read all of it: %s",
                pack.path,
                error,
            )
            is_sealed = False
        else:
            is_sealed = True
        with self._mutex:
            pack.is_sealed, pack.size, pack.end = is_sealed, writer.end, writer.end
            self._own.discard(pack.name)
            self._fs.close(writer.fd)
            if not objects:
                self._unlink([pack])

    def give_up(self, writer: PackWriter, packed: Packed) -> None:
        """Report an object as missing: it was not synced, and others may have read it only from the page cache."""
        with suppress(OSError), self.locked():
            self._apply_deletions(writer.pack)
            self._append_deletions(writer.pack, [(packed.key, packed.position)], is_synced=False)

    # Deletions.

    def delete(self, keys: Iterable[str]) -> dict[str, OSError]:
        """Delete objects that are in packs, durably, and ignore others.

        Return the errors of those that are left.
        """
        with self.locked():
            self.refresh()
            doomed: dict[Pack, list[tuple[str, int]]] = {}
            for key in dict.fromkeys(keys):
                if (found := self.index.locate(key)) is not None:
                    pack, place = found
                    doomed.setdefault(pack, []).append((key, place.position))
            # First, because it frees space on a full disk for the next steps.
            emptied = [
                each for each in doomed if each.is_sealed and len(doomed[each]) == each.objects
            ]
            left = self._unlink(emptied)
            for pack in doomed.keys() - emptied:
                try:
                    self._append_deletions(pack, doomed[pack], is_synced=True)
                except OSError as error:
                    left[pack] = error
            self._tidy()
            return {key: error for pack, error in left.items() for key, _ in doomed[pack]}

    def _apply_deletions(self, pack: Pack) -> set[tuple[str, int]]:
        """Read new deletions, and remove those objects from the index."""
        deleted = set(self._deletions(pack, pack.deletions_end))
        for key, position in deleted:
            self.index.remove(pack, key, position)
        return deleted

    def _deletions(self, pack: Pack, start: int) -> list[tuple[str, int]]:
        path = pack.path + _DELETIONS
        try:
            size = self._fs.info(path).size
            if size <= start:
                return []
            fd = self._fs.open(path)
        except FileNotFoundError:
            return []
        try:
            found, end = pack_format.read_deletions(self._bytes(fd, start, size - start))
        finally:
            self._fs.close(fd)
        pack.deletions_end = start + end
        return found

    def _append_deletions(
        self, pack: Pack, deleted: Sequence[tuple[str, int]], *, is_synced: bool
    ) -> None:
        """Append deletions to the file beside the pack, whose existing deletions must all be known."""
        path = pack.path + _DELETIONS
        entries = b"".join(pack_format.deletion(key, position) for key, position in deleted)
        try:
            fd = self._fs.create(path)
        except FileExistsError:
            fd = self._fs.open_for_update(path)
        try:
            self._fs.write_at(fd, [entries], pack.deletions_end)
            if is_synced:
                self._fs.fsync(fd)
                self._fs.fsync_directory(self.path)
        finally:
            self._fs.close(fd)
        pack.deletions_end += len(entries)
        for key, position in deleted:
            self.index.remove(pack, key, position)

    def _tidy(self) -> None:
        packs = [each for each in self._packs.values() if each.is_sealed]
        self._unlink([each for each in packs if not each.objects])
        before_ms = self._now_ms() - self._move_after_ms
        for pack in packs:
            if (
                pack.objects
                and pack.newest_ms < before_ms
                and _SPARSE * pack.live_bytes < pack.size
            ):
                self._dissolve(pack)

    def _dissolve(self, pack: Pack) -> None:
        """Turn the remaining objects of a pack into files, and unlink it."""
        try:
            fd = self._fs.open(pack.path)
            try:
                for each in self.index.objects(pack):
                    self._keep(each.key, self._bytes(fd, each.position, each.size))
            finally:
                self._fs.close(fd)
        except (OSError, ObjectStoreError) as error:
            log.warning(
                "%s is kept, because its last objects cannot be moved: %s", pack.path, error
            )
            pack.newest_ms = self._now_ms()  # to try again later
        else:
            self._unlink([pack])

    def _unlink(self, packs: Sequence[Pack]) -> dict[Pack, OSError]:
        """Unlink packs that are not needed any more, and then their deletions.

        Return the errors of those that cannot be unlinked.
        """
        left: dict[Pack, OSError] = {}
        if not packs:
            return left
        for pack in packs:
            try:
                with suppress(FileNotFoundError):
                    self._fs.unlink(pack.path)
            except OSError as error:
                log.warning("%s has no more objects but cannot be deleted: %s", pack.path, error)
                left[pack] = error
                continue
            if self._packs.pop(pack.name, None) is not None:
                self.index.drop(pack)
        # Without its deletions, a pack that came back after a power cut would have all its objects again.
        self._fs.fsync_directory(self.path)
        for pack in packs:
            if pack not in left:
                with suppress(FileNotFoundError):
                    self._fs.unlink(pack.path + _DELETIONS)
        return left

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes and threads from deleting, sealing and moving."""
        with self._mutex:
            if self._holders:
                yield
                return
            self.locks.wait_for(FOLDER)
            self._holders += 1
            try:
                yield
            finally:
                self._holders -= 1
                self.locks.release(FOLDER)

    def _bytes(self, fd: int, position: int, size: int) -> bytes:
        """Return up to `size` bytes, fewer at the end of the file."""
        content = bytearray(max(0, size))
        count = self._fs.read_into(fd, memoryview(content), max(0, position))
        return bytes(memoryview(content)[:count])
