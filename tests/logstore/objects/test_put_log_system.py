"""The put log on a real file system: threads, processes that are killed or fork, disks that fail."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from lacuna.logstore.objects import DirectoryStore, ObjectExistsError, StoreMisconfiguredError
from lacuna.logstore.objects.background import AtOnce
from lacuna.logstore.objects.filesystem import OsFileSystem
from lacuna.logstore.objects.put_log import PutLogLimits
from lacuna.logstore.objects.store import Part

LIMITS = PutLogLimits(largest_object=4000, half_size=64 << 10, first_puts=0, age_s=0.05)
STILL = PutLogLimits(
    largest_object=4000, half_size=64 << 10, first_puts=0, age_s=1e9, background=AtOnce
)
PAYLOAD = b"payload " * 100


def logs(root: Path) -> list[str]:
    return sorted(name for name in os.listdir(root / ".log") if name != "lock")


class Noting(OsFileSystem):
    """Counts syncs and may hold them up; says of each record that it was written."""

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
    store = DirectoryStore(tmp_path, file_system=files, put_log=STILL)
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
    store = DirectoryStore(tmp_path, put_log=LIMITS)

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
    assert logs(tmp_path) == []
    assert os.listdir(tmp_path / ".tmp") == []


def test_a_record_stays_until_its_object_has_its_name(tmp_path: Path) -> None:
    """Its file can be synced then, and not before."""
    reached, go_on, synced = threading.Event(), threading.Event(), threading.Event()

    class SlowLink(OsFileSystem):
        def link(self, source: str, target: str) -> None:
            if target.endswith("/slow"):
                reached.set()
                assert go_on.wait(60)
            super().link(source, target)

        def fsync(self, fd: int) -> None:
            super().fsync(fd)
            if threading.current_thread().name == "put-log":
                synced.set()

    store = DirectoryStore(tmp_path, file_system=SlowLink(), put_log=replace(LIMITS, age_s=1e9))
    slow = threading.Thread(target=store.put, args=("c/slow", [PAYLOAD]))
    slow.start()
    assert reached.wait(60)
    for number in range(100):
        store.put(f"c/{number}", [PAYLOAD])
    assert not synced.wait(0.1)
    go_on.set()
    slow.join()
    assert synced.wait(60)
    store.close()


def test_records_that_grow_old_leave_the_log(tmp_path: Path) -> None:
    synced = threading.Event()

    class Waiting(OsFileSystem):
        def fsync_directory(self, path: str) -> None:
            super().fsync_directory(path)
            if path == str(tmp_path / "c") and threading.current_thread().name == "put-log":
                synced.set()

    store = DirectoryStore(tmp_path, file_system=Waiting(), put_log=LIMITS)
    store.put("c/k", [PAYLOAD])
    assert synced.wait(60)
    store.close()


WRITER = """
import sys
from lacuna.logstore.objects import DirectoryStore
from lacuna.logstore.objects.put_log import PutLogLimits
limits = PutLogLimits(largest_object=4000, half_size=64 << 10, first_puts=0, age_s=0.05)
store = DirectoryStore(sys.argv[1], put_log=limits)
for number in range(1_000_000):
    store.put(f"c/{number % 3}/{number}", [b"%d " % number * 200])
    print(number, flush=True)
