"""The process that makes a snapshot: the last one, and what the journal has behind it.

    python -m controlplane.journal.snapshotter JOURNAL MACHINE POSITION

It reads the journal without holding its writer up, and writes to the database of snapshots, which is
another file. It ends with 0 once a snapshot at POSITION or later is durable.
"""

import os
import sys
from importlib import import_module
from typing import Any

from controlplane.journal.connections import connect, errors_of
from controlplane.journal.journal import JournalCorrupt, JournalError, Snapshot
from controlplane.journal.snapshots import SnapshotDatabase, snapshots_path
from controlplane.journal.sqlite import read_batches, read_cluster_id
from controlplane.pure import Machine
from controlplane.v1.journal_pb2 import JournalRecord

#: Below the writer's priority: a snapshot may take its time.
_NICENESS = 10


def make_snapshot(path: str, machine: Machine[Any], position: int) -> int:
    """Makes a snapshot at `position` or later; gives its position. Raises JournalError."""
    journal = connect(path)
    snapshots = None
    try:
        journal.execute("PRAGMA query_only=1")
        snapshots = SnapshotDatabase(snapshots_path(path), read_cluster_id(journal))
        last = snapshots.load()
        state = machine.new_state() if last is None else machine.restore(last.state)
        at = begin = 0 if last is None else last.position
        while at < position:
            batches = read_batches(journal, at)
            if not batches:
                raise JournalCorrupt(f"the journal ends at position {at}, before {position}")
            for batch in batches:
                for record in batch.records:
                    machine.replay(state, JournalRecord.FromString(record))
            at = batches[-1].position
            machine.take_changes(state)
        if at > begin:
            snapshots.store(Snapshot(at, machine.snapshot(state)))
        return at
    finally:
        if snapshots is not None:
            snapshots.close()
        journal.close()


def load_machine(name: str) -> Machine[Any]:
    """The machine that `module` or `module:attribute` names."""
    module, _, attribute = name.partition(":")
    found: Any = import_module(module)
    machine: Machine[Any] = getattr(found, attribute) if attribute else found
    return machine


def main(arguments: list[str]) -> int:
    """As the module says; 1 with a line on stderr where it did not work."""
    path, machine, position = arguments
    try:
        with errors_of(path):
            make_snapshot(path, load_machine(machine), int(position))
    except JournalError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    os.nice(_NICENESS)
    sys.exit(main(sys.argv[1:]))
