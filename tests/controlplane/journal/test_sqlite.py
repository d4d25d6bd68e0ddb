"""Tests the SQLite journal: foreign files, damage, trimming, and the snapshot process."""

import asyncio
import os
import platform
import random
import sqlite3
import subprocess
import sys
import threading
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from lacuna.controlplane.journal import snapshotter
from lacuna.controlplane.journal.connections import errors_of
from lacuna.controlplane.journal.journal import (
    HotSegment,
    JournalCorrupt,
    JournalError,
    JournalFenced,
    JournalForeign,
    JournalInUse,
    Snapshot,
)
from lacuna.controlplane.journal.rows import decode_records
from lacuna.controlplane.journal.salvage import replace, salvage
from lacuna.controlplane.journal.snapshot_process import SnapshotProcess
from lacuna.controlplane.journal.snapshots import SnapshotDatabase, snapshots_path
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.logstore.segments.hot import hot_lease
from tests.controlplane.journal.conftest import led
from tests.controlplane.runtime.rig import Rig, commit, created
from tests.controlplane.verbs.cluster import Cluster

T = TypeVar("T")

SECOND = """
import asyncio, sys
from lacuna.controlplane.journal.sqlite import SqliteJournal

asyncio.run(SqliteJournal(sys.argv[1], lambda: "made").open(None))
"""

