"""Tests the bucket journal beyond the contract of all journals, with scripted faults."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import product

import pytest

from lacuna.controlplane.journal import bucket_calls
from lacuna.controlplane.journal.bucket import BucketJournal
from lacuna.controlplane.journal.bucket_appends import OPENING_BYTES, encode_append
from lacuna.controlplane.journal.bucket_manifest import Mark, decode_manifest, encode_fields
from lacuna.controlplane.journal.bucket_snapshots import BucketSnapshots
from lacuna.controlplane.journal.journal import (
    HotKey,
    HotSegment,
    JournalBatch,
    JournalCorrupt,
    JournalError,
    JournalFenced,
    JournalForeign,
    JournalInDoubt,
    JournalInUse,
    JournalLoss,
    JournalOfAnotherVersion,
    JournalRefused,
    JournalTrimmed,
    JournalUnreachable,
    Leader,
    SharedJournal,
    Snapshot,
)
from lacuna.controlplane.journal.place import BUCKET, POSTGRESQL
from lacuna.logstore.objects import (
    ConditionalStore,
    MemoryStore,
    StoreMisconfiguredError,
)
from lacuna.logstore.segments import claim_store
from lacuna.logstore.segments.hot import MOST_HOT_BYTES, hot_lease
from lacuna.logstore.segments.paths import (
    JOURNAL_APPENDS_PREFIX,
    JOURNAL_MANIFEST_KEY,
    JOURNAL_SNAPSHOTS_PREFIX,
    journal_append_key,
)
from tests.controlplane.journal.conftest import batches, led, records_of, written
from tests.doubles.bucket import BucketFault, FaultyBucket
from tests.doubles.clock import ManualClock

ANSWER_SECONDS = 60.0


@pytest.fixture
def bucket() -> FaultyBucket:
    return FaultyBucket()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_calls, "_FIRST_PAUSE_SECONDS", 0.0001)
    monkeypatch.setattr(bucket_calls, "_LONGEST_PAUSE_SECONDS", 0.001)


def journal_of(bucket: ConditionalStore, address: str = "", lease: float = 0.0) -> BucketJournal:
    return BucketJournal(
        bucket, lambda: "made", address=address, lease=lease, answer_timeout=ANSWER_SECONDS
    )


@contextmanager
def impatient() -> Iterator[None]:
    """Stop waiting for an answer after several failed attempts."""
    pause = bucket_calls._Attempts.pause

    def give_up_after(attempts: bucket_calls._Attempts) -> float:
        seconds = pause(attempts)
        if seconds == bucket_calls._LONGEST_PAUSE_SECONDS:
            raise TimeoutError
        return seconds

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bucket_calls._Attempts, "pause", give_up_after)
        yield


def appends_of(bucket: ConditionalStore) -> list[tuple[int, bool]]:
    """Return the numbers of the existing appends, and whether each is an opening."""
    listed = bucket.list("journal/appends/")
    return [(int(info.key.rpartition("/")[2], 16), info.size == OPENING_BYTES) for info in listed]


def change_manifest(bucket: ConditionalStore, **fields: object) -> None:
    found = bucket.load(JOURNAL_MANIFEST_KEY)
    before = json.loads(found.data)
    del before["crc"]
    bucket.replace(JOURNAL_MANIFEST_KEY, encode_fields({**before, **fields}), found.etag)


# The fence


async def test_a_late_append_of_an_old_leader_is_refused(bucket: FaultyBucket) -> None:
    old, new = journal_of(bucket), journal_of(bucket)
    before = await old.open(None)
    await old.append([b"a"], before.fencing_token)
    after = await new.open(None)
    assert (after.fencing_token, after.position) == (before.fencing_token + 1, 1)
    with pytest.raises(JournalFenced, match="taken over the journal in the bucket"):
        await old.append([b"late", b"later"], before.fencing_token)
    with pytest.raises(JournalFenced):
        old.append([b"later still"], before.fencing_token)
    with pytest.raises(JournalFenced, match="its epoch is now 2, and this one's is 1"):
        await old.renewer(before.fencing_token).renew()
    assert await new.append([b"b"], after.fencing_token) == 2
    await old.close()
    assert await new.append([b"c"], after.fencing_token) == 3
    await new.close()
    assert await records_of(journal_of(bucket)) == [b"a", b"b", b"c"]


async def test_an_append_that_arrives_before_the_opening_counts(bucket: FaultyBucket) -> None:
    """The new leader has read to the end when it finds its number taken."""
    old, new = journal_of(bucket), journal_of(bucket)
    before = await old.open(None)
    bucket.fail("create", BucketFault.LATE, "journal/appends/")
    bucket.fail("create", BucketFault.REFUSED, "journal/appends/", times=10_000)
    append = old.append([b"a", b"b"], before.fencing_token)
    while not bucket.is_late:
        await asyncio.sleep(0)

    def arrive(operation: str, key: str) -> None:
        if (operation, key) == ("create", journal_append_key(2)) and bucket.is_late:
            bucket.heal()
            bucket.arrive()

    await asyncio.sleep(0)
    bucket.before = arrive
    after = await new.open(None)
    # Whoever asks first delivers it: the old leader's own next attempt, or the new one's opening.
    assert await append == 2
    assert after.position == 2
    with pytest.raises(JournalFenced):
        await old.append([b"late"], before.fencing_token)
    assert await batches(new) == [JournalBatch(2, [b"a", b"b"])]
    await asyncio.gather(old.close(), new.close())


@pytest.mark.slow
async def test_of_openings_at_the_same_time_the_last_one_appends(bucket: FaultyBucket) -> None:
    """The first round also creates the journal."""
    expected: list[bytes] = []
    for _ in range(5):
        journals = [journal_of(bucket) for _ in range(4)]
        results = await asyncio.gather(
            *(journal.open(None) for journal in journals), return_exceptions=True
        )
        opened = [
            (journal, result)
            for journal, result in zip(journals, results, strict=True)
            if not isinstance(result, BaseException)
        ]
        assert all(
            isinstance(result, JournalInUse) for result in results if isinstance(result, Exception)
        )
        newest = max(result.fencing_token for _, result in opened)
        for journal, result in opened:
            record = b"%d" % result.fencing_token
            if result.fencing_token == newest:
                await journal.append([record], result.fencing_token)
                expected.append(record)
            else:
                with pytest.raises(JournalFenced):
                    await journal.append([record], result.fencing_token)
        await asyncio.gather(*(journal.close() for journal in journals))
    assert await records_of(journal_of(bucket)) == expected


async def test_a_leader_that_slept_through_a_trim_cannot_append(bucket: FaultyBucket) -> None:
    """All appends that it knew about are deleted, but its successor's opening remains."""
    old, new = journal_of(bucket), journal_of(bucket)
    before = await old.open(None)
    await old.append([b"a"], before.fencing_token)
    after = await new.open(None)
    for position in range(2, 12):
        await new.append([b"%d" % position], after.fencing_token)
    await new.store_snapshot(Snapshot(9, (b"",)))
    await new.store_snapshot(Snapshot(11, (b"",)))
    assert appends_of(bucket) == [(1, True), (3, True), (11, False), (12, False), (13, False)]
    with pytest.raises(JournalFenced):
        await old.append([b"late"], before.fencing_token)
    await asyncio.gather(old.close(), new.close())


