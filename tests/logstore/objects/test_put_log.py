"""The put log under power cuts: what was acknowledged is there, and what is there is whole (S2)."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest

from lacuna.logstore.objects import DirectoryStore, ObjectExistsError
from lacuna.logstore.objects.background import AtOnce, Job
from lacuna.logstore.objects.put_log import PutLogLimits
from tests.logstore.objects.unsynced import PowerCutError, UnsyncedFileSystem

LIMITS = PutLogLimits(
    largest_object=3000, half_size=16 << 10, first_puts=0, age_s=1e9, background=AtOnce
)
SYNCED = PutLogLimits(largest_object=-1)
LOG = f"/data/.log/{os.getpid()}-0.log"


def opened(files: UnsyncedFileSystem, limits: PutLogLimits = LIMITS) -> DirectoryStore:
    return DirectoryStore("/data", file_system=files, put_log=limits)


def found(store: DirectoryStore) -> dict[str, bytes]:
    return {info.key: bytes(store.get_all(info.key)) for info in store.list()}


def payload(key: str, size: int) -> bytes:
    return (key.encode() + b"|") * (size // (len(key) + 1) + 1)


@dataclass
class Script:
    """Puts and deletions at random; what callers know of each key at every moment."""

    source: random.Random
    after_each: Callable[[], None] = lambda: None
    there: dict[str, bytes] = field(default_factory=dict)
    """Acknowledged and not deleted since."""
    known: dict[str, bytes] = field(default_factory=dict)
    """Ever begun: what may be there, and as what."""

    def run(self, store: DirectoryStore, steps: int) -> None:
        for number in range(steps):
            if self.there and self.source.random() < 0.2:
                self._delete(store)
            else:
                self._put(store, f"c/{number % 2}/{len(self.known)}")
            self.after_each()

    def _put(self, store: DirectoryStore, key: str) -> None:
        data = payload(key, self.source.choice((0, 1, 700, 2500, 5000)))
        self.known[key] = data
        store.put(key, [data[:3], data[3:]])
        self.there[key] = data

    def _delete(self, store: DirectoryStore) -> None:
        key = self.source.choice(sorted(self.there))
        del self.there[key]
        store.delete([key])

    def violations(self, store: DirectoryStore) -> list[str]:
        now = found(store)
        return [f"{key} is lost" for key in self.there if key not in now] + [
            f"{key} is torn" for key, data in now.items() if data != self.known[key]
        ]


def chance(source: random.Random, share: float) -> Callable[[], bool]:
    return lambda: source.random() < share


@pytest.mark.parametrize("seed", range(60))
def test_a_crash_at_any_moment_loses_nothing_and_leaves_nothing_torn(seed: int) -> None:
    """S2: also in the background's work, in a recovery, and where the store is closed."""
    source = random.Random(seed)
    files, script = UnsyncedFileSystem(), Script(source)
    for _ in range(5):
        files.cut_power_after(source.randrange(300))
        try:
            store = opened(files)
            script.run(store, source.randrange(40))
            store.close()
        except PowerCutError:
            pass
        files.crash(keep=chance(source, source.choice((0, 0.5, 0.9))))
        assert script.violations(opened(files.after_crash())) == []


@pytest.mark.parametrize("seed", range(10))
def test_a_killed_process_loses_nothing(seed: int) -> None:
    """What a kill leaves is what the page cache holds; then the power goes."""
    source = random.Random(seed)
    files, script = UnsyncedFileSystem(), Script(source)
    files.cut_power_after(source.randrange(50, 400))
    with suppress(PowerCutError):
        script.run(opened(files), 40)
    files.crash(keep=lambda: True)
    survivor = opened(files, SYNCED)
    assert script.violations(survivor) == []
    assert [name for name, _ in files.names("/data/.log")] == ["lock"]
    files.crash()
    assert script.violations(opened(files)) == []


def losses(lie: Callable[[str], bool], seed: int) -> list[str]:
    """What is wrong after power cuts after each step, if some syncs do nothing."""

    class Lying(UnsyncedFileSystem):
        def _sync(self, kind: str, path: str) -> bool:
            return super()._sync(kind, path) and not lie(f"{kind} {path}")

    source = random.Random(seed)
    files, lost = Lying(), []

    def cut() -> None:
        for share in (0.0, 0.5):
            remains = files.after_crash(chance(source, share))
            lost.extend(script.violations(opened(remains)))

    script = Script(source, cut)
    script.run(opened(files), 60)
    return lost


