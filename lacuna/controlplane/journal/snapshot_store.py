"""Where a journal keeps its snapshots, if that is not a file beside it."""

import logging
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from lacuna.controlplane.journal.journal import (
    REMEDY,
    Fit,
    JournalLoss,
    Judge,
    Seal,
    Snapshot,
)

_log = logging.getLogger("lacuna.controlplane")

#: As many snapshots are kept, and the journal is trimmed only up to the oldest of them. A damaged snapshot therefore
#: costs a longer replay, not the cluster.
KEPT_SNAPSHOTS: Final = 2


class SnapshotStore(Protocol):
    """The snapshots of one journal, which may be in its database or elsewhere.

    Each call is told the journal's cluster, and raises JournalForeign if the store belongs to another one. None stands
    for a cluster that is not known, and any is accepted then. `judge` says which snapshots fit the journal; the others
    count for nothing. Without it, all fit.
    """

    async def check(self, cluster_id: str | None, /) -> None:
        """Raise JournalForeign if the store belongs to another cluster; None is one that is about to begin."""
        ...

    async def load(self, cluster_id: str | None, judge: Judge | None = None, /) -> Snapshot | None:
        """Return the newest undamaged snapshot that fits, or None if there are none. Logs which newer one does not.

        Raises JournalCorrupt if all of them are damaged, JournalLoss if one is ahead of the journal, and JournalError
        if the store cannot be read.
        """
        ...

    async def store(
        self, snapshot: Snapshot, cluster_id: str, judge: Judge | None = None, /
    ) -> int:
        """Store a snapshot durably and delete all before the newest `KEPT_SNAPSHOTS` that fit. Raises JournalError.

        Return the position up to which the journal can be trimmed, as `trimmable` does.
        """
        ...

    async def trimmable(self, cluster_id: str, judge: Judge | None = None, /) -> int:
        """Return the position of the older of the newest `KEPT_SNAPSHOTS` that fit, or 0 if there are fewer.

        The journal has to keep the append that ends there: the snapshot is judged by it.
        """
        ...


class Stored(Protocol):
    """What is known of a snapshot before its state is read."""

    @property
    def position(self) -> int: ...

    @property
    def seal(self) -> Seal | None: ...


S = TypeVar("S", bound=Stored)


async def fitting(stored: Sequence[S], judge: Judge | None) -> list[S]:
    """Return the snapshots that fit. Those without a seal do."""
    return [each for each, fit in await _judged(stored, judge) if fit is Fit.FITS]


async def loadable(name: str, stored: Sequence[S], judge: Judge | None) -> list[S]:
    """Do what `fitting` does with the snapshots in `name`, of which one is about to be loaded.

    Logs which ones would have been loaded first and do not fit. Raises JournalLoss if one is ahead of the journal.
    """
    judged = await _judged(stored, judge)
    fit = [each for each, how in judged if how is Fit.FITS]
    newest = max((each.position for each in fit), default=0)
    for each, how in judged:
        if how is Fit.AHEAD:
            raise JournalLoss(
                f"{name}: the snapshot at position {each.position} covers more than the journal has: the journal was "
                "set back, by a failover or a restore, or the snapshot is of another journal (do --journal and --store "
                f"go together?). {REMEDY}"
            )
        if how is Fit.BESIDE and each.position > newest:
            _log.warning(
                "%s: the snapshot at position %d is not used, as the journal has something else there: it covers what "
                "a failover or a restore has taken back, or is of another journal of the cluster (run control planes "
                "on one of them only)",
                name,
                each.position,
            )
    return fit


async def _judged(stored: Sequence[S], judge: Judge | None) -> list[tuple[S, Fit]]:
    return [
        (
            each,
            Fit.FITS
            if judge is None or each.seal is None
            else await judge(each.position, each.seal),
        )
        for each in stored
    ]


class EarlierSnapshots(Protocol):
    """Snapshots of a journal in a place where no more are stored."""

    async def newest(self) -> int:
        """Return the position of the newest, or 0 if there are none. Raises JournalError."""
        ...

    async def load(self, cluster_id: str | None, judge: Judge | None = None, /) -> Snapshot | None:
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

    async def load(self, cluster_id: str | None, judge: Judge | None = None, /) -> Snapshot | None:
        """Return the newest undamaged snapshot of both places that fits, or None if there are none."""
        snapshot = await self._now.load(cluster_id, judge)
        position = 0 if snapshot is None else snapshot.position
        if await self._earlier.newest() > position:
            earlier = await self._earlier.load(cluster_id, judge)
            if earlier is not None and earlier.position > position:
                return earlier
        return snapshot

    async def store(
        self, snapshot: Snapshot, cluster_id: str, judge: Judge | None = None, /
    ) -> int:
        """Store a snapshot, and delete those that are not needed any more in either place."""
        trimmable = await self._now.store(snapshot, cluster_id, judge)
        await self._earlier.delete_up_to(trimmable)
        return trimmable

    async def trimmable(self, cluster_id: str, judge: Judge | None = None, /) -> int:
        """Return what can be trimmed because of the snapshots in the present place."""
        return await self._now.trimmable(cluster_id, judge)
