"""Tests snapshots that cover records that the journal has lost, or that belong to another journal in the bucket."""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import asyncpg
import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.clock import SystemClock
from lacuna.controlplane.journal import snapshotter
from lacuna.controlplane.journal.bucket import BucketJournal
from lacuna.controlplane.journal.bucket_snapshots import BucketSnapshots
from lacuna.controlplane.journal.journal import (
    JournalCorrupt,
    JournalLoss,
    JournalReader,
    JournalReplaced,
    JournalTrimmed,
    SharedJournal,
)
from lacuna.controlplane.journal.moving.bucket_wreck import bucket_wreck
from lacuna.controlplane.journal.moving.copying import copy_journal
from lacuna.controlplane.journal.moving.postgresql import PostgresqlTarget
from lacuna.controlplane.journal.moving.postgresql_wreck import postgresql_wreck
from lacuna.controlplane.journal.moving.source import leased_source
from lacuna.controlplane.journal.place import BUCKET, POSTGRESQL, Place
from lacuna.controlplane.journal.postgresql import PostgresqlJournal
from lacuna.controlplane.journal.postgresql_snapshots import MovedSnapshots, PostgresqlSnapshots
from lacuna.controlplane.journal.replica import Replica
from lacuna.controlplane.journal.snapshot_store import SnapshotStore
from lacuna.controlplane.node import Node
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.controlplane.state.state import State
from lacuna.logstore.objects import MemoryStore, ObjectInfo
from lacuna.logstore.segments.paths import JOURNAL_SNAPSHOTS_PREFIX
from lacuna.operating.losses import AcceptedLoss, accept_shared_loss
from tests.controlplane.runtime.rig import no_runtime, nobody
from tests.controlplane.verbs.cluster import Cluster
from tests.postgresql import PostgresqlServer

#: Every journal here is closed by who leads it, so nobody waits for its end.
LEASE = 3600.0
IN_BUCKET = "postgresql, with snapshots in a bucket"


