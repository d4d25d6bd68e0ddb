"""Directories in which no other store may put through its log: locked by their own descriptor."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from logstore.objects.filesystem import FileSystem

_MOST = 16


@dataclass(eq=False, slots=True)
class OwnedDirectory:
    """`users` puts are under way in it."""

    fd: int
    users: int = 0
    is_dropped: bool = False


class OwnedDirectories:
    """At most 16, the longest unused given up first. For one thread at a time."""

    def __init__(self, file_system: FileSystem) -> None:
        self._fs = file_system
        self._owned: OrderedDict[str, OwnedDirectory] = OrderedDict()

    def use(self, path: str) -> OwnedDirectory | None:
        """The directory, until `leave`. None: another store has it, or all that we may have are in use."""
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
        """A use has ended."""
        owned.users -= 1
        if owned.is_dropped and not owned.users:
            self._fs.close(owned.fd)

    def drop(self, path: str) -> None:
        """Own it no more, once its uses have ended."""
        owned = self._owned.pop(path, None)
        if owned is not None:
            owned.is_dropped = True
            if not owned.users:
                self._fs.close(owned.fd)

    def close(self) -> None:
        """Own nothing."""
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
