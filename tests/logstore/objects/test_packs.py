"""Tests packs as the processes of a folder see them: writers, concurrent readers, deletions and damage."""

from __future__ import annotations

import errno
import shutil
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
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
    pack_format,
)
from lacuna.logstore.objects.filesystem import FileRanges
from lacuna.logstore.objects.pack_format import Packed
from lacuna.logstore.objects.pack_index import PackIndex
from lacuna.logstore.objects.pack_puts import PackLimits
from lacuna.logstore.objects.store import RangeRead, WritableBuffer
from tests.logstore.objects.processes import (
    FILES,
    LIMITS,
    PACK_SIZE,
    Process,
    found,
    opened,
    packs,
    payload,
    put_all,
)
from tests.logstore.objects.unsynced import UnsyncedFileSystem

GOLDEN = Path(__file__).parents[2] / "golden" / "packs"


def test_small_objects_are_in_packs_and_large_ones_are_files() -> None:
    files = UnsyncedFileSystem()
    store = opened(files)
    store.put("c/small", [bytes(3000)])
    store.put("c/large", [bytes(3001)])
    assert [name for name, _ in files.names("/data/c")] == ["large"]
    assert [info.key for info in store.list("c/")] == ["c/large", "c/small"]


def test_packs_are_filled_one_after_the_other_and_unlinked_with_their_last_object() -> None:
    files = UnsyncedFileSystem()
    store = opened(files)
    keys = "abcdefghijklmnopqr"
    put_all(store, keys)
    assert len(packs(files)) == 3
    assert len(files.names("/data/.packs")) <= 3 + 1 + 1, "one is prepared, and one has the locks"
    store.delete([f"c/{key}" for key in keys[:3]])
    store.delete([f"c/{key}" for key in keys[3:9]])
    assert sorted(found(store)) == [f"c/{key}" for key in keys[9:]]
    assert len([name for name in packs(files) if name.endswith(".pack")]) == 2
    store.close()
    assert len([name for name in packs(files) if name.endswith(".pack")]) == 2
    opened(files, FILES).delete([f"c/{key}" for key in keys])
    assert packs(files) == []


def test_a_closed_store_puts_and_deletes_no_more() -> None:
    store = opened(UnsyncedFileSystem())
    put_all(store, "a")
    store.close()
    with pytest.raises(StoreUnavailableError, match="the store is closed"):
        put_all(store, "b")
    with pytest.raises(NotDeletedError, match="the store is closed"):
        store.delete(["c/a"])


def test_a_sealed_pack_takes_the_space_of_what_is_in_it() -> None:
    files = UnsyncedFileSystem()
    store = opened(files)
    put_all(store, "a")
    (name,) = packs(files)
    assert files.info(f"/data/.packs/{name}").size == PACK_SIZE
    store.close()
    assert files.info(f"/data/.packs/{name}").size < 4096
    assert found(opened(files)) == {"c/a": payload("a", 2000)}


def test_a_store_that_put_nothing_leaves_no_pack() -> None:
    files = UnsyncedFileSystem()
    opened(files).close()
    process = Process(files)
    opened(process)
    process.kill()
    opened(files, FILES)
    assert files.names("/data/.packs") == [("locks", False)]


def test_the_first_puts_make_no_pack() -> None:
    files = UnsyncedFileSystem()
    store = opened(files, replace(LIMITS, first_puts=3))
    put_all(store, "abc")
    assert packs(files) == []
    put_all(store, "de")
    assert len(packs(files)) == 1
    assert len(files.names("/data/c")) == 3


def test_limits_that_leave_no_room_are_refused() -> None:
    for size in (8 << 10, (16 << 10) + 1):
        with pytest.raises(ValueError, match="pack_size"):
            PackLimits(largest_object=8 << 10, pack_size=size)


# Other processes.


