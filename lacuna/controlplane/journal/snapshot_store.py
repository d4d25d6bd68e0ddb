"""Where a journal's snapshots are stored, unless they are in a file next to it."""

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

#: How many snapshots are kept. The journal is trimmed only up to the oldest of them, so a damaged snapshot makes a
#: replay longer, but does not destroy the cluster.
KEPT_SNAPSHOTS: Final = 2


class SnapshotStore(Protocol):
    """The snapshots of one journal, in its database or elsewhere.

    Each call names the journal's cluster, and raises JournalForeign if the store belongs to a different one; None
    stands for an unknown cluster, for which any store is accepted. `judge` determines which snapshots fit the journal,
    and the others are ignored; without it, all fit.
    """

    async def check(self, cluster_id: str | None, /) -> None:
        """Raise JournalForeign if the store belongs to a different cluster. None stands for a new cluster."""
        ...

    async def load(self, cluster_id: str | None, judge: Judge | None = None, /) -> Snapshot | None:
        """Return the newest undamaged snapshot that fits, or None if there is none. Newer ones that do not fit are
        logged.

        Raises JournalCorrupt if all of them are damaged, JournalLoss if one is ahead of the journal, and JournalError
        if the store cannot be read.
        """
        ...

    async def store(
        self, snapshot: Snapshot, cluster_id: str, judge: Judge | None = None, /
    ) -> int:
        """Store a snapshot durably, delete all but the newest `KEPT_SNAPSHOTS` that fit, and return the position up to
        which the journal can be trimmed, as `trimmable` does. Raises JournalError.
        """
        ...

    async def trimmable(self, cluster_id: str, judge: Judge | None = None, /) -> int:
        """Return the position of the older of the newest `KEPT_SNAPSHOTS` that fit, or 0 if there are fewer.

        The journal must keep the append that ends at that position, since the snapshot is checked against it.
        """
        ...


class Stored(Protocol):
    """A stored snapshot, as known before its state is read."""

    @property
    def position(self) -> int: ...

    @property
    def seal(self) -> Seal | None: ...


S = TypeVar("S", bound=Stored)


async def fitting(stored: Sequence[S], judge: Judge | None) -> list[S]:
    """Return the snapshots that fit, including all without a seal."""
    return [each for each, fit in await _judged(stored, judge) if fit is Fit.FITS]


async def loadable(name: str, stored: Sequence[S], judge: Judge | None) -> list[S]:
    """Like `fitting`, for the snapshots in `name`, one of which is about to be loaded.

    Logs newer ones that do not fit. Raises JournalLoss if one is ahead of the journal.
    """
    judged = await _judged(stored, judge)
    fit = [each for each, how in judged if how is Fit.FITS]
    newest = max((each.position for each in fit), default=0)
    for each, how in judged:
        if how is Fit.AHEAD:
            raise JournalLoss(
                f"{name}: the snapshot at position {each.position} covers more than "
                "the journal contains. Either a failover or a restore has removed records, or the snapshot "
                "belongs to another journal (check that --journal and --store belong together). "
                f"{REMEDY}"
            )
        if how is Fit.BESIDE and each.position > newest:
            _log.warning(
                "%s: the snapshot at position %d is not used, because the journal has "
                "a different append there. The snapshot covers records that a failover or a restore has "
                "removed, or belongs to another journal of the cluster (run control planes on "
                "only one of them)",
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
