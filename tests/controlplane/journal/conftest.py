"""Every kind of journal, for the tests of their shared contract."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from lacuna.controlplane.journal.bucket import BucketJournal
from lacuna.controlplane.journal.journal import Journal, JournalBatch, OpenedJournal
from lacuna.controlplane.journal.moving.holding import renewing
from lacuna.controlplane.journal.postgresql import PostgresqlJournal
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.logstore.objects import MemoryStore
from lacuna.logstore.objects.encrypted import EncryptedConditionalStore
from tests.doubles.clock import LeaseClock
from tests.doubles.journal import MemoryJournal
from tests.doubles.keys import some_keys
from tests.journal_servers import database, kept_database, moto_endpoint, postgresql, s3

__all__ = ["Kept", "database", "kept", "kept_database", "moto_endpoint", "postgresql", "s3"]


J = TypeVar("J", bound=Journal)


@asynccontextmanager
async def led(journal: J) -> AsyncIterator[tuple[J, int]]:
    """Opens a journal and closes it after the body. Yields it with its fencing token."""
    opened = await journal.open(None)
    try:
        yield journal, opened.fencing_token
    finally:
        await journal.close()


async def written(journal: Journal, count: int = 10) -> None:
    """Append one record, `count` times."""
    async with led(journal) as (_, token):
        for position in range(1, count + 1):
            await journal.append([b"record %d" % position], token)


async def batches(journal: Journal, after_position: int = 0) -> list[JournalBatch]:
    return [batch async for batch in journal.read(after_position)]


async def records_of(journal: Journal) -> list[bytes]:
    async with led(journal):
        return [record for batch in await batches(journal) for record in batch.records]


@dataclass(frozen=True, slots=True)
class Kept:
    """A journal that can be reopened, as after a restart. `many` is a number of appends that takes several reads.

    `keeps_drops` indicates whether it deletes each hot segment individually rather than together with others.
    """

    journal: Callable[[], Journal]
    many: int = 600
    keeps_drops: bool = True


class RenewingJournal(BucketJournal):
    """Renews its lease as the runtime does, because opening a journal in a bucket takes as long as a lease."""

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
            lambda: RenewingJournal(bucket, lambda: "made", lease=3.0, clock=clock),
            many=100,
            keeps_drops=False,
        )
    database = request.getfixturevalue("database")
    # With a lease, so that a second writer is told to wait; one that was closed has none.
    return Kept(
        lambda: PostgresqlJournal(database, lambda: "made", lease=3600.0), keeps_drops=False
    )
