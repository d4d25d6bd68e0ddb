"""Opens the journals that the operator's options specify."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, replace

from lacuna.base.errors import UserError
from lacuna.controlplane.journal.journal import SharedJournal
from lacuna.controlplane.journal.kinds import kind_of, opened_store, shared_kind_of
from lacuna.controlplane.journal.kinds.kind import JournalKind, Setup, SharedKind
from lacuna.controlplane.journal.moving.beginning import Target
from lacuna.controlplane.journal.moving.source import Source
from lacuna.controlplane.journal.moving.wreck import Wreck
from lacuna.controlplane.journal.place import Place
from lacuna.controlplane.service import new_cluster_id
from lacuna.logstore.objects.url import JOURNAL_FORMS, holds_journals


@dataclass(frozen=True, slots=True)
class SharedJournalOptions:
    """A shared journal's address, its cluster's store, and the duration of the leader's lease in seconds. Raises
    UserError.
    """

    url: str
    store_url: str
    lease: float

    def __post_init__(self) -> None:
        _check(self.kind, self.place)

    @property
    def kind(self) -> SharedKind:
        return shared_kind_of(self.url)

    @property
    def place(self) -> Place:
        return Place(self.url, self.store_url)

    @property
    def name(self) -> str:
        """The journal's address without its password, for display."""
        return self.kind.shown(self.place)

    @contextmanager
    def opened(self) -> Iterator[Callable[[str], SharedJournal]]:
        """Yields a function that creates the journal for the control plane at an address, without opening it."""
        with _set_up(self.kind, self.place, self.lease) as setup:
            yield lambda address: self.kind.journal(replace(setup, address=address))

    @contextmanager
    def wreck(self) -> Iterator[AbstractAsyncContextManager[Wreck]]:
        """Yields the damaged journal, so that a cluster can continue without the lost part. Raises
        StoreMisconfiguredError.
        """
        with _set_up(self.kind, self.place, self.lease) as setup:
            yield self.kind.wreck(setup)


@contextmanager
def journal_source(
    address: str, store_url: str, lease: float
) -> Iterator[AbstractAsyncContextManager[Source]]:
    """Yields the journal at `address` as the source of a copy. Raises UserError, StoreMisconfiguredError."""
    kind = kind_of(address)
    with _set_up(kind, Place(address, store_url), lease) as setup:
        yield kind.source(setup)


@contextmanager
def journal_target(address: str, store_url: str) -> Iterator[Target]:
    """Yields the target at `address` for a new journal. Raises UserError, StoreMisconfiguredError."""
    kind = kind_of(address)
    with _set_up(kind, Place(address, store_url), lease=0.0) as setup:
        yield kind.target(setup)


def _check(kind: JournalKind, place: Place) -> None:
    if kind.is_in_bucket and not holds_journals(place.store_url):
        raise UserError(
            f"--journal {place.url} keeps the journal in the cluster's bucket: specify the bucket with "
            f"--store {JOURNAL_FORMS}"
        )


@contextmanager
def _set_up(kind: JournalKind, place: Place, lease: float) -> Iterator[Setup]:
    _check(kind, place)
    with opened_store(place) as store:
        yield Setup(place=place, store=store, lease=lease, new_cluster_id=_new_cluster_id)


def _new_cluster_id() -> str:
    return new_cluster_id(lambda: os.urandom(16))
