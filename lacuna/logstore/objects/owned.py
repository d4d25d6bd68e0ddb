"""Directories that a store has locked, so that no other store puts their objects into its packs."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from lacuna.logstore.objects.folder_locks import FolderLocks, directory_byte

_MOST = 16


@dataclass(eq=False, slots=True)
class OwnedDirectory:
    """A locked directory with `users` current puts.

    `is_known`: the packs were read since it was locked, so the index has every packed object of the directory.
    """

    byte: int
    users: int = 0
    is_known: bool = False


class OwnedDirectories:
    """At most 16 locked directories. A new one replaces the least recently used idle one. Not thread-safe."""

    def __init__(self, locks: FolderLocks) -> None:
        self._locks = locks
        self._owned: OrderedDict[int, OwnedDirectory] = OrderedDict()

    def use(self, directory: str) -> OwnedDirectory | None:
        """Lock a directory until `leave`. Return None if another store has locked it, or 16 others are in use."""
        byte = directory_byte(directory)
        owned = self._owned.get(byte)
        if owned is None:
            if not self._has_room() or not self._locks.take(byte):
                return None
            owned = self._owned[byte] = OwnedDirectory(byte)
        self._owned.move_to_end(byte)
        owned.users += 1
        return owned

    def leave(self, owned: OwnedDirectory) -> None:
        """End one use of a directory, which stays locked until another one needs its place."""
        owned.users -= 1

    def _has_room(self) -> bool:
        if len(self._owned) >= _MOST:
            unused = next((each for each in self._owned.values() if not each.users), None)
            if unused is None:
                return False
            del self._owned[unused.byte]
            self._locks.release(unused.byte)
        return True
