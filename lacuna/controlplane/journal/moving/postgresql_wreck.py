"""A journal in PostgreSQL that is damaged or lacks records, for example after being restored from a dump."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from lacuna.controlplane.clock import Clock
from lacuna.controlplane.journal.intact import Salvage, replayed
from lacuna.controlplane.journal.journal import (
    Fit,
    JournalBatch,
    JournalCorrupt,
    JournalError,
    JournalFenced,
    JournalTrimmed,
    OpenedJournal,
    Seal,
)
from lacuna.controlplane.journal.leader_watch import LeaderWatch
from lacuna.controlplane.journal.moving.beginning import Beginning
from lacuna.controlplane.journal.moving.holding import renewing, wait_for_silence
from lacuna.controlplane.journal.moving.wreck import newest_intact, nothing_intact
from lacuna.controlplane.journal.postgresql import PostgresqlJournal
from lacuna.controlplane.journal.postgresql_connection import Connection, connected
from lacuna.controlplane.journal.postgresql_hot import table_numbers
from lacuna.controlplane.journal.postgresql_reading import fit
from lacuna.controlplane.journal.postgresql_schema import is_there, make_tables
from lacuna.controlplane.journal.postgresql_snapshots import insert_snapshot
from lacuna.controlplane.journal.snapshot_store import SnapshotStore

_LOCK_LEADER: Final = "SELECT FROM lacuna.leader WHERE epoch = $1 FOR UPDATE"


class PostgresqlWreck:
    """The journal in the database at `url`, which `journal` holds as its leader, with its snapshots in `snapshots`."""

    def __init__(
        self, url: str, journal: PostgresqlJournal, opened: OpenedJournal, snapshots: SnapshotStore
    ) -> None:
        self._url = url
        self._journal = journal
        self._opened = opened
        self._snapshots = snapshots

    async def salvage(self) -> Salvage:
        name, opened = self._journal.name, self._opened
        problems: list[str] = []
        snapshot = await newest_intact(self._snapshots, opened.cluster_id, self._fit, problems)
        begin = 0 if snapshot is None else snapshot.position
        if begin > opened.position:
            problems.append(
                f"the tables end at position {opened.position}, before the newest snapshot at {begin}"
            )
        batches = await self._batches(begin, problems)
        if snapshot is None and not batches:
            raise nothing_intact(name, problems)
        state, position = replayed(name, snapshot, batches, problems)
        reached = max(opened.position, position)
        token = opened.fencing_token
        return Salvage(name, opened.cluster_id, token, position, reached, state, problems)

    async def _fit(self, position: int, seal: Seal) -> Fit:
        """Return whether a snapshot fits the journal, or why not. It fits unless the tables contain another append at
        its position. A snapshot that is ahead of the tables covers the records that they have lost.
        """
        async with connected(self._url) as connection:
            found = await fit(connection, position, seal)
        return Fit.BESIDE if found is Fit.BESIDE else Fit.FITS

    async def _batches(self, after: int, problems: list[str]) -> list[JournalBatch]:
        batches: list[JournalBatch] = []
        try:
            async for batch in self._journal.read(after):
                batches.append(batch)  # noqa: PERF401 - what came before an error is kept
        except (JournalCorrupt, JournalTrimmed) as error:
            problems.append(str(error))
        return batches

    async def begin(self, beginning: Beginning) -> str:
        """Set the old tables aside and create new ones, in one transaction."""
        async with connected(self._url) as connection, connection.transaction():
            if await connection.fetchrow(_LOCK_LEADER, self._opened.fencing_token) is None:
                raise JournalFenced(
                    f"another control plane has taken over {self._journal.name}: stop all control "
                    "planes, and start again"
                )
            schema = await _free_schema(connection)
            await connection.execute(f"ALTER SCHEMA lacuna RENAME TO {schema}")
            position = beginning.snapshot.position
            await make_tables(
                connection, beginning.cluster_id, epoch=beginning.epoch, position=position
            )
            await insert_snapshot(connection, beginning.snapshot)
            await connection.execute("DROP TABLE lacuna.hot_1")
            # The segments stay in their tables, since copying their bytes would take longer than a lease.
            for number in await table_numbers(connection, schema):
                await connection.execute(f"ALTER TABLE {schema}.hot_{number} SET SCHEMA lacuna")
        return f"the schema {schema}"


async def _free_schema(connection: Connection) -> str:
    number = 1
    while await connection.fetchval(
        "SELECT to_regnamespace($1) IS NOT NULL", f"lacuna_kept_{number}"
    ):
        number += 1
    return f"lacuna_kept_{number}"


@asynccontextmanager
async def postgresql_wreck(
    url: str, snapshots: SnapshotStore, lease: float, clock: Clock
) -> AsyncIterator[PostgresqlWreck]:
    """Run the body while this process holds the journal. Raises JournalInUse and other JournalErrors."""
    watch = LeaderWatch(clock)
    journal = PostgresqlJournal(url, str, lease=lease, snapshots=snapshots, watch=watch)
    async with connected(url) as connection:
        if not await is_there(connection):
            raise JournalError(
                f"{journal.name}: there is no journal here, so nothing was lost: start without "
                "--accept-loss"
            )
    reader = journal.reader()
    try:
        await wait_for_silence(reader, lease, clock)
    finally:
        await reader.close()
    opened = await journal.open(None)
    try:
        async with renewing(journal.renewer(opened.fencing_token), lease, clock):
            yield PostgresqlWreck(url, journal, opened, snapshots)
    finally:
        await journal.close()