def test_what_one_process_puts_another_reads_at_once() -> None:
    """It reads record by record, in its pack and later ones, including records larger than one read."""
    files = UnsyncedFileSystem()
    limits = replace(LIMITS, largest_object=200 << 10, pack_size=1 << 20)
    reader = opened(files, FILES)
    writer = opened(files, limits)
    for number, size in enumerate(
        (10, 150_000, 2000, 70_000, 200_000, 190_000, 10, 200_000, 200_000)
    ):
        key = f"c/{number}"
        writer.put(key, [payload(key, size)[:size]])
        assert reader.size(key) == size
        assert reader.get(key, size // 2, 5) == payload(key, size)[size // 2 :][:5]
    writer.close()
    assert found(reader) == found(writer)


def test_another_process_sees_what_was_deleted_and_unlinked() -> None:
    files = UnsyncedFileSystem()
    writer, reader, deleter = opened(files), opened(files, FILES), opened(files, FILES)
    put_all(writer, "abcdefg")
    assert len(found(reader)) == 7
    deleter.delete(["c/a", "c/g"])
    assert sorted(found(reader)) == ["c/b", "c/c", "c/d", "c/e", "c/f"]
    deleter.delete([f"c/{key}" for key in "bcdef"])
    assert found(reader) == {}
    with pytest.raises(ObjectNotFoundError):
        reader.get("c/b", 0, 1)
    writer.close()
    assert found(writer) == {}
    deleter.delete(["c/none"])
    assert packs(files) == []


def test_the_pack_of_a_dead_process_is_sealed_once() -> None:
    files = UnsyncedFileSystem()
    process = Process(files)
    put_all(opened(process), "abc")
    (name,) = packs(files)
    before = files.info(f"/data/.packs/{name}").size
    opened(files, FILES)
    assert files.info(f"/data/.packs/{name}").size == before, "its process is alive"
    process.kill()
    opened(files, FILES)
    after = files.info(f"/data/.packs/{name}").size
    assert after < before
    files.syncs.clear()
    assert len(found(opened(files, FILES))) == 3
    assert not [sync for sync in files.syncs if name in sync]


def test_who_may_not_write_reads_what_a_dead_process_left() -> None:
    class ReadOnly(Process):
        def open_for_update(self, path: str) -> int:
            raise OSError(errno.EROFS, "read-only", path)

    files = UnsyncedFileSystem()
    process = Process(files)
    put_all(opened(process), "abc")
    process.kill()
    reader = opened(ReadOnly(files), FILES)
    assert sorted(found(reader)) == sorted(found(reader)) == ["c/a", "c/b", "c/c"]
    opened(files, FILES).delete(["c/a"])
    assert sorted(found(reader)) == ["c/b", "c/c"]


def test_what_a_dead_process_appended_to_is_deleted_and_read_as_any_other() -> None:
    files = UnsyncedFileSystem()
    process = Process(files)
    killed = opened(process)
    put_all(killed, "abc")
    late = opened(files, FILES)
    put_all(killed, "d")
    process.kill()
    late.delete(["c/b"])
    assert sorted(found(late)) == ["c/a", "c/c", "c/d"]
    files.crash()
    assert sorted(found(opened(files))) == ["c/a", "c/c", "c/d"]


def test_a_pack_is_unlinked_where_its_objects_were_deleted_before_it_was_sealed() -> None:
    files = UnsyncedFileSystem()
    writer, deleter = opened(files), opened(files, FILES)
    put_all(writer, "abc")
    deleter.delete(["c/a", "c/b", "c/c"])
    writer.close()
    deleter.delete([])
    assert packs(files) == []


def test_an_object_is_read_from_the_pack_even_if_there_is_a_file() -> None:
    """A power cut may restore a deleted file whose key was put again."""
    files = UnsyncedFileSystem()
    store = opened(files)
    store.put("c/k", [b"packed"])
    fd = files.create("/data/c/k")
    files.write(fd, [b"a file"])
    assert found(store) == {"c/k": b"packed"}
    assert [info.size for info in store.list()] == [6]
    store.delete(["c/k"])
    assert found(store) == {}


# Keys are taken once.


@pytest.mark.parametrize("limits", [LIMITS, FILES], ids=["packs", "files"])
def test_a_key_is_taken_wherever_its_object_is(limits: PackLimits) -> None:
    files = UnsyncedFileSystem()
    dead, other = Process(files), opened(files)
    killed = opened(dead)
    killed.put("dead/k", [b"1"])
    dead.kill()
    other.put("packed/k", [b"2"])
    opened(files, FILES).put("file/k", [b"3"])
    store = opened(files, limits)
    for key in ("dead/k", "packed/k", "file/k"):
        with pytest.raises(ObjectExistsError):
            store.put(key, [b"another"])
    other.put("packed/l", [b"4"])
    with pytest.raises(ObjectExistsError):
        store.put("packed/l", [b"another"])
    assert sorted(found(store).values()) == [b"1", b"2", b"3", b"4"]


def test_of_two_stores_one_packs_objects_of_a_directory() -> None:
    """So only the other store's packs must be read before a key is known to be free."""
    files = UnsyncedFileSystem()
    one, two = opened(files), opened(files)
    one.put("c/1", [b"1"])
    two.put("c/2", [b"2"])
    assert [name for name, _ in files.names("/data/c")] == ["2"]
    two.put("d/2", [b"2"])
    assert files.names("/data/d") == []
    assert sorted(found(one)) == sorted(found(two)) == ["c/1", "c/2", "d/2"]
    one.close()
    two.put("c/3", [b"3"])
    assert [name for name, _ in files.names("/data/c")] == ["2"]


def test_a_key_that_another_process_deleted_can_be_put_anew() -> None:
    files = UnsyncedFileSystem()
    store, other = opened(files), opened(files, FILES)
    for data in (b"first", b"second", b"third" * 1000, b"fourth"):
        store.put("c/k", [data])
        assert found(opened(files.after_crash())) == {"c/k": data}
        with pytest.raises(ObjectExistsError):
            other.put("c/k", [b"other"])
        assert found(opened(files.after_crash())) == {"c/k": data}
        other.delete(["c/k"])
        assert found(store) == {}


def test_more_directories_than_a_store_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.logstore.objects.owned._MOST", 2)
    files = UnsyncedFileSystem()
    one, two = opened(files), opened(files)
    for key in ("a/1", "b/1", "c/1", "a/2"):
        one.put(key, [b"x"])
    two.put("b/2", [b"x"])
    for store in (one, two):
        with pytest.raises(ObjectExistsError):
            store.put("b/1", [b"other"])
    assert len(found(one)) == 5


# Readers.


class Noting(UnsyncedFileSystem):
    """Records the files that reads request. Runs `before` once, when the next file is read."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[str]] = []
        self.before: Callable[[], object] = lambda: None

    def read_ranges(self, ranges: FileRanges, buffer: WritableBuffer) -> object:  # type: ignore[override]
        self.asked.append(ranges.paths)
        self._run()
        return super().read_ranges(ranges, buffer)

    def open(self, path: str) -> int:
        if path.startswith("/data/c/") or path.endswith(".pack"):
            self._run()
        return super().open(path)

    def _run(self) -> None:
        before, self.before = self.before, lambda: None
        before()


def test_objects_that_follow_one_another_in_a_pack_are_read_with_one_open() -> None:
    files = Noting()
    store = opened(files)
    put_all(store, "abcdefg")
    store.put("c/large", [b"large" * 1000])
    reads = [
        RangeRead(f"c/{key}", 0, 4, [(0, 2, 4 * at), (3, 1, 4 * at + 2)])
        for at, key in enumerate(("a", "b", "c", "g", "large", "none", "d"))
    ]
    reads[1] = RangeRead("c/b", 1995, 9, [(1995, 9, 4)])
    buffer = bytearray(30)
    outcomes = store.get_into(reads, buffer)
    assert [type(each) for each in outcomes[:5]] == [type(None), ShortReadError, *[type(None)] * 3]
    assert isinstance(outcomes[5], ObjectNotFoundError)
    assert isinstance(outcomes[1], ShortReadError)
    assert outcomes[1].available == 2002 - 1995 - 0
    assert buffer[:3] == b"a||"
    assert buffer[24:27] == b"d||"
    paths = files.asked[0]
    assert len(paths) == 5, "two packs, two files, and the first pack again"
    assert paths[0] == paths[4]


@pytest.mark.parametrize("how", ["get", "get_all", "size", "list"])
def test_an_object_that_moves_to_a_file_meanwhile_is_found(how: str) -> None:
    clock = [1_000]
    files = Noting()
    limits = replace(LIMITS, move_after_s=60.0)
    store = opened(files, limits, now_ms=lambda: clock[0])
    put_all(store, "abcdefg")
    reader, mover = (
        opened(files, FILES),
        opened(files, replace(FILES, move_after_s=60.0), now_ms=lambda: clock[0]),
    )
    store.delete([f"c/{key}" for key in "bcdef"])
    clock[0] += 61_000
    files.before = lambda: mover.delete([])
    data = payload("a", 2000)
    if how == "get":
        assert reader.get("c/a", 0, 10) == data[:10]
    elif how == "get_all":
        assert reader.get_all("c/a") == data
    elif how == "size":
        mover.delete([])
        assert reader.size("c/a") == len(data)
    else:
        assert sorted(found(reader)) == ["c/a", "c/g"]
    assert [name for name, _ in files.names("/data/c")] == ["a"]


def test_an_object_that_is_put_while_it_is_looked_for_is_found_or_not() -> None:
    """It may be in a pack unknown to the reader. A pack unlinked between two looks is no error."""
    files = Noting()
    reader, late, writer = opened(files, FILES), opened(files, FILES), opened(files)
    put_all(writer, "a")
    files.before = lambda: put_all(writer, "bcdefgh")
    assert reader.get_all("c/a") == payload("a", 2000)
    files.before = lambda: writer.delete([f"c/{key}" for key in "abcdef"])
    assert sorted(found(late)) == sorted(found(reader)) == ["c/g", "c/h"]


def test_packs_that_change_all_the_time_are_an_error_after_ten_looks() -> None:
    class Restless(UnsyncedFileSystem):
        is_restless = False

        def open(self, path: str) -> int:
            if self.is_restless and path.endswith(".pack"):
                raise FileNotFoundError(2, "gone", path)
            return super().open(path)

    files = Restless()
    writer, reader = opened(files), opened(files, FILES)
    put_all(writer, "a")
    files.is_restless = True
    with pytest.raises(StoreUnavailableError, match="change too often to be read"):
        list(reader.list())


# Damage.


def left_by_a_killed_process(keys: str = "abc") -> tuple[UnsyncedFileSystem, str]:
    """An unsealed pack, and its path."""
    files = UnsyncedFileSystem()
    process = Process(files)
    put_all(opened(process), keys)
    (name,) = packs(files)
    process.kill()
    return files, f"/data/.packs/{name}"


def damage(files: UnsyncedFileSystem, path: str, position: int, data: bytes = b"????") -> None:
    fd = files.open_for_update(path)
    size = files.info_of(fd).size
    files.write_at(fd, [data], position if position >= 0 else size + position)
    files.fsync(fd)
    files.close(fd)


def test_of_a_pack_with_a_damaged_head_the_rest_is_served_and_the_damage_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files, path = left_by_a_killed_process()
    damage(files, path, 512 + 5 * 512 + 4)
    store = opened(files)
    assert sorted(found(store)) == ["c/a", "c/c"]
    assert f"{path} is damaged at bytes 3072-5632" in caplog.text
    caplog.clear()
    assert sorted(found(opened(files))) == ["c/a", "c/c"]
    assert caplog.text == ""


def test_of_an_object_with_a_damaged_byte_the_rest_is_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files, path = left_by_a_killed_process()
    damage(files, path, 512 + 5 * 512 + 600)
    now = found(opened(files))
    assert sorted(now) == ["c/a", "c/b", "c/c"]
    assert [key for key, data in now.items() if data != payload(key[-1], 2000)] == ["c/b"]
    assert f"{path} is damaged at bytes 3072-5632" in caplog.text


def test_a_pack_with_a_damaged_header_is_served(caplog: pytest.LogCaptureFixture) -> None:
    files, path = left_by_a_killed_process()
    damage(files, path, 3)
    assert sorted(found(opened(files))) == ["c/a", "c/b", "c/c"]
    assert f"{path} is damaged at bytes 0-512" in caplog.text


def test_a_pack_of_which_nothing_is_left_is_set_aside(caplog: pytest.LogCaptureFixture) -> None:
    files, path = left_by_a_killed_process("a")
    damage(files, path, 0, b"?" * PACK_SIZE)
    assert found(opened(files)) == {}
    assert f"{path} is damaged at bytes 0-512" in caplog.text
    assert files.is_taken(f"{path}.damaged")
    assert not files.is_taken(path)


@pytest.mark.parametrize("position", [-1, -10, -30, -60])
def test_an_index_that_is_damaged_is_written_anew(position: int) -> None:
    files, path = left_by_a_killed_process()
    opened(files).close()
    size = files.info(path).size
    damage(files, path, position, b"?")
    assert sorted(found(opened(files))) == ["c/a", "c/b", "c/c"]
    assert files.info(path).size == size
    files.syncs.clear()
    assert sorted(found(opened(files))) == ["c/a", "c/b", "c/c"]
    assert not [sync for sync in files.syncs if path in sync]


def test_each_changed_byte_of_a_dead_process_pack_loses_no_other_object(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files, path = left_by_a_killed_process()
    end = 512 + 3 * 5 * 512
    for at in range(0, end, 37):
        copy = files.after_crash()
        damage(copy, path, at, b"\xa7")
        now = found(opened(copy))
        lost = (at - 512) // (5 * 512)
        for number, key in enumerate("abc"):
            assert number == lost or now[f"c/{key}"] == payload(key, 2000), (at, key)


def test_a_pack_of_a_newer_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    files = UnsyncedFileSystem()
    monkeypatch.setattr(pack_format, "FORMAT", 2)
    store = opened(files)
    put_all(store, "a")
    store.close()
    monkeypatch.setattr(pack_format, "FORMAT", 1)
    with pytest.raises(
        StoreMisconfiguredError, match=r"newer version of Lacuna \(format 2"
    ) as told:
        opened(files)
    assert "\n" not in str(told.value)


def test_a_file_of_deletions_without_its_pack_is_removed() -> None:
    files = UnsyncedFileSystem()
    opened(files)
    files.create("/data/.packs/1-1-1.pack.gone")
    opened(files)
    assert not files.is_taken("/data/.packs/1-1-1.pack.gone")


def test_deletions_behind_a_torn_one_are_noted_where_it_began() -> None:
    files = UnsyncedFileSystem()
    store = opened(files)
    put_all(store, "abc")
    store.delete(["c/a"])
    (name,) = [name for name in packs(files) if name.endswith(".gone")]
    fd = files.open_for_update(f"/data/.packs/{name}")
    files.write_at(fd, [b"torn"], files.info_of(fd).size)
    files.close(fd)
    files.crash(keep=lambda: True)
    again = opened(files)
    again.delete(["c/b"])
    files.crash()
    assert sorted(found(opened(files))) == ["c/c"]


def test_of_two_objects_with_one_key_the_newer_one_counts() -> None:
    """A power cut may undo a deletion after which another process has put the key again."""
    index = PackIndex()
    older, newer = index.new_pack("1", "/1"), index.new_pack("2", "/2")
    for pack, modified_ms in ((older, 5), (newer, 6), (older, 5)):
        index.add(pack, [Packed("c/k", 600, 10, modified_ms)])
        place = index.find("c/k")
        assert place is not None
        assert place.path == ("/1" if newer.objects == 0 else "/2")
    assert (older.objects, older.live_bytes) == (0, 0)
    assert (newer.objects, newer.live_bytes) == (1, 10)
    index.drop(older)
    assert index.find("c/k") is not None


def test_a_folder_that_somebody_removed_is_empty() -> None:
    files = UnsyncedFileSystem()
    store = opened(files, FILES)
    for name, _ in files.names("/data/.packs"):
        files.unlink(f"/data/.packs/{name}")
    files.rename("/data/.packs", "/data/.elsewhere")
    assert found(store) == {}


def test_what_is_known_of_many_objects_takes_little_memory() -> None:
    """ADR 37 states the bound."""
    index = PackIndex()
    count = 20_000
    tracemalloc.start()
    pack = index.new_pack("p", "/p")
    for number in range(count):
        key = f"Zq3v-x_9/segments/f100000000000000/{number:012x}.seg"
        index.add(pack, [Packed(key, number * 12800, 12345, 1_700_000_000_000 + number)])
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / count < 180


@pytest.mark.parametrize("name", ["sealed", "left"])
def test_packs_of_format_1_are_read(tmp_path: Path, name: str) -> None:
    """There are golden ones, sealed and left by a dead process. c/b was deleted."""
    folder = tmp_path / ".packs"
    folder.mkdir()
    for suffix in (".pack", ".pack.gone"):
        shutil.copy(GOLDEN / f"{name}{suffix}", folder / f"{name}{suffix}")
    store = DirectoryStore(tmp_path)
    assert found(store) == {"c/a": b"a" * 2000, "c/e/f": b"f" * 2500, "d": b"d" * 700}
    assert {info.modified_ms for info in store.list()} == {1_700_000_000_000}


class Immutable(UnsyncedFileSystem):
    """Packs cannot be unlinked, as with `chattr +i`, as long as `is_so`."""

    is_so = True

    def unlink(self, path: str) -> None:
        if self.is_so and path.endswith(".pack"):
            raise PermissionError(errno.EPERM, "Operation not permitted", path)
        super().unlink(path)


def test_a_pack_that_cannot_be_unlinked_costs_no_other_deletion() -> None:
    files = Immutable()
    store = opened(files)
    put_all(store, "abcdefghijkl")
    store.close()
    other = opened(files, FILES)
    other.put("c/large", [bytes(3001)])
    keys = [f"c/{key}" for key in "abcdefghijkl"]
    with pytest.raises(NotDeletedError, match="/data cannot be used") as left:
        other.delete([*keys, "c/large"])
    assert left.value.failures.keys() == set(keys)
    assert sorted(found(other)) == keys
    files.is_so = False
    other.delete(keys)
    assert [*other.list("c/")] == []
    assert packs(files) == []
