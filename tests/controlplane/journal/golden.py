"""Puts the journals from tests/golden/journals where this version can open them.

`python -m tests.controlplane.journal.golden` rewrites their records in this version's formats.
"""

import asyncio
import base64
import json
import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lacuna.controlplane.journal.bucket import BucketJournal
from lacuna.controlplane.journal.journal import (
    Journal,
    JournalInUse,
    SharedJournal,
    Snapshot,
)
from lacuna.controlplane.journal.leader_watch import LeaderWatch
from lacuna.controlplane.journal.moving.beginning import Target
from lacuna.controlplane.journal.moving.bucket import BucketTarget
from lacuna.controlplane.journal.moving.postgresql import PostgresqlTarget
from lacuna.controlplane.journal.moving.source import Source, leased_source, locked_source
from lacuna.controlplane.journal.moving.sqlite import SqliteTarget
from lacuna.controlplane.journal.postgresql import PostgresqlJournal
from lacuna.controlplane.journal.replica import Replica
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.state.snapshot import snapshot_parts
from lacuna.logstore.objects import MemoryStore
from tests.doubles.clock import LeaseClock
from tests.postgresql import PostgresqlServer, binaries

GOLDEN = Path(__file__).parents[2] / "golden" / "journals"
KINDS = ["sqlite", "postgresql", "bucket"]
SHARED = KINDS[1:]
LEASE = 3.0


@dataclass(frozen=True, slots=True)
class Place:
    """A place for a journal. `fill` copies the golden one there, and `patient` waits out an earlier leader's lease."""

    journal: Callable[[], Journal]
    patient: Callable[[], Journal]
    source: Callable[[], AbstractAsyncContextManager[Source]]
    target: Callable[[], Target]
    fill: Callable[[], None]
    #: That of leases.
    clock: LeaseClock = field(default_factory=LeaseClock)
    #: The bucket, the file, or the database.
    bucket: MemoryStore = field(default_factory=MemoryStore)
    path: str = ""
    url: str = ""

    async def cannot_be_led(self) -> None:
        """Check that a standby finds the journal in use by another process, several leases in a row."""
        standby = self.patient()
        for _ in range(3):
            with pytest.raises(JournalInUse):
                await standby.open(None)
            await self.clock.sleep(int(2000 * LEASE))


def make_place(kind: str, request: pytest.FixtureRequest) -> Place:
    """Return an empty place."""
    if kind == "sqlite":
        return file_place(request.getfixturevalue("tmp_path"))
    if kind == "bucket":
        return _bucket()
    return _postgresql(request)


def file_place(folder: Path) -> Place:
    """Return a place for a SQLite journal."""
    path = str(folder / "journal.db")

    def fill() -> None:
        for each in (GOLDEN / "sqlite").iterdir():
            shutil.copy(each, folder)

    def journal() -> SqliteJournal:
        return SqliteJournal(path, str)

    return Place(
        journal,
        journal,
        lambda: locked_source(journal()),
        lambda: SqliteTarget(path),
        fill,
        path=path,
    )


def _bucket() -> Place:
    bucket, clock = MemoryStore(), LeaseClock(moment=0.01)

    def fill() -> None:
        for key, data in _objects("bucket").items():
            bucket.put(key, [data])

    def patient() -> SharedJournal:
        return BucketJournal(bucket, str, lease=LEASE, clock=clock)

    return Place(
        lambda: BucketJournal(bucket, str),
        patient,
        lambda: leased_source(patient(), clock),
        lambda: BucketTarget(bucket, "the bucket"),
        fill,
        clock,
        bucket=bucket,
    )


def _objects(name: str) -> dict[str, bytes]:
    """Return a bucket's objects by key. The file stores them in base64."""
    found = json.loads((GOLDEN / f"{name}.json").read_text())
    return {key: base64.b64decode(data) for key, data in found.items()}


def _postgresql(request: pytest.FixtureRequest) -> Place:
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    url: str = request.getfixturevalue("database")
    clock = LeaseClock(moment=0.01)

    def fill() -> None:
        shutil.copy(GOLDEN / "postgresql.sql", server.folder)
        name = url.rpartition("/")[2].partition("?")[0]
        server.run("psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", "postgresql.sql", name)

    def patient() -> SharedJournal:
        return PostgresqlJournal(url, str, lease=LEASE, watch=LeaderWatch(clock))

    return Place(
        lambda: PostgresqlJournal(url, str),
        patient,
        lambda: leased_source(patient(), clock),
        lambda: PostgresqlTarget(url),
        fill,
        clock,
        url=url,
    )


async def replayed(journal: Journal) -> Replica:
    """Return the whole content of an open journal. Raises JournalError."""
    opened = await journal.open(None)
    try:
        replica = Replica()
        await replica.catch_up(journal)
        replica.check(opened)
    finally:
        await journal.close()
    return replica


async def _rewrite(journal: Journal, records: list[bytes]) -> None:
    """Append records one at a time, and store a snapshot that covers all of them."""
    opened = await journal.open(None)
    for record in records:
        await journal.append([record], opened.fencing_token)
    replica = Replica()
    await replica.catch_up(journal)
    parts = tuple(snapshot_parts(replica.state))
    await journal.store_snapshot(Snapshot(replica.position, parts, replica.seal))
    await journal.close()


async def _records() -> tuple[str, list[bytes]]:
    place = _bucket()
    place.fill()
    journal = place.journal()
    opened = await journal.open(None)
    records = [each async for batch in journal.read(0) for each in batch.records]
    await journal.close()
    return opened.cluster_id, records


async def _rewrite_all() -> None:
    folder = binaries()
    if folder is None:
        raise SystemExit("PostgreSQL is missing: install Debian's package `postgresql`")
    cluster_id, records = await _records()
    shutil.rmtree(GOLDEN)
    (GOLDEN / "sqlite").mkdir(parents=True)
    file = SqliteJournal(str(GOLDEN / "sqlite" / "journal.db"), lambda: cluster_id)
    await _rewrite(file, records)
    for name in ("journal.db.lock", "journal.db.acknowledged"):  # of no use to another process
        (GOLDEN / "sqlite" / name).unlink()
    bucket = MemoryStore()
    await _rewrite(BucketJournal(bucket, lambda: cluster_id), records)
    objects = {
        info.key: base64.b64encode(bucket.load(info.key).data).decode() for info in bucket.list()
    }
    (GOLDEN / "bucket.json").write_text(json.dumps(objects, indent=1) + "\n")
    server = PostgresqlServer(folder)
    server.start()
    try:
        url = server.make_database("golden")
        await _rewrite(PostgresqlJournal(url, lambda: cluster_id), records)
        server.run("pg_dump", "--no-owner", "--no-privileges", "-f", "dump.sql", "golden")
        lines = (server.folder / "dump.sql").read_text().splitlines(keepends=True)
        # Its random keys only protect psql from a server that is not trusted.
        kept = [line for line in lines if not line.startswith(("\\restrict", "\\unrestrict"))]
        (GOLDEN / "postgresql.sql").write_text("".join(kept))
    finally:
        server.stop()


if __name__ == "__main__":
    asyncio.run(_rewrite_all())
