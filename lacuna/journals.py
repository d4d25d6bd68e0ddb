"""Opens the journal of several control planes that an operator names."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from lacuna.controlplane.journal.journal import SharedJournal
from lacuna.controlplane.journal.place import BUCKET, SharedPlace
from lacuna.controlplane.journal.places import opened_store, snapshots_at
from lacuna.controlplane.service import new_cluster_id
from lacuna.errors import UserError
from lacuna.logstore.objects import ConditionalStore


@dataclass(frozen=True, slots=True)
class SharedJournalOptions:
    """A journal's URL or `bucket`, the URL of the cluster's store, and the seconds of a leader's lease.

    Raises UserError.
    """

    url: str
    store_url: str
    lease: float

    def __post_init__(self) -> None:
        if self.url != BUCKET and not self.url.startswith(("postgresql://", "postgres://")):
            raise UserError(
                f"{self.url!r} is not a journal that several control planes can share: give postgresql://USER@HOST/"
                "DATABASE or bucket, or leave --journal out for an SQLite file in the data folder"
            )
        if self.url == BUCKET and not self.store_url.startswith("s3://"):
            raise UserError(
                "--journal bucket keeps the journal in an S3 bucket: name it with --store s3://BUCKET/PREFIX"
            )

    @contextmanager
    def opened(self) -> Iterator[Callable[[str], SharedJournal]]:
        """Runs the body with a function that returns the journal, not open, for the control plane at an address."""
        place = SharedPlace(self.url, self.store_url)
        make = _bucket if self.url == BUCKET else _postgresql
        with opened_store(place) as store:
            yield partial(make, place, store, self.lease)


def _postgresql(
    place: SharedPlace, store: ConditionalStore | None, lease: float, address: str
) -> SharedJournal:
    try:
        from lacuna.controlplane.journal.postgresql import PostgresqlJournal
    except ModuleNotFoundError as error:
        raise UserError(
            "a journal in PostgreSQL needs the extra `postgresql`: pip install 'lacuna-log[postgresql]'"
        ) from error
    return PostgresqlJournal(
        place.url,
        _new_cluster_id,
        address=address,
        lease=lease,
        # A leader that waits longer than a lease for an append has lost its leadership by then.
        answer_timeout=lease,
        snapshots=snapshots_at(place, store),
        place=place,
    )


def _bucket(
    place: SharedPlace, store: ConditionalStore | None, lease: float, address: str
) -> SharedJournal:
    from lacuna.controlplane.journal.bucket import BucketJournal

    assert store is not None
    return BucketJournal(
        store,
        _new_cluster_id,
        name=place.store_url,
        address=address,
        lease=lease,
        answer_timeout=lease,
        place=place,
    )


def _new_cluster_id() -> str:
    return new_cluster_id(lambda: os.urandom(16))