class Kept:
    """A journal in the database at `url`, or in the bucket if `url` is empty."""

    def __init__(self, kind: str, url: str = "", bucket: MemoryStore | None = None) -> None:
        self.url = url
        self.bucket = bucket or MemoryStore()
        self.snapshots: SnapshotStore
        if kind == BUCKET:
            self.snapshots = BucketSnapshots(self.bucket, BUCKET)
        else:
            self.snapshots = in_database = PostgresqlSnapshots(url)
            if kind == IN_BUCKET:
                in_bucket = BucketSnapshots(self.bucket, POSTGRESQL)
                self.snapshots = MovedSnapshots(in_bucket, in_database)
        self._kept: dict[str, bytes] = {}

    def journal(self, lease: float = 0.0) -> SharedJournal:
        if self.url:
            return PostgresqlJournal(self.url, str, lease=lease, snapshots=self.snapshots)
        return BucketJournal(self.bucket, str, lease=lease, snapshots=self.snapshots)

    async def append(self, records: Sequence[bytes]) -> None:
        journal = self.journal()
        opened = await journal.open(Cluster().state.cluster_id)
        for record in records:
            await journal.append([record], opened.fencing_token)
        await journal.close()

    async def snapshot(self, patch: pytest.MonkeyPatch) -> int:
        """Create a snapshot as the snapshot process does, and trim. Return its position."""
        journal = self.journal()
        opened = await journal.open(None)

        @contextmanager
        def opened_reader(_: Place) -> Iterator[tuple[JournalReader, SnapshotStore]]:
            yield journal.reader(), self.snapshots

        with patch.context() as patched:
            patched.setattr(snapshotter, "opened_reader", opened_reader)
            await snapshotter.make_shared_snapshot(Place("here"), opened.position)
        await journal.trim()
        await journal.close()
        return opened.position

    def keep(self) -> None:
        """Save the current journal. Restoring it does not reset the snapshots."""
        self._kept = {info.key: bytes(self.bucket.get_all(info.key)) for info in self._objects()}

    def _objects(self) -> list[ObjectInfo]:
        return [
            info
            for info in self.bucket.list("journal/")
            if not info.key.startswith(JOURNAL_SNAPSHOTS_PREFIX)
        ]

    async def lose(self, position: int) -> None:
        """Drop everything after `position`, wherever the journal is stored."""
        if self.url:
            await self.execute("DELETE FROM lacuna.appends WHERE last > $1", position)
            return
        self.bucket.delete([info.key for info in self._objects()])
        for key, data in self._kept.items():
            self.bucket.create(key, data)

    async def execute(self, statement: str, *args: object) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(statement, *args)
        finally:
            await connection.close()

    async def spoil(self, position: int) -> None:
        """Damage the snapshot at a position."""
        if isinstance(self.snapshots, PostgresqlSnapshots):
            await self.execute(
                "UPDATE lacuna.snapshots SET crc = 1 WHERE part = 0 AND position = $1", position
            )
            return
        for info in list(self.bucket.list(f"{JOURNAL_SNAPSHOTS_PREFIX}{position:016x}-")):
            if "part-" in info.key:
                found = self.bucket.load(info.key)
                self.bucket.replace(info.key, b"x", found.etag)

    async def followed(self) -> State:
        """Return the state of a standby that starts now."""
        node = Node(no_runtime, SystemClock(), nobody)
        reader = self.journal(LEASE).reader()
        try:
            await node._catch_up(reader)
        finally:
            await reader.close()
        return node._replica.state

    def runtime(self, replica: Replica | None = None) -> Runtime:
        return Runtime(
            self.journal(),
            SystemClock(),
            lambda: bytes(16),
            RuntimeSettings(),
            replica=replica,
            on_fatal=lambda _: None,
        )

    async def led(self) -> State:
        """Return the state of a leader that starts without having been a standby."""
        runtime = self.runtime()
        await runtime.start(None)
        state = machine.restore((runtime.serialized_state(),))
        await runtime.close()
        return state

    async def accept_loss(self) -> AcceptedLoss:
        if self.url:
            wreck = postgresql_wreck(self.url, self.snapshots, LEASE, SystemClock())
            async with wreck as in_database:
                return await accept_shared_loss(in_database, None)
        async with bucket_wreck(self.bucket, "the bucket", LEASE, SystemClock()) as in_bucket:
            return await accept_shared_loss(in_bucket, None)


@pytest.fixture(params=[POSTGRESQL, IN_BUCKET, BUCKET])
def kept(request: pytest.FixtureRequest) -> Kept:
    url = "" if request.param == BUCKET else request.getfixturevalue("database")
    return Kept(request.param, url)


class Histories:
    """Two histories that begin with the same records. `lost` and `now` are the records that follow in each."""

    def __init__(self) -> None:
        self.lost_cluster, self.cluster = Cluster(), Cluster()
        for cluster in (self.lost_cluster, self.cluster):
            cluster.create("orders")
            cluster.put("orders-0", 5)
        self.common = list(self.cluster.journal)
        for _ in range(3):
            self.lost_cluster.put("orders-0", 7)
            self.cluster.put("orders-0", 2)
        assert self.lost_cluster.journal[: len(self.common)] == self.common
        self.lost = self.lost_cluster.journal[len(self.common) :]
        self.now = self.cluster.journal[len(self.common) :]


def same(one: State, other: State) -> bool:
    return machine.snapshot(one) == machine.snapshot(other)


def stale(known: Replica) -> Replica:
    """Return a replica that has read up to the same position."""
    replica = Replica()
    replica.state, replica.position, replica.seal = known.state, known.position, known.seal
    return replica


