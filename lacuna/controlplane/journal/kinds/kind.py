"""What a row says of a kind of journal.

The modules of the journals take long to import, so the functions of a row import them.
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
    """What a journal at `place` is opened with.

    `store` is the place's bucket, if it has one. `lease` is that of a leader, in seconds, and `address` is where agents
    reach this control plane. A journal that begins asks `new_cluster_id`.
    """

    place: Place
    store: ConditionalStore | None
    lease: float
    new_cluster_id: Callable[[], str]
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalKind:
    """A kind of journal, which an operator names by an address.

    - `form`: how an address is written, and `about`: what help and messages add to it.
    - `is_in_bucket`: the whole journal is in the cluster's bucket, and not only its snapshots.
    - `is_named` returns whether an address is of this kind.
    - `source` returns a journal to be copied, and `target` a place where a copy begins. They raise UserError.
    """

    form: str
    about: str = ""
    is_in_bucket: bool = False
    is_named: Callable[[str], bool]
    source: Callable[[Setup], AbstractAsyncContextManager[Source]]
    target: Callable[[Setup], Target]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedKind(JournalKind):
    """A kind that several control planes can share.

    - `shown` returns where a journal is, without a password.
    - `journal` returns a journal, not open, and `reader` one that another process reads, with its snapshots.
    - `wreck` returns a journal to go on without what it has lost.
    """

    shown: Callable[[Place], str]
    journal: Callable[[Setup], SharedJournal]
    reader: Callable[[Setup], tuple[JournalReader, SnapshotStore]]
    wreck: Callable[[Setup], AbstractAsyncContextManager[Wreck]]


def leased(
    journal: Callable[[Setup], SharedJournal],
) -> Callable[[Setup], AbstractAsyncContextManager[Source]]:
    """Return the `source` of a shared kind, which is opened by its `journal`."""

    def source(setup: Setup) -> AbstractAsyncContextManager[Source]:
        from lacuna.controlplane.journal.moving.source import leased_source

        return leased_source(journal(setup), SystemClock())

    return source
