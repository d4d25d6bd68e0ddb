"""Describes a kind of journal. The functions of a row import the journals' modules only when called, since importing is
slow.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lacuna.controlplane.clock import SystemClock

if TYPE_CHECKING:
    from lacuna.controlplane.journal.journal import JournalReader, SharedJournal
    from lacuna.controlplane.journal.moving.beginning import Target
    from lacuna.controlplane.journal.moving.source import Source
    from lacuna.controlplane.journal.moving.wreck import Wreck
    from lacuna.controlplane.journal.place import Place
    from lacuna.controlplane.journal.snapshot_store import SnapshotStore
    from lacuna.logstore.objects import ConditionalStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Everything needed to open a journal at `place`.

    `store` is the place's bucket, if any. `lease` is the length of a leader's lease in seconds, and `address` is where
    agents reach this control plane. `new_cluster_id` is called for a new journal.
    """

    place: Place
    store: ConditionalStore | None
    lease: float
    new_cluster_id: Callable[[], str]
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalKind:
    """A kind of journal, recognized by the form of a journal's address.

    - `form` describes the address, and `about` adds to it in help and messages.
    - `is_in_bucket` is true if the whole journal, and not only its snapshots, is in the cluster's bucket.
    - `is_named` returns whether an address is of this kind.
    - `source` returns a journal to be copied, and `target` a place to copy a journal to. They raise UserError.
    """

    form: str
    about: str = ""
    is_in_bucket: bool = False
    is_named: Callable[[str], bool]
    source: Callable[[Setup], AbstractAsyncContextManager[Source]]
    target: Callable[[Setup], Target]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedKind(JournalKind):
    """A kind of journal that several control planes can share.

    - `shown` returns the location of a journal without a password.
    - `journal` returns an unopened journal; `reader` returns a reader and the store of the snapshots.
    - `wreck` returns a damaged journal that can be continued without its lost part.
    """

    shown: Callable[[Place], str]
    journal: Callable[[Setup], SharedJournal]
    reader: Callable[[Setup], tuple[JournalReader, SnapshotStore]]
    wreck: Callable[[Setup], AbstractAsyncContextManager[Wreck]]


def leased(
    journal: Callable[[Setup], SharedJournal],
) -> Callable[[Setup], AbstractAsyncContextManager[Source]]:
    """Return the `source` of a shared kind of journal, which opens the result of `journal`."""

    def source(setup: Setup) -> AbstractAsyncContextManager[Source]:
        from lacuna.controlplane.journal.moving.source import leased_source

        return leased_source(journal(setup), SystemClock())

    return source
