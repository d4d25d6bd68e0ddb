"""The beginning of a journal that continues another one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from lacuna.controlplane.journal.journal import HotSegment, Snapshot


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first content of a journal: a snapshot, and no records after it.

    Its leaders have epochs greater than `epoch`, the last one of the other journal. Its records have positions greater
    than the snapshot's.
    """

    cluster_id: str
    epoch: int
    snapshot: Snapshot


class Target(Protocol):
    """A place where a journal will begin. Use it as a context manager, and call `write` and then `finish` once.

    On entry, it makes sure that the place is empty, except for an interrupted copy. It raises JournalInUse if another
    copy to this place is under way, and other JournalErrors. Until `finish`, every control plane rejects the contents,
    and another copy starts from the beginning.
    """

    name: str
    """The name of this place in messages."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *error: object) -> None: ...

    async def write(self, beginning: Beginning) -> None:
        """Write everything durably. Raises JournalError."""
        ...

    async def add_hot(self, hot: Sequence[HotSegment]) -> None:
        """Add hot segments, after `write`. Raises JournalError."""
        ...

    async def read_back(self) -> Beginning:
        """Read the contents as a control plane would. Raises JournalError if they differ from what was written."""
        ...

    async def finish(self) -> None:
        """Let control planes lead the journal, in one step. Raises JournalError."""
        ...


def occupied(name: str, cluster_id: str, remedy: str) -> str:
    """Return the error for a place that already has a journal."""
    return (
        f"{name} already holds the journal of cluster {cluster_id}, which a copy does not "
        f"overwrite: {remedy}"
    )
