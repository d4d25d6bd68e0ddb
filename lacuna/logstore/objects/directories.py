"""Creates directories that survive a crash, and explains the file system's errors.

A new directory survives a crash only if its parent has been synced. The directories of a key are therefore created from
the top down, and each one's parent is synced before anything is created in the directory itself. Each store does this
once for every directory, even for an existing one, since another process may have just created it without syncing.
"""

import errno
import os
from contextlib import suppress

from lacuna.base.errors import advice_on
from lacuna.logstore.objects.filesystem import FileSystem
from lacuna.logstore.objects.store import (
    ObjectStoreError,
    StoreMisconfiguredError,
    StoreUnavailableError,
)

_KNOWN = 1024


class DurableDirectories:
    """The directories that are known to survive a crash. It is harmless if two threads sync the same one."""

    def __init__(self, file_system: FileSystem, root: str) -> None:
        self._fs = file_system
        self._root = root
        self._known: set[str] = set()

    def ensure_root(self) -> None:
        """Create the store's root and any missing directories above it. Existing parents are assumed to be durable."""
        if self._exists(self._root):
            # if this process may not open the parent, it cannot have created the root in it
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
        """Forget all directories except the root, so that `ensure` creates and syncs them again."""
        self._known = {self._root}

    def ensure(self, path: str) -> None:
        """Create `path` and the missing directories above it, each synced before the next is created."""
        if path in self._known:
            return
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


NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""The file system's errors for an object that does not exist, whatever its key."""

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def store_error(root: str, error: OSError) -> ObjectStoreError:
    """Return the error to raise for the store at `root`, with advice on how to fix it."""
    if error.errno == errno.ENOTDIR:
        return StoreMisconfiguredError(
            f"{root} contains a file where a directory is needed ({error}): move the file elsewhere"
        )
    if error.errno in _NO_SPACE:
        return StoreMisconfiguredError(f"no space left below {root}: free some space ({error})")
    if error.errno in _REFUSED:
        return StoreMisconfiguredError(
            f"{root} cannot be used: give this user permission to write there ({error})"
        )
    if error.errno in _NO_LOCKS:
        return StoreMisconfiguredError(
            f"the file system of {root} cannot lock files ({error}): use a directory on one that can, "
            "such as ext4 or xfs"
        )
    advice = advice_on(error, "")
    return StoreUnavailableError(f"directory {root} failed: {error}{advice and f'; {advice}'}")
