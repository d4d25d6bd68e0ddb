"""Opens the journal of several control planes that is at a place, and its snapshots."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from lacuna.controlplane.journal.bucket import BucketJournal
from lacuna.controlplane.journal.bucket_snapshots import BucketSnapshots
from lacuna.controlplane.journal.journal import JournalReader
from lacuna.controlplane.journal.leader_watch import LeaderWatch
from lacuna.controlplane.journal.place import BUCKET, POSTGRESQL, SharedPlace
from lacuna.controlplane.journal.snapshot_store import MovedSnapshots, SnapshotStore
from lacuna.logstore.objects import ConditionalStore, open_conditional_store


@contextmanager
def opened_reader(place: SharedPlace) -> Iterator[tuple[JournalReader, SnapshotStore]]:
    """Run the body with a reader of the journal, and the store of its snapshots.

    Raises JournalError and StoreMisconfiguredError.
    """
    with ExitStack() as stack:
        store = stack.enter_context(opened_store(place))
        if place.url == BUCKET:
            assert store is not None
            journal = BucketJournal(store, str, name=place.store_url)
            yield journal.reader(), BucketSnapshots(store, BUCKET, name=place.store_url)
            return
        # asyncpg is an extra.
        from lacuna.controlplane.journal.postgresql_reading import PostgresqlReader

        snapshots = snapshots_at(place, store)
        yield PostgresqlReader(place.url, snapshots, LeaderWatch()), snapshots


@contextmanager
def opened_store(place: SharedPlace) -> Iterator[ConditionalStore | None]:
    """Run the body with the place's bucket, or None if it has none: a folder cannot hold snapshots.

    Raises StoreMisconfiguredError.
    """
    if place.url != BUCKET and not place.store_url.startswith("s3://"):
        yield None
        return
    store = open_conditional_store(place.store_url)
    try:
        yield store
    finally:
        store.close()


def snapshots_at(place: SharedPlace, store: ConditionalStore | None) -> SnapshotStore:
    """Return the snapshots of a journal in PostgreSQL; `store` is from `opened_store`."""
    from lacuna.controlplane.journal.postgresql_snapshots import PostgresqlSnapshots

    in_database = PostgresqlSnapshots(place.url)
    if store is None:
        return in_database
    in_bucket = BucketSnapshots(store, POSTGRESQL, name=place.store_url)
    return MovedSnapshots(in_bucket, in_database)
