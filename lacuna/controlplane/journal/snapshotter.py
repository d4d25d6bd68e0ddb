"""The process that takes a snapshot by replaying later journal records on top of the previous one.

    python -m lacuna.controlplane.journal.snapshotter POSITION < PLACE

PLACE is the path of an SQLite journal, or the text of a `Place` for any other journal. The process reads the journal
without blocking the writer, and writes to a separate file, the snapshot database, or to the bucket. It exits with
status 0 once a snapshot at POSITION or later is durable.
"""

import asyncio
import os
import sys
from contextlib import closing, suppress

from lacuna.controlplane import machine
from lacuna.controlplane.journal.connections import connect, errors_of
from lacuna.controlplane.journal.journal import JournalCorrupt, JournalError, Snapshot
from lacuna.controlplane.journal.kinds import opened_reader
from lacuna.controlplane.journal.place import Place
from lacuna.controlplane.journal.replica import Replica, restored
from lacuna.controlplane.journal.snapshots import SnapshotDatabase, snapshots_path
from lacuna.controlplane.journal.tables import read_batches, read_cluster_id
from lacuna.controlplane.v1.journal_pb2 import JournalRecord

#: Snapshots are not urgent, so the process has a lower priority than the writer.
_NICENESS = 10


def make_snapshot(path: str, position: int) -> int:
    """Take a snapshot of the journal at `path`, at `position` or later. Return its position. Raises JournalError."""
    with closing(connect(path)) as journal:
        journal.execute("PRAGMA query_only=1")
        database = SnapshotDatabase(snapshots_path(path), read_cluster_id(journal))
        with closing(database) as snapshots:
            last = snapshots.load()
            state = machine.State() if last is None else restored(last)
            at = begin = 0 if last is None else last.position
            while at < position:
                batches = read_batches(journal, at)
                if not batches:
                    raise JournalCorrupt(f"the journal ends at position {at}, before {position}")
                for batch in batches:
                    for record in batch.records:
                        machine.replay(state, JournalRecord.FromString(record))
                at = batches[-1].position
                state.take_changes()
            if at > begin:
                snapshots.store(Snapshot(at, machine.snapshot_parts(state)))
            return at


async def make_shared_snapshot(place: Place, position: int) -> None:
    """Take a snapshot of a shared journal, at `position` or later. Raises JournalError."""
    with opened_reader(place) as (reader, snapshots):
        try:
            replica = Replica()
            await replica.catch_up(reader)
            if replica.position < position:
                raise JournalCorrupt(
                    f"the journal ends at position {replica.position}, before {position}"
                )
            parts = machine.snapshot_parts(replica.state)
            snapshot = Snapshot(replica.position, parts, replica.seal)
            await snapshots.store(snapshot, replica.state.cluster_id, reader.fit)
        finally:
            await reader.close()


def main(place: str, position: int) -> int:
    """Take a snapshot of the journal at `place`. On an error, print it and return 1."""
    try:
        if shared := Place.parse(place):
            asyncio.run(make_shared_snapshot(shared, position))
        else:
            with errors_of(place):
                make_snapshot(place, position)
    except JournalError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    # A sandbox may forbid this, but without snapshots, the journal would never be trimmed, which is worse.
    with suppress(OSError):
        os.nice(_NICENESS)
    sys.exit(main(sys.stdin.read(), int(sys.argv[1])))
