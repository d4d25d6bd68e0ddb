"""Tests that the forgetful file system behaves like a real one, except for the crash."""

import errno
import itertools
from array import array
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from lacuna.logstore.objects.filesystem import FileSystem
from lacuna.logstore.objects.store import RangeRead, Reads
from tests.logstore.objects.sqlite_vfs import UnsyncedVfs
from tests.logstore.objects.unsynced import SECTOR, PowerCutError, UnsyncedFileSystem


@pytest.fixture(params=["real", "unsynced"])
def files(request: pytest.FixtureRequest) -> FileSystem:
    return FileSystem() if request.param == "real" else UnsyncedFileSystem()


@pytest.fixture
def base(files: FileSystem, tmp_path: Path) -> str:
    if isinstance(files, UnsyncedFileSystem):
        files.make_directory("/base")
        return "/base"
    return str(tmp_path)


def read(files: FileSystem, path: str) -> bytes:
    fd = files.open(path)
    buffer = bytearray(files.info_of(fd).size)
    assert files.read_into(fd, memoryview(buffer), 0) == len(buffer)
    files.close(fd)
    return bytes(buffer)


def write(files: FileSystem, path: str, *parts: bytes) -> None:
    fd = files.create(path)
    files.write(fd, parts)
    files.close(fd)


def test_no_call_reaches_the_real_disk() -> None:
    calls = {name for name in vars(FileSystem) if not name.startswith("_")}
    assert calls <= vars(UnsyncedFileSystem).keys()


def test_both_kinds_write_link_and_unlink_alike(files: FileSystem, base: str) -> None:
    write(files, f"{base}/a", b"12", b"", b"345")
    files.link(f"{base}/a", f"{base}/b")
    assert files.info(f"{base}/a").links == 2
    files.unlink(f"{base}/a")
    assert read(files, f"{base}/b") == b"12345"
    files.make_directory(f"{base}/d")
    assert sorted(files.names(base)) == [("b", False), ("d", True)]
    assert files.info(f"{base}/d").is_directory
    fd = files.open(f"{base}/b")
    files.unlink(f"{base}/b")
    assert files.info_of(fd).links == 0
    buffer = bytearray(10)
    assert files.read_into(fd, memoryview(buffer), 2) == 3
    assert files.read_into(fd, memoryview(buffer), 9) == 0
    files.close(fd)


def test_both_kinds_fail_alike(files: FileSystem, base: str) -> None:
    write(files, f"{base}/a", b"x")
    calls: list[tuple[type[OSError], Callable[..., object], *tuple[str, ...]]] = [
        (FileExistsError, files.create, "a"),
        (FileExistsError, files.link, "a", "a"),
        (FileExistsError, files.make_directory, "a"),
        (FileNotFoundError, files.open, "none"),
        (FileNotFoundError, files.unlink, "none"),
        (NotADirectoryError, files.info, "a/b"),
        (NotADirectoryError, files.names, "a"),
    ]
    for error, call, *names in calls:
        with pytest.raises(error):
            call(*(f"{base}/{name}" for name in names))
    with pytest.raises(OSError, match=r"EISDIR|directory|permitted") as caught:
        files.unlink(base)
    assert caught.value.errno in (errno.EISDIR, errno.EPERM)
    fd = files.open(base)
    with pytest.raises(IsADirectoryError):
        files.read_into(fd, memoryview(bytearray(1)), 0)
    files.close(fd)


def test_both_kinds_read_ranges_alike(files: FileSystem, base: str) -> None:
    write(files, f"{base}/a", b"abcdef")
    write(files, f"{base}/b", b"0123")
    parts = [("a", 1, 2, 0), ("a", 5, 3, 2), ("none", 0, 1, 5), ("b", 2, 2, 6), (".", 0, 1, 8)]
    reads = Reads.of([RangeRead(name, at, size, [(at, size, to)]) for name, at, size, to in parts])
    paths = [f"{base}/{name}" for name in ("a", "none", "b", ".")]
    buffer = bytearray(9)
    counts = list(files.read_ranges(paths, array("q", (0, 2, 3, 4, 5)), reads, buffer))
    assert counts == [2, 1, -errno.ENOENT, 2, -errno.EISDIR]
    assert buffer == b"bcf\0\0\x0023\0"