LIES: dict[str, Callable[[str], bool]] = {
    "the append": lambda sync: sync == f"fdatasync {LOG}",
    "the log's zeros": lambda sync: sync == f"fsync {LOG}",
    "the log's name": lambda sync: sync == "fsync_directory /data/.log",
    "the folder's name": lambda sync: sync == "fsync_directory /data",
    "the objects": lambda sync: sync.startswith("fsync /data/c/"),
    "their directories": lambda sync: sync.startswith("fsync_directory /data/c/"),
}


def test_nothing_is_lost() -> None:
    assert losses(lambda sync: False, seed=1) == []


@pytest.mark.parametrize("name", LIES)
def test_each_sync_is_needed(name: str) -> None:
    """S2: with any kind of sync taken out something is lost, so none can go unnoticed."""
    assert losses(LIES[name], seed=1)


def put_all(store: DirectoryStore, keys: str) -> None:
    for key in keys:
        store.put(f"c/{key}", [payload(key, 2000)])


def recover_and_crash(skipped: Callable[[str], bool]) -> bool:
    """Put, lose power, recover, lose power; are the objects there without the log?"""
    files = UnsyncedFileSystem()
    put_all(opened(files), "abc")
    files.crash()
    syncs = files.after_crash()
    opened(syncs, SYNCED)
    files.syncs.clear()
    files.skip_sync(*(n for n, sync in enumerate(syncs.syncs) if skipped(sync)))
    opened(files, SYNCED)
    assert files.syncs == syncs.syncs
    files.crash()
    files.skip_sync()
    return found(opened(files)) == {f"c/{key}": payload(key, 2000) for key in "abc"}


def test_what_was_recovered_is_durable() -> None:
    assert recover_and_crash(lambda sync: False)


@pytest.mark.parametrize("kind", ["fsync /data/.tmp", "fsync_directory /data/c"])
def test_each_sync_of_a_recovery_is_needed(kind: str) -> None:
    """S2: the log is gone afterwards."""
    assert not recover_and_crash(lambda sync: sync.startswith(kind))


def test_what_a_killed_process_left_in_the_page_cache_is_synced() -> None:
    files = UnsyncedFileSystem()
    put_all(opened(files), "abc")
    files.crash(keep=lambda: True)
    opened(files)
    assert [sync for sync in files.syncs if sync.startswith("fsync /data/c/")] == [
        f"fsync /data/c/{key}" for key in "abc"
    ]


def test_a_small_object_costs_one_sync() -> None:
    files = UnsyncedFileSystem()
    store = opened(files)
    put_all(store, "a")
    files.syncs.clear()
    put_all(store, "bcd")
    assert files.syncs == [f"fdatasync {LOG}"] * 3
    store.put("c/large", [bytes(3001)])
    assert len(files.syncs) == 5


def test_a_closed_store_leaves_no_log() -> None:
    files = UnsyncedFileSystem()
    store = opened(files)
    put_all(store, "abc")
    store.close()
    assert [name for name, _ in files.names("/data/.log")] == ["lock"]
    assert files.names("/data/.tmp") == []
    files.crash()
    assert len(found(opened(files))) == 3


def test_what_was_deleted_does_not_come_back() -> None:
    """Its half was free again, its store was closed, or it was still in the log."""
    files = UnsyncedFileSystem()
    store = opened(files)
    put_all(store, "abcdefghijklmnopqrstuvwxyz")
    store.delete(["c/a", "c/z"])
    put_all(store, "0")
    files.fsync_directory("/data/c")
    remains = files.after_crash()
    assert {"c/a", "c/z"}.isdisjoint(found(opened(remains)))
    store.close()
    store.delete(["c/0"])
    files.fsync_directory("/data/c")
    files.crash()
    assert {"c/a", "c/0", "c/z"}.isdisjoint(found(opened(files)))


def test_a_half_that_is_free_again_says_so_at_once() -> None:
    """Else objects that were deleted since could come back out of it."""
    files = UnsyncedFileSystem()
    store = opened(files)
    put_all(store, "abcdefg")
    assert files.syncs[-1] == f"fdatasync {LOG}"
    assert files.syncs[-2] == "fsync_directory /data/c"
    keys = sorted(found(store))
    store.delete(keys[:1])
    files.fsync_directory("/data/c")
    assert sorted(found(opened(files.after_crash()))) == keys[1:]


def test_a_key_that_was_deleted_can_be_put_anew() -> None:
    """Whatever is in the log of the former object."""
    files = UnsyncedFileSystem()
    store = opened(files)
    for data in (b"first", b"second", b"third" * 1000, b"fourth"):
        store.put("c/k", [data])
        assert found(opened(files.after_crash())) == {"c/k": data}
        with pytest.raises(ObjectExistsError):
            store.put("c/k", [b"other"])
        assert found(opened(files.after_crash())) == {"c/k": data}
        store.delete(["c/k"])


