"""Tests the directory store: crashes, cleanup, limits and errors."""

from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import threading
from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from lacuna.logstore.objects import (
    DirectoryStore,
    NotDeletedError,
    ObjectExistsError,
    ObjectNotFoundError,
    ShortReadError,
    StoreMisconfiguredError,
    StoreUnavailableError,
)
from lacuna.logstore.objects.filesystem import FileSystem
from lacuna.logstore.objects.store import Part, RangeRead, Reads, WritableBuffer
from tests.logstore.objects.unsynced import PowerCutError, UnsyncedFileSystem

KEY = "cluster/segments/4321/7.seg"
PAYLOAD = b"payload" * 100


def put_and_crash(*skipped_syncs: int) -> tuple[UnsyncedFileSystem, bytes | None]:
    """Open a store in an empty folder, put an object and cut the power. Return what remains."""
    files = UnsyncedFileSystem()
    files.skip_sync(*skipped_syncs)
    DirectoryStore("/srv/data", file_system=files).put(KEY, [PAYLOAD[:50], PAYLOAD[50:]])
    files.crash()
    files.skip_sync()
    try:
        return files, bytes(DirectoryStore("/srv/data", file_system=files).get_all(KEY))
    except ObjectNotFoundError:
        return files, None


SYNCS = [
    "fsync_directory /",
    "fsync_directory /srv",
    "fsync_directory /srv/data",
    "fsync_directory /srv/data/cluster",
    "fsync_directory /srv/data/cluster/segments",
    "fsync /srv/data/.tmp/PROCESS-0",
    "fsync_directory /srv/data/cluster/segments/4321",
]


def test_an_acknowledged_object_survives_a_crash() -> None:
    """S2: an object is durable before it is acknowledged."""
    files, payload = put_and_crash()
    assert payload == PAYLOAD
    found = [each.replace(str(os.getpid()), "PROCESS") for each in files.syncs[: len(SYNCS)]]
    assert found == SYNCS


@pytest.mark.parametrize("number", range(len(SYNCS)))
def test_each_sync_is_needed(number: int) -> None:
    """S2: without any one sync, the object is lost or torn, so no missing sync goes unnoticed."""
    _, found = put_and_crash(number)
    assert found != PAYLOAD


def put_into_unsynced_directories(*skipped_syncs: int) -> tuple[int, bool]:
    """Put an object into directories that another process has just created. Return the number of syncs, and whether the
    object exists.
    """
    files = UnsyncedFileSystem()
    files.make_directory("/data")
    files.make_directory("/data/x")
    files.skip_sync(*skipped_syncs)
    DirectoryStore("/data", file_system=files).put("x/k", [PAYLOAD])
    syncs = len(files.syncs)
    files.crash()
    found = list(DirectoryStore("/data", file_system=files).list())
    return syncs, [(info.key, info.size) for info in found] == [("x/k", len(PAYLOAD))]


def test_directories_that_another_process_made_are_synced_all_the_same() -> None:
    """S2: an existing directory may have a name that is not yet durable."""
    assert put_into_unsynced_directories() == (4, True)
    assert [put_into_unsynced_directories(number)[1] for number in range(4)] == [False] * 4


def test_a_crash_at_any_moment_leaves_whole_objects_only() -> None:
    """S2: whatever happens to be written back, an object is whole or absent, and acknowledged objects exist."""
    for seed in range(40):
        _crash(random.Random(seed))


def _crash(source: random.Random) -> None:
    files = UnsyncedFileSystem()
    keys = [f"a/{number % 3}/{number}" for number in range(6)]
    acknowledged = []
    files.cut_power_after(source.randrange(60))
    try:
        store = DirectoryStore("/data", file_system=files)
        for key in keys:
            store.put(key, [key.encode(), PAYLOAD])
            acknowledged.append(key)
    except PowerCutError:
        pass
    files.crash(keep=lambda: source.random() < 0.5)
    store = DirectoryStore("/data", file_system=files)
    found = {info.key: store.get_all(info.key) for info in store.list()}
    assert set(acknowledged) <= found.keys()
    assert all(data == key.encode() + PAYLOAD for key, data in found.items())
    assert files.names("/data/.tmp") == []


