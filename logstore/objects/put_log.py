"""Small objects become durable together: one append to a log that is there, in place of two
commits of the file system for each.

    write a temporary file  →  append (key, bytes) to the log, fdatasync
                            →  link the file to its key, which fails if the key is taken

and the file itself is synced later, in the background, with some hundred others; then its place in
the log is free again. Whoever opens the directory after a crash first puts back what stands in the
logs of the dead (`put_folder`), so an object is durable once it is in the log.

The record comes before the name: so whatever a crash leaves under a key is whole, or stands in the
log. A record must then not speak of an object that was refused because its key was taken. So a
store takes this way only in directories that it has locked (any other writer there goes the synced
way, and what that one writes has an inode that no record knows), and only for one put of a key at a
time; of a put that is refused all the same, the log says so before its caller hears of it.

The log has two halves: one takes records while the files of the other are synced. A put that finds
both full, or no log, or a failing one, is told to go the synced way.
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

from logstore.objects.background import Background, BackgroundThread, Job
from logstore.objects.filesystem import FileSystem
from logstore.objects.owned import OwnedDirectories, OwnedDirectory
from logstore.objects.put_folder import PutLogFolder
from logstore.objects.put_records import BLOCK, Kind, half_header, record_head, record_space
from logstore.objects.store import Part
from logstore.objects.temporary import TemporaryFiles

log = logging.getLogger("lacuna.objects")

_FILES_AT_ONCE = 32
_FEW_FILES = 4
_LONGEST_REST_S = 0.02
_PUTS_TO_NEXT_ATTEMPT = 10_000


@dataclass(frozen=True, slots=True)
class PutLogLimits:
    """Sizes in bytes; a log takes `2 * half_size` of the disk.

    `first_puts` small puts go the synced way before a log is made, for who writes little needs
    none; with 0 it is made when the store is opened.
    A record stays in the log for `age_s` at least where the log is not full, at most about twice
    that. `background` runs what nobody waits for.
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
            raise ValueError("half_size must be whole blocks, with room for the largest object")


class _State(Enum):
    NONE = "puts are counted until a log is worth it"
    OPEN = "puts go through the log"
    FAILED = "the log cannot be written, or its files not be synced: no more logs"
    CLOSED = "so is the store"


class _NoLogError(Exception):
    """The log does not take this record: go the synced way."""


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
        """As after a header with the next generation was written."""
        self.generation += 1
        self.position = self.durable = self.start + BLOCK
        self.keys: list[str] = []
        self.paths: list[str] = []
        self.writing = 0
        self.began = 0.0
        self.is_full = False


class _Group:
    """Puts that wait for one sync of the log; the first of them makes it."""

    __slots__ = ("ended", "is_led", "is_synced")

    def __init__(self) -> None:
        self.is_led = False
        self.is_synced = False
        self.ended: threading.Event | None = None


class PutLog:
    """The log of one store; made when it is first worth it."""

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
        # None: a put is at work on this key. Else the half that holds its last record.
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
        """The log's file; empty while there is none."""
        return self._path

    def put(self, key: str, directory: str, target: str, parts: Sequence[Part]) -> bool:
        """Make the object durable and give it its name, `target` in `directory`.

        False: it is not there, go the synced way. Raises FileExistsError, OSError.
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
        """Before a deletion: what is logged of this key is not to come back after a crash.

        Its file is synced first, for nobody would mend it if the crash undoes the deletion alone.
        """
        if self._keys.get(key) is not None and os.getpid() == self._pid:
            self._sync_some([path])
            self._revoke(key)

    def close(self) -> None:
        """Sync the files of what was put and remove the log. Puts go the synced way from now on."""
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
        if is_logged:  # and there is no object of this name: it was deleted
            self._revoke(key, sync=True)
        return None

    def _append(self, kind: Kind, key: str, data: bytes, inode: int) -> _Half:
        """Into the page cache. Gives the half, of which the caller is a user then."""
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
        """What was appended is durable on return. The first of those who wait syncs for all."""
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
            if isinstance(error, FileNotFoundError):  # the directory has gone; another may come
                with self._lock:
                    self._owned.drop(directory)
            self._revoke(key, sync=True)
            raise

    def _revoke(self, key: str, *, sync: bool = False) -> None:
        """Append that there is no such object; not where there is no room, or no log any more.

        Nothing is lost without: what stands under the key by then has another inode.
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
        """The half to go on with; it is full where the files of the other one are not synced yet."""
        half = self._active
        half.is_full = True
        self._is_due = True
        other = self._halves[half is self._halves[0]]
        if not other.is_full:
            self._active = other
        return self._active

    def _work(self) -> float | None:
        """What is due. Gives the seconds until the records in the active half are old."""
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
            log.warning("no put log: each small object is synced by itself (%s)", error)
            with self._lock:
                self._misses = -_PUTS_TO_NEXT_ATTEMPT
            return
        with self._lock:
            self._path, self._fd = path, fd
            if self._state is _State.NONE:
                self._state = _State.OPEN

    def _sync_files(self, half: _Half) -> None:
        """Make durable without the log what stands in a half."""
        with self._unused:
            self._unused.wait_for(lambda: not half.users)
        rest_s = min(_LONGEST_REST_S, self._limits.age_s / 2 / (len(half.paths) or 1) * _FEW_FILES)
        first = 0
        while first < len(half.paths):
            # A sync in the foreground waits for those that are under way: few at a time while there is time.
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
        """Whether the other half is filling up, or the log is to end: then there is no time to rest."""
        half = self._active
        is_filling = 2 * (half.position - half.start) >= half.end - half.start
        is_long = 2 * len(half.keys) >= self._limits.objects
        return is_filling or is_long or half.is_full or self._state is not _State.OPEN

    def _sync_some(self, paths: Sequence[str]) -> None:
        """Started together, the disk writes them as it likes best. One that was deleted needs none."""
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
        """Make a half free again."""
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
        log.error("%s failed: each small object is synced by itself now (%s)", self._path, error)

    def _give_up(self) -> None:
        """Do without a log: sync the files of what stands in it and remove it.

        Where that fails the log stays, and says that its files are not to be trusted.
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
                "%s is kept, for its objects could not be synced (%s): check the disk, then start "
                "again, and they are written anew from it",
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
