"""Tests that copying a journal copies and verifies all of it, and that no control plane can lead it meanwhile."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Self

import asyncpg
import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.journal.bucket_snapshots import BucketSnapshots
from lacuna.controlplane.journal.journal import (
    HotSegment,
    JournalCorrupt,
    JournalError,
    JournalFenced,
    JournalForeign,
    JournalInUse,
    JournalUnfinished,
    Snapshot,
)
from lacuna.controlplane.journal.moving.beginning import Beginning, Target
from lacuna.controlplane.journal.moving.copying import copy_journal
from lacuna.controlplane.journal.moving.holding import renewing
from lacuna.controlplane.journal.moving.sqlite import SqliteTarget
from lacuna.controlplane.journal.place import BUCKET, POSTGRESQL
from lacuna.controlplane.journal.postgresql import PostgresqlJournal
from lacuna.controlplane.journal.postgresql_snapshots import MovedSnapshots, PostgresqlSnapshots
from lacuna.controlplane.journal.salvage import salvage
from lacuna.controlplane.journal.snapshots import SnapshotDatabase
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, LeasesEnded
from lacuna.logstore.objects import MemoryStore
from lacuna.logstore.segments import claim_store
from lacuna.logstore.segments.hot import hot_lease
from tests.controlplane.journal.conftest import led
from tests.controlplane.journal.golden import (
    KINDS,
    LEASE,
    SHARED,
    Place,
    file_place,
    make_place,
    replayed,
)

#: The state replays it without an effect.
RECORD = JournalRecord(now_ms=1, leases_ended=LeasesEnded()).SerializeToString()


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest) -> Place:
    return make_place(kind, request)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Place:
    """A SQLite journal to copy."""
    made = make_place("sqlite", request)
    made.fill()
    return made


class Steps:
    """A target that calls `before` with the name of each step."""

    def __init__(self, target: Target, before: Callable[[str], object]) -> None:
        self._target = target
        self._before = before
        self.name = target.name

    async def __aenter__(self) -> Self:
        await self._target.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._target.__aexit__(*error)

    async def _step(self, name: str) -> None:
        done = self._before(name)
        if asyncio.iscoroutine(done):
            await done

    async def write(self, beginning: Beginning) -> None:
        await self._step("write")
        await self._target.write(beginning)

    async def add_hot(self, hot: Sequence[HotSegment]) -> None:
        await self._step("add_hot")
        await self._target.add_hot(hot)

    async def read_back(self) -> Beginning:
        await self._step("read_back")
        return await self._target.read_back()

    async def finish(self) -> None:
        await self._step("finish")
        await self._target.finish()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "to"), [*pairwise(KINDS), (KINDS[-1], KINDS[0])])
async def test_a_copy_has_the_hot_segments(
    request: pytest.FixtureRequest, place: Place, to: str
) -> None:
    place.fill()
    sent = [HotSegment((hot_lease(7), number), bytes(2 << 20)) for number in range(1, 8)]
    async with led(place.journal()) as (journal, token):
        for segment in sent:
            await journal.append([RECORD], token, [segment])
        await journal.drop_hot([sent[0].key])
    target = make_place(to, request)
    copied = await copy_journal(place.source(), target.target())
    journal = target.journal()
    assert (await journal.open(None)).position == copied.position
    keys = [segment.key for segment in sent[1:]]
    assert await journal.read_hot(keys) == dict(sent[1:])
    await journal.drop_hot(keys)
    await journal.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "to"), [(one, other) for one in KINDS for other in KINDS if one != other]
)
async def test_a_copy_has_everything_and_goes_on(
    request: pytest.FixtureRequest, place: Place, to: str
) -> None:
    place.fill()
    target = make_place(to, request)
    copied = await copy_journal(place.source(), target.target())
    there = await replayed(place.journal())
    here = await replayed(target.journal())
    assert (here.position, here.state.cluster_id) == (copied.position, copied.cluster_id)
    assert machine.snapshot(here.state) == machine.snapshot(there.state)

    was = await place.journal().open(None)
    journal = target.journal()
    opened = await journal.open(copied.cluster_id)
    # Each was opened twice since.
    assert opened.fencing_token == was.fencing_token
    assert await journal.append([RECORD], opened.fencing_token) == copied.position + 1
    await journal.store_snapshot(Snapshot(copied.position + 1, (machine.snapshot(here.state),)))
    await journal.close()
    assert (await replayed(target.journal())).position == copied.position + 1


@pytest.mark.slow
@pytest.mark.parametrize("to", SHARED)
async def test_the_digest_is_that_of_the_content_alone(
    request: pytest.FixtureRequest, golden: Place, to: str
) -> None:
    """A copy made to another place and back has the same digest."""
    target = make_place(to, request)
    one = await copy_journal(golden.source(), target.target())
    other = await copy_journal(target.source(), SqliteTarget(golden.path + ".second"))
    assert one == other
    assert len(one.digest) == 64


@pytest.mark.parametrize("kind", KINDS)
async def test_the_time_is_set_in_the_journal_itself(place: Place) -> None:
    place.fill()
    before = await replayed(place.journal())
    now_ms = before.state.clock_ms - 30 * 86_400_000
    async with place.source() as source:
        assert source.clock_ms == before.state.clock_ms
        await source.add([each.SerializeToString() for each in machine.set_time(now_ms).records])
    after = await replayed(place.journal())
    assert (after.state.clock_ms, after.position) == (now_ms, before.position + 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_is_copied_over_a_journal(
    request: pytest.FixtureRequest, place: Place
) -> None:
    place.fill()
    before = machine.snapshot((await replayed(place.journal())).state)
    source = make_place("bucket", request)
    source.fill()
    with pytest.raises(
        JournalForeign,
        match=r"already holds the journal of cluster .*, which a copy does not overwrite",
    ):
        await copy_journal(source.source(), place.target())
    assert machine.snapshot((await replayed(place.journal())).state) == before


@pytest.mark.parametrize("kind", SHARED)
async def test_a_place_without_a_journal_is_no_source(place: Place) -> None:
    with pytest.raises(JournalError, match="there is no journal"):
        async with place.source():
            raise AssertionError
    if place.url:
        connection = await asyncpg.connect(place.url)
        assert await connection.fetchval("SELECT to_regnamespace('lacuna') IS NULL")
        await connection.close()
    assert list(place.bucket.list("")) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_journal_that_is_led_is_not_copied(place: Place, tmp_path: Path) -> None:
    place.fill()
    async with led(place.journal()) as (journal, token):
        target = SqliteTarget(f"{tmp_path}/target.db")
        async with AsyncExitStack() as stack:
            if place.patient is not place.journal:
                renewer = journal.renewer(token)  # type: ignore[attr-defined]
                await stack.enter_async_context(renewing(renewer, LEASE, place.clock))
            with pytest.raises(JournalInUse, match="stop it"):
                await copy_journal(place.source(), target)
            # And it leads on.
            await journal.append([RECORD], token)
    async with SqliteTarget(target.name):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_nobody_begins_to_lead_what_is_copied(place: Place, tmp_path: Path) -> None:
    """No control plane can lead it, even after the duration of a lease."""
    place.fill()
    tried: list[str] = []

    async def try_to_lead(step: str) -> None:
        await place.cannot_be_led()
        tried.append(step)

    await copy_journal(place.source(), Steps(SqliteTarget(f"{tmp_path}/to.db"), try_to_lead))
    assert tried == ["write", "read_back", "finish"]
    journal = place.patient()
    await journal.open(None)
    await journal.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHARED)
async def test_a_copy_of_what_another_took_over_is_not_finished(
    place: Place, tmp_path: Path
) -> None:
    place.fill()
    target = SqliteTarget(f"{tmp_path}/to.db")

    def take_over(step: str) -> object:
        return place.journal().open(None) if step == "read_back" else None

    with pytest.raises(JournalFenced):
        await copy_journal(place.source(), Steps(target, take_over))
    with pytest.raises(JournalUnfinished, match="run `lacuna controlplane copy` again"):
        await SqliteJournal(target.name, str).open(None)


class Killed(BaseException):
    """Simulates the end of the process: no files, connections or requests are closed."""


def kill(*_: object) -> None:
    raise Killed


#: What is called in the middle; in PostgreSQL what is written is one transaction.
STORES = {
    "sqlite": (SnapshotDatabase, "store"),
    "postgresql": (PostgresqlSnapshots, "load"),
    "bucket": (BucketSnapshots, "store"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", ["in write", "read_back", "finish"])
async def test_what_an_interrupted_copy_leaves_is_led_by_nobody_and_begun_anew(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    place: Place,
    kind: str,
    step: str,
) -> None:
    source = make_place("bucket" if kind != "bucket" else "sqlite", request)
    source.fill()

    def kill_at(name: str) -> None:
        if name == step:
            kill()

    with monkeypatch.context() as patched:
        if step == "in write":
            patched.setattr(*STORES[kind], kill)
        with pytest.raises(Killed):
            await copy_journal(source.source(), Steps(place.target(), kill_at))
    for journal in (place.journal(), place.patient()):
        with pytest.raises(
            JournalUnfinished, match=r"unfinished copy of a journal: run `lacuna controlplane copy`"
        ):
            await journal.open(None)
    if place.path:
        with pytest.raises(JournalUnfinished):
            salvage(place.path)
    else:
        reader = place.journal().reader()  # type: ignore[attr-defined]
        with pytest.raises(JournalUnfinished):
            await reader.leader()
        await reader.close()
    copied = await copy_journal(source.source(), place.target())
    assert (await replayed(place.journal())).position == copied.position


@pytest.mark.parametrize("kind", KINDS)
async def test_of_two_copies_to_one_place_one_is_finished(
    tmp_path: Path, place: Place, kind: str
) -> None:
    source, another = (file_place(tmp_path / name) for name in ("one", "another"))
    for each in (source, another):
        Path(each.path).parent.mkdir()
        each.fill()

    async def copy_another(step: str) -> None:
        if step != "read_back":
            return
        if kind == "sqlite":
            with pytest.raises(JournalInUse):
                await copy_journal(another.source(), place.target())
        else:
            await copy_journal(another.source(), place.target())

    copying = copy_journal(source.source(), Steps(place.target(), copy_another))
    if kind == "sqlite":
        await copying
    else:
        with pytest.raises(JournalInUse, match=r"another copy to .* is in progress"):
            await copying
    assert (await replayed(place.journal())).position == 22


async def test_what_does_not_read_back_as_it_was_is_not_finished(golden: Place) -> None:
    """The bytes have a valid checksum but encode a different state."""
    target = SqliteTarget(golden.path + ".copy")

    class Forgetful(Steps):
        async def read_back(self) -> Beginning:
            found = await super().read_back()
            state = replace(found.snapshot, parts=(machine.snapshot(machine.State()),))
            return replace(found, snapshot=state)

    with pytest.raises(JournalCorrupt, match="does not return what was written"):
        await copy_journal(golden.source(), Forgetful(target, lambda _: None))
    with pytest.raises(JournalUnfinished):
        await SqliteJournal(target.name, str).open(None)


async def test_a_bucket_of_another_cluster_is_no_target(
    golden: Place, request: pytest.FixtureRequest
) -> None:
    bucket = make_place("bucket", request)
    claim_store(bucket.bucket, "other")
    with pytest.raises(
        JournalForeign, match="belongs to cluster other, but the journal belongs to"
    ):
        await copy_journal(golden.source(), bucket.target())
    assert [each.key for each in bucket.bucket.list("journal/")] == []


async def test_snapshots_of_a_newer_journal_are_not_taken_for_the_copys(
    golden: Place, request: pytest.FixtureRequest
) -> None:
    """This happens when an old file is copied to a bucket after only a newer journal's appends were removed."""
    bucket = make_place("bucket", request)
    async with golden.source() as source:
        cluster_id = source.opened.cluster_id
    await BucketSnapshots(bucket.bucket, BUCKET).store(Snapshot(99, (b"state",)), cluster_id)
    with pytest.raises(JournalForeign, match=r"a snapshot at position 99 .* ends at 22. Check"):
        await copy_journal(golden.source(), bucket.target())
    with pytest.raises(JournalUnfinished):
        await bucket.journal().open(None)