def test_a_key_that_another_store_put_anew_is_left_alone() -> None:
    files = UnsyncedFileSystem()
    mine, other = opened(files), opened(files, SYNCED)
    mine.put("c/k", [b"mine"])
    other.delete(["c/k"])
    other.put("c/k", [b"the other's"])
    assert found(opened(files.after_crash())) == {"c/k": b"the other's"}


def test_a_key_that_was_put_anew_with_the_same_inode_is_left_alone() -> None:
    """Some file systems give the number of a deleted file to the next one."""
    files = UnsyncedFileSystem()
    mine, other = opened(files), opened(files, SYNCED)
    mine.put("c/k", [b"first"])
    inode = files.info("/data/c/k").inode
    other.delete(["c/k"])
    mine.put("c/k", [b"second"])
    renumber(files, "/data/c/k", inode)
    assert found(opened(files.after_crash())) == {"c/k": b"second"}


def renumber(files: UnsyncedFileSystem, path: str, inode: int) -> None:
    files._file(files.open(path)).inode = inode


@pytest.mark.parametrize(
    ("inode", "left", "is_mended"),
    [
        (0, payload("k", 2000)[:1024] + bytes(512), True),
        (0, b"", True),
        (0, payload("k", 1024) + b"anything", False),
        (0, payload("k", 2000) + bytes(4000), False),
        (None, payload("k", 1024) + b"anything", True),
    ],
)
def test_what_is_torn_is_known_by_inode_or_bytes(
    inode: int | None, left: bytes, is_mended: bool
) -> None:
    """There are file systems that number their files anew, and some that leave others' bytes."""
    files = UnsyncedFileSystem()
    put_all(opened(files), "k")
    files.crash(keep=lambda: True)
    fd = files.open("/data/c/k")
    files.truncate(fd, 0)
    files.write(fd, [left])
    files.fsync(fd)
    if inode is not None:
        renumber(files, "/data/c/k", inode)
    files.crash()
    assert found(opened(files)) == {"c/k": payload("k", 2000) if is_mended else left}


def test_a_key_is_free_for_the_log_when_all_its_records_are_gone() -> None:
    """Else one that says that it was deleted would be found behind one that came later."""
    jobs: list[Job] = []

    class Never:
        def __init__(self, job: Job) -> None:
            jobs.append(job)

        def wake(self) -> None:
            """Not before the test says so."""

        def rest(self, seconds: float) -> None:
            """Nor then."""

        stop = wake

    files = UnsyncedFileSystem()
    store = opened(files, replace(LIMITS, background=Never))
    put_all(store, "kabcdef")
    store.delete(["c/k"])
    jobs[0]()
    store.put("c/k", [b"second"])
    assert found(opened(files.after_crash()))["c/k"] == b"second"


def test_who_finds_a_key_taken_leaves_no_record_of_it() -> None:
    """The other store put it between the look and the link."""
    files = UnsyncedFileSystem()
    other = opened(files, SYNCED)
    mine = opened(files)
    real = files.link

    def link(source: str, target: str) -> None:
        files.link = real  # type: ignore[method-assign]
        other.put("c/k", [b"the other's"])
        files.link(source, target)

    files.link = link  # type: ignore[method-assign]
    with pytest.raises(ObjectExistsError):
        mine.put("c/k", [b"mine"])
    for share in (0.0, 0.5, 1.0):
        remains = files.after_crash(chance(random.Random(3), share))
        assert found(opened(remains)) == {"c/k": b"the other's"}
    mine.delete(["c/k"])
    files.fsync_directory("/data/c")
    assert found(opened(files.after_crash())) == {}


def test_of_two_stores_one_logs_in_a_directory() -> None:
    """Of two records of one key nobody could tell which won."""
    files = UnsyncedFileSystem()
    one, two = opened(files), opened(files)
    one.put("c/1", [b"1"])
    two.put("c/2", [b"2"])
    assert files.syncs[-1] == "fsync_directory /data/c"
    two.put("d/2", [b"2"])
    assert files.syncs[-1].startswith("fdatasync")
    files.crash()
    assert sorted(found(opened(files))) == ["c/1", "c/2", "d/2"]


