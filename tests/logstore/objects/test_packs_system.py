"""Tests packs on a real file system: threads, killed or forking processes, and failing disks."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lacuna.logstore.objects import DirectoryStore, ObjectExistsError, StoreMisconfiguredError
from lacuna.logstore.objects.background import AtOnce
from lacuna.logstore.objects.filesystem import OsFileSystem
from lacuna.logstore.objects.pack_puts import PackLimits
from lacuna.logstore.objects.store import NotDeletedError, Part

LIMITS = PackLimits(largest_object=4000, pack_size=64 << 10, first_puts=0)
AT_ONCE = replace(LIMITS, background=AtOnce)
FILES = PackLimits(largest_object=-1)
PAYLOAD = b"payload " * 100


def packs(root: Path) -> list[Path]:
    return sorted((root / ".packs").glob("*.pack"))


def as_files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.glob("c/**/*") if path.is_file())


class Noting(OsFileSystem):
    """Counts syncs and may delay them. Reports each written record."""

    def __init__(self) -> None:
        self.fdatasyncs = 0
        self.records = threading.Semaphore(0)
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def fdatasync(self, fd: int) -> None:
        self.fdatasyncs += 1
        self.reached.set()
        assert self.go_on.wait(60)
        super().fdatasync(fd)

    def write_at(self, fd: int, parts: Sequence[Part], position: int) -> None:
        super().write_at(fd, parts, position)
        if position:
            self.records.release()


def test_puts_at_once_share_a_sync(tmp_path: Path) -> None:
    files = Noting()
    store = DirectoryStore(tmp_path, file_system=files, packs=AT_ONCE)
    while files.records.acquire(blocking=False):
        pass
    files.go_on.clear()
    first = threading.Thread(target=store.put, args=("c/first", [PAYLOAD]))
    first.start()
    assert files.reached.wait(60)
    others = [threading.Thread(target=store.put, args=(f"c/{n}", [PAYLOAD])) for n in range(8)]
    for thread in others:
        thread.start()
    for _ in range(9):
        assert files.records.acquire(timeout=60)
    files.go_on.set()
    for thread in (first, *others):
        thread.join()
    assert files.fdatasyncs <= 3
    assert len(list(store.list())) == 9
    store.close()


def test_many_threads_and_the_background_lose_nothing(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path, packs=LIMITS)

    def write(number: int) -> None:
        for at in range(60):
            store.put(f"c/{number}/{at}", [PAYLOAD])
            with pytest.raises(ObjectExistsError):
                store.put(f"c/{number}/{at}", [b"other"])
            if at % 3 == 0:
                store.delete([f"c/{number}/{at}"])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {info.size for info in store.list()} == {len(PAYLOAD)}
    assert len(list(store.list())) == 6 * 40
    store.close()
    assert os.listdir(tmp_path / ".tmp") == []
    again = DirectoryStore(tmp_path, packs=FILES)
    assert len(list(again.list())) == 6 * 40
    again.delete([info.key for info in again.list()])
    assert packs(tmp_path) == []


def test_an_object_is_there_once_it_is_synced(tmp_path: Path) -> None:
    """Until its sync, its own process does not find it, and its key is not free."""
    files = Noting()
    store = DirectoryStore(tmp_path, file_system=files, packs=AT_ONCE)
    files.go_on.clear()
    slow = threading.Thread(target=store.put, args=("c/slow", [PAYLOAD]))
    slow.start()
    assert files.reached.wait(60)
    assert list(store.list()) == []
    refused: list[BaseException] = []

    def put_again() -> None:
        try:
            store.put("c/slow", [b"other"])
        except ObjectExistsError as error:
            refused.append(error)

    second = threading.Thread(target=put_again)
    second.start()
    files.go_on.set()
    slow.join()
    second.join()
    assert len(refused) == 1
    assert store.get_all("c/slow") == PAYLOAD
    store.close()


RIVAL = """
import sys
from lacuna.logstore.objects import DirectoryStore, ObjectExistsError, StoreMisconfiguredError
from lacuna.logstore.objects.pack_puts import PackLimits
store = DirectoryStore(sys.argv[1], packs=PackLimits(first_puts=0))
me = sys.argv[2]
store.put(f"{me}/mine", [b"x"])
print("ready", flush=True)
sys.stdin.readline()
for number in range(300):
    try:
        store.put(f"c/{number % 2}/{number}", [me.encode()])
        print(number, flush=True)
    except ObjectExistsError:
        pass
