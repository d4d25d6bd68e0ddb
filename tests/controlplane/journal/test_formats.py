"""Tests upgrades: earlier journals are read, and later ones are rejected with a one-line message.

tests/golden/journals contains one history: two committed transactions, an aborted one, an idempotent producer, a group,
and an open transaction.
"""

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
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, LeasesEnded
from lacuna.controlplane.v1.snapshot_pb2 import StateSnapshot
from tests.controlplane.journal.golden import KINDS, SHARED, Place, make_place, replayed


@pytest.fixture
def old(kind: str, request: pytest.FixtureRequest) -> Place:
    """A journal that an earlier version wrote."""
    place = make_place(kind, request)
    place.fill()
    return place


def raise_formats(patch: pytest.MonkeyPatch) -> None:
    """Raise every format that this version writes by one."""
    patch.setattr(sqlite, "FORMAT_VERSION", 2)
    patch.setattr(tables, "FORMAT_VERSION", 2)
    patch.setattr(bucket_manifest, "_FORMAT_VERSION", 2)
    patch.setattr(bucket_appends, "_FORMAT_VERSION", 2)
    patch.setattr(postgresql_schema, "FORMAT_VERSION", 2)


def facts(state: machine.State) -> dict[str, object]:
    """Return the history as a client sees it."""
    topics = {topic.name: topic.partitions[0] for topic in state.topics.values()}
    first = state.transactional_ids["first"]
    return {
        "orders": (topics["orders"].high_watermark, list(topics["orders"].dead.firsts)),
        "extents": (len(topics["orders"].extents), len(topics["plain"].extents)),
        "first": (first.state.value, first.producer_epoch),
        "offsets": [each.offset for each in state.groups.offsets.committed["readers"].values()],
    }


@pytest.mark.parametrize("kind", KINDS)
async def test_what_an_earlier_version_wrote_is_read(old: Place) -> None:
    replica = await replayed(old.journal())
    assert replica.position == 22
    assert facts(replica.state) == {
        "orders": (5, [2]),
        "extents": (4, 1),
        "first": ("Ongoing", 0),
        "offsets": [4],
    }


@pytest.mark.parametrize("kind", KINDS)
async def test_a_journal_that_a_later_version_leads_is_refused(
    old: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later version reads the journal. Once it has led, only a restored backup goes back."""
    with monkeypatch.context() as patched:
        raise_formats(patched)
        await replayed(old.journal())
    with pytest.raises(
        JournalOfAnotherVersion,
        match="format is 2 and this version reads up to 1: install the version that wrote it, or restore",
    ):
        await old.journal().open(None)


@pytest.mark.parametrize("kind", SHARED)
async def test_a_standby_refuses_a_later_version_that_takes_over(
    old: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = old.journal()
    await journal.open(None)
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
    with pytest.raises(JournalOfAnotherVersion, match=r"a record of format 2, but .* up to 1"):
        await replayed(old.journal())


@pytest.mark.parametrize("kind", KINDS)
async def test_a_snapshot_of_a_later_format_is_refused(old: Place) -> None:
    replica = await replayed(old.journal())
    state = StateSnapshot.FromString(machine.snapshot(replica.state))
    assert state.format_version == 1
    state.format_version = 2
    journal = old.journal()
    opened = await journal.open(None)
    record = JournalRecord(now_ms=1, leases_ended=LeasesEnded())
    position = await journal.append([record.SerializeToString()], opened.fencing_token)
    await journal.store_snapshot(Snapshot(position, (state.SerializeToString(),)))
    await journal.close()
    with pytest.raises(
        JournalOfAnotherVersion, match=rf"snapshot at position {position} has format 2"
    ):
        await replayed(old.journal())
