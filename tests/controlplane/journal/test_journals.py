"""Tests the contract of every journal (SQLite, PostgreSQL, bucket, and in memory), including hot segments."""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lacuna.controlplane import service
from lacuna.controlplane.journal.bucket_calls import Bucket
from lacuna.controlplane.journal.journal import (
    HotSegment,
    Journal,
    JournalBatch,
    JournalCorrupt,
    JournalError,
    JournalFenced,
    JournalForeign,
    JournalInUse,
    JournalRefused,
    Snapshot,
)
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.service import ServiceSettings, serve
from lacuna.logstore.objects import ConditionalStore, MemoryStore
from lacuna.logstore.objects.encrypted import EncryptedConditionalStore
from lacuna.logstore.segments.hot import MOST_HOT_BYTES, hot_lease
from tests.controlplane.journal.conftest import Kept, batches, led
from tests.controlplane.journal.golden import SHARED, make_place
from tests.doubles.keys import some_keys


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


@pytest.mark.slow
async def test_many_batches_are_read_in_pieces(kept: Kept) -> None:
    async with led(kept.journal()) as (journal, token):
        for position in range(1, kept.many + 1):
            await journal.append([b"%d" % position], token)
        read = await batches(journal)
        assert [batch.records for batch in read] == [[b"%d" % at] for at in range(1, kept.many + 1)]


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
    async with led(kept.journal()):
        with pytest.raises(JournalInUse, match="another control plane is running on this data"):
            await kept.journal().open(None)


async def test_an_old_writer_is_fenced(kept: Kept) -> None:
    async with led(kept.journal()) as (journal, token):
        with pytest.raises(JournalFenced, match="taken"):
            await journal.append([b"late"], token - 1)
        assert await journal.append([b"right"], token) == 1
        assert [batch.records for batch in await batches(journal)] == [[b"right"]]


@pytest.mark.slow
async def test_a_snapshot_stands_for_what_it_covers(kept: Kept) -> None:
    async with led(kept.journal()) as (journal, token):
        assert await journal.load_snapshot() is None
        for position in range(1, 301):
            await journal.append([b"%d" % position], token)
            if position in (100, 290):
                await journal.store_snapshot(Snapshot(position, (b"state %d" % position,)))
    journal = kept.journal()
    assert (await journal.open(None)).position == 300
    snapshot = await journal.load_snapshot()
    assert snapshot == Snapshot(290, (b"state 290",))
    assert [batch.position for batch in await batches(journal, 290)] == list(range(291, 301))
    await journal.close()


async def test_a_position_outlives_the_records_that_it_counts(kept: Kept) -> None:
    async with led(kept.journal()) as (journal, token):
        await journal.append([b"a", b"b"], token)
        await journal.store_snapshot(Snapshot(2, (b"",)))
        await journal.append([b"c"], token)
        await journal.store_snapshot(Snapshot(3, (b"state",)))
        await journal.store_snapshot(Snapshot(3, (b"state",)))
    journal = kept.journal()
    again = await journal.open(None)
    assert again.position == 3
    assert await journal.load_snapshot() == Snapshot(3, (b"state",))
    assert await journal.append([b"d"], again.fencing_token) == 4
    await journal.close()


async def test_closing_ends_the_append_under_way(kept: Kept) -> None:
    async with led(kept.journal()) as (journal, token):
        append = journal.append([b"a"], token)
    assert await append == 1
    journal = kept.journal()
    assert (await journal.open(None)).position == 1
    await journal.close()


