"""Tests that the intact part of a shared journal begins a new era once an operator has accepted the loss."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import asyncpg
import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.journal.bucket_manifest import decode_manifest, encode_manifest
from lacuna.controlplane.journal.bucket_snapshots import BucketSnapshots
from lacuna.controlplane.journal.journal import (
    HotSegment,
    JournalCorrupt,
    JournalError,
    JournalFenced,
    JournalInUse,
    JournalOfAnotherVersion,
    Snapshot,
)
from lacuna.controlplane.journal.moving.beginning import Beginning
from lacuna.controlplane.journal.moving.bucket_wreck import bucket_wreck
from lacuna.controlplane.journal.moving.holding import renewing
from lacuna.controlplane.journal.moving.postgresql_wreck import postgresql_wreck
from lacuna.controlplane.journal.moving.wreck import Wreck
from lacuna.controlplane.journal.place import BUCKET
from lacuna.controlplane.journal.postgresql_snapshots import PostgresqlSnapshots
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, LeasesEnded
from lacuna.logstore.segments.hot import hot_lease
from lacuna.logstore.segments.paths import JOURNAL_MANIFEST_KEY
from lacuna.operating.losses import AcceptedLoss, accept_shared_loss
from tests.controlplane.journal.conftest import led
from tests.controlplane.journal.golden import LEASE, SHARED, Place, make_place, replayed

ERA = 2**40
RECORD = JournalRecord(now_ms=1, leases_ended=LeasesEnded()).SerializeToString()


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest) -> Place:
    """The golden journal, which ends at position 22."""
    made = make_place(kind, request)
    made.fill()
    return made


def wreck(place: Place) -> AbstractAsyncContextManager[Wreck]:
    if place.url:
        return postgresql_wreck(place.url, PostgresqlSnapshots(place.url), LEASE, place.clock)
    return bucket_wreck(place.bucket, "the bucket", LEASE, place.clock)


async def accepted(place: Place) -> AcceptedLoss:
    async with wreck(place) as held:
        return await accept_shared_loss(held, None)


async def written(place: Place, count: int) -> None:
    """Append this many new records after the golden ones."""
    async with led(place.journal()) as (journal, token):
        for _ in range(count):
            await journal.append([RECORD], token)


@asynccontextmanager
async def tables(place: Place) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(place.url)
    try:
        yield connection
    finally:
        await connection.close()


def append_keys(place: Place) -> list[str]:
    return [info.key for info in place.bucket.list("journal/appends/")]


def put(place: Place, key: str, data: bytes) -> None:
    place.bucket.delete([key])
    place.bucket.put(key, [data])


def flipped(place: Place, key: str) -> None:
    data = bytearray(place.bucket.get_all(key))
    data[-1] ^= 1
    put(place, key, bytes(data))


async def damage(place: Place, how: str) -> None:
    """Append records 23 to 27 one at a time, then damage the journal in this way."""
    await written(place, 5)
    if place.url:
        statement = {
            "an append is missing": "DELETE FROM lacuna.appends WHERE first = 25",
            "an append is damaged": "UPDATE lacuna.appends SET crc = crc + 1 WHERE first = 25",
        }[how]
        async with tables(place) as connection:
            await connection.execute(statement)
        return
    third = append_keys(place)[-3]
    if how == "an append is missing":
        place.bucket.delete([third])
    elif how == "an append is damaged":
        flipped(place, third)
    elif how == "the end is missing":
        place.bucket.delete(append_keys(place)[-3:])
    elif how == "the manifest is missing":
        place.bucket.delete([JOURNAL_MANIFEST_KEY])
    else:
        put(place, JOURNAL_MANIFEST_KEY, b"no manifest")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "how", "ends"),
    [
        ("postgresql", "an append is missing", 24),
        ("postgresql", "an append is damaged", 24),
        ("bucket", "an append is missing", 24),
        ("bucket", "an append is damaged", 24),
        ("bucket", "the end is missing", 24),
        ("bucket", "the manifest is missing", 27),
        ("bucket", "the manifest is damaged", 27),
    ],
)
async def test_what_is_intact_goes_on(place: Place, how: str, ends: int) -> None:
    before = (await replayed(place.journal())).state
    await damage(place, how)
    with pytest.raises(JournalError):
        await replayed(place.journal())
    loss = await accepted(place)
    assert loss.problems
    assert (loss.position, loss.reached) == (ends, 27)
    after = await replayed(place.journal())
    assert after.position == ERA
    assert after.state.cluster_id == before.cluster_id
    assert after.state.next_producer_id == after.state.next_lease_id == ERA
    assert (after.state.leases, list(after.state.topics)) == ({}, list(before.topics))
    await written(place, 1)
    again = await replayed(place.journal())
    assert again.position == ERA + 1
    # A loss in that era, too.
    await accepted(place)
    assert (await replayed(place.journal())).position == 2 * ERA


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHARED)
async def test_a_whole_journal_begins_a_new_era_too(place: Place) -> None:
    """This happens after a bucket or database was restored as a whole."""
    loss = await accepted(place)
    assert (loss.problems, loss.position) == ([], 22)
    assert (await replayed(place.journal())).position == ERA


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHARED)
async def test_a_snapshot_beyond_the_end_is_gone_on_with(place: Place) -> None:
    """A database was restored from a dump, and the bucket has newer snapshots."""
    state = (await replayed(place.journal())).state
    snapshot = Snapshot(40, (machine.snapshot(state),))
    if place.url:
        await PostgresqlSnapshots(place.url).store(snapshot, state.cluster_id)
    else:
        await BucketSnapshots(place.bucket, BUCKET).store(snapshot, state.cluster_id)
    with pytest.raises(JournalCorrupt, match="the snapshot ends at position 40 and the journal at"):
        await replayed(place.journal())
    loss = await accepted(place)
    assert (loss.position, loss.reached) == (40, 40)
    assert (await replayed(place.journal())).position == ERA


@pytest.mark.parametrize("kind", SHARED)
async def test_nothing_is_begun_where_nothing_is_intact(place: Place) -> None:
    if place.url:
        async with tables(place) as connection:
            await connection.execute("UPDATE lacuna.snapshots SET crc = crc + 1")
            await connection.execute("DELETE FROM lacuna.appends")
    else:
        for key in append_keys(place):
            flipped(place, key)
        for info in place.bucket.list("journal/snapshots/"):
            put(place, info.key, b"nothing")
    with pytest.raises(JournalCorrupt, match=r"no part of the journal can be read \(no snapshot"):
        await accepted(place)


@pytest.mark.parametrize("kind", SHARED)
async def test_where_there_is_no_journal_there_is_no_loss(
    kind: str, request: pytest.FixtureRequest
) -> None:
    place = make_place(kind, request)
    if not place.url:
        put(place, "journal/appends/readme", b"no append")
    with pytest.raises(JournalError, match="there is no journal here, so nothing was lost"):
        await accepted(place)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHARED)
async def test_nobody_leads_meanwhile(place: Place) -> None:
    async with wreck(place) as held:
        found = await held.salvage()
        await place.cannot_be_led()
        state = machine.snapshot(found.state)
        beginning = Beginning(found.cluster_id, found.fencing_token, Snapshot(ERA, (state,)))
        await held.begin(beginning)
    journal = place.patient()
    assert (await journal.open(None)).position == ERA
    await journal.close()


@pytest.mark.parametrize("kind", SHARED)
async def test_what_somebody_has_taken_over_is_left_alone(place: Place) -> None:
    async with wreck(place) as held:
        found = await held.salvage()
        journal = place.journal()
        await journal.open(None)
        beginning = Beginning(found.cluster_id, found.fencing_token, Snapshot(ERA, (b"",)))
        with pytest.raises(JournalFenced, match="taken over"):
            await held.begin(beginning)
    await journal.close()
    if place.url:
        async with tables(place) as connection:
            assert await connection.fetchval("SELECT to_regnamespace('lacuna_kept_1') IS NULL")


@pytest.mark.parametrize("kind", SHARED)
async def test_a_leader_is_not_taken_over(place: Place) -> None:
    async with led(place.journal()) as (journal, token):
        renewer = journal.renewer(token)  # type: ignore[attr-defined]
        with pytest.raises(JournalInUse, match="is using this journal: stop it"):
            async with renewing(renewer, LEASE, place.clock):
                await accepted(place)
        assert await journal.append([RECORD], token) == 23


@pytest.mark.parametrize("kind", ["bucket"])
async def test_a_manifest_of_a_later_version_is_no_loss(place: Place) -> None:
    manifest = decode_manifest(bytes(place.bucket.get_all(JOURNAL_MANIFEST_KEY)))
    put(place, JOURNAL_MANIFEST_KEY, encode_manifest(manifest, 2))
    with pytest.raises(JournalOfAnotherVersion):
        await accepted(place)


@pytest.mark.parametrize("kind", ["bucket"])
async def test_an_earlier_leader_that_wakes_up_finds_its_number_taken(place: Place) -> None:
    """This also holds if the appends after its own are gone, as in a restored bucket."""
    sleeping = place.journal()
    opened = await sleeping.open(None)
    await accepted(place)
    with pytest.raises(JournalFenced):
        await sleeping.append([RECORD], opened.fencing_token)
    assert (await replayed(place.journal())).position == ERA


@pytest.mark.parametrize("kind", ["bucket"])
@pytest.mark.parametrize(("step", "position"), [("snapshots/", ERA), ("appends/", 2 * ERA)])
async def test_a_loss_whose_acceptance_was_interrupted_is_accepted_again(
    place: Place, step: str, position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database cannot be interrupted here: accepting a loss is one transaction."""
    await damage(place, "an append is missing")
    create = place.bucket.create

    def killed(key: str, data: bytes) -> str:
        etag = create(key, data)
        if key.startswith(f"journal/{step}"):
            raise KeyboardInterrupt
        return etag

    with monkeypatch.context() as patched:
        patched.setattr(place.bucket, "create", killed)
        with pytest.raises(KeyboardInterrupt):
            await accepted(place)
    with pytest.raises(JournalError):
        await replayed(place.journal())
    await accepted(place)
    assert (await replayed(place.journal())).position == position


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgresql", "bucket"])
async def test_hot_segments_go_on_after_a_loss(place: Place) -> None:
    sent = [HotSegment((hot_lease(7), number), bytes(1000)) for number in (1, 2)]
    await replayed(place.journal())
    async with led(place.journal()) as (journal, token):
        for segment in sent:
            await journal.append([RECORD], token, [segment])
    await damage(place, "an append is missing")
    await accepted(place)
    journal = place.journal()
    opened = await journal.open(None)
    assert await journal.read_hot([segment.key for segment in sent]) == dict(sent)
    await journal.append([RECORD], opened.fencing_token, [HotSegment((hot_lease(8), 1), b"new")])
    assert len(journal.hot) == 3
    await journal.close()
