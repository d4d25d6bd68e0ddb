"""The journal as the runtime uses it. Records are opaque bytes here; positions count records from 1.

One writer at a time opens a journal, and receives a fencing token. Appends with an older token fail, so a writer that
was thought dead cannot append after its successor has taken over.
"""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, TypeAlias

#: What an operator can do about a journal that is damaged or has lost records.
REMEDY: Final = (
    "Restore the whole journal as it was at one point in time (for an SQLite journal, with its -wal and .snapshots "
    "files), or start `lacuna up` or `lacuna controlplane` with --accept-loss, which reports what is lost and "
    "continues without it"
)


class JournalError(Exception):
    """The journal cannot be used. The message gives the reason and the remedy."""


class JournalInUse(JournalError):
    """Another control plane is using this journal."""


class JournalForeign(JournalError):
    """The journal belongs to a different cluster, or is not a Lacuna journal."""


class JournalOfAnotherVersion(JournalForeign):
    """A different version of Lacuna wrote the journal. `what` names the part that this version cannot read."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(
            f"{what}: install the version that wrote it, or restore the backup from before the upgrade"
        )


class JournalUnfinished(JournalForeign):
    """The journal is an unfinished copy. `what` is the part of the message that says so."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what}: run `lacuna controlplane copy` again, which starts over")


class JournalCorrupt(JournalError):
    """The journal is damaged: what was read differs from what was written."""


class JournalLoss(JournalCorrupt):
    """Acknowledged records are missing from the journal. The message says which."""


class JournalTrimmed(JournalError):
    """The requested records have been deleted because a snapshot covers them. Load the newest snapshot."""


class JournalReplaced(JournalError):
    """Records that have been read are no longer in the journal, which may have continued without them. Read the journal
    again.
    """


class JournalFenced(JournalError):
    """A later writer has opened the journal, so this one must stop."""


class JournalUnreachable(JournalError):
    """The journal's database or bucket does not respond or is not ready, but may recover."""


class JournalRefused(JournalError):
    """The journal's database or bucket denies access or lacks something that a journal requires. An operator has to fix
    this.
    """


class JournalInDoubt(JournalError):
    """The outcome of an append is unknown. Opening the journal again shows whether it was written."""


@dataclass(frozen=True, slots=True)
class OpenedJournal:
    """A journal opened for writing: the cluster id stored in it, and the position of its last record, or 0 if it is
    empty.
    """

    cluster_id: str
    fencing_token: int
    position: int


class Seal(NamedTuple):
    """Distinguishes an append from any that may replace it, by its position in the journal and a checksum."""

    place: int
    crc: int


#: (lease id, sequence) of a hot segment (`logstore/segments/hot.py`).
HotKey: TypeAlias = tuple[int, int]


class HotSegment(NamedTuple):
    """A hot segment, which becomes durable with the append that commits it. `data` is the whole object."""

    key: HotKey
    data: bytes