async def set_back(kept: Kept, histories: Histories, patch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Create a journal that has lost records covered by its second snapshot. Return both snapshots' positions."""
    await kept.append(histories.common)
    first = await kept.snapshot(patch)
    kept.keep()
    await kept.append(histories.lost[:2])
    second = await kept.snapshot(patch)
    await kept.lose(first)
    return first, second


@pytest.mark.parametrize("more", [0, 1, 3])
async def test_a_standby_reads_anew_what_took_the_place_of_what_it_had_read(
    kept: Kept, more: int
) -> None:
    """It notices this however many records follow. If none follow, the next leader notices."""
    old, new = Cluster(), Cluster()
    for cluster in (old, new):
        cluster.create("orders")
    common = len(old.journal)
    old.put("orders-0", 5)
    new.put("orders-0", 2)
    for _ in range(more):
        new.put("orders-0", 3)
    assert old.journal[:common] == new.journal[:common]
    await kept.append(old.journal[:common])
    kept.keep()
    await kept.append(old.journal[common:])
    reader = kept.journal(LEASE).reader()
    node = Node(no_runtime, SystemClock(), nobody)
    await node._catch_up(reader)
    standby = node._replica
    assert same(standby.state, old.state)
    # Nothing was lost yet, so nothing is read anew.
    await node._catch_up(reader)
    assert node._replica is standby
    await kept.lose(common)
    await kept.append(new.journal[common:])
    with pytest.raises(JournalReplaced, match=r"is no longer the (append|one) that was read"):
        await kept.runtime(stale(standby)).start(new.state.cluster_id)
    if more or kept.url:
        await node._catch_up(reader)
        assert node._replica.position == len(new.journal)
        assert same(node._replica.state, new.state)
    await reader.close()


@pytest.mark.slow
async def test_a_snapshot_of_what_was_lost_is_not_used(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The journal has since grown past it. It is not one of the two kept snapshots either."""
    histories = Histories()
    first, second = await set_back(kept, histories, monkeypatch)
    await kept.append(histories.now)
    caplog.set_level(logging.WARNING)
    assert same(await kept.followed(), histories.cluster.state)
    [message] = [each.message for each in caplog.records]
    assert (
        f"the snapshot at position {second} is not used, because the journal has a different"
        in message
    )
    assert same(await kept.led(), histories.cluster.state)
    third = await kept.snapshot(monkeypatch)
    assert same(await kept.followed(), histories.cluster.state)
    caplog.clear()
    assert third > second
    await kept.spoil(third)
    assert same(await kept.followed(), histories.cluster.state)
    # The journal was trimmed up to the first.
    assert await kept.snapshots.trimmable("cluster", kept.journal().reader().fit) == first


@pytest.mark.slow
async def test_a_standby_that_has_only_loaded_a_snapshot_notices_that_it_was_replaced(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    histories = Histories()
    await kept.append(histories.common)
    await kept.snapshot(monkeypatch)
    kept.keep()
    first = len(histories.common)
    await kept.append(histories.lost[:2])
    await kept.snapshot(monkeypatch)
    reader = kept.journal(LEASE).reader()
    node = Node(no_runtime, SystemClock(), nobody)
    await node._catch_up(reader)
    loaded = node._replica
    assert (loaded.position, loaded.records) == (first + 2, 0)
    await node._catch_up(reader)
    assert node._replica is loaded
    await kept.lose(first)
    await kept.append(histories.now)
    with pytest.raises(JournalReplaced, match=r"is no longer the (append|one) that was read"):
        await stale(loaded).catch_up(reader)
    await node._catch_up(reader)
    assert same(node._replica.state, histories.cluster.state)
    await reader.close()


@pytest.mark.slow
async def test_a_snapshot_that_is_ahead_of_the_journal_is_refused(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both standbys and leaders reject it. With `--accept-loss`, they continue from it."""
    histories = Histories()
    _, second = await set_back(kept, histories, monkeypatch)
    message = f"snapshot at position {second} covers more than the journal contains.*--accept-loss"
    for start in (kept.followed, kept.led):
        with pytest.raises(JournalLoss, match=message):
            await start()
    loss = await kept.accept_loss()
    assert loss.position == second
    topic = next(iter((await kept.led()).topics.values()))
    assert topic.partitions[0].high_watermark == 5 + 7 + 7


@pytest.mark.slow
async def test_an_accepted_loss_goes_on_with_a_snapshot_that_fits(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It continues with the records that follow this snapshot, not with those of the other history."""
    histories = Histories()
    await set_back(kept, histories, monkeypatch)
    await kept.append(histories.now)
    loss = await kept.accept_loss()
    assert loss.position == len(histories.cluster.journal)
    topic = next(iter((await kept.led()).topics.values()))
    assert topic.partitions[0].high_watermark == 5 + 3 * 2


@pytest.mark.slow
async def test_a_damaged_seal_is_a_damaged_snapshot(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    histories = Histories()
    await kept.append(histories.common)
    await kept.snapshot(monkeypatch)
    await kept.append(histories.now)
    last = await kept.snapshot(monkeypatch)
    if isinstance(kept.snapshots, PostgresqlSnapshots):
        await kept.execute(
            "UPDATE lacuna.snapshots SET crc = 1 WHERE part = -1 AND position = $1", last
        )
    else:
        [key] = [
            info.key
            for info in kept.bucket.list(f"{JOURNAL_SNAPSHOTS_PREFIX}{last:016x}-")
            if info.key.endswith("index")
        ]
        found = kept.bucket.load(key)
        fields = {**json.loads(found.data), "seal": [1]}
        kept.bucket.replace(key, json.dumps(fields).encode(), found.etag)
    replica = Replica()
    reader = kept.journal(LEASE).reader()
    await replica.catch_up(reader)
    await reader.close()
    assert replica.records == len(histories.now)
    assert same(replica.state, histories.cluster.state)


# Two databases with one bucket


@pytest.fixture
def other_database(postgresql: PostgresqlServer, database: str) -> Iterator[str]:
    del database
    url = postgresql.make_database("other")
    yield url
    postgresql.run("dropdb", "--force", "other")


@pytest.fixture
def two(database: str, other_database: str) -> tuple[Kept, Kept]:
    bucket = MemoryStore()
    return Kept(IN_BUCKET, database, bucket), Kept(IN_BUCKET, other_database, bucket)


async def copied(one: Kept, other: Kept) -> None:
    await copy_journal(
        leased_source(one.journal(LEASE), SystemClock()), PostgresqlTarget(other.url)
    )


@pytest.mark.slow
async def test_a_database_does_not_go_on_with_the_snapshots_of_another(
    two: tuple[Kept, Kept], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One database was copied from the other, and both have been written to since."""
    one, other = two
    histories = Histories()
    await one.append(histories.common)
    await one.snapshot(monkeypatch)
    await copied(one, other)
    assert same(await other.followed(), machine.restore((machine.snapshot(await one.led()),)))
    await other.append(histories.lost[:2])
    await other.snapshot(monkeypatch)
    assert same(await other.followed(), (await other.led()))
    with pytest.raises(
        JournalLoss, match=r"belongs to another journal \(check that --journal and --store"
    ):
        await one.followed()
    # A leader that had followed before has not loaded it.
    await one.append(histories.now)
    assert same(await one.followed(), histories.cluster.state)
    assert "another journal of the cluster (run control planes on only one" in caplog.text
    await one.snapshot(monkeypatch)
    caplog.clear()
    assert same(await one.followed(), histories.cluster.state)
    assert caplog.records == []


@pytest.mark.slow
async def test_a_journal_that_was_trimmed_below_says_that_its_snapshots_are_gone(
    two: tuple[Kept, Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    histories = Histories()
    await one.append(histories.common)
    await one.snapshot(monkeypatch)
    await copied(one, other)
    await one.append(histories.now[:1])
    await one.snapshot(monkeypatch)
    for record in histories.lost:
        await other.append([record])
        await other.snapshot(monkeypatch)
    await one.append(histories.now[1:])
    with pytest.raises(JournalCorrupt, match="specify the bucket with --store"):
        await one.followed()


@pytest.mark.slow
async def test_a_journal_is_copied_back_and_forth(
    two: tuple[Kept, Kept], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = two
    histories = Histories()
    await one.append(histories.common)
    for record in histories.now:
        await one.append([record])
        await one.snapshot(monkeypatch)
        await copied(one, other)
        await one.execute("DROP SCHEMA lacuna CASCADE")
        one, other = other, one
    assert same(await one.followed(), histories.cluster.state)
    assert caplog.records == []
    with pytest.raises(JournalTrimmed):
        [each async for each in one.journal().reader().read(0)]
