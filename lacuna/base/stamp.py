"""Detects changes to a file without reading its contents."""

import os
from pathlib import Path
from typing import TypeAlias

#: Modification time in nanoseconds, size, and inode. Replacing the file by a copy or a rename changes at least one.
Stamp: TypeAlias = tuple[int, int, int]


def stamp_of(path: str | Path) -> Stamp:
    """Return a value that changes with the file's content. Raises OSError."""
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size, status.st_ino