def test_both_kinds_lock_alike(files: FileSystem, base: str) -> None:
    write(files, f"{base}/a", b"x")
    one, other = files.open(f"{base}/a"), files.open(f"{base}/a")
    assert files.lock(one)
    assert files.lock(one)
    assert not files.lock(other)
    files.close(one)
    assert files.lock(other)
    files.close(other)


def test_unsynced_bytes_are_lost() -> None:
    files = UnsyncedFileSystem()
    fd = files.create("/a")
    files.write(fd, [b"synced"])
    files.fsync(fd)
    files.write_at(fd, [b"not"], 0)
    files.fsync_directory("/")
    files.crash()
    assert read(files, "/a") == b"synced"


def test_unsynced_names_are_lost_and_unsynced_removals_undone() -> None:
    files = UnsyncedFileSystem()
    write(files, "/kept", b"")
    files.fsync_directory("/")
    files.unlink("/kept")
    write(files, "/new", b"")
    assert files.names("/") == [("new", False)]
    files.crash()
    assert files.names("/") == [("kept", False)]


def test_truncating_and_rewriting_need_a_sync_too() -> None:
    files = UnsyncedFileSystem()
    fd = files.open_or_create("/a")
    files.write_at(fd, [b"tail"], 4)
    files.fsync(fd)
    files.fsync_directory("/")
    files.truncate(fd, 2)
    assert files.info("/a").size == 2
    files.crash()
    assert read(files, "/a") == b"\0\0\0\0tail"
    fd = files.open_or_create("/a")
    files.truncate(fd, 1)
    files.fsync(fd)
    files.crash()
    assert read(files, "/a") == b"\0"


def test_chance_may_keep_all_or_tear_a_file() -> None:
    for answers, expected in ([True, True, True], b"12345678"), ([True, True, False], b"1234"):
        files = UnsyncedFileSystem()
        write(files, "/a", b"12345678")
        told = iter(answers)
        files.crash(keep=lambda told=told: next(told))  # type: ignore[misc]
        assert read(files, "/a") == expected


def test_what_was_synced_is_never_torn() -> None:
    files = UnsyncedFileSystem()
    fd = files.create("/a")
    files.write(fd, [b"12345678"])
    files.fsync(fd)
    files.fsync_directory("/")
    files.write_at(fd, [b"abcd"], 2)
    told = iter([True, False])
    files.crash(keep=lambda: next(told))
    assert read(files, "/a") == b"12ab5678"


def test_names_of_one_file_stay_names_of_one_file() -> None:
    files = UnsyncedFileSystem()
    write(files, "/a", b"")
    files.link("/a", "/b")
    files.fsync_directory("/")
    files.crash()
    assert files.info("/a").links == 2


def test_without_power_nothing_works_until_the_crash() -> None:
    files = UnsyncedFileSystem()
    files.cut_power_after(1)
    fd = files.create("/a")
    for _ in range(2):
        with pytest.raises(PowerCutError):
            files.write(fd, [b"x"])
    with pytest.raises(PowerCutError):
        files.fsync(fd)
    files.crash()
    files.create("/a")


def test_chance_may_keep_any_sector_of_a_large_file() -> None:
    files = UnsyncedFileSystem()
    fd = files.create("/a")
    files.write(fd, [b"1" * SECTOR])
    files.fsync(fd)
    files.fsync_directory("/")
    files.write_at(fd, [b"2" * SECTOR * 4], 0)
    told = iter([True, False, False, True, False, True])
    files.crash(keep=lambda: next(told))
    expected = b"1" * SECTOR + b"2" * SECTOR + bytes(SECTOR) + b"2" * SECTOR
    assert read(files, "/a") == expected


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
