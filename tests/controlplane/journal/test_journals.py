"""Tests the contract of every journal: SQLite, PostgreSQL, a bucket, and memory."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lacuna.controlplane.journal.bucket import BucketJournal
from lacuna.controlplane.journal.journal import (
    Journal,
    JournalBatch,
    JournalFenced,
    JournalForeign,
    JournalInUse,
    OpenedJournal,
    Snapshot,
)
from lacuna.controlplane.journal.moving.holding import renewing
from lacuna.controlplane.journal.postgresql import PostgresqlJournal
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.logstore.objects import MemoryStore
from lacuna.logstore.objects.encrypted import EncryptedConditionalStore
from tests.doubles.clock import LeaseClock
from tests.doubles.journal import MemoryJournal
from tests.doubles.keys import some_keys


@dataclass(frozen=True, slots=True)
class Kept:
    """A journal that can be opened again, as after a restart. Its appends need several reads if `many` is set."""

    journal: Callable[[], Journal]
    many: int = 600


class RenewingJournal(BucketJournal):
    """Renews as the runtime does, because opening a journal in a bucket takes the length of a lease."""

    async def open(self, cluster_id: str | None) -> OpenedJournal:
        opened = await super().open(cluster_id)
        self._renewing = renewing(self.renewer(opened.fencing_token), self.lease, self._clock)
        await self._renewing.__aenter__()
        return opened

    async def close(self) -> None:
        if self._held is not None:
            await self._renewing.__aexit__(None, None, None)
        await super().close()


@pytest.fixture(
    params=["memory", "sqlite", "postgresql", "bucket-memory", "bucket-s3", "bucket-encrypted"]
)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    if request.param == "memory":
        memory = MemoryJournal("made")
        return Kept(lambda: memory)
    if request.param == "sqlite":
        return Kept(lambda: SqliteJournal(str(tmp_path / "control.db"), lambda: "made"))
    if request.param.startswith("bucket"):
        is_s3 = request.param == "bucket-s3"
        bucket = request.getfixturevalue("s3") if is_s3 else MemoryStore()
        if request.param == "bucket-encrypted":
            bucket = EncryptedConditionalStore(bucket, some_keys())
        clock = LeaseClock(moment=0.1)
        return Kept(
            lambda: RenewingJournal(bucket, lambda: "made", lease=3.0, clock=clock), many=100
        )
    database = request.getfixturevalue("database")
    # With a lease, so that a second writer is told to wait; one that was closed has none.
    return Kept(lambda: PostgresqlJournal(database, lambda: "made", lease=3600.0))


async def batches(journal: Journal, after_position: int = 0) -> list[JournalBatch]:
    return [batch async for batch in journal.read(after_position)]


async def test_what_was_appended_is_read_back_in_order(kept: Kept) -> None:
    journal = kept.journal()
    opened = await journal.open(None)
    assert (opened.cluster_id, opened.position) == ("made", 0)
    assert await batches(journal) == []
    assert await journal.append([b"a", b"", b"c" * 100_000], opened.fencing_token) == 3
    assert await journal.append([b"d"], opened.fencing_token) == 4
    expected = [JournalBatch(3, [b"a", b"", b"c" * 100_000]), JournalBatch(4, [b"d"])]
    assert await batches(journal) == expected
    assert await batches(journal, 3) == expected[1:]
    assert await batches(journal, 4) == []
    await journal.close()


async def test_a_restart_goes_on_where_the_last_one_stopped(kept: Kept) -> None:
    journal = kept.journal()
    opened = await journal.open("given")
    await journal.append([b"a", b"b"], opened.fencing_token)
    await journal.close()
    await journal.close()
    journal = kept.journal()
    again = await journal.open(None)
    assert (again.cluster_id, again.position) == ("given", 2)
    assert again.fencing_token > opened.fencing_token
    assert await journal.append([b"c"], again.fencing_token) == 3
    assert [batch.position for batch in await batches(journal)] == [2, 3]
    await journal.close()


async def test_many_batches_are_read_in_pieces(kept: Kept) -> None:
    journal = kept.journal()
    opened = await journal.open(None)
    for position in range(1, kept.many + 1):
        await journal.append([b"%d" % position], opened.fencing_token)
    read = await batches(journal)
    assert [batch.records for batch in read] == [[b"%d" % at] for at in range(1, kept.many + 1)]
    await journal.close()


async def test_another_cluster_is_refused(kept: Kept) -> None:
    journal = kept.journal()
    await journal.open("one")
    await journal.close()
    with pytest.raises(JournalForeign, match="belongs to cluster one, not two"):
        await kept.journal().open("two")
    journal = kept.journal()
    assert (await journal.open("one")).cluster_id == "one"
    await journal.close()


async def test_there_is_one_writer(kept: Kept) -> None:
    journal = kept.journal()
    await journal.open(None)
    with pytest.raises(JournalInUse, match="another control plane is running on this data"):
        await kept.journal().open(None)
    await journal.close()


async def test_an_old_writer_is_fenced(kept: Kept) -> None:
    journal = kept.journal()
    opened = await journal.open(None)
    with pytest.raises(JournalFenced, match="taken"):
        await journal.append([b"late"], opened.fencing_token - 1)
    assert await journal.append([b"right"], opened.fencing_token) == 1
    assert [batch.records for batch in await batches(journal)] == [[b"right"]]
    await journal.close()


async def test_a_snapshot_stands_for_what_it_covers(kept: Kept) -> None:
    journal = kept.journal()
    opened = await journal.open(None)
    assert await journal.load_snapshot() is None
    for position in range(1, 301):
        await journal.append([b"%d" % position], opened.fencing_token)
        if position in (100, 290):
            await journal.store_snapshot(Snapshot(position, (b"state %d" % position,)))
    await journal.close()
    journal = kept.journal()
    assert (await journal.open(None)).position == 300
    snapshot = await journal.load_snapshot()
    assert snapshot == Snapshot(290, (b"state 290",))
    assert [batch.position for batch in await batches(journal, 290)] == list(range(291, 301))
    await journal.close()


async def test_a_position_outlives_the_records_that_it_counts(kept: Kept) -> None:
    journal = kept.journal()
    opened = await journal.open(None)
    await journal.append([b"a", b"b"], opened.fencing_token)
    await journal.store_snapshot(Snapshot(2, (b"",)))
    await journal.append([b"c"], opened.fencing_token)
    await journal.store_snapshot(Snapshot(3, (b"state",)))
    await journal.store_snapshot(Snapshot(3, (b"state",)))
    await journal.close()
    journal = kept.journal()
    again = await journal.open(None)
    assert again.position == 3
    assert await journal.load_snapshot() == Snapshot(3, (b"state",))
    assert await journal.append([b"d"], again.fencing_token) == 4
    await journal.close()


async def test_closing_ends_the_append_under_way(kept: Kept) -> None:
    journal = kept.journal()
    opened = await journal.open(None)
    append = journal.append([b"a"], opened.fencing_token)
    await journal.close()
    assert await append == 1
    journal = kept.journal()
    assert (await journal.open(None)).position == 1
    await journal.close()


async def test_an_append_that_nobody_waits_for_is_written_all_the_same(kept: Kept) -> None:
    journal = kept.journal()
    opened = await journal.open(None)
    journal.append([b"a"], opened.fencing_token).cancel()
    await journal.close()
    journal = kept.journal()
    await journal.open(None)
    assert [batch.records for batch in await batches(journal)] == [[b"a"]]
    await journal.close()
