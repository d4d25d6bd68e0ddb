"""Upgrades: journals of earlier versions are read, and those of later ones refused in one line.

tests/golden/journals has what earlier versions wrote, of one history: two committed transactions and an aborted one, an
idempotent producer, a group, and a transaction that is open. `sqlite-0.1` has columns of extents, which were replaced
by rows before anything was released; in the others the journal was trimmed. `bucket-2` has another snapshot for
`bucket`, with an index of the format 2.
"""

import shutil
from pathlib import Path

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.journal import (
    bucket_appends,
    bucket_manifest,
    postgresql_schema,
    sqlite,
    tables,
)
from lacuna.controlplane.journal.journal import JournalOfAnotherVersion, Snapshot
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, LeasesEnded
from lacuna.controlplane.v1.snapshot_pb2 import StateSnapshot
from tests.controlplane.journal.golden import GOLDEN, KINDS, SHARED, Place, make_place, replayed


@pytest.fixture
def old(kind: str, request: pytest.FixtureRequest) -> Place:
    """A journal that an earlier version wrote."""
    place = make_place(kind, request)
    place.fill()
    return place


def raise_formats(patch: pytest.MonkeyPatch) -> None:
    """Makes all that this version writes a format later."""
    patch.setattr(sqlite, "FORMAT_VERSION", 2)
    patch.setattr(tables, "FORMAT_VERSION", 2)
    patch.setattr(bucket_manifest, "_FORMAT_VERSION", 2)
    patch.setattr(bucket_appends, "_FORMAT_VERSION", 2)
    patch.setattr(postgresql_schema, "FORMAT_VERSION", 3)


def facts(state: machine.State) -> dict[str, object]:
    """What the history was, as a client would be told."""
    topics = {topic.name: topic.partitions[0] for topic in state.topics.values()}
    first = state.transactional_ids["first"]
    return {
        "orders": (topics["orders"].high_watermark, list(topics["orders"].dead.firsts)),
        "extents": (len(topics["orders"].extents), len(topics["plain"].extents)),
        "first": (first.state.value, first.producer_epoch),
        "offsets": [each.offset for each in state.groups.offsets.committed["readers"].values()],
    }


@pytest.mark.parametrize("kind", [*KINDS, "bucket-2"])
async def test_what_an_earlier_version_wrote_is_read(old: Place) -> None:
    replica = await replayed(old.journal())
    assert replica.position == 22
    assert facts(replica.state) == {
        "orders": (5, [2]),
        "extents": (4, 1),
        "first": ("Ongoing", 0),
        "offsets": [4],
    }


async def test_the_records_of_the_first_version_give_what_its_snapshot_holds(
    tmp_path: Path,
) -> None:
    shutil.copy(GOLDEN / "sqlite-0.1" / "journal.db", tmp_path)
    records = await replayed(SqliteJournal(str(tmp_path / "journal.db"), str))
    assert records.records == 22
    (tmp_path / "journal.db.snapshots").unlink()
    shutil.copy(GOLDEN / "sqlite-0.1" / "journal.db.snapshots", tmp_path)
    snapshot = await replayed(SqliteJournal(str(tmp_path / "journal.db"), str))
    assert snapshot.records == 0
    for key, partition in snapshot.state.partitions.items():
        # A snapshot had none up to 0.1; it begins where the snapshot ends.
        history = records.state.partitions[key].history
        assert partition.history.known_from() == snapshot.state.clock_ms // 1000 + 1
        assert history.known_from() <= partition.history.known_from()
        partition.history = history
    assert not snapshot.state.id_ages.hours, "it had none of these either"
    snapshot.state.id_ages = records.state.id_ages
    assert machine.snapshot(snapshot.state) == machine.snapshot(records.state)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_journal_that_a_later_version_leads_is_refused(
    old: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later version reads what is there; once it has led, there is no way back but the backup."""
    newest = 2 if old.url else 1
    with monkeypatch.context() as patched:
        raise_formats(patched)
        await replayed(old.journal())
    with pytest.raises(
        JournalOfAnotherVersion,
        match=rf"format is {newest + 1} and this version reads up to {newest}: install the version that wrote it, or "
        "restore",
    ):
        await old.journal().open(None)


@pytest.mark.parametrize("kind", SHARED)
async def test_a_standby_refuses_a_later_version_that_takes_over(
    old: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = old.journal()
    reader = journal.reader()  # type: ignore[attr-defined]
    assert await reader.leader() is not None
    with monkeypatch.context() as patched:
        raise_formats(patched)
        await old.journal().open(None)
    with pytest.raises(JournalOfAnotherVersion, match=r"format is \d and this version reads up to"):
        await reader.leader()
    await reader.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_record_of_a_later_format_is_refused(old: Place) -> None:
    journal = old.journal()
    opened = await journal.open(None)
    record = JournalRecord(format_version=2, now_ms=1, leases_ended=LeasesEnded())
    await journal.append([record.SerializeToString()], opened.fencing_token)
    await journal.close()
    with pytest.raises(JournalOfAnotherVersion, match=r"a record of format 2, and .* up to 1"):
        await replayed(old.journal())


@pytest.mark.parametrize("kind", KINDS)
async def test_a_snapshot_of_a_later_format_is_refused(old: Place) -> None:
    replica = await replayed(old.journal())
    state = StateSnapshot.FromString(machine.snapshot(replica.state))
    assert state.format_version == 1
    state.format_version = 3
    journal = old.journal()
    opened = await journal.open(None)
    record = JournalRecord(now_ms=1, leases_ended=LeasesEnded())
    position = await journal.append([record.SerializeToString()], opened.fencing_token)
    await journal.store_snapshot(Snapshot(position, (state.SerializeToString(),)))
    await journal.close()
    with pytest.raises(
        JournalOfAnotherVersion, match=rf"snapshot at position {position} has format 3"
    ):
        await replayed(old.journal())
