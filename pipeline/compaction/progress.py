"""Who is told how far a compaction is."""

from typing import Protocol


class Progress(Protocol):
    """Called from the driver's main thread."""

    def stage(self, text: str) -> None:
        """What begins now."""

    def begin(self, total: int) -> None:
        """So many bytes are to be rewritten, in addition to what was told before."""

    def advance(self, size: int) -> None:
        """So many of them are done."""


class NoProgress:
    """Nobody is."""

    def stage(self, text: str) -> None:
        """Nothing."""

    def begin(self, total: int) -> None:
        """Nothing."""

    def advance(self, size: int) -> None:
        """Nothing."""