async def test_a_contender_that_slept_through_a_trim_does_not_lead(bucket: FaultyBucket) -> None:
    """It could write its opening where the journal was trimmed, but the manifest shows that it was."""
    first, sleeper, second = (journal_of(bucket) for _ in range(3))
    before = await first.open(None)
    asleep, woken = asyncio.Event(), asyncio.Event()
    create = sleeper._bucket.create

    async def create_later(key: str, data: bytes, *, is_urgent: bool = True) -> bool:
        if key.startswith("journal/appends/"):
            asleep.set()
            await woken.wait()
        return await create(key, data, is_urgent=is_urgent)

    sleeper._bucket.create = create_later  # type: ignore[method-assign]
    opening = asyncio.create_task(sleeper.open(None))
    await asleep.wait()
    await first.append([b"a"], before.fencing_token)
    after = await second.open(None)
    for position in range(2, 12):
        await second.append([b"%d" % position], after.fencing_token)
    await second.store_snapshot(Snapshot(9, (b"",)))
    await second.store_snapshot(Snapshot(11, (b"",)))
    woken.set()
    with pytest.raises(JournalInUse, match="another control plane took over first"):
        await opening
    assert (2, True) in appends_of(bucket)
    assert await second.append([b"12"], after.fencing_token) == 12
    # A reader that has read no further than the first opening is told, and not misled.
    reader = journal_of(bucket).reader()
    with pytest.raises(JournalTrimmed, match=r"record 1 was deleted.*load the newest snapshot"):
        [_ async for _ in reader.read(0)]
    await asyncio.gather(first.close(), second.close())


