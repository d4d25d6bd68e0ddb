"""A put log makes small objects durable together: by one append to an existing file, instead of two
commits of the file system for each object.

    write a temporary file  →  append (key, bytes) to the log, fdatasync
                            →  link the file to its key, which fails if the key is taken

The file itself is synced later, in the background, with a hundred or so others; then its space in the
log is free again. After a crash, whoever opens the directory first restores the objects in the logs of
dead processes (`put_folder`), so an object is durable once it is in the log.

The record is written before the key exists, so whatever a crash leaves under a key is either whole or
in the log. But the log must then not hold a record of an object that was refused because its key was
taken. So a store uses its log only in directories that it has locked, and only for one put of a key at
a time. (Any other writer there syncs each file by itself, and its files have inodes that no record
names.) If a put is refused all the same, the log says so before the caller gets the error.

The log has two halves: one takes records while the files of the other are synced. If both are full, or
there is no log, or it fails, the caller of `put` is told to sync the file by itself.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from lacuna.logstore.objects.background import Background, BackgroundThread, Job
from lacuna.logstore.objects.filesystem import FileSystem
from lacuna.logstore.objects.owned import OwnedDirectories, OwnedDirectory
from lacuna.logstore.objects.put_folder import PutLogFolder
from lacuna.logstore.objects.put_records import BLOCK, Kind, half_header, record_head, record_space
from lacuna.logstore.objects.store import Part
from lacuna.logstore.objects.temporary import TemporaryFiles

log = logging.getLogger("lacuna.objects")

_FILES_AT_ONCE = 32
_FEW_FILES = 4
_LONGEST_REST_S = 0.02
_PUTS_TO_NEXT_ATTEMPT = 10_000


@dataclass(frozen=True, slots=True)
class PutLogLimits:
    """The limits of a put log; sizes in bytes. A log takes `2 * half_size` of the disk.

    The first `first_puts` small objects are synced one by one, since a process that writes little needs
    no log; with 0 the log is created when the store is opened. `objects` is the most records of a half.
    A record stays in the log for at least `age_s` seconds, unless the log fills up, and for at most
    about twice that. `background` runs the work that no put waits for.
    """

    largest_object: int = 128 << 10
    half_size: int = 8 << 20
    objects: int = 2000
    first_puts: int = 8
    age_s: float = 1.0
    background: Callable[[Job], Background] = BackgroundThread

    def __post_init__(self) -> None:
        room = self.half_size - BLOCK - record_space(b"k" * 900, self.largest_object)
        if self.half_size % BLOCK or room < 0:
            raise ValueError(
                "half_size must be a whole number of blocks with room for the largest object"
            )


class _State(Enum):
    NONE = "no log yet: one is created after enough puts"
    OPEN = "puts go through the log"
    FAILED = "the log cannot be written, or its files cannot be synced; no other is created"
    CLOSED = "the store is closed"


class _NoLogError(Exception):
    """The log cannot take this record: the file must be synced by itself."""


class _Half:
    __slots__ = (
        "began", "durable", "end", "generation", "is_full", "keys", "paths", "position", "start",
        "users", "writing",
    )  # fmt: skip

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.end = start + size
        self.generation = 0
        self.users = 0
        self.reset()

    def reset(self) -> None:
        """Start the next generation, without records. Its header must be in the log already."""
        self.generation += 1
        self.position = self.durable = self.start + BLOCK
        self.keys: list[str] = []
        self.paths: list[str] = []
        self.writing = 0
        self.began = 0.0
        self.is_full = False


class _Group:
    """Puts that wait for the same sync of the log; the first of them does it."""

    __slots__ = ("ended", "is_led", "is_synced")

    def __init__(self) -> None:
        self.is_led = False
        self.is_synced = False
        self.ended: threading.Event | None = None


class PutLog:
    """The put log of one store, created after the first few small puts (`PutLogLimits.first_puts`)."""

    def __init__(
        self,
        file_system: FileSystem,
        folder: PutLogFolder,
        temporary: TemporaryFiles,
        limits: PutLogLimits,
    ) -> None:
        self._fs = file_system
        self._folder = folder
        self._temporary = temporary
        self._limits = limits
        self._owned = OwnedDirectories(file_system)
        self._background = limits.background(self._work)
        self._is_woken = False
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._unused = threading.Condition(self._lock)
        self._sync_lock = threading.Lock()
        self._halves = [_Half(at, limits.half_size) for at in (0, limits.half_size)]
        self._active = self._halves[0]
        # The half that holds the last record of each key; None while a put of the key is under way.
        self._keys: dict[str, _Half | None] = {}
        self._path = ""
        self._fd = -1
        self._state = _State.NONE
        self._misses = 0
        self._is_due = False
        self._group = _Group()
        if not limits.first_puts:
            self._make()

    @property
    def path(self) -> str:
        """The path of the log; empty while there is none."""
        return self._path

    def put(self, key: str, directory: str, target: str, parts: Sequence[Part]) -> bool:
        """Make the object durable at `target`, a path in `directory`.

        Returns False if the log cannot take it: then nothing was written there, and the caller must sync a
        file by itself. Raises FileExistsError if `target` is taken, and OSError.
        """
        if os.getpid() != self._pid:  # a fork: the log is the parent's
            return False
        if self._state is not _State.OPEN:
            self._miss()
            return False
        if self._halves[0].is_full and self._halves[1].is_full:
            return False
        if self._fs.is_taken(target):
            raise FileExistsError(target)
        owned = self._begin(key, directory)
        if owned is None:
            return False
        half = file = None
        is_linked = False
        try:
            file = self._temporary.take()
            data = b"".join(parts)
            self._fs.write_at(file.fd, [data], 0)
            half = self._append(Kind.PUT, key, data, file.inode)
            self._sync_log()
            self._link(key, file.path, directory, target)
            half.paths.append(target)
            is_linked = True
        except _NoLogError:
            pass
        finally:
            if file is not None:
                (self._temporary.give_back if is_linked else self._temporary.discard)(file)
            self._end(key, owned, half)
        return is_linked

    def forget(self, key: str, path: str) -> None:
        """Revoke the records of this key, before its file is deleted, so that a restart does not restore it.

        The file is synced first: if a crash undid only the deletion, nothing could restore the file's bytes.
        """
        if self._keys.get(key) is not None and os.getpid() == self._pid:
            self._sync_some([path])
            self._revoke(key)

    def close(self) -> None:
        """Sync the files of the objects in the log and remove it. From now on `put` returns False."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._state = _State.CLOSED
        self._background.stop()
        self._give_up()
        with self._lock:
            self._owned.close()
        self._temporary.close()

    # A put, step by step.

    def _miss(self) -> None:
        self._misses += 1
        if self._misses == self._limits.first_puts and self._state is _State.NONE:
            self._background.wake()

    def _begin(self, key: str, directory: str) -> OwnedDirectory | None:
        with self._lock:
            if key not in self._keys:
                owned = self._owned.use(directory)
                if owned is not None:
                    self._keys[key] = None
                return owned
            is_logged = self._keys[key] is not None
        if is_logged:  # but the file is gone: the object was deleted
            self._revoke(key, sync=True)
        return None

    def _append(self, kind: Kind, key: str, data: bytes, inode: int) -> _Half:
        """Write a record, not synced yet; return its half, in which the caller now counts as a user."""
        name = key.encode()
        space = record_space(name, len(data))
        with self._lock:
            half = self._active
            if half.is_full or half.position + space > half.end or self._is_long(half):
                half = self._swap()
            if half.is_full or self._state is not _State.OPEN:
                raise _NoLogError
            position, generation, durable = half.position, half.generation, half.durable
            if not half.keys:
                half.began = time.monotonic()
                self._is_due = True
            half.position += space
            half.keys.append(key)
            half.writing += 1
            half.users += 1
        head = record_head(
            kind,
            name,
            data,
            generation=generation,
            position=position,
            durable=durable,
            inode=inode,
        )
        try:
            self._fs.write_at(self._fd, [head, data], position)
        except OSError as error:
            self._leave(half)
            self._fail(error)
            raise _NoLogError from error
        with self._lock:
            half.writing -= 1
        return half

    def _is_long(self, half: _Half) -> bool:
        return len(half.keys) >= self._limits.objects

    def _sync_log(self) -> None:
        """Return when what was appended is durable. The first of those who wait syncs the log for all."""
        with self._lock:
            group = self._group
            is_first, group.is_led = not group.is_led, True
            if not is_first and group.ended is None:
                group.ended = threading.Event()
        if is_first:
            self._sync_for(group)
        elif group.ended is not None:
            group.ended.wait()
        if not group.is_synced:
            raise _NoLogError

    def _sync_for(self, group: _Group) -> None:
        try:
            with self._sync_lock:
                with self._lock:
                    self._group = _Group()
                    reached = [(each, each.position) for each in self._halves if not each.writing]
                if self._state is not _State.FAILED:
                    self._fs.fdatasync(self._fd)
                    group.is_synced = True
                    for half, position in reached:
                        half.durable = position
        except OSError as error:
            self._fail(error)
        finally:
            if group.ended is not None:
                group.ended.set()

    def _link(self, key: str, source: str, directory: str, target: str) -> None:
        try:
            self._fs.link(source, target)
        except OSError as error:
            if isinstance(
                error, FileNotFoundError
            ):  # the directory was deleted; it may be created again
                with self._lock:
                    self._owned.drop(directory)
            self._revoke(key, sync=True)
            raise

    def _revoke(self, key: str, *, sync: bool = False) -> None:
        """Append a record that the key has no object, unless the log is full or gone.

        Without that record nothing is lost: a file at the key by then has another inode than the revoked one.
        """
        with suppress(_NoLogError):
            half = self._append(Kind.GONE, key, b"", 0)
            try:
                with self._lock:
                    self._keys[key] = half
                if sync:
                    self._sync_log()
            finally:
                self._leave(half)

    def _end(self, key: str, owned: OwnedDirectory, half: _Half | None) -> None:
        with self._lock:
            self._owned.leave(owned)
            if self._keys[key] is None:
                if half is None:
                    del self._keys[key]
                else:
                    self._keys[key] = half
        if half is not None:
            self._leave(half)
        if (self._is_due or self._temporary.is_low()) and not self._is_woken:
            self._is_woken = True
            self._background.wake()

    def _leave(self, half: _Half) -> None:
        with self._lock:
            half.users -= 1
            if not half.users:
                self._unused.notify_all()

    # What happens in the background.

    def _swap(self) -> _Half:
        """Mark the active half as full; return the other one, or the full one if the other is not synced yet."""
        half = self._active
        half.is_full = True
        self._is_due = True
        other = self._halves[half is self._halves[0]]
        if not other.is_full:
            self._active = other
        return self._active

    def _work(self) -> float | None:
        """Do what is due; return the seconds until the active half is old enough to be synced, or None."""
        self._is_woken = self._is_due = False
        if self._state is _State.NONE:
            self._make()
        if self._state is _State.FAILED:
            self._give_up()
        if self._state is not _State.OPEN:
            return None
        wait_s = self._swap_if_old()
        try:
            self._temporary.refill()
            for half in self._halves:
                if half.is_full:
                    self._sync_files(half)
                    self._reset(half)
        except OSError as error:
            self._fail(error)
            self._give_up()
        return wait_s

    def _swap_if_old(self) -> float | None:
        with self._lock:
            half = self._active
            if half.is_full or not half.keys:
                return None
            wait_s = half.began + self._limits.age_s - time.monotonic()
            if wait_s <= 0:
                self._swap()
                return None
            return wait_s

    def _make(self) -> None:
        try:
            path, fd = self._folder.create(self._limits.half_size)
        except OSError as error:
            log.warning(
                "there is no put log, so each small object is synced individually, which is slower: %s",
                error,
            )
            with self._lock:
                self._misses = -_PUTS_TO_NEXT_ATTEMPT
            return
        with self._lock:
            self._path, self._fd = path, fd
            if self._state is _State.NONE:
                self._state = _State.OPEN

    def _sync_files(self, half: _Half) -> None:
        """Make the objects of a half durable without the log: sync their files and directories."""
        with self._unused:
            self._unused.wait_for(lambda: not half.users)
        rest_s = min(_LONGEST_REST_S, self._limits.age_s / 2 / (len(half.paths) or 1) * _FEW_FILES)
        first = 0
        while first < len(half.paths):
            # A put's own sync waits for the syncs under way here, so sync few files at a time unless hurried.
            is_hurried = self._is_pressed()
            last = first + (_FILES_AT_ONCE if is_hurried else _FEW_FILES)
            self._sync_some(half.paths[first:last])
            self._temporary.refill()
            if not is_hurried:
                self._background.rest(rest_s)
            first = last
        for directory in dict.fromkeys(map(os.path.dirname, half.paths)):
            with suppress(FileNotFoundError):
                self._fs.fsync_directory(directory)

    def _is_pressed(self) -> bool:
        """Whether the active half is filling up or the log is to end, so that there is no time to rest."""
        half = self._active
        is_filling = 2 * (half.position - half.start) >= half.end - half.start
        is_long = 2 * len(half.keys) >= self._limits.objects
        return is_filling or is_long or half.is_full or self._state is not _State.OPEN

    def _sync_some(self, paths: Sequence[str]) -> None:
        """Sync files. All are started first, so that the disk can choose the order; deleted files are skipped."""
        fds = []
        try:
            for path in paths:
                with suppress(FileNotFoundError):
                    fds.append(self._fs.open(path))
            for fd in fds:
                self._fs.start_writeback(fd)
            for fd in fds:
                self._fs.fsync(fd)
        finally:
            for fd in fds:
                self._fs.close(fd)

    def _reset(self, half: _Half) -> None:
        """Free a half whose files are synced, so that it takes records again."""
        with self._sync_lock:
            self._fs.write_at(self._fd, [half_header(half.generation + 1)], half.start)
            self._fs.fdatasync(self._fd)
            with self._lock:
                for key in half.keys:
                    if self._keys.get(key) is half:
                        del self._keys[key]
                half.reset()

    # The end of a log.

    def _fail(self, error: OSError) -> None:
        with self._lock:
            if self._state is not _State.OPEN:
                return
            self._state = _State.FAILED
            self._is_due = True
        log.error(
            "%s failed, so each small object is synced individually from now on, which is slower but loses nothing: %s",
            self._path,
            error,
        )

    def _give_up(self) -> None:
        """Sync the files of the objects in the log and remove it.

        If that fails, keep the log and mark it: the files of its objects may be incomplete.
        """
        if self._fd < 0:
            return
        with self._unused:
            self._unused.wait_for(lambda: not any(half.users for half in self._halves))
        try:
            for half in self._halves:
                self._sync_files(half)
            self._folder.remove(self._path)
        except OSError as error:
            log.error(
                "%s is kept, because its objects could not be synced (%s): check the disk and restart, "
                "and they will be written again from it",
                self._path,
                error,
            )
            self._distrust()
        with self._lock:
            self._fs.close(self._fd)
            self._path, self._fd = "", -1

    def _distrust(self) -> None:
        with suppress(OSError):
            for half in self._halves:
                header = half_header(half.generation, is_suspect=True)
                self._fs.write_at(self._fd, [header], half.start)
            self._fs.fdatasync(self._fd)