#: The number of the system call on a machine.
SETPRIORITY = {"x86_64": 141, "aarch64": 140}
#: Runs the snapshot process where that system call fails with EPERM, by a seccomp filter (linux/filter.h, seccomp.h).
SANDBOX = """
import ctypes, os, runpy, struct, sys

instructions = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in (
        (0x20, 0, 0, 0),  # load the number of the system call
        (0x15, 0, 1, int(sys.argv[1])),  # if it is this one
        (0x06, 0, 0, 0x00050000 | 1),  # return EPERM
        (0x06, 0, 0, 0x7FFF0000),  # else allow it
    )
)
program = struct.pack("HP", 4, ctypes.cast(instructions, ctypes.c_void_p).value)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP, a filter
try:
    os.nice(1)
    raise SystemExit("os.nice is not refused")
except PermissionError:
    sys.argv[1:] = ["8"]
    runpy.run_module("lacuna.controlplane.journal.snapshotter", run_name="__main__")
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "control.db")


async def written(path: str, count: int = 10) -> None:
    """Return a journal with `count` appends of one record each."""
    async with led(SqliteJournal(path, lambda: "made")) as (journal, token):
        for position in range(1, count + 1):
            await journal.append([b"record %d" % position], token)


def change(path: str, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()


async def positions(path: str, after_position: int = 0) -> list[int]:
    journal = SqliteJournal(path, lambda: "made")
    await journal.open(None)
    try:
        return [batch.position async for batch in journal.read(after_position)]
    finally:
        await journal.close()


@pytest.mark.slow
async def test_a_second_process_is_told_who_is_there(path: str) -> None:
    async with led(SqliteJournal(path, lambda: "made")) as (journal, _):
        other = subprocess.run(
            [sys.executable, "-c", SECOND, path], capture_output=True, text=True, check=False
        )
        assert "another control plane is running on this data" in other.stderr
        with pytest.raises(JournalInUse, match="already open"):
            await journal.open(None)


async def test_a_strangers_database_is_refused_and_left_alone(path: str) -> None:
    change(path, "CREATE TABLE theirs (a)")
    before = Path(path).read_bytes()
    with pytest.raises(
        JournalForeign, match="not a Lacuna journal: the database belongs to another"
    ):
        await SqliteJournal(path, lambda: "made").open(None)
    assert Path(path).read_bytes() == before


async def test_what_is_no_database_is_refused(path: str) -> None:
    Path(path).write_text("some notes of mine" * 100)
    with pytest.raises(JournalForeign, match="not a Lacuna journal"):
        await SqliteJournal(path, lambda: "made").open(None)


async def test_a_folder_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"cannot write next to .*nowhere"):
        await SqliteJournal(str(tmp_path / "nowhere" / "x.db"), lambda: "made").open(None)


async def test_a_closed_journal_says_so(path: str) -> None:
    journal = SqliteJournal(path, lambda: "made")
    with pytest.raises(JournalError, match="closed"):
        journal.append([b"a"], 1)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("UPDATE batches SET records=x'00000000' WHERE position=4", "position 4 .*checksum"),
        ("UPDATE batches SET records='text' WHERE position=4", "position 4 .*checksum"),
        ("UPDATE batches SET crc=crc+1 WHERE position=4", "position 4 .*checksum"),
        ("UPDATE batches SET position=100 WHERE position=10", "position 100 .*checksum"),
        ("UPDATE batches SET count=2 WHERE position=4", "ends at position 4 does not follow"),
        ("DELETE FROM batches WHERE position=4", "ends at position 5 does not follow position 3"),
    ],
)
async def test_damage_is_found_and_named(path: str, damage: str, message: str) -> None:
    await written(path)
    change(path, damage)
    with pytest.raises(JournalCorrupt, match=message):
        await positions(path)


@pytest.mark.parametrize("blob", [b"\1\0\0", b"\2\0\0\0a"])
def test_lengths_that_do_not_fit_are_errors(blob: bytes) -> None:
    with pytest.raises(ValueError, match="cut short"):
        decode_records(blob)


@pytest.mark.slow
async def test_a_torn_tail_of_the_log_is_left_out(path: str, tmp_path: Path) -> None:
    """If a power cut tears the last frames, only complete appends remain."""
    async with led(SqliteJournal(path, lambda: "made")) as (journal, token):
        sizes = []
        for position in range(1, 9):
            await journal.append([b"record %d" % position * 300], token)
            sizes.append(Path(path + "-wal").stat().st_size)
        database, log = Path(path).read_bytes(), Path(path + "-wal").read_bytes()
    cuts = random.Random(7).sample(range(sizes[1], sizes[-1]), 20)
    for number, cut in enumerate([*cuts, *sizes]):
        torn = str(tmp_path / f"torn{number}.db")
        Path(torn).write_bytes(database)
        garbage = b"\xa5" * 64 if number % 2 else b""
        Path(torn + "-wal").write_bytes(log[:cut] + garbage)
        whole = sum(size <= cut for size in sizes)
        assert await positions(torn) == list(range(1, whole + 1))


async def test_rows_are_trimmed_behind_the_older_of_two_snapshots(path: str) -> None:
    await written(path, 200)
    async with led(SqliteJournal(path, lambda: "made")) as (journal, token):
        await journal.store_snapshot(Snapshot(150, (b"first",)))
        assert [batch.position async for batch in journal.read(0)] == list(range(1, 201))
        trimming = asyncio.ensure_future(journal.store_snapshot(Snapshot(200, (b"second",))))
        assert await journal.append([b"between"], token) == 201
        await trimming
        assert [batch.position async for batch in journal.read(150)] == list(range(151, 202))
        with pytest.raises(JournalCorrupt, match="does not follow position 0"):
            [batch async for batch in journal.read(0)]


async def test_a_damaged_snapshot_costs_a_longer_replay(path: str) -> None:
    await written(path, 10)
    async with led(SqliteJournal(path, lambda: "made")) as (journal, _):
        for position in (4, 8):
            await journal.store_snapshot(Snapshot(position, (b"state %d" % position,)))
        assert await journal.load_snapshot() == Snapshot(8, (b"state 8",))
        change(snapshots_path(path), "UPDATE snapshots SET state=x'00' WHERE position=8")
        assert await journal.load_snapshot() == Snapshot(4, (b"state 4",))
        assert [batch.position async for batch in journal.read(4)] == list(range(5, 11))
        change(snapshots_path(path), "UPDATE snapshots SET parts=2 WHERE position=4")
        with pytest.raises(JournalCorrupt, match="position 4 is incomplete"):
            await journal.load_snapshot()


async def test_snapshots_of_another_cluster_are_refused(path: str) -> None:
    await written(path)
    database = SnapshotDatabase(snapshots_path(path), "other")
    database.store(Snapshot(3, (b"theirs",)))
    database.close()
    async with led(SqliteJournal(path, lambda: "made")) as (journal, _):
        with pytest.raises(JournalForeign, match="belong to cluster other, not made"):
            await journal.load_snapshot()


async def test_a_large_snapshot_is_stored_part_by_part(path: str) -> None:
    database = SnapshotDatabase(path, "made")
    state = random.Random(1).randbytes(4500)
    parts = tuple(state[at : at + 1000] for at in range(0, len(state), 1000))
    for position in (3, 5, 9):
        database.store(Snapshot(position, iter(parts)))
    assert database.positions() == [9, 5]
    assert database.trimmable() == 5
    assert database.load() == Snapshot(9, parts)
    database.store(Snapshot(9, parts[:2]))
    assert database.load() == Snapshot(9, parts[:2])
    database.close()


async def history(rig: Rig, count: int) -> bytes:
    client = rig.client()
    topic_id = await created(client)
    for _ in range(count):
        await client.call(commit(topic_id))
    return rig.runtime.serialized_state()


@pytest.mark.slow
async def test_another_process_makes_the_snapshot(path: str) -> None:
    journal = SqliteJournal(path, lambda: "made")
    rig = await Rig(journal=journal).start()
    before = await history(rig, 20)
    process = SnapshotProcess(journal)
    await process.make(23)
    assert await journal.load_snapshot() == Snapshot(23, (before,))
    client = rig.client()
    topic_id = client.cluster.topics_by_name["a"].topic_id
    for _ in range(5):
        await client.call(commit(topic_id))
    await process.make(28)
    after = Snapshot(28, (rig.runtime.serialized_state(),))
    assert await journal.load_snapshot() == after
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT min(position) FROM batches").fetchone() == (24,)
    connection.close()
    with pytest.raises(JournalError, match="ends at position 28, before 99"):
        await process.make(99)
    await process.close()
    await rig.restart()
    assert (rig.runtime.serialized_state(),) == after.parts
    await rig.runtime.close()


async def test_a_snapshot_process_is_ended_with_its_parent(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = tmp_path / "python"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(hanging))
    process = SnapshotProcess(SqliteJournal(path, lambda: "made"))
    making = asyncio.create_task(process.make(1))
    while process.pid is None:
        await asyncio.sleep(0)
    pid = process.pid
    making.cancel()
    await asyncio.gather(making, return_exceptions=True)
    await process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
@pytest.mark.skipif(
    platform.machine() not in SETPRIORITY, reason="the number of setpriority is not known"
)
async def test_a_snapshot_is_made_where_priorities_may_not_be_changed(path: str) -> None:
    """A sandbox may forbid the system call, as systemd's @resources does."""
    rig = await Rig(journal=SqliteJournal(path, lambda: "made")).start()
    before = await history(rig, 5)
    snapshot = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SANDBOX, str(SETPRIORITY[platform.machine()]), stdin=PIPE, stderr=PIPE
    )
    _, said = await snapshot.communicate(path.encode())
    assert (snapshot.returncode, said) == (0, b"")
    assert await rig.journal.load_snapshot() == Snapshot(8, (before,))
    await rig.runtime.close()