async def test_a_leader_that_never_stops_appending_is_not_chased_forever(
    bucket: FaultyBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lacuna.controlplane.journal.bucket._LOST_RACES", 3)
    async with led(journal_of(bucket)) as (old, before):
        appended: list[str] = []

        def append_first(operation: str, key: str) -> None:
            if operation == "create" and key.startswith("journal/appends/") and key not in appended:
                appended.append(key)
                number = int(key.rpartition("/")[2], 16)
                _, data = encode_append(Mark(number - 1, number - 2), 1, bytes(16), [b"a"])
                bucket.create(key, data)

        bucket.before = append_first
        with pytest.raises(
            JournalInUse, match="appends before this one can: stop the previous one"
        ):
            await journal_of(bucket).open(None)
        assert len(appended) == 3
        with pytest.raises(JournalFenced):
            await old.renewer(before).renew()


# Answers that are lost


@pytest.mark.parametrize("fault", list(BucketFault))
async def test_an_append_is_repeated_until_it_is_answered(
    bucket: FaultyBucket, fault: BucketFault
) -> None:
    async with led(journal_of(bucket)) as (journal, token):
        bucket.fail("create", fault, "journal/appends/", times=3)
        assert await journal.append([b"a"], token) == 1
        bucket.arrive()
        bucket.fail("create", fault, "journal/appends/")
        bucket.fail("load", BucketFault.REFUSED, "journal/appends/")
        assert await journal.append([b"b"], token) == 2
    assert await records_of(journal_of(bucket)) == [b"a", b"b"]


@pytest.mark.parametrize("fault", list(BucketFault))
async def test_an_append_that_is_never_answered_is_in_doubt(
    bucket: FaultyBucket, fault: BucketFault
) -> None:
    """S2: either the next opening finds it, or it never appears."""
    async with led(journal_of(bucket)) as (journal, token):
        await journal.append([b"a"], token)
        bucket.fail("create", fault, "journal/appends/")
        bucket.choose = lambda operation, key: BucketFault.REFUSED
        expected = "Reopening the journal will show whether positions 2 to 3 were"
        with impatient(), pytest.raises(JournalInDoubt, match=expected):
            await journal.append([b"b", b"c"], token)
        with pytest.raises(JournalInDoubt):
            journal.append([b"d"], token)
        bucket.heal()
    again = await journal.open(None)
    bucket.arrive()
    position = 3 if fault is BucketFault.LOST_REPLY else 1
    assert (again.fencing_token, again.position) == (2, position)
    assert await journal.append([b"e"], again.fencing_token) == position + 1
    await journal.close()
    assert (await records_of(journal_of(bucket)))[-1] == b"e"


@pytest.mark.parametrize("fault", list(BucketFault))
async def test_changes_of_the_manifest_are_repeated(
    bucket: FaultyBucket, fault: BucketFault
) -> None:
    bucket.fail("create", fault, JOURNAL_MANIFEST_KEY)
    for epoch in (1, 2):
        bucket.fail("replace", fault, JOURNAL_MANIFEST_KEY, times=2)
        journal = journal_of(bucket)
        assert (await journal.open(None)).fencing_token == epoch
        bucket.arrive()
        bucket.fail("replace", fault, JOURNAL_MANIFEST_KEY)
        await journal.renewer(epoch).renew()
        bucket.arrive()
        await journal.renewer(epoch).renew()
        bucket.fail("replace", fault, JOURNAL_MANIFEST_KEY)
        await journal.close()
    assert await journal_of(bucket).reader().leader() is None


async def test_a_renewal_that_was_given_up_may_arrive(bucket: FaultyBucket) -> None:
    async with led(journal_of(bucket)) as (journal, token):
        bucket.fail("replace", BucketFault.LATE, JOURNAL_MANIFEST_KEY)
        bucket.fail("replace", BucketFault.REFUSED, JOURNAL_MANIFEST_KEY, times=10_000)
        expected = r"within 60 s \(the request failed\). Check"
        with impatient(), pytest.raises(JournalUnreachable, match=expected):
            await journal.renewer(token).renew()
        bucket.heal()
        bucket.arrive()
        await journal.renewer(token).renew()


async def test_a_manifest_that_was_deleted_ends_the_leadership(bucket: FaultyBucket) -> None:
    async with led(journal_of(bucket)) as (journal, token):
        await journal.append([b"a"], token)
        bucket.delete([JOURNAL_MANIFEST_KEY])
        with pytest.raises(JournalFenced, match="its manifest has been deleted"):
            await journal.renewer(token).renew()
    with pytest.raises(JournalLoss, match="journal/manifest is missing: restore it"):
        await journal.open(None)


# The lease


async def test_a_leader_is_taken_over_once_it_was_silent_for_a_lease(bucket: FaultyBucket) -> None:
    clock = ManualClock()
    async with led(BucketJournal(bucket, lambda: "made", address="there:9093", lease=10.0)) as (
        first,
        token,
    ):
        second = BucketJournal(bucket, lambda: "made", lease=10.0, clock=clock)
        reader = second.reader()
        assert await reader.leader() == Leader(1, "there:9093", 0.0)
        clock.advance(9_000)
        assert await reader.leader() == Leader(1, "there:9093", 9.0)
        await first.renewer(token).renew()
        assert await reader.leader() == Leader(1, "there:9093", 0.0)
        clock.advance(10_000)
        assert await reader.leader() == Leader(1, "there:9093", 10.0)
        # It was watched for long enough, so this waits for nothing.
        assert (await second.open(None)).fencing_token == 2
        assert await reader.leader() == Leader(2, "", 0.0)
        with pytest.raises(JournalFenced):
            await first.renewer(token).renew()
    assert await reader.leader() is not None
    await second.close()
    assert await reader.leader() is None
    await reader.close()


async def test_an_opening_watches_for_a_lease_itself(bucket: FaultyBucket) -> None:
    clock = ManualClock()
    await journal_of(bucket, "first").open(None)
    second = BucketJournal(bucket, lambda: "made", lease=10.0, clock=clock)
    opening = asyncio.create_task(second.open(None))
    waited = 0
    while not opening.done():
        if clock.sleepers:
            clock.wake_first()
            waited += 1
        await asyncio.sleep(0.001)
    assert (await opening).fencing_token == 2
    assert clock.passed_ms() >= 10_000
    assert waited >= 20
    await second.close()


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_leader_that_is_heard_of_ends_the_watch(bucket: FaultyBucket, leaves: bool) -> None:
    clock = ManualClock()
    first = journal_of(bucket, "first")
    opened = await first.open(None)
    second = BucketJournal(bucket, lambda: "made", lease=10.0, clock=clock)
    opening = asyncio.create_task(second.open(None))
    while not clock.sleepers:
        await asyncio.sleep(0.001)
    await (first.close() if leaves else first.renewer(opened.fencing_token).renew())
    clock.advance(1_000)
    if leaves:
        assert (await opening).fencing_token == 2
    else:
        expected = r"is running on this data \(the bucket\) at first.*silent for 10 s"
        with pytest.raises(JournalInUse, match=expected):
            await opening
        await first.close()
    await second.close()


# Reading


async def test_a_reader_follows_the_leader(bucket: FaultyBucket) -> None:
    journal: SharedJournal = journal_of(bucket)
    reader = journal_of(bucket).reader()
    assert await reader.leader() is None
    assert [batch async for batch in reader.read(0)] == []
    opened = await journal.open(None)
    assert [batch async for batch in reader.read(0)] == []
    await journal.append([b"a", b"b"], opened.fencing_token)
    assert [batch async for batch in reader.read(0)] == [JournalBatch(2, [b"a", b"b"])]
    assert [batch async for batch in reader.read(1)] == [JournalBatch(2, [b"b"])]
    await journal.append([b"c"], opened.fencing_token)
    bucket.requests.clear()
    assert [batch async for batch in reader.read(2)] == [JournalBatch(3, [b"c"])]
    assert len(bucket.requests) <= 4
    bucket.requests.clear()
    assert [batch async for batch in reader.read(3)] == []
    # The next append is not there, and the manifest does not say that it was.
    assert bucket.requests == [("load", journal_append_key(4)), ("load", JOURNAL_MANIFEST_KEY)]
    await journal.close()


async def test_who_has_followed_the_leader_takes_over_without_reading_again(
    bucket: FaultyBucket,
) -> None:
    """It only reads the beginning of one append and a listing, in parallel."""
    killed = journal_of(bucket)
    opened = await killed.open(None)
    for position in range(1, 6):
        await killed.append([b"%d" % position], opened.fencing_token)
    journal: SharedJournal = journal_of(bucket)
    await journal.check()
    reader = journal.reader()
    assert [batch.position async for batch in reader.read(0)] == [1, 2, 3, 4, 5]
    assert await reader.leader() is not None
    bucket.requests.clear()
    assert (await journal.open(None)).position == 5
    assert [batch async for batch in journal.read(5)] == []
    # Headers only: of the last append that the manifest knows, and of the last one that was read.
    bucket.requests[1:3] = sorted(bucket.requests[1:3])
    assert bucket.requests == [
        ("replace", JOURNAL_MANIFEST_KEY),
        ("load", journal_append_key(1)),
        ("load", journal_append_key(6)),
        ("create", journal_append_key(7)),
        ("replace", JOURNAL_MANIFEST_KEY),
    ]
    await journal.close()


async def test_a_position_is_found_by_bisection(bucket: FaultyBucket) -> None:
    await written(journal_of(bucket), 300)
    reader = journal_of(bucket).reader()
    bucket.requests.clear()
    read = [batch async for batch in reader.read(150)]
    assert [batch.position for batch in read] == list(range(151, 301))
    assert len([key for _, key in bucket.requests if "appends" in key]) < 200
    assert [batch async for batch in reader.read(1000)] == []


async def test_a_reader_that_is_behind_is_told_to_load_the_snapshot(bucket: FaultyBucket) -> None:
    async with led(journal_of(bucket)) as (journal, token):
        for position in range(1, 21):
            await journal.append([b"%d" % position], token)
        reader = journal_of(bucket).reader()
        async for batch in reader.read(0):
            if batch.position == 2:
                break
        await journal.store_snapshot(Snapshot(18, (b"18",)))
        await journal.store_snapshot(Snapshot(20, (b"20",)))
        for after in (0, 2):
            with pytest.raises(JournalTrimmed, match=r"was deleted.*load the newest snapshot"):
                [_ async for _ in reader.read(after)]
        assert await reader.load_snapshot() == Snapshot(20, (b"20",))
        assert [batch.position async for batch in reader.read(18)] == [19, 20]


async def test_a_read_asks_for_several_at_a_time(bucket: FaultyBucket) -> None:
    """It requests few objects that do not exist."""
    await written(journal_of(bucket), 200)
    async with led(journal_of(bucket)) as (journal, token):
        bucket.requests.clear()
        assert len(await batches(journal)) == 200
        assert len(bucket.requests) < 200 + 40
        await journal.append([b"a"], token)


# Damage


async def test_a_missing_append_is_a_loss(bucket: FaultyBucket) -> None:
    await written(journal_of(bucket))
    bucket.delete([journal_append_key(5)])
    async with led(journal_of(bucket)) as (journal, _):
        with pytest.raises(
            JournalLoss, match=r"journal/appends/000000000005 is missing.*lifecycle"
        ):
            await batches(journal)


async def test_a_missing_end_is_a_loss(bucket: FaultyBucket) -> None:
    await written(journal_of(bucket))
    bucket.delete([journal_append_key(11)])
    with pytest.raises(JournalLoss, match="journal/appends/00000000000b is missing"):
        await journal_of(bucket).open(None)


async def test_a_gap_that_the_manifest_does_not_know_of(bucket: FaultyBucket) -> None:
    """The leader was killed before it could renew its lease."""
    journal = journal_of(bucket)
    opened = await journal.open(None)
    for _ in range(50):
        await journal.append([b"a"], opened.fencing_token)
    bucket.delete([journal_append_key(3)])
    with pytest.raises(JournalLoss, match="journal/appends/000000000003 is missing"):
        await journal_of(bucket).open(None)


def flipped(data: bytes, at: int, bits: int = 1) -> bytes:
    changed = bytearray(data)
    changed[at] ^= bits
    return bytes(changed)


@pytest.mark.slow
async def test_any_flipped_bit_is_noticed(bucket: FaultyBucket) -> None:
    await written(journal_of(bucket), 3)
    found = bucket.load(journal_append_key(3))
    for at in range(len(found.data)):
        damaged = MemoryStore()
        for info in bucket.list():
            data = bytes(bucket.get_all(info.key))
            damaged.create(info.key, flipped(data, at) if info.key.endswith("3") else data)
        journal = journal_of(damaged)
        await journal.open(None)
        with pytest.raises((JournalCorrupt, JournalOfAnotherVersion)):
            await batches(journal)


async def test_a_flipped_bit_of_the_manifest_is_not_written_on(bucket: FaultyBucket) -> None:
    """A takeover rewrites the manifest from what it has read."""
    await written(journal_of(bucket), 3)
    good = bucket.load(JOURNAL_MANIFEST_KEY).data
    noticed = 0
    for at, bit in product(range(len(good)), range(8)):
        try:
            found = decode_manifest(flipped(good, at, 1 << bit))
        except (JournalForeign, JournalCorrupt):
            noticed += 1
        else:
            # White space may become other white space, and the checksum may have another name.
            assert found == decode_manifest(good)
    assert noticed > 7.5 * len(good)


async def test_an_append_in_the_place_of_another(bucket: FaultyBucket) -> None:
    await written(journal_of(bucket))
    other = bytes(bucket.get_all(journal_append_key(4)))
    bucket.delete([journal_append_key(5)])
    bucket.create(journal_append_key(5), other)
    journal = journal_of(bucket)
    await journal.open(None)
    with pytest.raises(JournalCorrupt, match="journal/appends/000000000005 differs from what was"):
        await batches(journal)


@pytest.mark.parametrize("is_trimmed", [True, False])
async def test_an_opening_of_a_contender_that_was_late(
    bucket: FaultyBucket, is_trimmed: bool
) -> None:
    """An opening among appends that are being deleted is not damage. Anywhere else, it is."""
    await written(journal_of(bucket))
    reader = journal_of(bucket).reader()
    async for batch in reader.read(0):
        if batch.position == 1:
            break
    if is_trimmed:
        change_manifest(bucket, trimmed=[5, 4])
    key = journal_append_key(3)
    bucket.delete([key])
    bucket.create(key, encode_append(Mark(2, 1), 9, bytes(16), [])[1])
    error = JournalTrimmed if is_trimmed else JournalCorrupt
    expected = "append 4 was deleted" if is_trimmed else "append 4 of the journal does not follow"
    with pytest.raises(error, match=expected):
        [_ async for _ in reader.read(1)]


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        (
            {"format": "theirs"},
            JournalForeign,
            "not the manifest of a Lacuna.*specify a different bucket",
        ),
        ({"format_version": 2}, JournalOfAnotherVersion, "the journal's format is 2, but this ver"),
        ({"epoch": "1"}, JournalCorrupt, "journal/manifest is damaged"),
        ({"last": [1]}, JournalCorrupt, "journal/manifest is damaged"),
        ({"address": 1}, JournalCorrupt, "journal/manifest is damaged"),
        ({"last": [11, 9]}, JournalCorrupt, "belong to different journals"),
        ({"cluster_id": "theirs"}, JournalForeign, "belongs to cluster theirs, not made"),
    ],
)
async def test_a_manifest_that_is_not_ours(
    bucket: FaultyBucket, fields: dict[str, object], error: type[JournalError], message: str
) -> None:
    await written(journal_of(bucket))
    change_manifest(bucket, **fields)
    with pytest.raises(error, match=message):
        await journal_of(bucket).open("made")


