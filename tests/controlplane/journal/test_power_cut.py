"""Tests that after a power cut at any moment, every acknowledged record is kept and none is partial (S2).

The test also omits each sync in turn and detects the resulting loss, which shows that it would detect such a bug in the
journal.
"""

import random
from pathlib import Path

import pytest

from lacuna.controlplane.journal.journal import HotSegment, JournalError, Snapshot
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.journal.witness import witness_path
from lacuna.logstore.segments.hot import hot_lease
from tests.controlplane.journal.faulty_disk import FaultyDisk, Remains

APPENDS = 60
CUTS = 60
SNAPSHOTS = (15, 30, 45, 55)


def record(position: int) -> bytes:
    """Return a record. Sizes vary up to several pages."""
    return b"%d " % position * (position * 37 % 900 + 1)


def hot(position: int) -> list[HotSegment]:
    """Return the hot segments in the append that ends at `position`: every second append has one."""
    if position % 2:
        return []
    return [HotSegment((hot_lease(1), position), b"%d" % position * (position * 53 % 5000 + 1))]


def state(position: int) -> bytes:
    return b"state at %d" % position * 500


async def work(path: Path, disk: FaultyDisk, acknowledged: list[int]) -> None:
    """Open and use a journal twice, with snapshots and trims. An append may contain several records."""
    rng = random.Random(3)
    for life in (0, 1):
        journal = SqliteJournal(str(path / "control.db"), lambda: "made", connect=disk.connect)
        opened = await journal.open(None)
        position = opened.position
        for number in range(life * APPENDS // 2, (life + 1) * APPENDS // 2):
            count = rng.randint(1, 4)
            records = [record(position + at + 1) for at in range(count)]
            end = position + count
            position = await journal.append(records, opened.fencing_token, hot(end))
            acknowledged.append(position)
            if number in SNAPSHOTS:
                await journal.store_snapshot(Snapshot(position, (state(position),)))
        await journal.close()


async def loss(remains: Remains, witness: bytes, path: Path, rng: random.Random) -> str | None:
    """Return what a journal lost in a power cut, or None. Its witness reached the disk first, without a sync."""
    path.mkdir()
    remains.lay_out(path, rng)
    if witness:
        Path(witness_path(str(path / "control.db"))).write_bytes(witness)
    journal = SqliteJournal(str(path / "control.db"), lambda: "again")
    try:
        opened = await journal.open(None)
        if remains.acknowledged and opened.cluster_id != "made":
            return "the journal is gone"
        snapshot = await journal.load_snapshot()
        position = 0 if snapshot is None else snapshot.position
        if snapshot is not None and snapshot.parts != (state(position),):
            return "the snapshot is another"
        ends: list[int] = []
        async for batch in journal.read(position):
            first = batch.position - len(batch.records) + 1
            if batch.records != [record(first + at) for at in range(len(batch.records))]:
                return f"records before position {batch.position} are others"
            position = batch.position
            ends.append(position)
        if position < remains.acknowledged:
            return f"it ends at {position}, {remains.acknowledged} was acknowledged"
        if position != opened.position:
            return f"it ends at {position} and goes on at {opened.position}"
        return await hot_loss(journal, ends, position)
    except JournalError as error:
        return str(error)
    finally:
        await journal.close()


async def hot_loss(journal: SqliteJournal, ends: list[int], position: int) -> str | None:
    """Describe what is wrong with the hot segments in the appends with these ends, the last of which is `position`."""
    for end in ends:
        if await journal.read_hot([(hot_lease(1), end)]) != dict(hot(end)):
            return f"the hot bytes of the append at {end} are others"
    if any(sequence > position for _, sequence in journal.hot):
        return "there are hot bytes without their append"
    return None


async def losses(
    tmp_path: Path, skips: tuple[str, ...] = (), pragmas: dict[str, str] | None = None
) -> list[str]:
    """Return the losses for every moment at which the power can be cut."""
    (tmp_path / "count").mkdir()
    counting = FaultyDisk(lambda: 0, (), skips, pragmas)
    await work(tmp_path / "count", counting, [])
    rng = random.Random(11)
    cut_at = set(rng.sample(range(1, counting.calls + 1), CUTS))
    (tmp_path / "work").mkdir()
    acknowledged = [0]
    witnesses: list[bytes] = []
    witness = Path(witness_path(str(tmp_path / "work" / "control.db")))

    def facts() -> int:
        witnesses.append(witness.read_bytes() if witness.exists() else b"")
        return acknowledged[-1]

    disk = FaultyDisk(facts, cut_at, skips, pragmas)
    await work(tmp_path / "work", disk, acknowledged)
    found = [
        await loss(remains, seen, tmp_path / f"after{number}", rng)
        for number, (remains, seen) in enumerate(zip(disk.remains, witnesses, strict=True))
    ]
    assert len(found) == CUTS
    return [what for what in found if what is not None]


@pytest.mark.slow
async def test_a_power_cut_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    assert await losses(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("skipped", ["log", "database", "directory"])
async def test_without_a_sync_something_is_lost(tmp_path: Path, skipped: str) -> None:
    assert await losses(tmp_path, skips=(skipped,))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["OFF", "NORMAL"])
async def test_a_weaker_mode_loses_something(tmp_path: Path, mode: str) -> None:
    weaker = {"PRAGMA synchronous=FULL": f"PRAGMA synchronous={mode}"}
    assert await losses(tmp_path, pragmas=weaker)
