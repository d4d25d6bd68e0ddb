"""Where a journal keeps its snapshots, if that is not a file beside it."""

from typing import Final, Protocol

from lacuna.controlplane.journal.journal import Snapshot

#: As many snapshots are kept, and the journal is trimmed only up to the oldest of them. A damaged snapshot therefore
#: costs a longer replay, not the cluster.
KEPT_SNAPSHOTS: Final = 2


class SnapshotStore(Protocol):
    """The snapshots of one journal, which may be in its database or elsewhere.

    Each call is told the journal's cluster, and raises JournalForeign if the store belongs to another one. None stands
    for a cluster that is not known, and any is accepted then.
    """

    async def check(self, cluster_id: str | None, /) -> None:
        """Raise JournalForeign if the store belongs to another cluster; None is one that is about to begin."""
        ...

    async def load(self, cluster_id: str | None, /) -> Snapshot | None:
        """Return the newest undamaged snapshot, or None if there are no snapshots.

        Raises JournalCorrupt if all of them are damaged, and JournalError if the store cannot be read.
        """
        ...

    async def store(self, snapshot: Snapshot, cluster_id: str, /) -> int:
        """Store a snapshot durably and delete all but the newest `KEPT_SNAPSHOTS`. Raises JournalError.

        Return the position up to which the journal can be trimmed, as `trimmable` does.
        """
        ...

    async def trimmable(self, cluster_id: str, /) -> int:
        """Return the position of the oldest snapshot, or 0 if there are fewer than `KEPT_SNAPSHOTS`."""
        ...


class EarlierSnapshots(Protocol):
    """Snapshots of a journal in a place where no more are stored."""

    async def newest(self) -> int:
        """Return the position of the newest, or 0 if there are none. Raises JournalError."""
        ...

    async def load(self, cluster_id: str | None, /) -> Snapshot | None:
        """Return what `SnapshotStore.load` does."""
        ...

    async def delete_up_to(self, position: int) -> None:
        """Delete the snapshots up to a position. Raises JournalError."""
        ...


class MovedSnapshots:
    """A SnapshotStore in `now`, which is read together with `earlier`.

    A journal that was copied to a database begins with a snapshot there, and later ones are in the bucket.
    """

    def __init__(self, now: SnapshotStore, earlier: EarlierSnapshots) -> None:
        self._now = now
        self._earlier = earlier

    async def check(self, cluster_id: str | None, /) -> None:
        """Raise JournalForeign if the present place belongs to another cluster."""
        await self._now.check(cluster_id)

    async def load(self, cluster_id: str | None, /) -> Snapshot | None:
        """Return the newest undamaged snapshot of both places, or None if there are none."""
        snapshot = await self._now.load(cluster_id)
        position = 0 if snapshot is None else snapshot.position
        if await self._earlier.newest() > position:
            return await self._earlier.load(cluster_id)
        return snapshot

    async def store(self, snapshot: Snapshot, cluster_id: str, /) -> int:
        """Store a snapshot, and delete those that are not needed any more in either place."""
        trimmable = await self._now.store(snapshot, cluster_id)
        await self._earlier.delete_up_to(trimmable)
        return trimmable

    async def trimmable(self, cluster_id: str, /) -> int:
        """Return what can be trimmed because of the snapshots in the present place."""
        return await self._now.trimmable(cluster_id)
