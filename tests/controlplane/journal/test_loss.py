"""Tests that a journal is rejected if it lost an acknowledged record, but not if only its last commit was cut short."""

import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lacuna.controlplane.journal.connections import (
    Connection,
    connect,
    connect_read_only,
    errors_of,
)
from lacuna.controlplane.journal.evidence import gather
from lacuna.controlplane.journal.journal import JournalError, JournalLoss, Snapshot
from lacuna.controlplane.journal.snapshots import load_newest, snapshots_path
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.journal.tables import read_batches
from lacuna.controlplane.journal.wal import find_damage
from lacuna.controlplane.journal.witness import Witness, read_witness, witness_path
from tests.controlplane.journal.conftest import led

APPENDS = 7
PAGE = 512
FRAME = 24 + PAGE


def record(position: int) -> bytes:
    """Return a record. Some are larger than a page."""
    return b"%d " % position * (position * 53 % 40 + 1)


def small_pages(path: str, checkpoint_pages: int = 1000) -> Connection:
    connection = connect(path)
    connection.execute(f"PRAGMA page_size={PAGE}")
    connection.execute(f"PRAGMA wal_autocheckpoint={checkpoint_pages}")
    return connection


async def killed(folder: Path, checkpoint_pages: int = 1000) -> Path:
    """Return the files of a journal whose process was killed after `APPENDS` acknowledged appends."""
    (folder / "live").mkdir()
    live = folder / "live" / "journal.db"
    async with led(
        SqliteJournal(
            str(live), lambda: "made", connect=lambda path: small_pages(path, checkpoint_pages)
        )
    ) as (journal, token):
        position = 0
        while position < APPENDS:
            records = [record(position + 1 + at) for at in range(1 + position % 2)]
            position = await journal.append(records, token)
        shutil.copytree(folder / "live", folder / "killed")
    return folder / "killed" / "journal.db"


def read_all(path: Path) -> list[bytes]:
    """Return everything that is read at a start, unless the journal is rejected."""
    with errors_of(str(path)):
        gather(str(path)).check()
        connection = connect_read_only(str(path))
        try:
            return [each for batch in read_batches(connection, 0) for each in batch.records]
        finally:
            connection.close()


def outcome(path: Path) -> str:
    """Return "whole", "refused", or a description of the error."""
    try:
        found = read_all(path)
    except JournalError:
        return "refused"
    expected = [record(position) for position in range(1, len(found) + 1)]
    if found == expected and len(found) >= APPENDS:
        return "whole"
    return f"it starts with {len(found)} records"


#: 7 is prime to the sizes of pages and frames: in any seven of these in a row, each place has its byte changed once.
every = pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])


def flipped(
    path: Path, target: Path, step: int, judge: Callable[[Path], str] = outcome
) -> dict[str, list[int]]:
    """Flip one bit in every `step`th byte of `target`, one at a time. Return the flipped positions by outcome."""
    content = target.read_bytes()
    rng = random.Random(5)
    found: dict[str, list[int]] = {}
    with open(target, "r+b", buffering=0) as file:
        for at in range(0, len(content), step):
            byte = content[at]
            file.seek(at)
            file.write(bytes([byte ^ 1 << rng.randrange(8)]))
            found.setdefault(judge(path), []).append(at)
            file.seek(at)
            file.write(bytes([byte]))
    return found


@pytest.mark.slow
@every
@pytest.mark.parametrize("checkpoint_pages", [1000, 6], ids=["one log", "logs that began anew"])
async def test_no_byte_of_the_log_can_change_and_lose_something(
    tmp_path: Path, checkpoint_pages: int, step: int
) -> None:
    path = await killed(tmp_path, checkpoint_pages)
    wal = Path(f"{path}-wal")
    assert outcome(path) == "whole"
    assert wal.stat().st_size > 4 * FRAME
    found = flipped(path, wal, step)
    assert found.keys() <= {"whole", "refused"}
    assert found["refused"]