# What a bucket must do


class Careless(FaultyBucket):
    """A store that ignores conditions, as some services do."""

    def __init__(self, ignored: str) -> None:
        super().__init__()
        self.ignored = ignored

    def create(self, key: str, data: bytes) -> str:
        if self.ignored == "If-None-Match":
            self.delete([key])
        return super().create(key, data)

    def replace(self, key: str, data: bytes, etag: str) -> str:
        if self.ignored == "If-Match":
            etag = self.load(key).etag
        return super().replace(key, data, etag)


@pytest.mark.parametrize("ignored", ["If-None-Match", "If-Match"])
async def test_a_bucket_that_ignores_conditions_is_refused(ignored: str) -> None:
    bucket = Careless(ignored)
    expected = rf"cannot hold a journal: it ignores {ignored}.*both become the leader.*--journal postgresql"
    with pytest.raises(JournalRefused, match=expected):
        await journal_of(bucket).open(None)
    assert list(bucket.list()) == []


async def test_the_bucket_is_probed_once(bucket: FaultyBucket) -> None:
    journal = journal_of(bucket)
    await journal.check()
    assert list(bucket.list()) == []
    bucket.requests.clear()
    await journal.open(None)
    await journal.close()
    assert [key for _, key in bucket.requests if "probe" in key] == []


