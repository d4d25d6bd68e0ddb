"""Whether the files that a journal has open are still those in its folder.

A file that was deleted can be written and synced for as long as it is open, and all of that is gone with the process.
"""

import os
from collections.abc import Iterable

from lacuna.controlplane.journal.journal import JournalError


class OpenFiles:
    """The files at `paths` as they are now, those that there are."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._found = {path: found for path in paths if (found := _identity(path)) is not None}

    def check(self) -> None:
        """Raise JournalError if one of them was deleted, moved or replaced."""
        for path, found in self._found.items():
            if _identity(path) != found:
                raise JournalError(
                    f"{path} was deleted, moved or replaced while it was open. Nothing is acknowledged any more: stop "
                    "all that uses the folder, and put back what was there, or restore a backup, before the next start"
                )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
