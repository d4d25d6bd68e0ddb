"""Directories that a store has locked, so that no other store puts objects there through its own put log."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from lacuna.logstore.objects.filesystem import FileSystem

_MOST = 16


@dataclass(eq=False, slots=True)
class OwnedDirectory:
    """A locked directory with `users` puts under way; if it is dropped, the last of them closes it."""

    fd: int
    users: int = 0
    is_dropped: bool = False


class OwnedDirectories:
    """At most 16 locked directories; a new one replaces the least recently used that is idle. Not thread-safe."""

    def __init__(self, file_system: FileSystem) -> None:
        self._fs = file_system
        self._owned: OrderedDict[str, OwnedDirectory] = OrderedDict()

    def use(self, path: str) -> OwnedDirectory | None:
        """Lock the directory until `leave`; None if another store has locked it, or 16 others are in use."""
        owned = self._owned.get(path)
        if owned is None:
            owned = self._lock(path) if self._has_room() else None
            if owned is None:
                return None
            self._owned[path] = owned
        self._owned.move_to_end(path)
        owned.users += 1
        return owned

    def leave(self, owned: OwnedDirectory) -> None:
        """End one use of the directory; the last use of a dropped one closes it."""
        owned.users -= 1
        if owned.is_dropped and not owned.users:
            self._fs.close(owned.fd)

    def drop(self, path: str) -> None:
        """Unlock a directory when its last use ends, at once if it has none."""
        owned = self._owned.pop(path, None)
        if owned is not None:
            owned.is_dropped = True
            if not owned.users:
                self._fs.close(owned.fd)

    def close(self) -> None:
        """Drop all directories."""
        for path in list(self._owned):
            self.drop(path)

    def _has_room(self) -> bool:
        if len(self._owned) >= _MOST:
            unused = (path for path, owned in self._owned.items() if not owned.users)
            self.drop(next(unused, ""))
        return len(self._owned) < _MOST

    def _lock(self, path: str) -> OwnedDirectory | None:
        fd = self._fs.open(path)
        if self._fs.lock(fd):
            return OwnedDirectory(fd)
        self._fs.close(fd)
        return None