async def test_a_refusal_that_passes_costs_nothing(bucket: FaultyBucket) -> None:
    """A single 403 during credential rotation used to end the leader's process."""
    async with led(journal_of(bucket)) as (journal, token):
        refusals = [StoreMisconfiguredError("bucket 'b' refuses the credentials: check them")]

        def refuse(operation: str, key: str) -> None:
            if refusals:
                raise refusals.pop()

        bucket.before = refuse
        assert await journal.append([b"a"], token) == 1
        assert not refusals


async def test_a_bucket_that_lets_nobody_in(bucket: FaultyBucket) -> None:
    def refuse(operation: str, key: str) -> None:
        raise StoreMisconfiguredError("bucket 'b' refuses the credentials: check them")

    async with led(journal_of(bucket)) as (journal, token):
        bucket.before = refuse
        with (
            impatient(),
            pytest.raises(JournalRefused, match="refuses the credentials: check them"),
        ):
            await journal.append([b"a"], token)
        with pytest.raises(JournalRefused):
            journal.append([b"a"], token)
        bucket.before = None


async def test_a_bucket_that_cannot_be_reached(
    bucket: FaultyBucket, caplog: pytest.LogCaptureFixture
) -> None:
    journal = journal_of(bucket)
    await journal.open(None)
    bucket.choose = lambda operation, key: BucketFault.REFUSED
    with impatient(), caplog.at_level(logging.INFO, "lacuna.controlplane"):
        with pytest.raises(JournalUnreachable, match="Check that this machine can reach it"):
            await journal.reader().leader()
        await journal.close()
        with pytest.raises(JournalUnreachable):
            await journal.open(None)
    assert "the leadership could not be released" in caplog.text


