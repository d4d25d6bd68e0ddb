"""Put logs that earlier versions left: a golden one, of a process that was killed.

It was written by the last version that had put logs, with the puts of `OBJECTS` in this order and a
deletion of c/c; c/h and the deletion are in its second half.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from lacuna.logstore.objects import DirectoryStore
from lacuna.logstore.objects.pack_puts import PackLimits
from tests.logstore.objects.processes import FILES, LIMITS, found, opened
from tests.logstore.objects.unsynced import PowerCutError, UnsyncedFileSystem

GOLDEN = Path(__file__).parents[2] / "golden" / "put_log" / "killed.log"
LOG = "/data/.log/17723-0.log"
SIZES = {"a": 2000, "b": 0, "c": 700, "d": 2500, "e": 1, "f": 3000, "g": 2900, "h": 2900}
OBJECTS = {f"c/{key}": key.encode() * size for key, size in SIZES.items()}
KEPT = {key: data for key, data in OBJECTS.items() if key != "c/c"}


def left(content: bytes, **there: bytes) -> UnsyncedFileSystem:
    """A folder of an earlier version after a power cut: its put log, and what became of the files."""
    files = UnsyncedFileSystem()
    for path in ("/data", "/data/.log", "/data/c"):
        files.make_directory(path)
    for path, data in [(LOG, content), *((f"/data/c/{key}", data) for key, data in there.items())]:
        fd = files.create(path)
        files.write(fd, [data])
        files.close(fd)
    files.crash(keep=lambda: True)
    return files


def logs(files: UnsyncedFileSystem) -> list[str]:
    return [name for name, _ in files.names("/data/.log")]


@pytest.mark.parametrize("limits", [LIMITS, FILES], ids=["packs", "files"])
def test_what_is_missing_is_written_again(limits: PackLimits) -> None:
    files = left(GOLDEN.read_bytes())
    assert found(opened(files, limits)) == KEPT
    assert logs(files) == []
    files.crash()
    assert found(opened(files)) == KEPT


def test_what_is_torn_is_mended_and_what_is_whole_is_synced() -> None:
    torn = OBJECTS["c/d"][:1024] + bytes(512)
    files = left(GOLDEN.read_bytes(), a=OBJECTS["c/a"], d=torn, f=b"")
    assert found(opened(files)) == KEPT
    assert "fsync /data/c/a" in files.syncs
    files.crash()
    assert found(opened(files)) == KEPT


def test_another_object_under_the_key_is_left_alone() -> None:
    files = left(GOLDEN.read_bytes(), a=b"of another process")
    assert found(opened(files)) == {**KEPT, "c/a": b"of another process"}


def test_the_log_of_a_live_process_is_left_alone() -> None:
    files = left(GOLDEN.read_bytes())
    assert files.lock(files.open(LOG))
    assert found(opened(files)) == {}
    assert len(logs(files)) == 1


def test_of_a_damaged_log_the_rest_is_recovered_and_the_damage_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    content = bytearray(GOLDEN.read_bytes())
    content[600] ^= 1
    files = left(bytes(content))
    assert found(opened(files)) == {key: data for key, data in KEPT.items() if key != "c/a"}
    assert "is damaged at bytes 512-3072" in caplog.text
    assert logs(files) == [f"{LOG.rpartition('/')[2]}.damaged"]
    caplog.clear()
    opened(files)
    assert caplog.text == ""


def test_what_could_not_be_synced_is_written_again() -> None:
    """The header of a half says so; or it is damaged, and then nobody knows."""
    content = bytearray(GOLDEN.read_bytes())
    content[3] ^= 1
    files = left(bytes(content), a=OBJECTS["c/a"], h=OBJECTS["c/h"])
    assert found(opened(files)) == KEPT
    assert "fsync /data/c/a" not in files.syncs
    assert "fsync /data/c/h" in files.syncs


@pytest.mark.parametrize("size", [0, 100, 20_000])
def test_a_log_that_was_never_finished_is_removed(size: int) -> None:
    files = left(bytes(size))
    assert found(opened(files)) == {}
    assert logs(files) == []


@pytest.mark.parametrize("calls", range(60))
def test_a_power_cut_in_a_recovery_loses_nothing(calls: int) -> None:
    files = left(GOLDEN.read_bytes(), d=b"")
    files.cut_power_after(calls)
    with suppress(PowerCutError):
        opened(files)
    files.crash()
    assert found(opened(files)) == KEPT


def test_on_a_real_file_system(tmp_path: Path) -> None:
    (tmp_path / ".log").mkdir()
    (tmp_path / ".log" / "1-0.log").write_bytes(GOLDEN.read_bytes())
    store = DirectoryStore(tmp_path)
    assert {info.key: bytes(store.get_all(info.key)) for info in store.list()} == KEPT