@pytest.mark.parametrize("name", [".snapshots", ".acknowledged"])
async def test_a_file_beside_a_lost_journal_is_not_copied_over(tmp_path: Path, name: str) -> None:
    (tmp_path / f"journal.db{name}").touch()
    with pytest.raises(
        JournalForeign, match=rf"{name} belongs to a different journal: move it elsewhere"
    ):
        async with SqliteTarget(str(tmp_path / "journal.db")):
            raise AssertionError


async def go_on(journal: Callable[[], PostgresqlJournal], *positions: int) -> None:
    """Append a record at each position, and store a snapshot of that position."""
    for position in positions:
        replica = await replayed(journal())
        assert replica.position == position - 1
        async with led(journal()) as (written, token):
            await written.append([RECORD], token)
            await written.store_snapshot(Snapshot(position, (machine.snapshot(replica.state),)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgresql"])
async def test_later_snapshots_of_a_copy_may_be_in_a_bucket(place: Place, golden: Place) -> None:
    """The database drops its snapshot once the bucket has enough of them."""
    await copy_journal(golden.source(), place.target())
    in_database = PostgresqlSnapshots(place.url)
    bucket = BucketSnapshots(MemoryStore(), POSTGRESQL)

    def journal() -> PostgresqlJournal:
        return PostgresqlJournal(place.url, str, snapshots=MovedSnapshots(bucket, in_database))

    await go_on(journal, 23, 24)
    assert await in_database.newest() == 0
    assert (await replayed(journal())).position == 24
    # The message says that the bucket is missing.
    with pytest.raises(JournalError, match="If its snapshots are in a bucket, specify the bucket"):
        async with place.source():
            raise AssertionError


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgresql"])
async def test_the_old_journal_stays_as_it_is_in_the_bucket_of_the_new_ones_snapshots(
    place: Place, request: pytest.FixtureRequest
) -> None:
    old = make_place("bucket", request)
    old.fill()
    await copy_journal(old.source(), place.target())
    before = (await replayed(old.journal())).state

    def journal() -> PostgresqlJournal:
        in_bucket = BucketSnapshots(old.bucket, POSTGRESQL)
        snapshots = MovedSnapshots(in_bucket, PostgresqlSnapshots(place.url))
        return PostgresqlJournal(place.url, str, snapshots=snapshots)

    await go_on(journal, 23, 24, 25)
    assert (await replayed(journal())).position == 25
    assert machine.snapshot((await replayed(old.journal())).state) == machine.snapshot(before)