# Snapshots


async def test_a_trim_that_was_interrupted_is_finished_by_the_next(bucket: FaultyBucket) -> None:
    async with led(journal_of(bucket)) as (journal, token):
        for position in range(1, 31):
            await journal.append([b"%d" % position], token)
        await journal.store_snapshot(Snapshot(10, (b"",)))
        kept = {
            info.key: bytes(bucket.get_all(info.key)) for info in bucket.list("journal/appends/")
        }
        await journal.store_snapshot(Snapshot(20, (b"",)))
        assert len(appends_of(bucket)) == 22
        key = journal_append_key(5)
        bucket.create(key, kept[key])
        await journal.store_snapshot(Snapshot(30, (b"",)))
        assert [number for number, _ in appends_of(bucket)] == [1, *range(21, 32)]


async def test_the_last_append_is_kept(bucket: FaultyBucket) -> None:
    """If it is kept, its loss is noticed even if a snapshot covers it."""
    async with led(journal_of(bucket)) as (journal, token):
        await journal.append([b"a"], token)
        for _ in range(2):
            await journal.store_snapshot(Snapshot(1, (b"state",)))
        await journal.append([b"b"], token)
        for _ in range(2):
            await journal.store_snapshot(Snapshot(2, (b"state",)))
            await journal.store_snapshot(Snapshot(2, (b"state",)))
    assert appends_of(bucket)[-1] == (3, False)
    bucket.delete([journal_append_key(3)])
    with pytest.raises(JournalLoss):
        await journal.open(None)


async def test_a_damaged_snapshot_costs_a_longer_replay(bucket: FaultyBucket) -> None:
    snapshots = BucketSnapshots(bucket, BUCKET)
    assert await snapshots.load("c") is None
    assert (
        await snapshots.store(Snapshot(4, (b"state 4",)), "c")
        == await snapshots.trimmable("c")
        == 0
    )
    assert (
        await snapshots.store(Snapshot(8, (b"state 8",)), "c")
        == await snapshots.trimmable("c")
        == 4
    )
    assert await snapshots.load("c") == Snapshot(8, (b"state 8",))
    keys = [info.key for info in bucket.list(JOURNAL_SNAPSHOTS_PREFIX)]
    part = bucket.load(keys[-1])
    bucket.replace(keys[-1], b"state x", part.etag)
    assert await snapshots.load("c") == Snapshot(4, (b"state 4",))
    bucket.delete([keys[1]])
    with pytest.raises(JournalCorrupt, match=r"position 4 is incomplete: .*part-000000 is missing"):
        await snapshots.load("c")


def _index(**wrong: object) -> bytes:
    right = {
        "format_version": 1,
        "position": 4,
        "parts": 1,
        "crc": 0,
        "cluster_id": "c",
        "journal": BUCKET,
        "seal": None,
    }
    return json.dumps(right | wrong).encode()


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (b"{}", JournalCorrupt),
        (b'{"format_version": 2, "position": 4, "parts": 1, "crc": 0}', JournalOfAnotherVersion),
        (b'{"format_version": 1, "position": 4, "parts": 1, "crc": 0}', JournalCorrupt),
        (_index(position=5), JournalCorrupt),
        (_index(parts=-1), JournalCorrupt),
        (_index(seal=[1]), JournalCorrupt),
    ],
)
async def test_a_snapshot_with_a_wrong_index(
    bucket: FaultyBucket, index: bytes, error: type[JournalError]
) -> None:
    snapshots = BucketSnapshots(bucket, BUCKET)
    await snapshots.store(Snapshot(4, (b"state 4",)), "c")
    [key] = [info.key for info in bucket.list() if info.key.endswith("index")]
    bucket.replace(key, index, bucket.load(key).etag)
    with pytest.raises(error, match="position 4"):
        await snapshots.load("c")


async def test_a_large_snapshot_is_stored_part_by_part(bucket: FaultyBucket) -> None:
    snapshots = BucketSnapshots(bucket, BUCKET)
    state = bytes(range(250)) * 18
    parts = tuple(state[at : at + 1000] for at in range(0, len(state), 1000))
    assert [await snapshots.store(Snapshot(at, iter(parts)), "c") for at in (3, 5, 9)] == [0, 3, 5]
    assert await snapshots.load("c") == Snapshot(9, parts)
    assert len(list(bucket.list(JOURNAL_SNAPSHOTS_PREFIX))) == 2 * 6
    await snapshots.store(Snapshot(11, (b"",)), "c")
    assert await snapshots.load("c") == Snapshot(11, (b"",))


