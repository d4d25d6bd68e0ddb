"""A pack that this process fills: objects are appended and synced, those of many puts with one sync.

The file was filled with zeros and synced beforehand, so an append is a pwrite and an fdatasync and changes no metadata.
Records are written one after the other, without gaps, so a concurrent reader finds the end at the first incomplete
record.
"""

from __future__ import annotations

import threading

from lacuna.logstore.objects.filesystem import FileSystem
from lacuna.logstore.objects.pack_format import BLOCK, Packed, record_head, record_space
from lacuna.logstore.objects.pack_index import Pack


class _Group:
    """Puts that wait for the same sync, which the first of them does."""

    __slots__ = ("ended", "is_led", "is_synced")

    def __init__(self) -> None:
        self.is_led = False
        self.is_synced = False
        self.ended: threading.Event | None = None


class PackWriter:
    """An open pack of `size` bytes, locked by this process. Thread-safe.

    `is_given_up`: its failure was reported.
    """

    def __init__(self, file_system: FileSystem, pack: Pack, fd: int, pack_id: int, size: int):
        self.pack = pack
        self.fd = fd
        self.end = BLOCK
        self.is_given_up = False
        self._fs = file_system
        self._id = pack_id
        self._size = size
        self._durable = BLOCK
        self._is_over = False
        self._has_failed = False
        self._users = 0
        self._lock = threading.Lock()
        self._unused = threading.Condition(self._lock)
        self._sync_lock = threading.Lock()
        self._group = _Group()

    @property
    def is_half_full(self) -> bool:
        """Whether it is time to prepare the next pack."""
        return 2 * self.end >= self._size

    def append(self, key: str, data: bytes, modified_ms: int) -> Packed | None:
        """Write a record without syncing it. The caller must `leave` afterwards.

        Returns None if there is no room, or if the pack failed before. Raises OSError.
        """
        name = key.encode()
        space = record_space(len(name), len(data))
        with self._lock:
            start = self.end
            if self._is_over or start + space > self._size:
                return None
            head = record_head(
                name,
                data,
                pack_id=self._id,
                position=start,
                durable=self._durable,
                modified_ms=modified_ms,
            )
            try:
                self._fs.write_at(self.fd, [head, data], start)
            except OSError:
                self._is_over = True
                raise
            self.end += space
            self._users += 1
        return Packed(key, start + len(head), len(data), modified_ms)

    def sync(self) -> None:
        """Return when the appended records are durable. The first waiter syncs for all.

        If the sync fails, raises OSError in each of them, and none of their records counts as durable.
        """
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
            raise OSError(f"{self.pack.path} could not be synced")

    def leave(self) -> None:
        """Record that the object is in the index, or never will be."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._unused.notify_all()

    def finish(self) -> None:
        """Accept no more objects, and return when all appended ones are in the index or given up."""
        with self._unused:
            self._is_over = True
            self._unused.wait_for(lambda: not self._users)

    def _sync_for(self, group: _Group) -> None:
        try:
            with self._sync_lock:
                with self._lock:
                    self._group = _Group()
                    reached, has_failed = self.end, self._has_failed
                if has_failed:
                    return
                self._fs.fdatasync(self.fd)
                group.is_synced = True
                self._durable = reached
        except OSError:
            with self._lock:
                self._has_failed = self._is_over = True
            raise
        finally:
            if group.ended is not None:
                group.ended.set()
