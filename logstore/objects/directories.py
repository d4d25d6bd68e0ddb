"""Directories below a store's root that a crash leaves where they are.

A name survives a crash only if the directory it stands in was synced, so the directories of a key
are created from the top and each one's parent is synced before anything is put below it, once a
store. That a directory exists proves nothing: another process may have made it a moment ago and not
synced it yet.
"""

import errno
import os
import threading
from contextlib import suppress

from logstore.objects.filesystem import FileSystem

_KNOWN = 1024


class DurableDirectories:
    """Directories whose whole path is known to survive a crash."""

    def __init__(self, file_system: FileSystem, root: str) -> None:
        self._fs = file_system
        self._root = root
        self._lock = threading.Lock()
        self._known: set[str] = set()

    def ensure_root(self) -> None:
        """Create the store's own directory. Whatever stood above it already is the operator's."""
        if self._exists(self._root):
            # a parent that we may not open is one that we cannot have created it in
            with suppress(PermissionError):
                self._fs.fsync_directory(os.path.dirname(self._root))
        else:
            parent = os.path.dirname(self._root)
            while not self._exists(parent):
                parent = os.path.dirname(parent)
            self._known.add(parent)
            self.ensure(self._root)
        self.forget()

    def forget(self) -> None:
        """Know of the root alone."""
        self._known = {self._root}

    def ensure(self, path: str) -> None:
        """Create `path` and what is missing above it, each name synced before the next is made."""
        if path in self._known:
            return
        with self._lock:
            if len(self._known) > _KNOWN:
                self.forget()
            missing = []
            while path not in self._known:
                missing.append(path)
                path = os.path.dirname(path)
            for directory in reversed(missing):
                self._make(directory)
                self._known.add(directory)

    def _exists(self, path: str) -> bool:
        try:
            info = self._fs.info(path)
        except FileNotFoundError:
            return False
        if not info.is_directory:
            raise NotADirectoryError(errno.ENOTDIR, "is a file, not a directory", path)
        return True

    def _make(self, directory: str) -> None:
        try:
            self._fs.make_directory(directory)
        except FileExistsError:
            self._exists(directory)
        self._fs.fsync_directory(os.path.dirname(directory))