store.close()
"""


def test_of_processes_that_put_a_key_at_once_one_wins(tmp_path: Path) -> None:
    """One of them puts into its pack, and the others create files."""
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
    assert sorted(int(number) for won in told for number in won) == list(range(300))
    store = DirectoryStore(tmp_path)
    for which, won in enumerate(told):
        for number in won:
            key = f"c/{int(number) % 2}/{number}"
            assert store.get_all(key) == f"rival-{which}".encode()


def put_in_child(store: DirectoryStore) -> None:
    store.put("c/child", [PAYLOAD])
    store.delete(["c/0"])
    assert [info.key for info in store.list()] == ["c/1", "c/child"]
    store.close()


def test_after_a_fork_the_pack_is_the_parents(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path, packs=AT_ONCE)
    store.put("c/0", [PAYLOAD])
    store.put("c/1", [PAYLOAD])
    (pack,) = packs(tmp_path)
    before = pack.read_bytes()
    fork = multiprocessing.get_context("fork")
    child = fork.Process(target=put_in_child, args=(store,), daemon=True)
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert pack.read_bytes() == before
    assert as_files(tmp_path) == ["c/child"], "the parent has locked the directory"
    store.put("c/2", [PAYLOAD])
    assert [info.key for info in store.list()] == ["c/1", "c/2", "c/child"]
    store.close()
    again = DirectoryStore(tmp_path)
    assert [info.key for info in again.list()] == ["c/1", "c/2", "c/child"]


WRITER = """
import sys
from lacuna.logstore.objects import DirectoryStore
from lacuna.logstore.objects.pack_puts import PackLimits
limits = PackLimits(largest_object=4000, pack_size=64 << 10, first_puts=0)
store = DirectoryStore(sys.argv[1], packs=limits)
for number in range(5):
    store.put(f"c/{number % 3}/{number}", [b"%d " % number * 200])
"""


def test_who_opens_waits_for_who_seals(tmp_path: Path) -> None:
    """A dead process' objects are synced before any process sees them."""
    writer = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path)], check=True)
    assert writer.returncode == 0
    reached, go_on, opened = threading.Event(), threading.Event(), threading.Event()

    class Slow(OsFileSystem):
        def fsync(self, fd: int) -> None:
            reached.set()
            assert go_on.wait(60)
            super().fsync(fd)

    first = threading.Thread(
        target=DirectoryStore, args=(tmp_path,), kwargs={"file_system": Slow(), "packs": FILES}
    )
    first.start()
    assert reached.wait(60)

    def open_second() -> None:
        DirectoryStore(tmp_path, packs=FILES).get_all("c/0/0")
        opened.set()

    second = threading.Thread(target=open_second)
    second.start()
    assert not opened.wait(0.1)
    go_on.set()
    first.join()
    second.join()
    assert opened.is_set()


class Failing(OsFileSystem):
    """Calls of one name fail once `number` is set. With `records_only`, calls at position 0 succeed."""

    def __init__(self, name: str, *, records_only: bool = False) -> None:
        self.number = 0
        real = getattr(self, name)

        def failing(*args: object) -> object:
            if self.number and (args[-1] or not records_only):
                raise OSError(self.number, os.strerror(self.number))
            return real(*args)

        setattr(self, name, failing)


