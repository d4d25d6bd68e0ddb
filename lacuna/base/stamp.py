"""Detects that a file has other content than before, without reading it."""

import os
from pathlib import Path
from typing import TypeAlias

#: Time of modification in nanoseconds, size, and inode. A copy and a rename each change at least one of them.
Stamp: TypeAlias = tuple[int, int, int]


def stamp_of(path: str | Path) -> Stamp:
    """Return what differs once the file has other content. Raises OSError."""
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino
