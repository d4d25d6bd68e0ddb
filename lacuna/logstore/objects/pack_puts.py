"""The puts of a directory store: small objects into this process's pack, others as files.

A put into a pack needs no file, no name and no commit of the file system. It is an append and a sync, which concurrent
puts share. The next pack is prepared in the background once a pack is half full. If there is no pack, or a pack fails,
an object becomes a file, which is slower but loses nothing.

Objects are never overwritten, so a put first checks whether its key is taken. Other processes' packs are checked only
once for a directory, because the store locks each directory into which it puts, and only the holder of the lock puts
the directory's objects into packs. A store that finds it locked checks again for each put, and creates files.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from lacuna.logstore.objects.background import Background, BackgroundThread, Job
from lacuna.logstore.objects.filesystem import FileSystem
from lacuna.logstore.objects.folder_locks import Turns, key_byte
from lacuna.logstore.objects.owned import OwnedDirectories, OwnedDirectory
from lacuna.logstore.objects.pack_folder import PackFolder
from lacuna.logstore.objects.pack_format import BLOCK, Packed, record_space
from lacuna.logstore.objects.pack_writer import PackWriter
from lacuna.logstore.objects.store import MAX_KEY_SIZE, ObjectStoreError, Part

log = logging.getLogger("lacuna.objects")

_PUTS_TO_NEXT_PACK = 10_000


@dataclass(frozen=True, slots=True)
class PackLimits:
    """The limits of packs; sizes in bytes.

    The first `first_puts` small objects become files, since a process that writes little needs no pack; with 0, a pack
    is created when the store is opened. A pack with less than a quarter left is dissolved `move_after_s` after its last
    put. `background` runs the work that no put waits for.
    """

    largest_object: int = 128 << 10
    pack_size: int = 8 << 20
    first_puts: int = 8
    move_after_s: float = 900.0
    background: Callable[[Job], Background] = BackgroundThread

    def __post_init__(self) -> None:
        room = self.pack_size - BLOCK - record_space(MAX_KEY_SIZE, self.largest_object)
        if self.pack_size % BLOCK or room < 0:
            raise ValueError(
                "pack_size must be a whole number of blocks with room for the largest object"
            )


class PackPuts:
    """The puts of one process. `put_file` stores an object as a file, or raises FileExistsError. Thread-safe."""

    def __init__(
        self,
        file_system: FileSystem,
        folder: PackFolder,
        limits: PackLimits,
        *,
        now_ms: Callable[[], int],
        put_file: Callable[[str, str, Sequence[Part]], None],
    ) -> None:
        self._fs = file_system
        self._folder = folder
        self._limits = limits
        self._now_ms = now_ms
        self._put_file = put_file
        self._turns = Turns(folder.locks)
        self._owned = OwnedDirectories(folder.locks)
        self._lock = threading.Lock()
        self._active: PackWriter | None = None
        self._spare: PackWriter | None = None
        self._full: list[PackWriter] = []
        self._puts_until_pack = limits.first_puts
        self._is_woken = False
        self._background = limits.background(self._work)
        if not limits.first_puts:
            self._prepare()

    def put(self, key: str, directory: str, target: str, parts: Sequence[Part], size: int) -> None:
        """Create the object, durable on return. Raises FileExistsError if its key is taken, and OSError.

        `target` is the path of its file, in `directory`, if it does not go into a pack.
        """
        turn = key_byte(key)
        self._turns.begin(turn)
        try:
            with self._lock:
                owned = self._owned.use(key.rpartition("/")[0])
            try:
                self._check_free(key, target, owned)
                is_small = size <= self._limits.largest_object
                if not (is_small and owned is not None and self._put_packed(key, parts)):
                    self._put_file(directory, target, parts)
            finally:
                if owned is not None:
                    with self._lock:
                        self._owned.leave(owned)
        finally:
            self._turns.end(turn)
        if not self._is_woken and (self._full or self._wants_pack()):
            self._is_woken = True
            self._background.wake()

    def close(self) -> None:
        """Seal this process's packs. Later puts fail."""
        self._background.stop()
        with self._lock:
            open_packs = [*self._full, *filter(None, (self._active, self._spare))]
            self._full, self._active, self._spare = [], None, None
        with ExitStack() as stack:
            stack.callback(self._folder.locks.close)
            for writer in open_packs:
                stack.callback(self._folder.close, writer)

    def _check_free(self, key: str, target: str, owned: OwnedDirectory | None) -> None:
        if owned is None or not owned.is_known:
            self._folder.refresh()
            if owned is not None:
                owned.is_known = True
        index = self._folder.index
        if index.find(key) is not None:
            self._folder.refresh()  # another process may have deleted it
            if index.find(key) is not None:
                raise FileExistsError(key)
        if self._fs.is_taken(target):
            raise FileExistsError(target)

    def _put_packed(self, key: str, parts: Sequence[Part]) -> bool:
        """Put the object into a pack. Return False if there is none, or if it failed."""
        data = b"".join(parts)
        while (writer := self._active) is not None:
            try:
                packed = writer.append(key, data, self._now_ms())
            except OSError as error:
                self._fail(writer, error)
                return False
            if packed is not None:
                try:
                    return self._sync(writer, packed)
                finally:
                    writer.leave()
            with self._lock:
                if self._active is writer:  # the pack is full
                    self._retire(writer)
        self._puts_until_pack -= 1
        return False

    def _sync(self, writer: PackWriter, packed: Packed) -> bool:
        try:
            writer.sync()
        except OSError as error:
            self._fail(writer, error)
            self._folder.give_up(writer, packed)
            return False
        self._folder.add(writer, packed)
        return True

    def _wants_pack(self) -> bool:
        if self._puts_until_pack > 0:
            return False
        return self._active is None or (self._spare is None and self._active.is_half_full)

    def _retire(self, writer: PackWriter) -> None:
        self._full.append(writer)
        self._active, self._spare = self._spare, None

    def _fail(self, writer: PackWriter, error: OSError) -> None:
        with self._lock:
            if writer.is_given_up:
                return
            writer.is_given_up = True
            while self._active is not None:
                self._retire(self._active)
            self._puts_until_pack = _PUTS_TO_NEXT_PACK
        log.error(
            "%s failed, so the next %d small objects become files, which is slower but loses nothing: %s",
            writer.pack.path,
            _PUTS_TO_NEXT_PACK,
            error,
        )

    # Background work.

    def _work(self) -> None:
        self._is_woken = False
        if self._wants_pack():
            self._prepare()
        with self._lock:
            full, self._full = self._full, []
        if not full:
            return
        try:
            for writer in full:
                self._folder.close(writer)
            self._folder.refresh()
        except (OSError, ObjectStoreError) as error:
            log.warning("the packs in %s cannot be read: %s", self._folder.path, error)

    def _prepare(self) -> None:
        try:
            writer = self._folder.create(self._limits.pack_size)
        except OSError as error:
            log.warning(
                "no pack could be created, so the next %d small objects become files, which is "
                "slower: %s",
                _PUTS_TO_NEXT_PACK,
                error,
            )
            self._puts_until_pack = _PUTS_TO_NEXT_PACK
            return
        with self._lock:
            if self._active is None:
                self._active = writer
            else:
                self._spare = writer
