"""Decides where short blocking work runs; lacuna/base/pace.py decides it by measurement."""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Pace(Protocol):
    """Decides whether one kind of work is fast enough to block the event loop."""

    def allows(self) -> bool:
        """Whether the event loop may run the work itself now. Call it in the loop's thread."""
        ...

    def timed(self, job: Callable[[], T]) -> T:
        """Run `job` in the calling thread, measure its time, and return its result."""
        ...
