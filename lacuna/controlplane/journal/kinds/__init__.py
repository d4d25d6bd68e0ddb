"""The kinds of journals, one row each. Commands, messages and the snapshot process access journals only through these
rows. A shared journal and its bucket can also be opened without becoming the leader.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lacuna.base.errors import UserError
from lacuna.controlplane.journal.journal import JournalReader
from lacuna.controlplane.journal.kinds.bucket import IN_BUCKET
from lacuna.controlplane.journal.kinds.kind import JournalKind, Setup, SharedKind
from lacuna.controlplane.journal.kinds.postgresql import POSTGRESQL
from lacuna.controlplane.journal.kinds.sqlite import SQLITE
from lacuna.controlplane.journal.place import Place
from lacuna.controlplane.journal.snapshot_store import SnapshotStore
from lacuna.logstore.objects import ConditionalStore, open_conditional_store
from lacuna.logstore.objects.url import holds_journals

KINDS: Final[tuple[JournalKind, ...]] = (SQLITE, POSTGRESQL, IN_BUCKET)
SHARED_KINDS: Final = tuple(each for each in KINDS if isinstance(each, SharedKind))


def forms(kinds: tuple[JournalKind, ...] = KINDS) -> str:
    """Return the address formats of these kinds, for help and messages."""
    *most, last = (f"{each.form} ({each.about})" if each.about else each.form for each in kinds)
    return f"{', '.join(most)}{',' * (len(most) > 1)} or {last}"


def kind_of(address: str) -> JournalKind:
    """Return the kind of journal that an address identifies. Raises UserError."""
    for each in KINDS:
        if each.is_named(address):
            return each
    raise UserError(f"{address!r} is not a journal: use {forms()}")


def shared_kind_of(address: str) -> SharedKind:
    """Return the kind of journal that an address identifies. Raises UserError if control planes cannot share it."""
    for each in SHARED_KINDS:
        if each.is_named(address):
            return each
    raise UserError(
        f"{address!r} is not a journal that several control planes can share: use {forms(SHARED_KINDS)}, or omit "
        "--journal for an SQLite file in the data folder"
    )


@contextmanager
def opened_reader(place: Place) -> Iterator[tuple[JournalReader, SnapshotStore]]:
    """Run the body with a reader of the journal, and the store of its snapshots. Raises JournalError and
    StoreMisconfiguredError.
    """
    with opened_store(place) as store:
        setup = Setup(place=place, store=store, lease=0.0, new_cluster_id=str)
        yield shared_kind_of(place.url).reader(setup)


@contextmanager
def opened_store(place: Place) -> Iterator[ConditionalStore | None]:
    """Run the body with the place's bucket, or with None if it has none; a folder does not count, as it cannot hold
    snapshots. Raises StoreMisconfiguredError.
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
