"""A journal in a file, for one control plane."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final

from lacuna.base.errors import UserError
from lacuna.controlplane.journal.kinds.kind import JournalKind, Setup

if TYPE_CHECKING:
    from lacuna.controlplane.journal.moving.beginning import Target
    from lacuna.controlplane.journal.moving.source import Source

#: The file of a journal in a data folder.
JOURNAL_NAME: Final = "journal.db"

_SCHEME: Final = "sqlite:"


def _source(setup: Setup) -> AbstractAsyncContextManager[Source]:
    from lacuna.controlplane.journal.moving.source import locked_source
    from lacuna.controlplane.journal.sqlite import SqliteJournal

    path = _path(setup.place.url)
    if not os.path.exists(path):
        raise UserError(f"{path} contains no journal, so nothing was changed: check the path")
    return locked_source(SqliteJournal(path, setup.new_cluster_id))


def _target(setup: Setup) -> Target:
    from lacuna.controlplane.journal.moving.sqlite import SqliteTarget

    return SqliteTarget(_path(setup.place.url))


def _path(address: str) -> str:
    """Return the path of the file that an address identifies. If it identifies a folder, this is the journal in that
    folder.
    """
    path = address.removeprefix(_SCHEME)
    if not path:
        raise UserError(
            "sqlite: lacks a path: use sqlite:PATH with the path of a data folder or a file"
        )
    return os.path.join(path, JOURNAL_NAME) if os.path.isdir(path) else path


SQLITE: Final = JournalKind(
    form="sqlite:PATH",
    about="a file, or a data folder",
    is_named=lambda address: address.startswith(_SCHEME),
    source=_source,
    target=_target,
)