async def test_a_snapshot_that_was_not_finished_does_not_count(bucket: FaultyBucket) -> None:
    snapshots = BucketSnapshots(bucket, BUCKET)
    await snapshots.store(Snapshot(4, (b"state 4",)), "c")
    bucket.choose = lambda operation, key: (
        BucketFault.REFUSED if operation == "create" and key.endswith("index") else None
    )
    with impatient(), pytest.raises(JournalUnreachable):
        await snapshots.store(Snapshot(8, (b"state 8",)), "c")
    bucket.heal()
    assert await snapshots.load("c") == Snapshot(4, (b"state 4",))
    assert await snapshots.store(Snapshot(9, (b"state 9",)), "c") == 4
    assert await snapshots.store(Snapshot(10, (b"state 10",)), "c") == 9
    assert not any("/0000000000000008-" in info.key for info in bucket.list())


async def test_a_snapshot_that_is_deleted_while_it_is_loaded(bucket: FaultyBucket) -> None:
    """By then, newer snapshots exist and are loaded instead."""
    snapshots = BucketSnapshots(bucket, BUCKET)
    await snapshots.store(Snapshot(4, (b"state 4",)), "c")
    old = [info.key for info in bucket.list()]

    def replace(operation: str, key: str) -> None:
        if operation == "load" and key in old:
            bucket.before = None
            stored = MemoryStore()
            asyncio.run(BucketSnapshots(stored, BUCKET).store(Snapshot(6, (b"state 6",)), "c"))
            bucket.delete(old)
            for info in stored.list():
                bucket.create(info.key, bytes(stored.get_all(info.key)))

    bucket.before = replace
    assert await snapshots.load("c") == Snapshot(6, (b"state 6",))


async def test_a_snapshot_says_of_which_cluster_it_is(bucket: FaultyBucket) -> None:
    """No control plane loads, deletes or writes anything among another cluster's snapshots."""
    ours, theirs = BucketSnapshots(bucket, BUCKET), BucketSnapshots(bucket, POSTGRESQL)
    for position in (4, 8):
        await ours.store(Snapshot(position, (b"ours",)), "ours")
    before = list(bucket.list())
    for snapshots in (ours, theirs):
        for refused in (
            snapshots.load("theirs"),
            snapshots.store(Snapshot(99, (b"theirs",)), "theirs"),
            snapshots.trimmable("theirs"),
            snapshots.check("theirs"),
            snapshots.check(None),
        ):
            with pytest.raises(JournalForeign, match=r"belongs to cluster ours, .*\(--store\)"):
                await refused
    assert list(bucket.list()) == before
    await ours.check("ours")
    # A manifest that was lost does not say whose the journal is.
    assert await ours.load(None) == Snapshot(8, (b"ours",))


async def test_two_journals_of_a_cluster_leave_each_others_snapshots_alone(
    bucket: FaultyBucket,
) -> None:
    in_bucket, in_database = BucketSnapshots(bucket, BUCKET), BucketSnapshots(bucket, POSTGRESQL)
    for position in (4, 8):
        await in_bucket.store(Snapshot(position, (b"bucket",)), "c")
    assert await in_database.load("c") is None
    for position in (12, 16, 20):
        await in_database.store(Snapshot(position, (b"database",)), "c")
    assert await in_bucket.load("c") == Snapshot(8, (b"bucket",))
    assert await in_bucket.trimmable("c") == 4
    assert await in_database.load("c") == Snapshot(20, (b"database",))
    assert await in_database.trimmable("c") == 16


async def test_a_journal_is_not_begun_in_the_bucket_of_another_cluster(
    bucket: FaultyBucket,
) -> None:
    claim_store(bucket, "other")
    with pytest.raises(JournalForeign, match="belongs to cluster other, but the journal is new"):
        await journal_of(bucket).open(None)
    assert [info.key for info in bucket.list("journal/manifest")] == []


async def test_a_journal_whose_bucket_was_claimed_by_another_cluster_is_refused(
    bucket: FaultyBucket,
) -> None:
    await written(journal_of(bucket))
    claim_store(bucket, "other")
    with pytest.raises(
        JournalForeign, match="cluster other, but the journal belongs to cluster made"
    ):
        await journal_of(bucket).check()


async def test_a_snapshot_may_take_longer_than_a_lease() -> None:
    """Few parts are requested at a time, so none waits for a thread. Loading is not limited by the lease."""
    reading, most, turn = 0, 0, threading.Lock()

    class Slow(MemoryStore):
        def get_all(self, key: str) -> bytearray:
            nonlocal reading, most
            with turn:
                reading += 1
                most = max(most, reading)
            time.sleep(0.005)
            with turn:
                reading -= 1
            return super().get_all(key)

    journal = BucketJournal(Slow(), lambda: "made", lease=3.0, answer_timeout=3.0)
    snapshots = journal._snapshots
    assert isinstance(snapshots, BucketSnapshots)
    await snapshots.store(Snapshot(4, (bytes(10),) * 32), "made")
    assert await snapshots.load("made") == Snapshot(4, (bytes(10),) * 32)
    assert most <= 4
    assert snapshots._bucket._answer_timeout >= 10.0


# Hot segments

LEASE = hot_lease(7)


async def put_hot(journal: BucketJournal, token: int, sequences: Iterable[int]) -> None:
    for sequence in sequences:
        await journal.append([b"commit"], token, [HotSegment((LEASE, sequence), b"%d" % sequence)])


def keys(sequences: Iterable[int]) -> list[HotKey]:
    return [(LEASE, sequence) for sequence in sequences]