def test_leftovers_of_the_dead_are_swept_and_work_of_the_living_is_not(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    (tmp_path / ".tmp" / "999-0").write_bytes(b"of a process that died")
    (tmp_path / ".tmp" / "someones").mkdir()
    reached, go_on = threading.Event(), threading.Event()

    class SlowFileSystem(FileSystem):
        def fsync(self, fd: int) -> None:
            reached.set()
            assert go_on.wait(60)

    slow = DirectoryStore(tmp_path, file_system=SlowFileSystem())
    writer = threading.Thread(target=slow.put, args=("k", [b"x"]))
    writer.start()
    assert reached.wait(60)
    DirectoryStore(tmp_path)
    go_on.set()
    writer.join()
    assert store.get_all("k") == b"x"
    assert os.listdir(tmp_path / ".tmp") == ["someones"]


def test_a_temporary_name_that_is_taken_is_passed_over(tmp_path: Path) -> None:
    """Two containers over one volume may both be process 1."""
    store = DirectoryStore(tmp_path)
    taken = tmp_path / ".tmp" / f"{os.getpid()}-0"
    taken.write_bytes(b"another's")
    store.put("k", [b"x"])
    assert store.get_all("k") == b"x"
    assert taken.read_bytes() == b"another's"


def test_a_temporary_file_that_was_swept_before_it_was_locked_is_made_anew(tmp_path: Path) -> None:
    class SweptOnce(FileSystem):
        swept = False

        def lock(self, fd: int) -> bool:
            if not self.swept:
                self.swept = True
                for name in os.listdir(tmp_path / ".tmp"):
                    os.unlink(tmp_path / ".tmp" / name)
            return super().lock(fd)

    store = DirectoryStore(tmp_path, file_system=SweptOnce())
    store.put("k", [b"x"])
    assert store.get_all("k") == b"x"
    assert os.listdir(tmp_path / ".tmp") == []


def test_a_leftover_that_another_store_sweeps_first_is_no_error(tmp_path: Path) -> None:
    class Racing(FileSystem):
        def names(self, path: str) -> list[tuple[str, bool]]:
            return [*super().names(path), ("gone", False)]

        def lock(self, fd: int) -> bool:
            for name in os.listdir(tmp_path / ".tmp"):
                os.unlink(tmp_path / ".tmp" / name)
            return super().lock(fd)

    DirectoryStore(tmp_path)
    (tmp_path / ".tmp" / "1-1").write_bytes(b"x")
    DirectoryStore(tmp_path, file_system=Racing())
    assert os.listdir(tmp_path / ".tmp") == []


def _open_below(folder: Path) -> list[str]:
    """Return the folder's files that are open in this process. Other threads open and close other files."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:  # that of this listing, or another thread's
            continue
    return sorted(each for each in found if each.startswith(str(folder)))


def test_nothing_stays_open_behind_a_read(tmp_path: Path) -> None:
    """Compares the store's open files before and after reads, some of which fail."""
    store = DirectoryStore(tmp_path)
    store.put("k", [b"0123456789"])
    before = _open_below(tmp_path)
    outcomes = store.get_into(
        [RangeRead("k", 0, 4, [(0, 4, 0)]), RangeRead("none", 0, 4, [(0, 4, 4)])], bytearray(8)
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), ObjectNotFoundError]
    assert _open_below(tmp_path) == before


def test_a_file_that_shrinks_under_a_reader_is_a_short_read(tmp_path: Path) -> None:
    class Shrinking(FileSystem):
        def read_ranges(
            self, paths: list[str], firsts: array[int], reads: Reads, buffer: WritableBuffer
        ) -> Sequence[int]:
            os.truncate(tmp_path / "k", 4)
            return super().read_ranges(paths, firsts, reads, buffer)

    store = DirectoryStore(tmp_path, file_system=Shrinking())
    store.put("k", [b"0123456789"])
    with pytest.raises(ShortReadError) as caught:
        store.get("k", 2, 5)
    assert caught.value.available == 2


