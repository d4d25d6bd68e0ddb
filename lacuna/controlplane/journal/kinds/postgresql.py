"""A journal in PostgreSQL, which needs the `postgresql` extra. Its snapshots are in the bucket, if there is one."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Final

from lacuna.base.errors import needing_extra
from lacuna.controlplane.clock import SystemClock
from lacuna.controlplane.journal.kinds.kind import Setup, SharedKind, leased
from lacuna.controlplane.journal.place import POSTGRESQL as STORED_NAME

if TYPE_CHECKING:
    from lacuna.controlplane.journal.journal import JournalReader, SharedJournal
    from lacuna.controlplane.journal.moving.beginning import Target
    from lacuna.controlplane.journal.moving.wreck import Wreck
    from lacuna.controlplane.journal.place import Place
    from lacuna.controlplane.journal.snapshot_store import SnapshotStore
    from lacuna.logstore.objects import ConditionalStore


_needing_extra = partial(needing_extra, "a journal in PostgreSQL", "postgresql")


def snapshots_at(place: Place, store: ConditionalStore | None) -> SnapshotStore:
    """Return the snapshots of the journal at `place`; `store` is its bucket, if any."""
    from lacuna.controlplane.journal.bucket_snapshots import BucketSnapshots
    from lacuna.controlplane.journal.postgresql_snapshots import MovedSnapshots, PostgresqlSnapshots

    in_database = PostgresqlSnapshots(place.url)
    if store is None:
        return in_database
    in_bucket = BucketSnapshots(store, STORED_NAME, name=place.store_url)
    return MovedSnapshots(in_bucket, in_database)


def _shown(place: Place) -> str:
    with _needing_extra():
        from lacuna.controlplane.journal.postgresql_connection import name_of
    return name_of(place.url)


def _journal(setup: Setup) -> SharedJournal:
    with _needing_extra():
        from lacuna.controlplane.journal.postgresql import PostgresqlJournal
    return PostgresqlJournal(
        setup.place.url,
        setup.new_cluster_id,
        address=setup.address,
        lease=setup.lease,
        # A leader that waits longer than a lease for an append has lost its leadership by then.
        answer_timeout=setup.lease,
        snapshots=snapshots_at(setup.place, setup.store),
        place=setup.place,
    )


def _reader(setup: Setup) -> tuple[JournalReader, SnapshotStore]:
    from lacuna.controlplane.journal.leader_watch import LeaderWatch
    from lacuna.controlplane.journal.postgresql_reading import PostgresqlReader

    snapshots = snapshots_at(setup.place, setup.store)
    return PostgresqlReader(setup.place.url, snapshots, LeaderWatch()), snapshots


def _wreck(setup: Setup) -> AbstractAsyncContextManager[Wreck]:
    with _needing_extra():
        from lacuna.controlplane.journal.moving.postgresql_wreck import postgresql_wreck
    snapshots = snapshots_at(setup.place, setup.store)
    return postgresql_wreck(setup.place.url, snapshots, setup.lease, SystemClock())


def _target(setup: Setup) -> Target:
    with _needing_extra():
        from lacuna.controlplane.journal.moving.postgresql import PostgresqlTarget
    return PostgresqlTarget(setup.place.url)


POSTGRESQL: Final = SharedKind(
    form="postgresql://USER@HOST/DATABASE",
    is_named=lambda address: address.startswith(("postgresql://", "postgres://")),
    shown=_shown,
    journal=_journal,
    reader=_reader,
    wreck=_wreck,
    source=leased(_journal),
    target=_target,
)
