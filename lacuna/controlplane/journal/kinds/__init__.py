"""The kinds of journals, one row each. Commands, messages and the snapshot process use only the rows."""

from typing import Final

from lacuna.base.errors import UserError
from lacuna.controlplane.journal.kinds.bucket import IN_BUCKET
from lacuna.controlplane.journal.kinds.kind import JournalKind, SharedKind
from lacuna.controlplane.journal.kinds.postgresql import POSTGRESQL
from lacuna.controlplane.journal.kinds.sqlite import SQLITE

KINDS: Final[tuple[JournalKind, ...]] = (SQLITE, POSTGRESQL, IN_BUCKET)
SHARED_KINDS: Final = tuple(each for each in KINDS if isinstance(each, SharedKind))


def forms(kinds: tuple[JournalKind, ...] = KINDS) -> str:
    """Return the forms of addresses of these kinds, for help and messages."""
    *most, last = (f"{each.form} ({each.about})" if each.about else each.form for each in kinds)
    return f"{', '.join(most)}{',' * (len(most) > 1)} or {last}"


def kind_of(address: str) -> JournalKind:
    """Return the kind that an address names. Raises UserError."""
    for each in KINDS:
        if each.is_named(address):
            return each
    raise UserError(f"{address!r} is not a journal: write {forms()}")


def shared_kind_of(address: str) -> SharedKind:
    """Return the kind that an address names, if several control planes can share it. Raises UserError."""
    for each in SHARED_KINDS:
        if each.is_named(address):
            return each
    raise UserError(
        f"{address!r} is not a journal that several control planes can share: write {forms(SHARED_KINDS)}, or leave "
        "--journal out for an SQLite file in the data folder"
    )
