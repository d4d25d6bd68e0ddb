"""Where a journal keeps its snapshots, if that is not a file beside it."""

from typing import Final, Protocol

from lacuna.controlplane.journal.journal import Snapshot

#: As many snapshots are kept, and the journal is trimmed only up to the oldest of them. A damaged snapshot therefore
#: costs a longer replay, not the cluster.
KEPT_SNAPSHOTS: Final = 2


class SnapshotStore(Protocol):
    """The snapshots of one journal, which may be in its database or elsewhere."""

    async def load(self) -> Snapshot | None:
        """Return the newest undamaged snapshot, or None if there are no snapshots.

        Raises JournalCorrupt if all of them are damaged, and JournalError if the store cannot be read.
        """
        ...

    async def store(self, snapshot: Snapshot) -> int:
        """Store a snapshot durably and delete all but the newest `KEPT_SNAPSHOTS`. Raises JournalError.

        Return the position up to which the journal can be trimmed, as `trimmable` does.
        """
        ...

    async def trimmable(self) -> int:
        """Return the position of the oldest snapshot, or 0 if there are fewer than `KEPT_SNAPSHOTS`."""
        ...