@pytest.mark.parametrize("name", ["fdatasync", "write_at"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failing_pack_is_done_without(
    tmp_path: Path, name: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The failure is logged once, and earlier acknowledged objects remain, for other processes too."""
    files = Failing(name, records_only=name == "write_at")
    store = DirectoryStore(tmp_path, file_system=files, packs=AT_ONCE)
    for key in ("c/1", "c/2", "c/3"):
        store.put(key, [PAYLOAD])
        files.number = number
    assert [info.size for info in store.list()] == [len(PAYLOAD)] * 3
    assert as_files(tmp_path) == ["c/2", "c/3"]
    other = DirectoryStore(tmp_path, packs=FILES)
    assert [other.get_all(f"c/{key}") for key in (1, 2, 3)] == [PAYLOAD] * 3
    assert len([each for each in caplog.records if "failed" in each.message]) == 1
    files.number = 0
    store.close()
    assert os.listdir(tmp_path / ".tmp") == []
    other.delete(["c/1", "c/2", "c/3"])
    assert list(DirectoryStore(tmp_path).list()) == []


def test_nothing_of_a_sync_that_failed_is_read_from_the_pack(tmp_path: Path) -> None:
    """Such data may exist only in the page cache, and vanish with it."""
    files = Noting()
    store = DirectoryStore(tmp_path, file_system=files, packs=AT_ONCE)
    other = DirectoryStore(tmp_path, packs=FILES)
    real = files.fdatasync

    def fail(fd: int) -> None:
        real(fd)
        raise OSError(errno.EIO, "failed")

    files.fdatasync = fail  # type: ignore[method-assign]
    files.go_on.clear()
    threads = [threading.Thread(target=store.put, args=(f"c/{n}", [PAYLOAD])) for n in range(4)]
    for thread in threads:
        thread.start()
    assert files.reached.wait(60)
    assert len(list(other.list())) >= 1, "others see it before it is durable, as they see files"
    files.go_on.set()
    for thread in threads:
        thread.join()
    assert as_files(tmp_path) == ["c/0", "c/1", "c/2", "c/3"]
    assert len(list(other.list())) == 4
    assert other._folder.index.names("c/") == set()
    store.close()


def test_after_many_puts_another_pack_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lacuna.logstore.objects.pack_puts._PUTS_TO_NEXT_PACK", 3)
    files = Failing("fdatasync")
    store = DirectoryStore(tmp_path, file_system=files, packs=AT_ONCE)
    files.number = errno.EIO
    for number in range(4):
        store.put(f"c/{number}", [PAYLOAD])
    files.number = 0
    store.put("c/4", [PAYLOAD])
    assert as_files(tmp_path) == ["c/0", "c/1", "c/2", "c/3"]
    store.close()


def test_where_no_pack_can_be_made_objects_are_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(OsFileSystem):
        def write_at(self, fd: int, parts: Sequence[Part], position: int) -> None:
            raise OSError(errno.ENOSPC, "no space left")

    store = DirectoryStore(tmp_path, file_system=Full(), packs=AT_ONCE)
    assert "no pack could be created" in caplog.text
    store.put("c/1", [PAYLOAD])
    store.put("c/2", [PAYLOAD])
    assert store.get_all("c/1") == PAYLOAD
    assert packs(tmp_path) == []
    assert len(caplog.records) == 1
    store.close()
    assert os.listdir(tmp_path / ".tmp") == []


def test_a_pack_that_cannot_be_named_is_done_without(tmp_path: Path) -> None:
    class NoNames(OsFileSystem):
        def fsync_directory(self, path: str) -> None:
            if path.endswith(".packs"):
                raise OSError(errno.EIO, "failed")
            super().fsync_directory(path)

    store = DirectoryStore(tmp_path, file_system=NoNames(), packs=AT_ONCE)
    store.put("c/1", [PAYLOAD])
    assert as_files(tmp_path) == ["c/1"]
    store.close()


def test_a_full_disk_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    class Full(OsFileSystem):
        is_full = False

        def write(self, fd: int, parts: Sequence[Part]) -> None:
            self._check()
            super().write(fd, parts)

        def write_at(self, fd: int, parts: Sequence[Part], position: int) -> None:
            self._check()
            super().write_at(fd, parts, position)

        def _check(self) -> None:
            if self.is_full:
                raise OSError(errno.ENOSPC, "no space left")

    files = Full()
    store = DirectoryStore(tmp_path, file_system=files, packs=AT_ONCE)
    files.is_full = True
    with pytest.raises(StoreMisconfiguredError, match="free some"):
        store.put("c/1", [PAYLOAD])
    files.is_full = False
    assert list(store.list()) == []
    store.put("c/1", [PAYLOAD])
    store.close()
    assert os.listdir(tmp_path / ".tmp") == []


def test_whole_packs_can_be_deleted_on_a_full_disk(tmp_path: Path) -> None:
    """Noting a deletion in another pack needs room, so it is an error."""
    files = Failing("write_at")
    store = DirectoryStore(tmp_path, file_system=files, packs=AT_ONCE)
    for number in range(100):
        store.put(f"c/{number:02}", [PAYLOAD])
    large = [f"l/{number}" for number in range(2)]
    for key in large:
        store.put(key, [bytes(5000)])
    before = len(packs(tmp_path))
    files.number = errno.ENOSPC
    with pytest.raises(NotDeletedError, match="free some"):
        store.delete([*(f"c/{number:02}" for number in range(99)), *large])
    assert len(packs(tmp_path)) < before
    assert not any(os.path.exists(tmp_path / key) for key in large)
    files.number = 0
    store.delete([f"c/{number:02}" for number in range(99)])
    assert [info.key for info in store.list()] == ["c/99"]
    store.close()


def test_a_pack_that_cannot_be_sealed_is_read_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Failing("truncate")
    files.number = errno.EIO
    store = DirectoryStore(tmp_path, file_system=files, packs=AT_ONCE)
    store.put("c/1", [PAYLOAD])
    store.close()
    assert "is not sealed" in caplog.text
    assert store.get_all("c/1") == PAYLOAD
    again = DirectoryStore(tmp_path, file_system=files, packs=FILES)
    assert again.get_all("c/1") == PAYLOAD
    assert [info.key for info in again.list()] == ["c/1"]
    again.delete(["c/1"])
    assert packs(tmp_path) == []


def test_a_file_system_that_fails_while_objects_are_moved_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = [1_000]
    files = Failing("link")
    limits = replace(AT_ONCE, move_after_s=60.0)
    store = DirectoryStore(tmp_path, file_system=files, packs=limits, now_ms=lambda: clock[0])
    for number in range(100):
        store.put(f"c/{number:02}", [PAYLOAD])
    clock[0] += 61_000
    files.number = errno.EIO
    store.delete([f"c/{number:02}" for number in range(1, 60)])
    assert "cannot be moved" in caplog.text
    assert store.get_all("c/00") == PAYLOAD
    files.number = 0
    clock[0] += 61_000
    store.delete([])
    assert "c/00" in as_files(tmp_path)
    assert store.get_all("c/00") == PAYLOAD
    assert len(list(store.list())) == 41
    store.close()


def test_few_files_are_open(tmp_path: Path) -> None:
    """Two packs and the locks are open, but no file per object, pack, directory or reader."""
    store = DirectoryStore(tmp_path, packs=AT_ONCE)
    for number in range(500):
        store.put(f"c/{number}", [PAYLOAD])
        store.get_all(f"c/{number}")
    names = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:
            continue
    mine = sorted(name for name in names if name.startswith(str(tmp_path)))
    assert len(packs(tmp_path)) > 5
    assert len(mine) <= 3
    store.close()
