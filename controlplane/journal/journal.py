"""What the runtime needs of a journal. Records are opaque bytes here; a position counts records
from 1.

A journal is opened by one writer at a time. Opening yields a fencing token; an append under an
older token is refused, so that a writer that was thought dead can never add behind the back of its
successor.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")


class JournalError(Exception):
    """The journal cannot be used; the message says why and what to do."""


class JournalInUse(JournalError):
    """Another control plane runs on this data."""


class JournalForeign(JournalError):
    """The data belongs to another cluster, or is no journal of ours."""


class JournalCorrupt(JournalError):
    """What was read is not what was written; the message names the position."""


class JournalFenced(JournalError):
    """A later writer has opened the journal; this one must stop."""


@dataclass(frozen=True, slots=True)
class OpenedJournal:
    """`cluster_id` is the journal's own; `position` is that of the last record, 0 in an empty
    journal.
    """

    cluster_id: str
    fencing_token: int
    position: int


@dataclass(frozen=True, slots=True)
class JournalBatch:
    """Records of one append. `position` is that of the last one."""

    position: int
    records: list[bytes]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after all records up to and including `position`, as the machine serialised it."""

    position: int
    state: bytes


class Pace(Protocol):
    """Whether an append may hold up the event loop (lacuna/pace.py)."""

    def allows(self) -> bool:
        """Whether the loop may do it itself now."""
        ...

    def timed(self, job: Callable[[], T]) -> T:
        """Run an append, in whichever thread, and learn how long it takes."""
        ...


class Journal(Protocol):
    """One journal of one cluster."""

    async def open(self, cluster_id: str | None) -> OpenedJournal:
        """Takes the journal for this writer, and makes it where there is none.

        `cluster_id` is the one that the caller expects (None: any; a new journal then gets a new
        one). Raises JournalInUse, JournalForeign, JournalCorrupt.
        """
        ...

    def read(self, after_position: int) -> AsyncIterator[JournalBatch]:
        """All batches behind `after_position`, in order. Raises JournalCorrupt."""
        ...

    def append(self, records: Sequence[bytes], fencing_token: int) -> "asyncio.Future[int]":
        """Appends at least one record, all or none; the future gives the last one's position once
        it is durable, which it may be when it is returned.

        At most one append may be under way. The future fails with JournalFenced or what the disk
        said; then nothing is known about the records and the writer must stop.
        """
        ...

    async def load_snapshot(self) -> Snapshot | None:
        """The newest usable snapshot. Raises JournalCorrupt where none is left but the records are
        trimmed.
        """
        ...

    async def store_snapshot(self, snapshot: Snapshot) -> None:
        """Keeps the snapshot durably, then forgets what no restart needs any more."""
        ...

    async def close(self) -> None:
        """Ends the appends under way and gives the journal back. Twice is once."""
        ...


class Snapshotter(Protocol):
    """Makes snapshots somewhere else than in the writer's process."""

    async def make(self, position: int) -> None:
        """Brings about a snapshot that is at `position` or later, and has the journal trimmed."""
        ...

    async def close(self) -> None:
        """Ends what is under way."""
        ...
