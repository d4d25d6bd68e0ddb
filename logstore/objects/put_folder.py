"""The put logs of a directory store: one for each process that writes, and those that dead processes left.

A log stays locked while its process lives. Whoever opens the store, or deletes objects in it, first
recovers the logs of dead processes: it makes every object in them durable as a file. Meanwhile it locks
the file `lock` in the folder, so that this happens once and everyone else waits for it.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from lacuna.logstore.objects.directories import DurableDirectories
from lacuna.logstore.objects.filesystem import FileSystem
from lacuna.logstore.objects.put_records import BLOCK, Kind, PutRecord, half_header, read_half
from lacuna.logstore.objects.temporary import TemporaryFiles

log = logging.getLogger("lacuna.objects")

_SUFFIX = ".log"
_ZEROS = bytes(1 << 20)


class PutLogFolder:
    """The folder `.log` of the directory store at `root`; it is created with the first log."""

    def __init__(
        self,
        file_system: FileSystem,
        root: str,
        directories: DurableDirectories,
        temporary: TemporaryFiles,
    ) -> None:
        self._fs = file_system
        self._root = root
        self._path = f"{root}/.log"
        self._directories = directories
        self._temporary = temporary
        self._names = itertools.count()

    def create(self, half_size: int) -> tuple[str, int]:
        """Create a log with two halves of `half_size` bytes; return its path and descriptor.

        It is filled with zeros and synced, so that later writes only change bytes that are there already.
        """
        self._directories.ensure(self._path)
        path, fd = self._create()
        try:
            for start in range(0, 2 * half_size, len(_ZEROS)):
                self._fs.write_at(fd, [_ZEROS[: 2 * half_size - start]], start)
            for start in (0, half_size):
                self._fs.write_at(fd, [half_header(1)], start)
            self._fs.fsync(fd)
            self._fs.fsync_directory(self._path)
        except BaseException:
            self._fs.unlink(path)
            self._fs.close(fd)
            raise
        return path, fd

    def remove(self, path: str) -> None:
        """Delete a log whose objects are durable as files."""
        self._fs.unlink(path)
        self._fs.fsync_directory(self._path)

    def recover(self, own: str | None = None) -> None:
        """Make the objects in the logs of dead processes durable as files, and delete those logs.

        A damaged log is renamed instead, and the log `own` is skipped.
        """
        paths = self._logs()
        if not paths or paths == [own]:
            return
        with self._locked():
            for path in paths:
                if path != own:
                    self._recover(path)

    def _logs(self) -> list[str]:
        try:
            names = self._fs.names(self._path)
        except FileNotFoundError:
            return []
        return sorted(f"{self._path}/{name}" for name, _ in names if name.endswith(_SUFFIX))

    def _create(self) -> tuple[str, int]:
        """Create and lock a log; the folder's lock keeps others from taking it for a dead process's in between."""
        with self._locked():
            while True:
                path = f"{self._path}/{os.getpid()}-{next(self._names)}{_SUFFIX}"
                with suppress(FileExistsError):
                    fd = self._fs.create(path)
                    self._fs.wait_for_lock(fd)
                    return path, fd

    @contextmanager
    def _locked(self) -> Iterator[None]:
        path = f"{self._path}/lock"
        with suppress(FileExistsError):
            self._fs.close(self._fs.create(path))
        fd = self._fs.open(path)
        try:
            self._fs.wait_for_lock(fd)
            yield
        finally:
            self._fs.close(fd)

    def _recover(self, path: str) -> None:
        try:
            fd = self._fs.open_for_update(path)
        except FileNotFoundError:
            return  # another store recovered it, or its own store closed it
        try:
            if not self._fs.lock(fd) or not self._fs.info_of(fd).links:
                return  # its store is alive, or has just closed it
            content = self._read(fd)
            half_size = len(content) // 2
            halves = [read_half(content[at:][:half_size], at) for at in (0, half_size)]
            records = [(record, half.is_suspect) for half in halves for record in half.records]
            self._restore(records)
            damaged = [each for half in halves for each in half.damaged]
            if damaged:
                self._set_aside(path, damaged)
            else:
                self._fs.unlink(path)
            self._fs.fsync_directory(self._path)
        finally:
            self._fs.close(fd)

    def _set_aside(self, path: str, damaged: list[tuple[int, int]]) -> None:
        kept = f"{path}.damaged"
        self._fs.rename(path, kept)
        ranges = ", ".join(f"{start}-{end}" for start, end in damaged)
        log.error(
            "%s is damaged at bytes %s: everything else in it was recovered; objects stored at "
            "those bytes may be missing or incomplete if the power failed. Check the disk, then delete the file.",
            kept,
            ranges,
        )

    def _read(self, fd: int) -> bytes:
        content = bytearray(self._fs.info_of(fd).size)
        count = self._fs.read_into(fd, memoryview(content), 0)
        return bytes(content[:count])

    def _restore(self, records: Iterable[tuple[PutRecord, bool]]) -> None:
        gone = {record.key for record, _ in records if record.kind is Kind.GONE}
        changed: dict[str, None] = {}
        for record, is_suspect in records:
            if record.kind is Kind.PUT and record.key not in gone:
                path = f"{self._root}/{record.key}"
                self._restore_one(path, record, is_suspect)
                changed[os.path.dirname(path)] = None
        for directory in changed:
            self._fs.fsync_directory(directory)

    def _restore_one(self, path: str, record: PutRecord, is_suspect: bool) -> None:
        """Make the object of `record` whole and durable at `path`, unless another object is there by now."""
        try:
            fd = self._fs.open(path)
        except FileNotFoundError:
            self._directories.ensure(os.path.dirname(path))
            self._write(path, record, over=False)
            return
        try:
            found = self._read(fd)
            if found == record.data and not is_suspect:
                self._fs.fsync(fd)
                return
            is_ours = self._fs.info_of(fd).inode == record.inode
        finally:
            self._fs.close(fd)
        if is_ours or _is_torn(found, record.data):
            self._write(path, record, over=True)

    def _write(self, path: str, record: PutRecord, *, over: bool) -> None:
        file = self._temporary.create()
        try:
            self._fs.write(file.fd, [record.data])
            self._fs.fsync(file.fd)
            # Linked rather than renamed, because `discard` expects the temporary name to exist.
            with suppress(FileExistsError):
                if over:
                    self._fs.unlink(path)
                self._fs.link(file.path, path)
        finally:
            self._temporary.discard(file)


def _is_torn(found: bytes, whole: bytes) -> bool:
    """Whether `found` can be what a power cut left of `whole`: each block is either right or all zeros."""
    return len(found) <= len(whole) and all(
        block in (whole[start : start + len(block)], bytes(len(block)))
        for start in range(0, len(found), BLOCK)
        for block in [found[start : start + BLOCK]]
    )