@pytest.mark.parametrize(
    ("number", "error", "advice"),
    [
        (errno.EACCES, StoreMisconfiguredError, "give this user permission"),
        (errno.EIO, StoreUnavailableError, "failed"),
        (errno.ENOENT, ObjectNotFoundError, "k"),
    ],
)
def test_what_fails_a_read_is_said_and_the_others_are_there(
    tmp_path: Path, number: int, error: type[Exception], advice: str
) -> None:
    class Failing(FileSystem):
        def read_ranges(
            self, paths: list[str], firsts: array[int], reads: Reads, buffer: WritableBuffer
        ) -> Sequence[int]:
            counts = super().read_ranges(paths, firsts, reads, buffer)
            return [-number, *counts[1:]]

    store = DirectoryStore(tmp_path, file_system=Failing())
    store.put("k", [b"0123456789"])
    store.put("sound", [b"0123456789"])
    reads = [RangeRead("k", 0, 4, [(0, 4, 0)]), RangeRead("sound", 2, 4, [(2, 4, 4)])]
    buffer = bytearray(8)
    failed, sound = store.get_into(reads, buffer)
    assert isinstance(failed, error)
    assert advice in str(failed)
    assert sound is None
    assert buffer[4:] == b"2345"


def test_files_that_cannot_be_opened_are_errors_of_the_store(tmp_path: Path) -> None:
    """The system itself rejects a link to itself and, except for root, a file without rights."""
    store = DirectoryStore(tmp_path)
    store.put("kept", [b"0123456789"])
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(StoreUnavailableError, match="symbolic links"):
        store.get("loop", 0, 4)
    if os.geteuid():
        (tmp_path / "kept").chmod(0)
        with pytest.raises(StoreMisconfiguredError, match="give this user permission"):
            store.get("kept", 0, 4)


class FailingFileSystem(FileSystem):
    def __init__(self, number: int) -> None:
        self.number = number

    def write(self, fd: int, parts: Sequence[Part]) -> None:
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize(
    ("number", "error", "advice"),
    [
        (errno.ENOSPC, StoreMisconfiguredError, "free some space"),
        (errno.EROFS, StoreMisconfiguredError, "permission to write"),
        (errno.EIO, StoreUnavailableError, "failed"),
    ],
)
def test_errors_say_what_to_do(
    tmp_path: Path, number: int, error: type[Exception], advice: str
) -> None:
    store = DirectoryStore(tmp_path, file_system=FailingFileSystem(number))
    with pytest.raises(error, match=advice):
        store.put("k", [b"x"])
    with pytest.raises(error, match=advice):
        store.check()
    assert os.listdir(tmp_path / ".tmp") == []
    assert list(store.list()) == []


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_links_is_found_at_start_up(tmp_path: Path, number: int) -> None:
    class Linkless(FileSystem):
        def link(self, source: str, target: str) -> None:
            raise OSError(number, os.strerror(number))

    store = DirectoryStore(tmp_path, file_system=Linkless())
    for call in (store.check, lambda: store.put("k", [b"x"])):
        with pytest.raises(StoreMisconfiguredError, match="cannot link files"):
            call()
    assert os.listdir(tmp_path / ".tmp") == []


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_is_found_at_start_up(tmp_path: Path, number: int) -> None:
    class Lockless(FileSystem):
        def lock(self, fd: int) -> bool:
            raise OSError(number, os.strerror(number))

    store = DirectoryStore(tmp_path, file_system=Lockless())
    for call in (store.check, lambda: store.put("k", [b"x"])):
        with pytest.raises(StoreMisconfiguredError, match="cannot lock files"):
            call()


@pytest.mark.parametrize("root", ["file", "file/below"])
def test_a_root_that_is_a_file_is_refused(tmp_path: Path, root: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreMisconfiguredError, match="move the file elsewhere"):
        DirectoryStore(tmp_path / root)


