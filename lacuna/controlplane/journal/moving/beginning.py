"""The beginning of a journal that continues an earlier one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from lacuna.controlplane.journal.journal import HotSegment, Snapshot


@dataclass(frozen=True, slots=True)
class Beginning:
    """The initial contents of a journal: a snapshot without subsequent records.

    The epochs of its leaders will be higher than `epoch`, the last one of the earlier journal. The positions of its
    records will be higher than that of the snapshot.
    """

    cluster_id: str
    epoch: int
    snapshot: Snapshot


class Target(Protocol):
    """A place where a journal is to begin. Use it as a context manager, and call `write` and then `finish` once.

    On entry, it makes sure that the place is empty, apart from an interrupted copy, and raises JournalInUse if another
    copy to this place is in progress, and other JournalErrors. Until `finish`, control planes reject the contents, and
    another copy starts over.
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
        """Return what a control plane would read. Raises JournalError if that differs from what was written."""
        ...

    async def finish(self) -> None:
        """Let control planes open the journal from now on. This takes effect in one step. Raises JournalError."""
        ...


def occupied(name: str, cluster_id: str, remedy: str) -> str:
    """Return the error message for a place that already contains a journal."""
    return (
        f"{name} already holds the journal of cluster {cluster_id}, which a copy does not "
        f"overwrite: {remedy}"
    )
