"""Directories that a store has locked, so that no other store puts objects of theirs into its packs."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from lacuna.logstore.objects.folder_locks import FolderLocks, directory_byte

_MOST = 16


@dataclass(eq=False, slots=True)
class OwnedDirectory:
    """A locked directory with `users` puts under way; if it is dropped, the last of them unlocks it.

    `is_known`: the packs were read since it was locked, so the index has every object of it that is in a pack.
    """

    byte: int
    users: int = 0
    is_known: bool = False
    is_dropped: bool = False


class OwnedDirectories:
    """At most 16 locked directories; a new one replaces the least recently used that is idle. Not thread-safe."""

    def __init__(self, locks: FolderLocks) -> None:
        self._locks = locks
        self._owned: OrderedDict[int, OwnedDirectory] = OrderedDict()

    def use(self, directory: str) -> OwnedDirectory | None:
        """Lock a directory until `leave`; None if another store has locked it, or 16 others are in use."""
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
        """End one use of a directory; the last use of a dropped one unlocks it."""
        owned.users -= 1
        if owned.is_dropped and not owned.users:
            self._locks.release(owned.byte)

    def close(self) -> None:
        """Unlock each directory when its last use ends, at once if it has none."""
        for owned in self._owned.values():
            owned.is_dropped = True
            if not owned.users:
                self._locks.release(owned.byte)
        self._owned.clear()

    def _has_room(self) -> bool:
        if len(self._owned) >= _MOST:
            unused = next((each for each in self._owned.values() if not each.users), None)
            if unused is None:
                return False
            del self._owned[unused.byte]
            self._locks.release(unused.byte)
        return True
