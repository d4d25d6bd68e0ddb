"""Opens a shared journal at a place for a process other than its leader, and the bucket of a place."""

from collections.abc import Iterator
from contextlib import contextmanager

from lacuna.controlplane.journal.journal import JournalReader
from lacuna.controlplane.journal.kinds import kind_of, shared_kind_of
from lacuna.controlplane.journal.kinds.kind import Setup, SharedKind
from lacuna.controlplane.journal.place import Place
from lacuna.controlplane.journal.snapshot_store import SnapshotStore
from lacuna.logstore.objects import ConditionalStore, open_conditional_store
from lacuna.logstore.objects.url import holds_journals


@contextmanager
def opened_reader(place: Place) -> Iterator[tuple[JournalReader, SnapshotStore]]:
    """Run the body with a reader of the journal, and the store of its snapshots.

    Raises JournalError and StoreMisconfiguredError.
    """
    with opened_store(place) as store:
        setup = Setup(place=place, store=store, lease=0.0, new_cluster_id=str)
        yield shared_kind_of(place.url).reader(setup)


@contextmanager
def opened_store(place: Place) -> Iterator[ConditionalStore | None]:
    """Run the body with the place's bucket, or None if it has none, since a folder cannot hold snapshots.

    Raises StoreMisconfiguredError.
    """
    kind = kind_of(place.url)
    has_snapshots = isinstance(kind, SharedKind) and holds_journals(place.store_url)
    if not (kind.is_in_bucket or has_snapshots):
        yield None
        return
    store = open_conditional_store(place.store_url)
    try:
        yield store
    finally:
        store.close()
