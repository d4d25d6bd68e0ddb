"""Salvages the intact part of a damaged or outdated journal, once an operator has accepted the loss.

The intact part is the newest undamaged snapshot and the batches that follow it without a gap. It becomes a new journal,
whose positions and ids begin beyond any that the lost part may have used (`lacuna.controlplane.eras`). Copies of the
old files are kept next to it. After an interruption, either the old files are still in place and cannot be opened, or
the new ones have replaced them.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress

from lacuna.controlplane import machine
from lacuna.controlplane.eras import first_of_next_era
from lacuna.controlplane.journal.connections import (
    Connection,
    connect_read_only,
    errors_of,
    transaction,
    writing,
)
from lacuna.controlplane.journal.evidence import Evidence, gather
from lacuna.controlplane.journal.formats import formats_of
from lacuna.controlplane.journal.intact import Salvage, replayed
from lacuna.controlplane.journal.journal import (
    HotKey,
    HotSegment,
    JournalBatch,
    JournalCorrupt,
    JournalError,
    JournalOfAnotherVersion,
    JournalUnfinished,
    Snapshot,
)
from lacuna.controlplane.journal.rows import checksum, encode_records
from lacuna.controlplane.journal.snapshots import SnapshotDatabase, load_newest, snapshots_path
from lacuna.controlplane.journal.sqlite import take_lock
from lacuna.controlplane.journal.sqlite_hot import hot_sizes, insert_hot, read_hot
from lacuna.controlplane.journal.tables import create, last_position, read_batches, read_meta
from lacuna.controlplane.journal.witness import read_witness, witness_path
from lacuna.logstore.objects.filesystem import sync


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the journal's lock, so that no control plane can open it. Raises JournalInUse."""
    lock = take_lock(path)
    try:
        yield
    finally:
        os.close(lock)


def salvage(path: str) -> Salvage:
    """Read the intact part of the journal without changing anything. The caller holds the lock.

    Raises JournalError if nothing is intact, or if a different version wrote the journal.
    """
    problems: list[str] = []
    evidence = _gather(path, problems)
    cluster_id, fencing_token = _owner(path, problems)
    snapshot = _snapshot(path, cluster_id, problems)
    batches = list(_batches(path, 0 if snapshot is None else snapshot.position, problems))
    state, position = replayed(path, snapshot, batches, problems)
    if position < evidence.position:
        problems.append(
            f"the readable part ends at position {position}, but the journal reached {evidence.position}"
        )
    reached = max(evidence.position, evidence.witnessed)
    return Salvage(
        path, cluster_id, fencing_token, position, reached, state, problems, _hot_keys(path)
    )


def replace(found: Salvage, lost_lease_ids: Sequence[int], now_ms: int) -> str:
    """Replace the journal with a new one made from `found`, and return the folder with copies of the old files.

    `lost_lease_ids` are leases granted in the lost part. The caller holds the lock.
    """
    path = found.name
    position = first_of_next_era(max(found.position, found.reached))
    records = [
        each.SerializeToString()
        for each in machine.accept_loss(found.state, lost_lease_ids, now_ms)
    ]
    kept = _keep(path)
    _store_snapshot(found, Snapshot(position, tuple(machine.snapshot_parts(found.state))))
    _write(path + ".new", found, position, records)
    _copy_hot(path, path + ".new")
    for name in (f"{path}-wal", f"{path}-shm"):
        with suppress(FileNotFoundError):
            os.unlink(name)
    os.replace(path + ".new", path)
    _sync_directory(path)
    return kept


def _gather(path: str, problems: list[str]) -> Evidence:
    try:
        evidence = gather(path)
    except JournalError as error:
        problems.append(str(error))
        return Evidence(path, 0, read_witness(witness_path(path), None), None)
    if evidence.is_loss:
        problems.append(evidence.describe())
    return evidence