async def test_a_snapshot_is_made_in_this_process_too(path: str) -> None:
    """It runs the steps of `snapshotter.main` in this process, where a debugger and coverage can see them."""
    rig = await Rig(journal=SqliteJournal(path, lambda: "made")).start()
    before = await history(rig, 5)
    assert snapshotter.make_snapshot(path, 3) == 8
    assert snapshotter.make_snapshot(path, 8) == 8
    assert await rig.journal.load_snapshot() == Snapshot(8, (before,))
    await rig.runtime.close()


def test_the_snapshotter_says_what_is_wrong(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert snapshotter.main(path, 5) == 1
    assert "the journal is empty" in capsys.readouterr().err


async def test_a_damaged_file_is_named(path: str) -> None:
    await written(path, 300)
    content = bytearray(Path(path).read_bytes())
    content[4096 * 3 :] = b"\xa5" * (len(content) - 4096 * 3)
    Path(path).write_bytes(content)
    with pytest.raises(JournalCorrupt, match=r"control.db or a file next to it was damaged"):
        await positions(path)


async def test_a_disk_that_is_full_is_an_error_that_says_so(path: str) -> None:
    async with led(SqliteJournal(path, lambda: "made")) as (journal, token):
        assert journal._connection is not None
        journal._connection.execute("PRAGMA max_page_count=20")
        with pytest.raises(
            JournalError, match="cannot be read or written: database or disk is full"
        ):
            await journal.append([b"a" * 1_000_000], token)
    assert await positions(path) == []


async def test_a_disk_that_is_full_is_that_of_the_snapshots(path: str) -> None:
    """The error names the snapshots' file, because the journal may be on a different disk."""
    database = SnapshotDatabase(snapshots_path(path), "made")
    database._connection.execute("PRAGMA max_page_count=20")
    said = r"\.snapshots cannot be read or written: database or disk is full"
    with errors_of(path), pytest.raises(JournalError, match=said):
        database.store(Snapshot(3, (b"a" * 1_000_000,)))
    database.close()


class _Pace:
    """A pace whose result is set by the test."""

    def __init__(self) -> None:
        self.is_allowed = True
        self.timed_in: list[int] = []

    def allows(self) -> bool:
        return self.is_allowed

    def timed(self, job: Callable[[], T]) -> T:
        self.timed_in.append(threading.get_ident())
        return job()


async def test_an_append_in_the_event_loop_is_durable_when_it_returns(path: str) -> None:
    """S2: once the pace requires it, appends use the thread again, with positions in a single order."""
    pace = _Pace()
    async with led(SqliteJournal(path, lambda: "made", pace=pace)) as (journal, token):
        here = journal.append([b"a"], token)
        assert here.done()
        assert sqlite3.connect(path).execute("SELECT max(position) FROM batches").fetchone() == (1,)
        pace.is_allowed = False
        in_thread = journal.append([b"b"], token)
        pace.is_allowed = True
        behind = journal.append([b"c"], token)
        assert not in_thread.done()
        assert [here.result(), await in_thread, await behind] == [1, 2, 3]
        loop_thread = threading.get_ident()
        assert [each == loop_thread for each in pace.timed_in] == [True, False, False]


async def test_an_append_in_the_event_loop_that_fails_says_so(path: str) -> None:
    async with led(SqliteJournal(path, lambda: "made", pace=_Pace())) as (journal, token):
        with pytest.raises(JournalFenced, match="taken"):
            await journal.append([b"late"], token - 1)


async def test_damaged_hot_bytes_are_named_and_an_accepted_loss_keeps_the_others(path: str) -> None:
    cluster = Cluster()
    cluster.create("orders")
    async with led(SqliteJournal(path, lambda: cluster.state.cluster_id)) as (journal, token):
        sent = [HotSegment((hot_lease(7), number), bytes(10_000)) for number in (1, 2)]
        await journal.append(cluster.journal, token, sent)
    change(path, "UPDATE hot SET bytes = zeroblob(9999) WHERE sequence = 1")
    async with led(SqliteJournal(path, lambda: "made")) as (journal, _):
        assert await journal.read_hot([sent[1].key]) == dict(sent[1:])
        with pytest.raises(JournalCorrupt, match=f"hot segment 1 of lease {hot_lease(7)} does not"):
            await journal.read_hot([each.key for each in sent])
    replace(salvage(path), [], 1)
    await journal.open(None)
    assert dict(journal.hot) == {sent[1].key: 10_000}
    assert await journal.read_hot([each.key for each in sent]) == dict(sent[1:])
    await journal.close()
