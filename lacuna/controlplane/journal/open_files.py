"""Checks whether the files that a journal has open are still those in its folder.

A deleted file can be written and synced as long as it is open, but its contents are gone when the process ends.
"""

import os
from collections.abc import Iterable

from lacuna.controlplane.journal.journal import JournalError


class OpenFiles:
    """The existing files at `paths` as they are now."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._found = {path: found for path in paths if (found := _identity(path)) is not None}

    def check(self) -> None:
        """Raise JournalError if one of them was deleted, moved or replaced."""
        for path, found in self._found.items():
            if _identity(path) != found:
                raise JournalError(
                    f"{path} was deleted, moved or replaced while it was open. Nothing is "
                    "acknowledged any more: stop everything that uses the folder, and restore "
                    "the files or a backup before the next start"
                )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
