"""The formats of the state machine's output, for versions that read what a later one has written.

A format number is raised when an earlier version would misread new content. The earlier version then rejects the
content rather than dropping unknown parts.
"""

from typing import Final

RECORD_FORMAT: Final = 1
SNAPSHOT_FORMAT: Final = 1


class LaterFormatError(ValueError):
    """A later version wrote this content, and this version may misread it."""