def appends_with_content(bucket: ConditionalStore) -> list[int]:
    return [number for number, is_opening in appends_of(bucket) if not is_opening]


async def test_appends_stay_until_their_hot_bytes_are_dropped_and_a_snapshot_covers_them(
    bucket: FaultyBucket,
) -> None:
    """Append 1 is the opening, so segment n is in append n + 1."""
    async with led(journal_of(bucket)) as (journal, token):
        await put_hot(journal, token, range(1, 11))
        await journal.drop_hot(keys((1, 2, 9)))
        assert appends_with_content(bucket) == list(range(2, 12))
        for position in (7, 8):
            await journal.store_snapshot(Snapshot(position, (b"state",)))
        # Append 8 is the one of the older snapshot.
        assert appends_with_content(bucket) == list(range(4, 12))
        await journal.drop_hot(keys((3, 5, 10)))
        assert appends_with_content(bucket) == [5, 7, 8, 9, 10, 11]

    async with led(journal_of(bucket)) as (journal, _):
        assert sorted(journal.hot) == keys((4, 6, 7, 8, 9, 10))
        assert await journal.read_hot(keys((1, 4, 8))) == {(LEASE, 4): b"4", (LEASE, 8): b"8"}
        assert [batch.position async for batch in journal.read(7)] == [8, 9, 10]
        await journal.drop_hot(keys(range(1, 11)))
        assert journal.hot == {}
        for position in (9, 10):
            await journal.store_snapshot(Snapshot(position, (b"state",)))
        assert appends_with_content(bucket) == [10, 11]


async def test_a_takeover_reads_no_append_that_has_moved_out(bucket: FaultyBucket) -> None:
    async with led(journal_of(bucket)) as (journal, token):
        await put_hot(journal, token, range(1, 41))
        await journal.drop_hot(keys(range(1, 38)))
    bucket.requests.clear()
    async with led(journal_of(bucket)) as (journal, _):
        assert sorted(journal.hot) == keys((38, 39, 40))
        read = {key for _, key in bucket.requests if key.startswith(JOURNAL_APPENDS_PREFIX)}
        assert read == {journal_append_key(number) for number in (39, 40, 41, 42)}


async def test_a_standby_that_has_followed_knows_the_hot_segments(bucket: FaultyBucket) -> None:
    leader, standby = journal_of(bucket), journal_of(bucket)
    reader = standby.reader()
    token = (await leader.open(None)).fencing_token
    await put_hot(leader, token, range(1, 41))
    assert len([batch async for batch in reader.read(0)]) == 40
    await leader.drop_hot(keys(range(1, 31)))
    await leader.close()
    await reader.leader()
    bucket.requests.clear()
    await standby.open(None)
    assert sorted(standby.hot) == keys(range(31, 41))
    read = [key for _, key in bucket.requests if key.startswith(JOURNAL_APPENDS_PREFIX)]
    # The last append twice: that of the manifest is the one that was read. And its own opening.
    assert sorted(read) == [journal_append_key(41)] * 2 + [journal_append_key(42)]
    await standby.close()


async def test_a_replay_reads_no_hot_bytes(bucket: FaultyBucket) -> None:
    async with led(journal_of(bucket)) as (journal, token):
        sent = HotSegment((LEASE, 1), bytes(MOST_HOT_BYTES))
        long = [b"r" * 300_000]
        await journal.append([b"a"], token, [sent])
        await journal.append(long, token, [sent._replace(key=(LEASE, 2))])
        before = bucket.metrics.bytes_read
        assert [batch.records async for batch in journal_of(bucket).reader().read(0)] == [
            [b"a"],
            long,
        ]
        assert bucket.metrics.bytes_read - before < MOST_HOT_BYTES


async def test_damaged_hot_bytes_are_named(bucket: FaultyBucket) -> None:
    async with led(journal_of(bucket)) as (journal, token):
        two = [HotSegment((LEASE, sequence), bytes(1000)) for sequence in (1, 2)]
        await journal.append([b"a"], token, two)
        key = journal_append_key(2)
        data = flipped(bytes(bucket.get_all(key)), -1)
        bucket.delete([key])
        bucket.create(key, data)
        assert await journal.read_hot(keys([1])) == dict(two[:1])
        with pytest.raises(
            JournalCorrupt, match=f"the hot segment 2 of lease {LEASE} does not match"
        ):
            await journal.read_hot(keys([1, 2]))
        assert len([batch async for batch in journal.read(0)]) == 1


@pytest.mark.parametrize("fault", [BucketFault.LOST_REPLY, BucketFault.REFUSED])
async def test_an_append_without_an_answer_is_there_with_its_hot_bytes_or_not_at_all(
    bucket: FaultyBucket, fault: BucketFault
) -> None:
    journal = journal_of(bucket)
    token = (await journal.open(None)).fencing_token
    bucket.fail("create", fault, "journal/appends/")
    bucket.choose = lambda operation, key: BucketFault.REFUSED
    with impatient(), pytest.raises(JournalInDoubt):
        await put_hot(journal, token, [1])
    assert journal.hot == {}
    bucket.heal()
    journal = journal_of(bucket)
    opened = await journal.open(None)
    is_there = fault is BucketFault.LOST_REPLY
    assert (opened.position, list(journal.hot)) == ((1, keys([1])) if is_there else (0, []))
    assert await journal.read_hot(keys([1])) == ({(LEASE, 1): b"1"} if is_there else {})
    await journal.close()