def _owner(path: str, problems: list[str]) -> tuple[str, int]:
    """Return the cluster id and the last fencing token or, if the journal cannot be read, the id in the snapshots and
    0.

    Raises JournalOfAnotherVersion, since such a journal is not damaged, and JournalUnfinished.
    """
    try:
        with formats_of(path), _reading(path) as connection:
            stored = read_meta(connection)
        if stored is not None:
            return str(stored["cluster_id"]), int(stored["fencing_token"])
    except (JournalOfAnotherVersion, JournalUnfinished):
        raise
    except JournalError as error:
        problems.append(f"the id of the journal's cluster cannot be read: {error}")
    with suppress(JournalError), _reading(snapshots_path(path)) as connection:
        row = connection.execute("SELECT cluster_id FROM snapshots LIMIT 1").fetchone()
        if row is not None:
            return str(row[0]), 0
    said = ". ".join(problems) or f"{path} is empty"
    raise JournalCorrupt(f"no part of the journal can be read: restore it from a backup ({said})")


def _snapshot(path: str, cluster_id: str, problems: list[str]) -> Snapshot | None:
    if not os.path.exists(snapshots_path(path)):
        return None
    try:
        with _reading(snapshots_path(path)) as connection:
            return load_newest(connection, cluster_id)
    except JournalError as error:
        problems.append(f"no snapshot can be read: {error}")
        return None


def _batches(path: str, position: int, problems: list[str]) -> Iterator[JournalBatch]:
    try:
        with _reading(path) as connection:
            if last_position(connection) < position:
                problems.append(f"{path} ends before its snapshot at position {position}")
            while found := read_batches(connection, position):
                yield from found
                position = found[-1].position
    except (JournalError, ValueError) as error:
        problems.append(f"{path} cannot be read after position {position}: {error}")


def _keep(path: str) -> str:
    """Copy all files of the journal to a new folder next to it, and return the folder."""
    number = 1
    while os.path.exists(f"{path}.kept-{number}"):
        number += 1
    folder = f"{path}.kept-{number}"
    os.mkdir(folder)
    names = ("", "-wal", ".snapshots", ".snapshots-wal", ".acknowledged")
    for name in (path + suffix for suffix in names):
        if os.path.exists(name):
            shutil.copy2(name, folder)
    return folder


def _store_snapshot(found: Salvage, snapshot: Snapshot) -> None:
    path = snapshots_path(found.name)
    try:
        _store(path, found.cluster_id, snapshot)
    except JournalError:
        for name in (path, f"{path}-wal", f"{path}-shm"):
            with suppress(FileNotFoundError):
                os.unlink(name)
        _store(path, found.cluster_id, snapshot)


def _store(path: str, cluster_id: str, snapshot: Snapshot) -> None:
    with errors_of(path), closing(SnapshotDatabase(path, cluster_id)) as database:
        database.store(snapshot)


def _write(path: str, found: Salvage, position: int, records: Sequence[bytes]) -> None:
    """Write a journal that begins with the snapshot at `position`, followed by `records`."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    with writing(path) as connection:
        create(connection, found.cluster_id, found.fencing_token, position)
        position += len(records)
        blob = encode_records(records)
        row = (position, len(records), checksum(position, blob), blob)
        connection.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", row)
    sync(path)


def _copy_hot(path: str, new: str) -> None:
    """Copy the intact hot segments in one transaction. The others count as lost, like missing objects."""
    with writing(new) as connection, transaction(connection):
        for segment in _intact_hot(path):
            insert_hot(connection, [segment])
    sync(new)


def _hot_keys(path: str) -> frozenset[HotKey]:
    with suppress(JournalError), _reading(path) as connection:
        return frozenset(hot_sizes(connection))
    return frozenset()


def _intact_hot(path: str) -> Iterator[HotSegment]:
    with suppress(JournalError), _reading(path) as old:
        for key in hot_sizes(old):
            with suppress(JournalCorrupt):
                yield from read_hot(old, path, [key])


@contextmanager
def _reading(path: str) -> Iterator[Connection]:
    with errors_of(path), closing(connect_read_only(path)) as connection:
        yield connection


def _sync_directory(path: str) -> None:
    sync(os.path.dirname(os.path.abspath(path)))
