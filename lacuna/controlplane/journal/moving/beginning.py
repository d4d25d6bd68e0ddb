"""How a journal begins that goes on where another one ends."""

from dataclasses import dataclass
from typing import Protocol, Self

from lacuna.controlplane.journal.journal import Snapshot


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first content of a journal: a snapshot, and no records after it.

    Its leaders have epochs greater than `epoch`, which was the last one's elsewhere, and its records have positions
    greater than the snapshot's.
    """

    cluster_id: str
    epoch: int
    snapshot: Snapshot


class Target(Protocol):
    """A place where a journal is to begin. Use it as a context manager, and call `write` and then `finish` once.

    On entry it makes sure that there is nothing, except for a copy that was interrupted. It raises JournalInUse if
    another copy is under way to here, and other JournalErrors. Until `finish` every control plane refuses what is
    there, and another copy begins anew.
    """

    name: str
    """What messages call this place."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *error: object) -> None: ...

    async def write(self, beginning: Beginning) -> None:
        """Write everything durably. Raises JournalError."""
        ...

    async def read_back(self) -> Beginning:
        """Read what is there, as a control plane would. Raises JournalError if that is not what was written."""
        ...

    async def finish(self) -> None:
        """Let control planes lead the journal, in one step. Raises JournalError."""
        ...


def occupied(name: str, cluster_id: str, remedy: str) -> str:
    """Say that there is a journal already where one is to begin."""
    return f"{name} already holds the journal of cluster {cluster_id}, and nothing is copied over it: {remedy}"
