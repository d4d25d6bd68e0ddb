"""A journal in the cluster's bucket, which needs no database."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final

from lacuna.controlplane.clock import SystemClock
from lacuna.controlplane.journal.kinds.kind import Setup, SharedKind, leased
from lacuna.controlplane.journal.place import BUCKET as ADDRESS

if TYPE_CHECKING:
    from lacuna.controlplane.journal.journal import JournalReader, SharedJournal
    from lacuna.controlplane.journal.moving.beginning import Target
    from lacuna.controlplane.journal.moving.wreck import Wreck
    from lacuna.controlplane.journal.snapshot_store import SnapshotStore


def _journal(setup: Setup) -> SharedJournal:
    from lacuna.controlplane.journal.bucket import BucketJournal

    assert setup.store is not None
    return BucketJournal(
        setup.store,
        setup.new_cluster_id,
        name=setup.place.store_url,
        address=setup.address,
        lease=setup.lease,
        answer_timeout=setup.lease,
        place=setup.place,
    )


def _reader(setup: Setup) -> tuple[JournalReader, SnapshotStore]:
    from lacuna.controlplane.journal.bucket import BucketJournal
    from lacuna.controlplane.journal.bucket_snapshots import BucketSnapshots

    assert setup.store is not None
    name = setup.place.store_url
    journal = BucketJournal(setup.store, setup.new_cluster_id, name=name)
    return journal.reader(), BucketSnapshots(setup.store, ADDRESS, name=name)


def _wreck(setup: Setup) -> AbstractAsyncContextManager[Wreck]:
    from lacuna.controlplane.journal.moving.bucket_wreck import bucket_wreck

    assert setup.store is not None
    return bucket_wreck(setup.store, setup.place.store_url, setup.lease, SystemClock())


def _target(setup: Setup) -> Target:
    from lacuna.controlplane.journal.moving.bucket import BucketTarget

    assert setup.store is not None
    return BucketTarget(setup.store, setup.place.store_url)


IN_BUCKET: Final = SharedKind(
    form=ADDRESS,
    about="in the same bucket as the records, given by --store or --bucket",
    is_named=lambda address: address == ADDRESS,
    is_in_bucket=True,
    shown=lambda place: place.store_url,
    journal=_journal,
    reader=_reader,
    wreck=_wreck,
    source=leased(_journal),
    target=_target,
)
