"""Tests that a database on the forgetful file system keeps what it synced. Journals depend on that."""

import itertools

import apsw

from tests.logstore.objects.sqlite_vfs import UnsyncedVfs
from tests.logstore.objects.unsynced import UnsyncedFileSystem

names = (f"unsynced-{number}" for number in itertools.count())


def connect(files: UnsyncedFileSystem, synchronous: str) -> tuple[apsw.Connection, UnsyncedVfs]:
    vfs = UnsyncedVfs(name := next(names), files)
    connection = apsw.Connection("/j.db", vfs=name)
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute("CREATE TABLE IF NOT EXISTS journal (position INTEGER PRIMARY KEY)")
    return connection, vfs


def after_crash(synchronous: str, skipped_syncs: slice = slice(0)) -> tuple[list[int], int]:
    """Run three commits and a power cut. Return what a restart reads, and the total number of syncs."""
    files = UnsyncedFileSystem()
    connection, _vfs = connect(files, synchronous)
    start = len(files.syncs)
    files.skip_sync(*range(start, start + 100)[skipped_syncs])
    for position in range(3):
        connection.execute("INSERT INTO journal VALUES (?)", (position,))
    commits = len(files.syncs) - start
    again, _again_vfs = connect(files.after_crash(), synchronous)
    rows = [position for (position,) in again.execute("SELECT position FROM journal")]
    again.close()
    connection.close()
    return rows, commits


def test_what_was_committed_with_full_synchronization_is_there() -> None:
    assert after_crash("FULL") == ([0, 1, 2], 3)


def test_the_last_commit_is_lost_where_its_sync_is_taken_out() -> None:
    assert after_crash("FULL", slice(2, 3))[0] == [0, 1]
    assert after_crash("FULL", slice(0, 3))[0] == []


def test_normal_synchronization_does_not_keep_commits() -> None:
    assert after_crash("NORMAL") == ([], 0)