@pytest.mark.slow
@every
async def test_no_byte_of_the_database_can_change_and_lose_something(
    tmp_path: Path, step: int
) -> None:
    path = await killed(tmp_path, checkpoint_pages=6)
    assert flipped(path, path, step).keys() <= {"whole", "refused"}


@pytest.mark.slow
@every
async def test_no_byte_of_the_snapshots_can_change_and_lose_something(
    tmp_path: Path, step: int
) -> None:
    """The journal no longer contains the records covered by the snapshots."""
    (tmp_path / "live").mkdir()
    live = tmp_path / "live" / "journal.db"
    async with led(SqliteJournal(str(live), lambda: "made", connect=small_pages)) as (
        journal,
        token,
    ):
        for position in range(1, APPENDS + 1):
            await journal.append([record(position)], token)
            if position in (2, 4):
                await journal.store_snapshot(Snapshot(position, (b"state at %d" % position,)))
        path = Path(shutil.copytree(tmp_path / "live", tmp_path / "killed")) / "journal.db"
    assert from_snapshot(path) == "whole"
    for name in (".snapshots", ".snapshots-wal"):
        found = flipped(path, Path(str(path) + name), step, from_snapshot)
        assert found.keys() <= {"whole", "refused"}
    assert "refused" in found


def from_snapshot(path: Path) -> str:
    """Like `outcome`, for a journal whose first records exist only in snapshots."""
    try:
        snapshot = newest_snapshot(path)
        position = snapshot.position if snapshot is not None else 0
        with errors_of(str(path)), closing(connect_read_only(str(path))) as connection:
            batches = read_batches(connection, position)
    except JournalError:
        return "refused"
    is_whole = snapshot is not None and snapshot.parts == (b"state at %d" % position,)
    is_whole = is_whole and [batch.records for batch in batches] == [
        [record(each)] for each in range(position + 1, APPENDS + 1)
    ]
    return "whole" if is_whole else f"it starts from {position} with {len(batches)} batches"


def newest_snapshot(path: Path) -> Snapshot | None:
    name = snapshots_path(str(path))
    with errors_of(name), closing(connect_read_only(name)) as connection:
        return load_newest(connection, "made")


@pytest.mark.parametrize("checkpoint_pages", [1000, 6], ids=["one log", "logs that began anew"])
async def test_a_log_that_was_cut_is_refused_wherever_the_cut_is(
    tmp_path: Path, checkpoint_pages: int
) -> None:
    path = await killed(tmp_path, checkpoint_pages)
    wal = Path(f"{path}-wal")
    content = wal.read_bytes()
    found = set()
    for size in range(0, len(content), 67):
        wal.write_bytes(content[:size])
        found.add(outcome(path))
    assert found <= {"whole", "refused"}
    assert "refused" in found


async def test_a_refusal_says_what_is_missing_and_changes_nothing(tmp_path: Path) -> None:
    path = await killed(tmp_path)
    wal = Path(f"{path}-wal")
    content = bytearray(wal.read_bytes())
    content[-100] ^= 1
    wal.write_bytes(content)
    before = {
        each.name: each.read_bytes() for each in path.parent.iterdir() if each.suffix != ".db-shm"
    }
    for _ in range(2):
        message = f"ends at position 5, but everything up to position {APPENDS} was acknowledged: positions 6 to"
        with pytest.raises(JournalLoss, match=message):
            await SqliteJournal(str(path), lambda: "made").open(None)
    after = {name: (path.parent / name).read_bytes() for name in before}
    assert {name for name in before if before[name] != after[name]} <= {"journal.db-shm"}


async def test_a_journal_that_is_gone_is_refused(tmp_path: Path) -> None:
    path = await killed(tmp_path)
    path.unlink()
    Path(f"{path}-wal").unlink()
    with pytest.raises(JournalLoss, match=f"positions 1 to {APPENDS} are missing"):
        await SqliteJournal(str(path), lambda: "another").open(None)


