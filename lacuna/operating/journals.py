"""Opens the journals that an operator names."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from functools import partial

from lacuna.base.errors import UserError
from lacuna.controlplane.clock import SystemClock
from lacuna.controlplane.journal.journal import SharedJournal
from lacuna.controlplane.journal.moving.beginning import Target
from lacuna.controlplane.journal.moving.source import Source, leased_source, locked_source
from lacuna.controlplane.journal.moving.wreck import Wreck
from lacuna.controlplane.journal.place import BUCKET, SharedPlace
from lacuna.controlplane.journal.places import opened_store, snapshots_at
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.service import new_cluster_id
from lacuna.logstore.objects import ConditionalStore

#: The file of an SQLite journal in a data folder.
JOURNAL_NAME = "journal.db"

_SQLITE = "sqlite:"


@dataclass(frozen=True, slots=True)
class SharedJournalOptions:
    """A journal's URL or `bucket`, the URL of the cluster's store, and the seconds of a leader's lease.

    Raises UserError.
    """

    url: str
    store_url: str
    lease: float

    def __post_init__(self) -> None:
        if self.url != BUCKET and not is_postgresql(self.url):
            raise UserError(
                f"{self.url!r} is not a journal that several control planes can share: give postgresql://USER@HOST/"
                "DATABASE or bucket, or leave --journal out for an SQLite file in the data folder"
            )
        if self.url == BUCKET and not self.store_url.startswith("s3://"):
            raise UserError(
                "--journal bucket keeps the journal in an S3 bucket: name it with --store s3://BUCKET/PREFIX"
            )

    @property
    def name(self) -> str:
        """Where the journal is, as it may be shown: without a password."""
        if self.url == BUCKET:
            return self.store_url
        with _needing_postgresql():
            from lacuna.controlplane.journal.postgresql_connection import name_of
        return name_of(self.url)

    @contextmanager
    def opened(self) -> Iterator[Callable[[str], SharedJournal]]:
        """Runs the body with a function that returns the journal, not open, for the control plane at an address."""
        place = SharedPlace(self.url, self.store_url)
        make = _bucket if self.url == BUCKET else _postgresql
        with opened_store(place) as store:
            yield partial(make, place, store, self.lease)

    @contextmanager
    def wreck(self) -> Iterator[AbstractAsyncContextManager[Wreck]]:
        """Runs the body with the journal, to go on without what it has lost. Raises StoreMisconfiguredError."""
        place = SharedPlace(self.url, self.store_url)
        with opened_store(place) as store:
            if self.url == BUCKET:
                from lacuna.controlplane.journal.moving.bucket_wreck import bucket_wreck

                assert store is not None
                yield bucket_wreck(store, place.store_url, self.lease, SystemClock())
                return
            with _needing_postgresql():
                from lacuna.controlplane.journal.moving.postgresql_wreck import postgresql_wreck
            yield postgresql_wreck(self.url, snapshots_at(place, store), self.lease, SystemClock())


def is_postgresql(text: str) -> bool:
    """Whether this is the URL of a database."""
    return text.startswith(("postgresql://", "postgres://"))


@contextmanager
def _needing_postgresql() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(
            "a journal in PostgreSQL needs the extra `postgresql`: pip install 'lacuna-log[postgresql]'"
        ) from error


def _postgresql(
    place: SharedPlace, store: ConditionalStore | None, lease: float, address: str
) -> SharedJournal:
    with _needing_postgresql():
        from lacuna.controlplane.journal.postgresql import PostgresqlJournal
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


@contextmanager
def journal_source(
    text: str, store_url: str, lease: float
) -> Iterator[AbstractAsyncContextManager[Source]]:
    """Runs the body with the journal that `text` names, to be copied. Raises UserError and StoreMisconfiguredError."""
    if text.startswith(_SQLITE):
        path = _sqlite_path(text)
        if not os.path.exists(path):
            raise UserError(f"there is no journal at {path}: nothing was changed")
        yield locked_source(SqliteJournal(path, _new_cluster_id))
        return
    with _shared(text, store_url, lease).opened() as make_journal:
        yield leased_source(make_journal(""), SystemClock())


@contextmanager
def journal_target(text: str, store_url: str) -> Iterator[Target]:
    """Runs the body with the place that `text` names, for a journal to begin at.

    Raises UserError and StoreMisconfiguredError.
    """
    if text.startswith(_SQLITE):
        from lacuna.controlplane.journal.moving.sqlite import SqliteTarget

        yield SqliteTarget(_sqlite_path(text))
        return
    options = _shared(text, store_url, 0)
    if options.url != BUCKET:
        with _needing_postgresql():
            from lacuna.controlplane.journal.moving.postgresql import PostgresqlTarget
        yield PostgresqlTarget(options.url)
        return
    from lacuna.controlplane.journal.moving.bucket import BucketTarget

    with opened_store(SharedPlace(BUCKET, store_url)) as store:
        assert store is not None
        yield BucketTarget(store, store_url)


def _sqlite_path(text: str) -> str:
    """The file that sqlite:PATH names; a folder stands for the journal in it."""
    path = text.removeprefix(_SQLITE)
    if not path:
        raise UserError("sqlite: names no file: write sqlite:PATH, of the data folder or of a file")
    return os.path.join(path, JOURNAL_NAME) if os.path.isdir(path) else path


def _shared(text: str, store_url: str, lease: float) -> SharedJournalOptions:
    if text != BUCKET and not is_postgresql(text):
        raise UserError(
            f"{text!r} is not a journal: write sqlite:PATH, postgresql://USER@HOST/DATABASE, or bucket (with --store)"
        )
    return SharedJournalOptions(text, store_url, lease)


def _new_cluster_id() -> str:
    return new_cluster_id(lambda: os.urandom(16))