@pytest.mark.slow
async def test_an_append_that_nobody_waits_for_is_written_all_the_same(kept: Kept) -> None:
    async with led(kept.journal()) as (journal, token):
        journal.append([b"a"], token).cancel()
    async with led(kept.journal()) as (journal, _):
        assert [batch.records for batch in await batches(journal)] == [[b"a"]]


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    """Replace the files, as restoring a backup does."""
    other = path.with_suffix(".other")
    other.write_bytes(path.read_bytes())
    os.replace(other, path)


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal"])
@pytest.mark.parametrize("lose", [delete, replace, move_folder])
async def test_nothing_is_acknowledged_any_more(
    tmp_path: Path, name: str, lose: Callable[[Path], None]
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    async with led(SqliteJournal(str(folder / "journal.db"), lambda: "c")) as (journal, token):
        assert await journal.append([b"a"], token) == 1
        lose(folder / name)
        with pytest.raises(
            JournalError, match=f"{name} was deleted, moved or replaced|was deleted"
        ):
            await journal.append([b"b"], token)


async def test_it_is_noticed_though_nobody_asks_for_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_WATCH_SECONDS", 0.01)
    path = tmp_path / "journal.db"
    running = await serve(f"unix:{tmp_path}/s", str(path), ServiceSettings())
    path.unlink()
    with pytest.raises(
        JournalError, match=r"Nothing is acknowledged any more: stop everything that uses"
    ):
        async with asyncio.timeout(60):
            await running.failed()
    await running.close()


@pytest.mark.parametrize("kind", SHARED)
async def test_one_append_at_a_time(request: pytest.FixtureRequest, kind: str) -> None:
    journal: Any = make_place(kind, request).journal()
    with pytest.raises(JournalError, match="the journal is closed"):
        journal.append([b"a"], 1)
    async with led(journal) as (_, token):
        with pytest.raises(JournalInUse, match="already open"):
            await journal.open(None)
        first = journal.append([b"a"], token)
        with pytest.raises(JournalError, match="an append is already in progress"):
            journal.append([b"b"], token)
        assert await first == 1
        # Beside a renewal.
        append = journal.append([b"b"], token)
        renewer = journal.renewer(token)
        await renewer.renew()
        await renewer.close()
        assert await append == 2


@pytest.mark.parametrize("kind", SHARED)
async def test_an_old_leader_deletes_nothing(request: pytest.FixtureRequest, kind: str) -> None:
    """The new leader may already have loaded the snapshot and be about to read the records after it."""
    place = make_place(kind, request)
    old, new = place.journal(), place.journal()
    before = await old.open("c")
    for position in range(1, 11):
        await old.append([b"%d" % position], before.fencing_token)
    await new.open(None)
    await old.store_snapshot(Snapshot(4, (b"four",)))
    with pytest.raises(JournalFenced):
        await old.store_snapshot(Snapshot(8, (b"eight",)))
    assert len(await batches(new)) == 10
    assert await new.load_snapshot() == Snapshot(8, (b"eight",))
    await asyncio.gather(old.close(), new.close())


KEY = "journal/manifest"


def bucket(store: ConditionalStore) -> Bucket:
    return Bucket(store, "the bucket", 5.0)


@pytest.fixture
async def stored() -> MemoryStore:
    store = MemoryStore()
    assert await bucket(EncryptedConditionalStore(store, some_keys())).create(KEY, b"it")
    return store


async def test_without_the_keys_it_is_not_taken_for_something_else(stored: MemoryStore) -> None:
    for read in (bucket(stored).load, bucket(stored).read):
        with pytest.raises(JournalRefused, match="the journal is encrypted: specify the file"):
            await read(KEY)
    other = bucket(EncryptedConditionalStore(stored, some_keys("other")))
    with pytest.raises(JournalRefused, match="with key 'k1', but the test has only other"):
        await other.load(KEY)


async def test_what_was_changed_is_damage(stored: MemoryStore) -> None:
    data = bytearray(stored.get_all(KEY))
    data[-1] ^= 1
    stored.delete([KEY])
    stored.put(KEY, [data])
    reading = bucket(EncryptedConditionalStore(stored, some_keys()))
    for read in (reading.load, reading.read):
        with pytest.raises(JournalCorrupt, match="'journal/manifest' is damaged at position 0"):
            await read(KEY)


LEASE = hot_lease(7)


def segment(sequence: int, size: int = 16 << 10) -> HotSegment:
    data = (b"segment %d " % sequence * (size // 8 + 1))[:size]
    return HotSegment((LEASE, sequence), data)


async def put(journal: Journal, token: int, sequences: Sequence[int]) -> None:
    for sequence in sequences:
        await journal.append([b"commit %d" % sequence], token, [segment(sequence)])


@pytest.mark.slow
async def test_hot_bytes_are_kept_apart_from_the_records(kept: Kept) -> None:
    journal = kept.journal()
    token = (await journal.open(None)).fencing_token
    assert journal.hot == {}
    sent = [segment(1), segment(2, 1), segment(3, MOST_HOT_BYTES)]
    assert await journal.append([b"a", b"b"], token, sent) == 2
    assert await journal.append([b"c"], token) == 3
    for _ in range(2):
        assert [batch.records for batch in await batches(journal)] == [[b"a", b"b"], [b"c"]]
        assert journal.hot == {each.key: len(each.data) for each in sent}
        keys = [each.key for each in sent]
        assert await journal.read_hot([*keys, (LEASE, 9)]) == dict(sent)
        assert await journal.read_hot([]) == {}
        await journal.close()
        journal = kept.journal()
        await journal.open(None)
    await journal.close()


async def test_a_fenced_writer_leaves_no_hot_bytes(kept: Kept) -> None:
    async with led(kept.journal()) as (journal, token):
        with pytest.raises(JournalFenced, match="taken"):
            await journal.append([b"late"], token - 1, [segment(1)])
        assert journal.hot == {}
        await journal.append([b"right"], token, [segment(2)])
    async with led(kept.journal()) as (journal, _):
        assert list(journal.hot) == [(LEASE, 2)]
        assert await journal.read_hot([(LEASE, 1)]) == {}


async def test_hot_bytes_of_an_append_that_nobody_waits_for_are_known(kept: Kept) -> None:
    async with led(kept.journal()) as (journal, token):
        journal.append([b"a"], token, [segment(1)]).cancel()
        async with asyncio.timeout(60):
            while not journal.hot:
                await asyncio.sleep(0.002)
        assert await journal.read_hot([(LEASE, 1)]) == dict([segment(1)])


@pytest.mark.slow
async def test_what_is_dropped_is_gone_and_stays_gone(kept: Kept) -> None:
    async with led(kept.journal()) as (journal, token):
        await put(journal, token, range(1, 41))
        await journal.drop_hot([(LEASE, sequence) for sequence in range(3, 39)])
        await journal.drop_hot([(LEASE, 3), (LEASE, 99)])
        left = [(LEASE, sequence) for sequence in (1, 2, 39, 40)]
        assert sorted(journal.hot) == left
        assert await journal.read_hot([(LEASE, 3), (LEASE, 39)]) == dict([segment(39)])
        assert len(await batches(journal)) == 40
        await journal.drop_hot(left)
    async with led(kept.journal()) as (journal, _):
        if kept.keeps_drops:
            assert journal.hot == {}
        await journal.drop_hot(list(journal.hot))
        assert journal.hot == {}


@pytest.mark.slow
async def test_a_snapshot_takes_the_records_and_leaves_hot_bytes(kept: Kept) -> None:
    async with led(kept.journal()) as (journal, token):
        await put(journal, token, range(1, 11))
        await journal.drop_hot([(LEASE, 4)])
        for position in (8, 9):
            await journal.store_snapshot(Snapshot(position, (b"state",)))
    async with led(kept.journal()) as (journal, _):
        live = [segment(sequence) for sequence in range(1, 11) if sequence != 4]
        assert await journal.read_hot([each.key for each in live]) == dict(live)