"""


@pytest.mark.parametrize("puts", [1, 50, 150, 400])
def test_a_killed_writer_loses_nothing(tmp_path: Path, puts: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= puts:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    store = DirectoryStore(tmp_path)
    for number in range(puts + 1):
        assert store.get_all(f"c/{number % 3}/{number}") == b"%d " % number * 200
    for info in store.list():
        number = int(info.key.rsplit("/", 1)[1])
        assert store.get_all(info.key) == b"%d " % number * 200
    assert logs(tmp_path) == []
    assert os.listdir(tmp_path / ".tmp") == []


def put_in_child(store: DirectoryStore, root: Path) -> None:
    store.put("c/child", [PAYLOAD])
    store.delete(["c/0"])
    store.close()
    assert logs(root)


def test_after_a_fork_the_log_is_the_parents(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path, put_log=STILL)
    store.put("c/0", [PAYLOAD])
    store.put("c/1", [PAYLOAD])
    before = (tmp_path / ".log" / logs(tmp_path)[0]).read_bytes()
    child = multiprocessing.get_context("fork").Process(target=put_in_child, args=(store, tmp_path))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert (tmp_path / ".log" / logs(tmp_path)[0]).read_bytes() == before
    store.put("c/2", [PAYLOAD])
    store.close()
    assert [info.key for info in store.list()] == ["c/1", "c/2", "c/child"]


def test_who_opens_waits_for_a_recovery(tmp_path: Path) -> None:
    (tmp_path / ".log").mkdir()
    log = tmp_path / ".log" / "1-1.log"
    log.write_bytes(b"")
    reached, go_on, opened = threading.Event(), threading.Event(), threading.Event()

    class Slow(OsFileSystem):
        def open_for_update(self, path: str) -> int:
            reached.set()
            assert go_on.wait(60)
            return super().open_for_update(path)

    def open_second() -> None:
        DirectoryStore(tmp_path)
        opened.set()

    first = threading.Thread(
        target=DirectoryStore, args=(tmp_path,), kwargs={"file_system": Slow()}
    )
    first.start()
    assert reached.wait(60)
    second = threading.Thread(target=open_second)
    second.start()
    assert not opened.wait(0.1)
    go_on.set()
    first.join()
    second.join()
    assert logs(tmp_path) == []


class Failing(OsFileSystem):
    """Calls of one name fail once `number` is set; with `log_only` those that write no records do not."""

    def __init__(self, name: str, *, log_only: bool = False) -> None:
        self.number = 0
        real = getattr(self, name)

        def failing(*args: object) -> object:
            if self.number and (args[-1] or not log_only):
                raise OSError(self.number, os.strerror(self.number))
            return real(*args)

        setattr(self, name, failing)


@pytest.mark.parametrize("name", ["fdatasync", "write_at"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failing_log_is_done_without(tmp_path: Path, name: str, number: int) -> None:
    files = Failing(name, log_only=name == "write_at")
    store = DirectoryStore(tmp_path, file_system=files, put_log=STILL)
    for key in ("c/1", "c/2", "c/3"):
        store.put(key, [PAYLOAD])
        files.number = number
    assert [info.size for info in store.list()] == [len(PAYLOAD)] * 3
    store.close()
    assert logs(tmp_path) == []
    assert os.listdir(tmp_path / ".tmp") == []


def test_files_that_cannot_be_synced_keep_their_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The next store writes them anew, for what it reads may be the page cache's alone."""
    files = Failing("fsync")
    store = DirectoryStore(tmp_path, file_system=files, put_log=STILL)
    store.put("c/1", [PAYLOAD])
    inode = os.stat(tmp_path / "c" / "1").st_ino
    files.number = errno.EIO
    store.close()
    assert "is kept, because its objects could not be synced" in caplog.text
    assert len(logs(tmp_path)) == 1
    again = DirectoryStore(tmp_path)
    assert again.get_all("c/1") == PAYLOAD
    assert os.stat(tmp_path / "c" / "1").st_ino != inode
    assert logs(tmp_path) == []


def test_where_no_log_can_be_made_puts_are_synced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(OsFileSystem):
        def write_at(self, fd: int, parts: Sequence[Part], position: int) -> None:
            raise OSError(errno.ENOSPC, "no space left")

    store = DirectoryStore(tmp_path, file_system=Full(), put_log=STILL)
    assert "no put log" in caplog.text
    store.put("c/1", [PAYLOAD])
    assert store.get_all("c/1") == PAYLOAD
    assert logs(tmp_path) == []
    store.close()


def test_a_full_disk_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    files = Failing("write_at")
    store = DirectoryStore(tmp_path, file_system=files, put_log=STILL)
    files.number = errno.ENOSPC
    with pytest.raises(StoreMisconfiguredError, match="free some"):
        store.put("c/1", [PAYLOAD])
    files.number = 0
    assert list(store.list()) == []
    store.put("c/1", [PAYLOAD])
    store.close()
    assert os.listdir(tmp_path / ".tmp") == []


def test_a_changed_byte_of_a_dead_writers_log_loses_no_object(tmp_path: Path) -> None:
    """What was put is in the page cache too: the log is for a power cut."""
    limits = PutLogLimits(largest_object=1 << 10, half_size=4 << 10, first_puts=0, age_s=1000.0)
    store = DirectoryStore(tmp_path / "live", put_log=limits)
    objects = {f"segments/{number}": bytes([number]) * 300 * number for number in range(1, 4)}
    for key, data in objects.items():
        store.put(key, [data])
    (log,) = (tmp_path / "live" / ".log").glob("*.log")
    # Its next log is prepared in the background, under a temporary name.
    temporary = shutil.ignore_patterns(".tmp")
    dead = Path(shutil.copytree(tmp_path / "live", tmp_path / "dead", ignore=temporary))
    store.close()
    content = (dead / ".log" / log.name).read_bytes()
    for at in range(0, len(content), 29):
        damaged = content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]
        (dead / ".log" / log.name).write_bytes(damaged)
        with closing(DirectoryStore(dead)) as opened:
            assert {key: bytes(opened.get_all(key)) for key in objects} == objects
        (dead / ".log" / f"{log.name}.damaged").unlink(missing_ok=True)