def test_the_log_of_a_live_store_is_left_alone() -> None:
    files = UnsyncedFileSystem()
    one = opened(files)
    put_all(one, "a")
    opened(files, SYNCED).delete(["c/none"])
    assert LOG.rsplit("/", 1)[1] in [name for name, _ in files.names("/data/.log")]
    put_all(one, "b")
    files.crash()
    assert sorted(found(opened(files))) == ["c/a", "c/b"]


def test_who_deletes_first_recovers_what_the_dead_left() -> None:
    """Else a later recovery would bring back what was deleted long before."""
    files = UnsyncedFileSystem()
    killed = opened(files)
    put_all(killed, "abc")
    late = opened(files, SYNCED)
    for fd in list(files._fds):
        files.close(fd)
    late.delete(["c/b"])
    assert [name for name, _ in files.names("/data/.log")] == ["lock"]
    files.fsync_directory("/data/c")
    files.crash()
    assert sorted(found(opened(files))) == ["c/a", "c/c"]


def test_a_log_that_is_closed_while_another_store_looks_is_not_recovered() -> None:
    """It would bring back what was deleted since."""

    class Racing(UnsyncedFileSystem):
        racing = False

        def lock(self, fd: int) -> bool:
            path = self._fds[fd][1]
            if self.racing and path == LOG:
                self.racing = False
                writer.close()
                self.unlink("/data/c/a")
            return super().lock(fd)

    files = Racing()
    writer = opened(files)
    put_all(writer, "ab")
    files.racing = True
    assert sorted(found(opened(files, SYNCED))) == ["c/b"]


def damage(files: UnsyncedFileSystem, position: int) -> None:
    fd = files.open_for_update(LOG)
    files.write_at(fd, [b"????"], position)
    files.fsync(fd)
    files.close(fd)


def test_of_a_damaged_log_the_rest_is_recovered_and_the_damage_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = UnsyncedFileSystem()
    put_all(opened(files), "abc")
    files.crash()
    damage(files, 512 + 5 * 512 + 600)
    store = opened(files)
    assert sorted(found(store)) == ["c/a", "c/c"]
    assert f"{LOG}.damaged is damaged at bytes 3072-5632" in caplog.text
    assert files.is_taken(f"{LOG}.damaged")
    assert sorted(found(opened(files))) == ["c/a", "c/c"]


def test_the_log_is_bounded_and_its_halves_take_turns() -> None:
    files = UnsyncedFileSystem()
    store = opened(files)
    for number in range(100):
        store.put(f"c/{number}", [payload("x", 1500)])
    assert files.info(LOG).size == 2 * LIMITS.half_size
    files.crash()
    assert len(found(opened(files))) == 100


class Resting(AtOnce):
    """Remembers how long the job wanted to rest."""

    rests: list[float] = []  # noqa: RUF012 - the store makes the instance

    def rest(self, seconds: float) -> None:
        self.rests.append(seconds)


@pytest.mark.parametrize(("objects", "rests"), [(20, 5), (6, 2)])
def test_files_are_synced_few_at_a_time_while_there_is_time(objects: int, rests: int) -> None:
    """Whoever puts an object meanwhile waits for the syncs that are under way."""
    Resting.rests.clear()
    limits = PutLogLimits(
        largest_object=10, half_size=1 << 20, objects=objects, first_puts=0, background=Resting
    )
    store = opened(UnsyncedFileSystem(), limits)
    for number in range(objects + 1):
        store.put(f"c/{number}", [b"x"])
    assert len(Resting.rests) == rests
    assert 0 < sum(Resting.rests) <= limits.age_s / 2
    store.close()
    assert len(Resting.rests) == rests, "a log that is to end does not rest"


def test_a_log_takes_so_many_objects() -> None:
    files = UnsyncedFileSystem()
    few = PutLogLimits(
        largest_object=10, half_size=64 << 10, objects=3, first_puts=0, age_s=1e9, background=AtOnce
    )
    store = opened(files, few)
    for number in range(4):
        store.put(f"c/{number}", [b"x"])
    assert sum(sync.startswith("fsync /data/c/") for sync in files.syncs) == 3


def test_the_first_puts_make_no_log() -> None:
    files = UnsyncedFileSystem()
    store = opened(files, PutLogLimits(first_puts=3, background=AtOnce))
    put_all(store, "ab")
    assert not files.is_taken("/data/.log")
    put_all(store, "cd")
    assert files.syncs[-1].startswith("fdatasync")


def test_limits_that_leave_no_room_are_refused() -> None:
    for size in (8 << 10, (16 << 10) + 1):
        with pytest.raises(ValueError, match="half_size"):
            PutLogLimits(largest_object=8 << 10, half_size=size)
