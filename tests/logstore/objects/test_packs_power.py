"""Tests that power cuts and kills keep acknowledged objects and leave only whole ones in packs (S2)."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest

from lacuna.logstore.objects import DirectoryStore
from tests.logstore.objects.processes import (
    FILES,
    LIMITS,
    Process,
    found,
    opened,
    packs,
    payload,
    put_all,
)
from tests.logstore.objects.unsynced import PowerCutError, UnsyncedFileSystem

LARGEST = 2500
LIMITS_THAT_MOVE = replace(LIMITS, move_after_s=60.0)


@dataclass
class Script:
    """Random puts and deletions, and what callers know of each key at every moment."""

    source: random.Random
    files: UnsyncedFileSystem
    there: dict[str, bytes] = field(default_factory=dict)
    """Acknowledged and not deleted since."""
    gone: set[str] = field(default_factory=set)
    """Deleted from packs, and acknowledged so."""
    known: dict[str, list[bytes]] = field(default_factory=dict)
    """Ever begun: what may be there, and as what."""

    def step(self, store: DirectoryStore, number: int) -> None:
        if self.there and self.source.random() < 0.3:
            self._delete(store)
        elif self.gone and self.source.random() < 0.1:
            self._put(store, self.source.choice(sorted(self.gone)))
        else:
            self._put(store, f"c/{number % 2}/{len(self.known)}")

    def _put(self, store: DirectoryStore, key: str) -> None:
        versions = self.known.setdefault(key, [])
        data = payload(f"{key}-{len(versions)}", self.source.choice((0, 700, LARGEST, 5000)))
        versions.append(data)
        self.gone.discard(key)
        store.put(key, [data[:3], data[3:]])
        self.there[key] = data

    def _delete(self, store: DirectoryStore) -> None:
        some = self.source.sample(sorted(self.there), min(len(self.there), 4))
        are_packed = {key for key in some if not self.files.is_taken(f"/data/{key}")}
        for key in some:
            del self.there[key]
        store.delete(some)
        self.gone |= are_packed

    def violations(self, store: DirectoryStore) -> list[str]:
        now = found(store)
        return (
            [f"{key} is lost" for key in self.there if key not in now]
            + [
                f"{key} is another"
                for key, data in self.there.items()
                if now.get(key, data) != data
            ]
            + [f"{key} is torn" for key, data in now.items() if data not in self.known[key]]
            + [f"{key} came back" for key in self.gone if key in now]
        )


def chance(source: random.Random, share: float) -> Callable[[], bool]:
    return lambda: source.random() < share


@pytest.mark.parametrize("seed", range(60))
def test_a_crash_at_any_moment_loses_nothing_and_leaves_nothing_torn(seed: int) -> None:
    """S2: this includes crashes during background work, at a start, and while the store closes."""
    source = random.Random(seed)
    files = UnsyncedFileSystem()
    script = Script(source, files)
    for _ in range(5):
        files.cut_power_after(source.randrange(300))
        try:
            store = opened(files)
            for number in range(source.randrange(40)):
                script.step(store, number)
            store.close()
        except PowerCutError:
            pass
        files.crash(keep=chance(source, source.choice((0, 0.5, 0.9))))
        assert script.violations(opened(files.after_crash())) == []


@pytest.mark.parametrize("seed", range(40))
def test_several_processes_are_killed_and_lose_power(seed: int) -> None:
    """S2: each process sees the objects of the others, including those of dead ones."""
    source = random.Random(seed)
    files = UnsyncedFileSystem()
    script = Script(source, files)
    running: list[tuple[Process, DirectoryStore]] = []
    for number in range(100):
        if len(running) < 3:
            process = Process(files)
            running.append((process, opened(process, source.choice((LIMITS, LIMITS, FILES)))))
        process, store = source.choice(running)
        what = source.random()
        if what < 0.05:
            process.kill()
            running.remove((process, store))
        elif what < 0.08:
            store.close()
            running.remove((process, store))
        elif what < 0.1:
            files.crash(keep=chance(source, source.choice((0, 0.5, 0.9))))
            running.clear()
            assert script.violations(opened(files.after_crash())) == []
        elif what < 0.2:
            assert script.violations(store) == []
        else:
            script.step(store, number)


@pytest.mark.parametrize("seed", range(10))
def test_a_killed_process_loses_nothing(seed: int) -> None:
    """A kill leaves the page cache intact. The power fails afterwards."""
    source = random.Random(seed)
    files = UnsyncedFileSystem()
    script = Script(source, files)
    files.cut_power_after(source.randrange(50, 400))
    with suppress(PowerCutError):
        store = opened(files)
        for number in range(60):
            script.step(store, number)
    files.crash(keep=lambda: True)
    survivor = opened(files, FILES)
    seen = found(survivor)
    assert script.violations(survivor) == []
    files.crash()
    assert script.violations(opened(files)) == []
    assert found(opened(files)) == seen, "what was seen once is durable"


class Lying(UnsyncedFileSystem):
    """Some syncs do nothing. `lie` gets the kind, the path, and whether it is of a pack."""

    def __init__(self, lie: Callable[[str, bool], bool]) -> None:
        super().__init__()
        self.is_late = False
        self._lie = lie
        self._is_pack = False

    def fsync(self, fd: int) -> None:
        self._is_pack = self._file(fd).content.startswith(b"LacPack")
        super().fsync(fd)
        self._is_pack = False

    def _sync(self, kind: str, path: str) -> bool:
        return super()._sync(kind, path) and not self._lie(f"{kind} {path}", self._is_pack)


def losses(lie: Callable[[str, bool], bool], seed: int) -> list[str]:
    """Return what is wrong after power cuts after each step if some syncs do nothing."""
    source = random.Random(seed)
    files, lost = Lying(lie), []
    script = Script(source, files)
    store = opened(files)
    for number in range(60):
        script.step(store, number)
        for share in (0.0, 0.5):
            remains = files.after_crash(chance(source, share))
            lost.extend(script.violations(opened(remains)))
    return lost


LIES: dict[str, Callable[[str, bool], bool]] = {
    "the append": lambda sync, is_pack: sync.startswith("fdatasync"),
    "the pack's zeros": lambda sync, is_pack: is_pack,
    "the pack's name": lambda sync, is_pack: sync == "fsync_directory /data/.packs",
    "the folder's name": lambda sync, is_pack: sync == "fsync_directory /data",
    "the deletions": lambda sync, is_pack: sync.endswith(".gone"),
    "the files": lambda sync, is_pack: sync.startswith("fsync /data/.tmp") and not is_pack,
    "their directories": lambda sync, is_pack: sync.startswith("fsync_directory /data/c/"),
}


def test_nothing_is_lost() -> None:
    assert losses(lambda sync, is_pack: False, seed=1) == []


@pytest.mark.parametrize("name", LIES)
def test_each_sync_is_needed(name: str) -> None:
    """S2: without any kind of sync, something is lost, so none can go missing unnoticed."""
    assert losses(LIES[name], seed=1)


def test_a_small_object_costs_one_sync() -> None:
    files = UnsyncedFileSystem()
    store = opened(files)
    put_all(store, "abcd")
    files.syncs.clear()
    put_all(store, "ef")
    assert [sync.partition(" ")[0] for sync in files.syncs] == ["fdatasync"] * 2
    files.syncs.clear()
    store.put("c/large", [bytes(3001)])
    assert [sync.partition(" ")[0] for sync in files.syncs] == ["fsync", "fsync_directory"]


def test_who_finds_what_a_killed_process_left_syncs_it() -> None:
    """Otherwise an object that was visible once could vanish in a power cut."""
    for is_skipped in (False, True):
        files = UnsyncedFileSystem()
        process = Process(files)
        store = opened(process)
        put_all(store, "a")
        files.skip_sync(len(files.syncs))
        put_all(store, "b")  # as if it were killed between the append and the sync
        process.kill()
        files.skip_sync(*(range(len(files.syncs), 99) if is_skipped else ()))
        assert sorted(found(opened(files, FILES))) == ["c/a", "c/b"]
        files.crash()
        files.skip_sync()
        assert sorted(found(opened(files))) == (["c/a"] if is_skipped else ["c/a", "c/b"])


def delete_all_but(kept: str, skipped: Callable[[str], bool]) -> list[str]:
    """Fill a pack, delete the objects one by one and cut the power. Return what remains."""

    class Some(UnsyncedFileSystem):
        is_deleting = False

        def _sync(self, kind: str, path: str) -> bool:
            return super()._sync(kind, path) and not (
                self.is_deleting and skipped(f"{kind} {path}")
            )

    files = Some()
    store = opened(files)
    put_all(store, "abcdefg")
    files.is_deleting = True
    store.delete(["c/a", "c/b"])
    store.delete([f"c/{key}" for key in "cdefg" if key not in kept])
    files.crash()
    files.is_deleting = False
    return sorted(found(opened(files)))


@pytest.mark.parametrize("kept", ["", "g", "f", "fg"])
def test_what_was_deleted_does_not_come_back(kept: str) -> None:
    """This covers full and partial packs, with and without remaining objects."""
    assert delete_all_but(kept, lambda sync: False) == [f"c/{key}" for key in kept]


@pytest.mark.parametrize("sync", ["fsync /data/.packs/", "fsync_directory /data/.packs"])
def test_each_sync_of_a_deletion_is_needed(sync: str) -> None:
    """S2: a key may be put again, and a power cut must not replace the new object with the old one."""
    assert delete_all_but("f", lambda each: each.startswith(sync)) != ["c/f"]


def test_of_a_pack_that_comes_back_its_deleted_objects_do_not() -> None:
    """A power cut may undo the deletion of a pack but not that of the file beside it."""
    for calls in range(12):
        files = UnsyncedFileSystem()
        store = opened(files)
        put_all(store, "abcdefg")
        store.delete(["c/a", "c/b"])
        files.cut_power_after(calls)
        with suppress(PowerCutError):
            store.delete([f"c/{key}" for key in "cdef"])
        kept = iter(range(99))
        for share in (0.0, 0.5, 1.0):
            source = random.Random(next(kept))
            now = sorted(found(opened(files.after_crash(chance(source, share)))))
            assert not {"c/a", "c/b"} & set(now)
            assert "c/g" in now


def dissolve(lie: Callable[[str], bool] = lambda sync: False, calls: int = 10**6) -> Lying:
    """Delete another object so that the last one of an old pack moves to a file. Then cut the power."""
    clock = [1_000]
    files = Lying(lambda sync, is_pack: files.is_late and lie(sync))
    store = opened(files, LIMITS_THAT_MOVE, now_ms=lambda: clock[0])
    put_all(store, "abcdefg")
    store.delete([f"c/{key}" for key in "bcdef"])
    clock[0] += 61_000
    files.cut_power_after(calls)
    files.is_late = True
    with suppress(PowerCutError):
        store.delete(["c/none"])
        assert files.is_taken("/data/c/a")
        assert found(store).keys() == {"c/a", "c/g"}
    files.crash()
    files.is_late = False
    return files


def test_the_last_objects_of_an_old_pack_become_files() -> None:
    files = dissolve()
    assert len([name for name in packs(files) if name.endswith(".pack")]) == 1
    assert found(opened(files)) == {f"c/{key}": payload(key, 2000) for key in "ag"}


@pytest.mark.parametrize("calls", range(14))
def test_a_power_cut_while_they_do_loses_nothing(calls: int) -> None:
    assert sorted(found(opened(dissolve(calls=calls)))) == ["c/a", "c/g"]


@pytest.mark.parametrize("sync", ["fsync /data/.tmp", "fsync_directory /data/c"])
def test_each_sync_of_a_move_is_needed(sync: str) -> None:
    files = dissolve(lambda each: each.startswith(sync))
    assert found(opened(files)) != {f"c/{key}": payload(key, 2000) for key in "ag"}
