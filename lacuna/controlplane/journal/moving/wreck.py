"""A damaged or outdated shared journal, which an operator continues without the missing records."""

from typing import Protocol

from lacuna.controlplane.journal.intact import Salvage
from lacuna.controlplane.journal.journal import JournalCorrupt, Judge, Snapshot
from lacuna.controlplane.journal.moving.beginning import Beginning
from lacuna.controlplane.journal.snapshot_store import SnapshotStore


class Wreck(Protocol):
    """A journal that this process holds, so that no control plane can open it."""

    async def salvage(self) -> Salvage:
        """Read the intact part. Raises JournalError if nothing is intact, or if a different version wrote the
        journal.
        """
        ...

    async def begin(self, beginning: Beginning) -> str:
        """Restart the journal in one step, and return where the old one is kept, or "" if it is not.

        Raises JournalFenced if a control plane has taken over in the meantime, and other JournalErrors.
        """
        ...


async def newest_intact(
    snapshots: SnapshotStore, cluster_id: str | None, judge: Judge, problems: list[str]
) -> Snapshot | None:
    """Return the newest intact snapshot that fits, or None, adding a problem if all are damaged. Raises
    JournalForeign.
    """
    try:
        return await snapshots.load(cluster_id, judge)
    except JournalCorrupt as error:
        problems.append(f"no snapshot can be read: {error}")
        return None


def nothing_intact(name: str, problems: list[str]) -> JournalCorrupt:
    """Return the error for a journal from which nothing can be read."""
    said = "; ".join(problems) or "it is empty"
    return JournalCorrupt(f"{name}: no part of the journal can be read ({said})")
