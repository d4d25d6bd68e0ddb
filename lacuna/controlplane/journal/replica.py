"""The state at the position up to which a starting leader or a standby has replayed a journal."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from google.protobuf.message import DecodeError

from lacuna.controlplane import machine
from lacuna.controlplane.journal.journal import (
    Journal,
    JournalBatch,
    JournalCorrupt,
    JournalForeign,
    JournalOfAnotherVersion,
    JournalReader,
    OpenedJournal,
    Seal,
    Snapshot,
)
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.journal_pb2 import JournalRecord


class Replica:
    """The state after all records up to and including `position`."""

    def __init__(self) -> None:
        self.state = State()
        self.position = 0
        #: The seal of the last append replayed or covered by the snapshot, to check that the journal still contains it.
        self.seal: Seal | None = None
        #: The appends, records, and bytes of records replayed since the snapshot.
        self.appends = 0
        self.records = 0
        self.bytes = 0

    async def catch_up(self, journal: Journal | JournalReader) -> None:
        """Replay the records after `position`, starting from the journal's newest snapshot if `position` is 0.

        Raises JournalCorrupt if a record does not fit the previous ones, JournalOfAnotherVersion, and the journal's
        errors.
        """
        if self.position == 0:
            snapshot = await journal.load_snapshot()
            if snapshot is not None:
                self.state = await _restored(snapshot)
                self.position, self.seal = snapshot.position, snapshot.seal
        async for batch in journal.read(self.position, self.seal):
            try:
                self._replay(batch)
            except machine.LaterFormatError as error:
                raise JournalOfAnotherVersion(
                    f"the journal contains {error}, up to position {batch.position}"
                ) from error
            except (DecodeError, LookupError, ValueError, OverflowError) as error:
                raise JournalCorrupt(
                    f"a record up to position {batch.position} does not fit the records before it "
                    f"({error!r}). The journal may have been restored only in part"
                ) from error
        self.state.take_changes()

    def check(self, opened: OpenedJournal) -> None:
        """Raise JournalCorrupt unless this is the state at the journal's end, and JournalForeign if it is that of a
        different cluster.
        """
        if self.state.cluster_id not in ("", opened.cluster_id):
            raise JournalForeign(
                f"the state is that of cluster {self.state.cluster_id}, but the journal belongs "
                f"to cluster {opened.cluster_id}: specify the bucket of cluster {opened.cluster_id} "
                "with --store"
            )
        if self.position != opened.position:
            raise JournalCorrupt(
                "the snapshot and the journal were not copied at the same time: the snapshot ends at position "
                f"{self.position} and the journal at {opened.position}; restore both together"
            )

    def _replay(self, batch: JournalBatch) -> None:
        for data in batch.records:
            machine.replay(self.state, JournalRecord.FromString(data))
            self.bytes += len(data)
        self.appends += 1
        self.records += len(batch.records)
        self.position, self.seal = batch.position, batch.seal


def restored(snapshot: Snapshot) -> State:
    """Return the state in a snapshot. Raises JournalOfAnotherVersion if a later version took it."""
    with _formats_of(snapshot):
        return machine.restore(snapshot.parts)


async def _restored(snapshot: Snapshot) -> State:
    """Return the state in a snapshot, as `restored` does, but let other tasks run after each part."""
    state = State()
    with _formats_of(snapshot):
        for part in snapshot.parts:
            machine.restore_part(state, part)
            await asyncio.sleep(0)
    return state


@contextmanager
def _formats_of(snapshot: Snapshot) -> Iterator[None]:
    try:
        yield
    except machine.LaterFormatError as error:
        raise JournalOfAnotherVersion(
            f"the snapshot at position {snapshot.position} has {error}"
        ) from error
