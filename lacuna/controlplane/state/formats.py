"""The formats of what the state machine writes, for versions that read what a later one has written.

Each is raised when an earlier version would misread what is new. It then refuses it, instead of leaving out what it
does not know.
"""

from typing import Final

RECORD_FORMAT: Final = 1
SNAPSHOT_FORMAT: Final = 1


class LaterFormatError(ValueError):
    """A later version wrote this, and this one may misread it."""