async def test_an_older_copy_is_refused_and_a_whole_one_opens_without_a_witness(
    tmp_path: Path,
) -> None:
    path = await killed(tmp_path)
    witness = Path(witness_path(str(path)))
    Witness(str(witness), "made", APPENDS + 1).close()
    with pytest.raises(JournalLoss, match="replaced by an older copy"):
        await SqliteJournal(str(path), lambda: "made").open(None)
    witness.unlink()
    journal = SqliteJournal(str(path), lambda: "made")
    assert (await journal.open(None)).position == APPENDS
    await journal.close()
    assert read_witness(str(witness), "made") == APPENDS


def test_a_damaged_slot_of_a_witness_leaves_the_other(tmp_path: Path) -> None:
    path = tmp_path / "witness"
    witness = Witness(str(path), "made", 5)
    witness.note(8)
    witness.note(9)
    witness.close()
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :])
        assert read_witness(str(path), "made") in (8, 9)
    path.write_bytes(content)
    assert read_witness(str(path), "made") == 9
    assert read_witness(str(path), "another") == 0
    assert read_witness(str(path), None) == 9
    assert read_witness(str(tmp_path / "none"), "made") == 0


# What the log alone proves, as after a power cut that took the witness back.


async def log_of(tmp_path: Path) -> bytes:
    path = await killed(tmp_path)
    return Path(f"{path}-wal").read_bytes()


def commits(wal: bytes) -> list[int]:
    """Return the positions at which frames with a commit mark begin."""
    return [at for at in range(32, len(wal), FRAME) if wal[at + 4 : at + 8] != bytes(4)]


@pytest.mark.slow
async def test_a_bad_frame_before_a_later_commit_is_damage(tmp_path: Path) -> None:
    wal = await log_of(tmp_path)
    assert find_damage(wal) is None
    last = commits(wal)[-2]  # a later commit goes on from this frame
    for at in range(32, last):
        damaged = bytearray(wal)
        damaged[at] ^= 1 << at % 8
        found = find_damage(bytes(damaged))
        assert found is not None, f"byte {at}"
        assert found.position == (at - 32) // FRAME * FRAME + 32
        assert found.size == FRAME


@pytest.mark.slow
async def test_a_last_commit_that_was_never_finished_is_no_damage(tmp_path: Path) -> None:
    """Any subset of its frames is on disk, each of them wholly or partly."""
    wal = await log_of(tmp_path)
    rng = random.Random(3)
    begin = commits(wal)[-2] + FRAME
    assert len(wal) > begin
    for _ in range(500):
        torn = bytearray(wal)
        for at in range(begin, len(wal), FRAME):
            first, end = sorted((rng.randrange(FRAME + 1), rng.randrange(FRAME + 1)))
            torn[at + first : at + end] = bytes(end - first)
        assert find_damage(bytes(torn)) is None
    for size in range(begin, len(wal)):
        assert find_damage(wal[:size]) is None


async def test_what_a_longer_unfinished_commit_left_behind_a_shorter_one_is_no_damage(
    tmp_path: Path,
) -> None:
    """After two power cuts, frames of the first commit follow those of the second."""
    (tmp_path / "first").mkdir()
    path = await killed(tmp_path / "first")
    wal = Path(f"{path}-wal").read_bytes()
    begin = commits(wal)[-2] + FRAME
    longer = await appended_to(path, [b"long" * 1000])
    left = longer[begin + 2 * FRAME :]
    assert len(left) >= 2 * FRAME
    torn = wal[:begin] + bytes([1]) * FRAME + wal[begin + FRAME :] + left
    assert find_damage(torn) is None


async def appended_to(path: Path, records: list[bytes]) -> bytes:
    """Return the log of a copy after one more append."""
    copy = path.parent.parent / "copy"
    shutil.copytree(path.parent, copy)
    async with led(SqliteJournal(str(copy / path.name), lambda: "made", connect=small_pages)) as (
        journal,
        token,
    ):
        await journal.append(records, token)
        return (copy / f"{path.name}-wal").read_bytes()


@pytest.mark.parametrize("size", [0, 31, 32, 40, 100])
def test_what_is_no_log_proves_nothing(size: int) -> None:
    assert find_damage(random.Random(size).randbytes(size)) is None