def test_a_key_below_an_object_is_refused(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    store.put("a", [b"x"])
    with pytest.raises(
        StoreMisconfiguredError, match="contains a file where a directory is needed"
    ):
        store.put("a/b", [b"x"])


def test_a_key_that_is_a_directory_is_taken(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    store.put("a/b", [b"x"])
    with pytest.raises(ObjectExistsError):
        store.put("a", [b"x"])


def test_a_directory_that_vanishes_is_made_anew_by_the_next_attempt(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    store.put("a/b", [b"x"])
    store.delete(["a/b"])
    os.rmdir(tmp_path / "a")
    with pytest.raises(StoreUnavailableError):
        store.put("a/b", [b"x"])
    store.put("a/b", [b"x"])
    assert store.get_all("a/b") == b"x"


def test_known_directories_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forgotten directory is synced again, which only costs time."""
    monkeypatch.setattr("lacuna.logstore.objects.directories._KNOWN", 2)
    synced: list[str] = []

    class Noting(FileSystem):
        def fsync_directory(self, path: str) -> None:
            synced.append(os.path.basename(path))

    store = DirectoryStore(tmp_path, file_system=Noting())
    for number, key in enumerate(["a/1", "a/2", "b/1", "c/1", "a/3"]):
        synced.clear()
        store.put(key, [b"x"])
        assert len(synced) == (1 if number == 1 else 2)


def test_a_parent_that_may_not_be_opened_is_not_ours_to_sync(tmp_path: Path) -> None:
    class Refusing(FileSystem):
        def fsync_directory(self, path: str) -> None:
            if path == str(tmp_path.parent):
                raise PermissionError(errno.EACCES, "refused", path)
            super().fsync_directory(path)

    store = DirectoryStore(tmp_path, file_system=Refusing())
    store.put("k", [b"x"])
    assert store.get_all("k") == b"x"


def test_the_lost_and_found_of_a_volume_is_no_objects_place(tmp_path: Path) -> None:
    """mkfs creates it for root alone. An unreadable directory of the store itself is an error."""

    class OthersFolders(FileSystem):
        closed = "lost+found/"

        def names(self, path: str) -> list[tuple[str, bool]]:
            if path.endswith(self.closed):
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return super().names(path)

    files = OthersFolders()
    store = DirectoryStore(tmp_path, file_system=files)
    for key in ("a/k", "z/k"):
        store.put(key, [b"x"])
    (tmp_path / "lost+found").mkdir()
    assert [info.key for info in store.list()] == ["a/k", "z/k"]
    files.closed = "a/"
    with pytest.raises(StoreMisconfiguredError, match="give this user permission"):
        list(store.list())


def test_an_object_that_goes_while_it_is_listed_is_left_out(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    for key in ("a", "b", "c"):
        store.put(key, [b"x"])
    listing = store.list()
    keys = [next(listing).key]
    store.delete(["b"])
    keys += [info.key for info in listing]
    assert keys == ["a", "c"]


def test_a_write_that_takes_a_part_only_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = itertools.cycle([1, 5, 3])
    real = os.writev

    def stingy(fd: int, views: Sequence[memoryview]) -> int:
        left, some = next(sizes), []
        for view in views:
            some.append(view[:left])
            left -= len(some[-1])
        return real(fd, some)

    monkeypatch.setattr(os, "writev", stingy)
    store = DirectoryStore(tmp_path)
    store.put("k", [b"0123", b"45", b"6789abcdef"])
    assert store.get_all("k") == b"0123456789abcdef"


class Immutable(UnsyncedFileSystem):
    """Files with some names cannot be unlinked, as with `chattr +i`."""

    names_kept: tuple[str, ...] = ()

    def unlink(self, path: str) -> None:
        if path.endswith(self.names_kept):
            raise PermissionError(errno.EPERM, "Operation not permitted", path)
        super().unlink(path)


def test_what_cannot_be_deleted_costs_no_other() -> None:
    files = Immutable()
    store = DirectoryStore("/data", file_system=files)
    keys = ["c/a", "c/b", "c/d"]
    for key in keys:
        store.put(key, [bytes(1 << 20)])
    files.names_kept = ("/b",)
    with pytest.raises(NotDeletedError, match="'c/b': /data cannot be used") as left:
        store.delete(keys)
    assert left.value.failures.keys() == {"c/b"}
    assert [info.key for info in store.list("c/")] == ["c/b"]


@pytest.mark.parametrize("lose", ["delete", "empty", "replace"])
def test_nothing_is_put_into_a_folder_that_was_lost(tmp_path: Path, lose: str) -> None:
    """This also covers a new folder with the same name."""
    root = tmp_path / "objects"
    with closing(DirectoryStore(root)) as store:
        store.put("a/1", [b"1"])
        if lose == "replace":
            root.rename(tmp_path / "moved")
            DirectoryStore(root).close()
        for each in () if lose == "replace" else root.iterdir():
            shutil.rmtree(each)
        if lose == "delete":
            root.rmdir()
        with pytest.raises(StoreMisconfiguredError, match="was deleted, emptied or replaced"):
            store.put("a/2", [b"2"])


def test_a_closed_store_puts_no_more(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreUnavailableError, match="the store is closed"):
        store.put("k", [b"x"])


def test_a_folder_of_an_earlier_development_version_is_refused(tmp_path: Path) -> None:
    """Its small objects are where this version does not look."""
    (tmp_path / ".packs").mkdir()
    with pytest.raises(StoreMisconfiguredError, match="an earlier development version") as refused:
        DirectoryStore(tmp_path)
    assert "\n" not in str(refused.value)
    assert os.listdir(tmp_path) == [".packs"]


def test_an_object_of_another_process_is_durable_once_its_key_is_taken() -> None:
    """S2: a process that finds the key taken relies on the object, so it syncs its name, which the other has not."""

    class Slow(UnsyncedFileSystem):
        def fsync_directory(self, path: str) -> None:
            if path != "/data/c" or self.is_other_done:
                super().fsync_directory(path)

        is_other_done = False

    files = Slow()
    DirectoryStore("/data", file_system=files).put("c/k", [PAYLOAD])
    files.is_other_done = True
    with pytest.raises(ObjectExistsError):
        DirectoryStore("/data", file_system=files).put("c/k", [b"other"])
    files.crash()
    assert DirectoryStore("/data", file_system=files).get_all("c/k") == PAYLOAD


RIVAL = """
import sys
from lacuna.logstore.objects import DirectoryStore, ObjectExistsError
store = DirectoryStore(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(100):
    try:
        store.put(f"c/{number % 2}/{number}", [sys.argv[2].encode()])
        print(number, flush=True)
    except ObjectExistsError:
        pass
"""


@pytest.mark.slow
def test_of_processes_that_put_a_key_at_once_one_wins(tmp_path: Path) -> None:
    rivals = [
        subprocess.Popen(
            [sys.executable, "-c", RIVAL, str(tmp_path), f"rival-{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for rival in rivals:
        assert rival.stdout is not None
        assert rival.stdout.readline() == "ready\n"
    told = [rival.communicate("go\n")[0].split() for rival in rivals]
    assert [rival.returncode for rival in rivals] == [0, 0, 0]
    assert sorted(int(number) for won in told for number in won) == list(range(100))
    store = DirectoryStore(tmp_path)
    for which, won in enumerate(told):
        for number in won:
            key = f"c/{int(number) % 2}/{number}"
            assert store.get_all(key) == f"rival-{which}".encode()


def test_many_threads_lose_nothing(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)

    def write(number: int) -> None:
        for at in range(30):
            key = f"c/{number}/{at}"
            store.put(key, [PAYLOAD])
            with pytest.raises(ObjectExistsError):
                store.put(key, [b"other"])
            if at % 3 == 0:
                store.delete([key])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))
    assert [info.size for info in store.list()] == [len(PAYLOAD)] * 6 * 20
    assert os.listdir(tmp_path / ".tmp") == []


def put_in_child(store: DirectoryStore) -> None:
    store.put("c/child", [PAYLOAD])
    store.delete(["c/0"])
    assert [info.key for info in store.list()] == ["c/1", "c/child"]
    store.close()


def test_a_forked_child_uses_the_store_too(tmp_path: Path) -> None:
    """Spark's workers do this."""
    store = DirectoryStore(tmp_path)
    store.put("c/0", [PAYLOAD])
    store.put("c/1", [PAYLOAD])
    fork = multiprocessing.get_context("fork")
    child = fork.Process(target=put_in_child, args=(store,), daemon=True)
    child.start()
    child.join(60)
    assert child.exitcode == 0
    store.put("c/2", [PAYLOAD])
    assert [info.key for info in store.list()] == ["c/1", "c/2", "c/child"]
    store.close()