@dataclass(frozen=True, slots=True)
class JournalBatch:
    """The records of one append, the last of which is at `position`.

    `seal` is the append's seal in a shared journal, which may lose the append in a failover or a restore.
    """

    position: int
    records: list[bytes]
    seal: Seal | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after all records up to and including `position`, in parts as the machine serializes it.

    Each part is a few MiB in size and is stored unchanged, so that a snapshot can be larger than one message or row. In
    a snapshot to be stored, `parts` may be an iterator that serializes the state on the fly; in a loaded snapshot, it
    can be iterated repeatedly.

    `seal` is that of the append that ends at `position`, as in `JournalBatch`. It is None if the journal begins with
    the snapshot.
    """

    position: int
    parts: Iterable[bytes]
    seal: Seal | None = field(default=None, compare=False)


class Fit(Enum):
    """Whether a snapshot fits a journal, or why not, judging by the seal of the last append that it covers."""

    #: The journal contains that append.
    FITS = auto()
    #: The journal begins later, or with a different snapshot at the same position, so this one is no longer needed.
    SPENT = auto()
    #: The journal has a different append there.
    BESIDE = auto()
    #: The journal ends before it.
    AHEAD = auto()


Judge: TypeAlias = Callable[[int, Seal], Awaitable[Fit]]
"""Determines how the snapshot at a position, with a seal, fits a journal. Raises JournalError."""


class Journal(Protocol):
    """The journal of one cluster."""

    async def open(self, cluster_id: str | None) -> OpenedJournal:
        """Open the journal for this writer, creating it if it does not exist, and fence earlier writers.

        `cluster_id` is the expected id. With None, any id is accepted, and a new journal receives a new one. Raises
        JournalInUse, JournalForeign and JournalCorrupt.
        """
        ...

    def read(self, after_position: int, seal: Seal | None = None, /) -> AsyncIterator[JournalBatch]:
        """Yield all batches after `after_position`, in order. Raises JournalCorrupt.

        `seal` is that of the batch that ended at `after_position` when it was read. Raises JournalReplaced if a
        different batch ends there now.
        """
        ...

    @property
    def hot(self) -> Mapping[HotKey, int]:
        """The sizes in bytes of the hot segments in the journal, by key, available once it is open.

        Includes the segments of all durable appends, except those that have been dropped.
        """
        ...

    def append(
        self, records: Sequence[bytes], fencing_token: int, hot: Sequence[HotSegment] = ()
    ) -> "asyncio.Future[int]":
        """Append one or more records atomically, and return a future for the position of the last one.

        The bytes of `hot` become durable in the same step, but are never read back as records. The future is done once
        all of this is durable, possibly before it is returned. Only one append may be in progress at a time. If the
        future fails, with JournalFenced or another JournalError, it is unknown whether the records were written, and
        the writer must stop.
        """
        ...

    async def read_hot(self, keys: Sequence[HotKey]) -> Mapping[HotKey, bytes]:
        """Return the bytes of those hot segments that the journal contains. Raises JournalCorrupt for damaged ones, and
        other JournalErrors.
        """
        ...

    async def drop_hot(self, keys: Collection[HotKey]) -> None:
        """Delete hot segments that nothing refers to any more. Keys that the journal does not contain are ignored.

        A crash may undo some of the deletions, and `hot` then includes these segments again. Raises JournalError.
        """
        ...

    async def load_snapshot(self) -> Snapshot | None:
        """Return the newest undamaged snapshot that fits the journal, or None if there is none.

        Raises JournalCorrupt if all of them are damaged, and JournalLoss if one covers more than the journal contains.
        """
        ...

    async def store_snapshot(self, snapshot: Snapshot) -> None:
        """Store the snapshot durably, then delete the records and snapshots that are no longer needed for a restart."""
        ...

    async def close(self) -> None:
        """Finish the current append and release the journal. Closing again has no effect."""
        ...


@dataclass(frozen=True, slots=True)
class Leader:
    """The writer that leads a shared journal.

    `address` is where it serves, according to the journal. The leader has not renewed its lease for at least `silent`
    seconds, measured by a clock that does not depend on its machine.
    """

    epoch: int
    address: str
    silent: float


class JournalReader(Protocol):
    """A shared journal as a standby reads it, whether or not it has a leader.

    Each call raises JournalUnreachable if the journal's database or bucket does not respond, and may be repeated.
    """

    async def load_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot, as `Journal.load_snapshot` does."""
        ...

    def read(self, after_position: int, seal: Seal | None = None, /) -> AsyncIterator[JournalBatch]:
        """Yield the batches after `after_position` that are durable now, if any, as `Journal.read` does.

        Raises JournalTrimmed if records after `after_position` have been deleted because a snapshot covers them.
        """
        ...

    async def fit(self, position: int, seal: Seal, /) -> Fit:
        """Return whether the snapshot at `position` fits the journal, or why not. `seal` is that of the last append
        that it covers.
        """
        ...

    async def leader(self) -> Leader | None:
        """Return the leader, or None if there is none because the journal is new or its leader has left it."""
        ...

    async def close(self) -> None:
        """Release the connections. Closing again has no effect."""
        ...


class Renewer(Protocol):
    """Shows standbys that a leader is alive.

    It may be used in a thread other than the journal's, but only in one event loop.
    """

    async def renew(self) -> None:
        """Renew the lease. Raises JournalFenced if another writer has taken over, and other JournalErrors if that is
        unknown.
        """
        ...

    async def close(self) -> None:
        """Release the connection, if it has one."""
        ...


class SharedJournal(Journal, Protocol):
    """A journal that control planes on several machines can open, one after another (adr/0026).

    `open` takes it over if its leader has left it, or has been silent for the length of a lease, and otherwise raises
    JournalInUse. To find out, it may watch the leader for the length of a lease.
    """

    lease: float
    """If the leader does not renew its lease for this many seconds, another writer may take over."""

    snapshot_appends: int | None
    """The number of appends after which a snapshot is due, or None if even many appends are quick to read."""

    async def check(self) -> None:
        """Before the journal is opened, find out whether its storage is reliable, and log which data could be lost.

        Raises JournalRefused if the storage is unreliable, JournalUnreachable, and other JournalErrors.
        """
        ...

    def renewer(self, fencing_token: int) -> Renewer:
        """Return the renewer of this leader's lease, which runs alongside everything else that the journal does."""
        ...

    async def confirm(self, fencing_token: int) -> None:
        """Return once it is certain that no other writer had taken over at the time of the call.

        This costs less than an append, and leaves nothing in the journal. Raises the same errors as `Renewer.renew`.
        """
        ...

    def abandon(self) -> None:
        """Make `close` keep the leadership, as if this process had been killed: the next leader then has to wait for
        the lease to end.
        """
        ...

    @property
    def place(self) -> str:
        """The journal's location, for the process that takes its snapshots (`SnapshotProcess`)."""
        ...

    async def trim(self) -> None:
        """Delete the records that are no longer needed for a restart, after a new snapshot has been stored.

        Raises JournalFenced if another leader has taken over, and other JournalErrors.
        """
        ...

    def reader(self) -> JournalReader:
        """Return a reader of this journal, which may be used before `open` and alongside the journal."""
        ...


class Snapshotter(Protocol):
    """Takes snapshots outside the process that writes the journal."""

    async def make(self, position: int) -> None:
        """Take a snapshot at `position` or later, and have the journal trimmed."""
        ...

    async def close(self) -> None:
        """Stop the snapshot in progress, if any."""
        ...
