"""Tests the PostgreSQL journal beyond the contract of all journals, on a real server."""

import asyncio
import logging
import random
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import AsyncMock

import asyncpg
import pytest
import pytest_asyncio

from lacuna.controlplane.journal import (
    postgresql_connection,
    postgresql_hot,
    postgresql_schema,
)
from lacuna.controlplane.journal.journal import (
    HotSegment,
    JournalBatch,
    JournalCorrupt,
    JournalError,
    JournalFenced,
    JournalForeign,
    JournalInDoubt,
    JournalInUse,
    JournalOfAnotherVersion,
    JournalRefused,
    JournalTrimmed,
    JournalUnreachable,
    OpenedJournal,
    Snapshot,
)
from lacuna.controlplane.journal.kinds.postgresql import snapshots_at
from lacuna.controlplane.journal.leader_watch import LeaderWatch
from lacuna.controlplane.journal.place import Place
from lacuna.controlplane.journal.postgresql import PostgresqlJournal
from lacuna.controlplane.journal.postgresql_connection import name_of
from lacuna.controlplane.journal.postgresql_snapshots import PostgresqlSnapshots
from lacuna.logstore.objects import MemoryStore
from lacuna.logstore.segments import claim_store
from lacuna.logstore.segments.hot import hot_lease
from tests.controlplane.journal.conftest import batches, led, records_of, written
from tests.doubles.clock import ManualClock
from tests.postgresql import PASSWORD, Line, PostgresqlServer, binaries, wait_until_blocked

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest_asyncio.fixture
async def admin(database: str) -> AsyncIterator[Connection]:
    """A connection to the test's database."""
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


def journal_of(database: str) -> PostgresqlJournal:
    return PostgresqlJournal(database, lambda: "made")


async def hold_position(admin: Connection, position: int) -> asyncpg.transaction.Transaction:
    """Begin a transaction that blocks the append at `position` while that append holds the leader's lock."""
    transaction = admin.transaction()
    await transaction.start()
    await admin.execute("INSERT INTO lacuna.appends VALUES ($1, $1, 0, '')", position)
    return transaction


# The fence


@pytest.mark.slow
async def test_a_late_append_of_an_old_leader_inserts_nothing(
    database: str, admin: Connection
) -> None:
    old, new = journal_of(database), journal_of(database)
    before = await old.open(None)
    await old.append([b"a"], before.fencing_token)
    after = await new.open(None)
    assert (after.fencing_token, after.position) == (before.fencing_token + 1, 1)
    with pytest.raises(JournalFenced, match="another control plane has taken over"):
        await old.append([b"late", b"later"], before.fencing_token)
    assert await admin.fetchval("SELECT count(*) FROM lacuna.appends") == 1
    assert await new.append([b"b"], after.fencing_token) == 2
    await old.close()
    assert await new.append([b"c"], after.fencing_token) == 3
    await new.close()
    assert await records_of(journal_of(database)) == [b"a", b"b", b"c"]


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
async def test_an_append_that_waits_for_a_takeover_inserts_nothing(
    database: str, admin: Connection, isolation: str
) -> None:
    """This holds for any default isolation level of the database."""
    name = await admin.fetchval("SELECT current_database()")
    await admin.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")
    async with led(journal_of(database)) as (journal, token):
        other = await asyncpg.connect(database)
        async with other.transaction():
            await other.execute("UPDATE lacuna.leader SET epoch = epoch + 1")
            append = journal.append([b"late"], token)
            await wait_until_blocked(admin)
        with pytest.raises(JournalFenced, match="taken over"):
            await append
        assert await admin.fetchval("SELECT count(*) FROM lacuna.appends") == 0
        await other.close()


@pytest.mark.slow
async def test_of_openings_at_the_same_time_the_last_one_appends(database: str) -> None:
    """The first round also creates the tables."""
    epochs: set[int] = set()
    for _ in range(5):
        journals = [journal_of(database) for _ in range(4)]
        opened = await asyncio.gather(*(journal.open(None) for journal in journals))
        tokens = [each.fencing_token for each in opened]
        results = await asyncio.gather(
            *(
                journal.append([b"%d" % token], token)
                for journal, token in zip(journals, tokens, strict=True)
            ),
            return_exceptions=True,
        )
        fenced = [isinstance(result, JournalFenced) for result in results]
        assert fenced == [token != max(tokens) for token in tokens]
        epochs.update(tokens)
        await asyncio.gather(*(journal.close() for journal in journals))
    assert epochs == set(range(1, 21))
    assert await records_of(journal_of(database)) == [b"4", b"8", b"12", b"16", b"20"]


@pytest.mark.slow
async def test_tables_that_another_one_has_just_made_are_no_strangers(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two concurrent openings, one creates the tables after the other has checked for them."""
    is_there = postgresql_schema.is_there
    looks: list[Connection] = []

    async def looks_too_early(connection: Connection) -> bool:
        found = await is_there(connection)
        looks.append(connection)
        if len(looks) == 1:
            await journal_of(database).open("cluster")
        return found

    monkeypatch.setattr(postgresql_schema, "is_there", looks_too_early)
    journal = journal_of(database)
    opened = await journal.open(None)
    assert (opened.cluster_id, opened.fencing_token) == ("cluster", 2)
    await journal.close()


async def test_a_takeover_waits_for_the_append_under_way(database: str, admin: Connection) -> None:
    old, new = journal_of(database), journal_of(database)
    before = await old.open(None)
    transaction = await hold_position(admin, 1)
    watcher = await asyncpg.connect(database)
    append = old.append([b"a", b"b"], before.fencing_token)
    await wait_until_blocked(watcher)
    takeover = asyncio.create_task(new.open(None))
    await wait_until_blocked(watcher, 2)
    assert not takeover.done()
    await transaction.rollback()
    assert await append == 2
    assert (await takeover).position == 2
    with pytest.raises(JournalFenced):
        await old.append([b"late"], before.fencing_token)
    assert await batches(new) == [JournalBatch(2, [b"a", b"b"])]
    await asyncio.gather(old.close(), new.close(), watcher.close())


@pytest.mark.slow
async def test_a_takeover_does_not_wait_forever(
    database: str, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written(journal_of(database), 1)
    monkeypatch.setitem(postgresql_connection._SETTINGS, "lock_timeout", "100ms")
    async with admin.transaction():
        await admin.fetch("SELECT FROM lacuna.leader FOR SHARE")
        with pytest.raises(JournalError, match=r"lock timeout.*pg_terminate_backend"):
            await journal_of(database).open(None)
    assert await records_of(journal_of(database)) == [b"record 1"]


# The lease


class Second:
    """A second control plane on the journal, with a clock that the test sets."""

    def __init__(self, database: str) -> None:
        self.clock = ManualClock()
        watch = LeaderWatch(self.clock)
        self.journal = PostgresqlJournal(
            database, lambda: "made", address="second:1", lease=60.0, watch=watch
        )
        self.reader = self.journal.reader()

    async def sees(self) -> tuple[int, str, float] | None:
        leader = await self.reader.leader()
        return None if leader is None else (leader.epoch, leader.address, leader.silent)

    async def close(self) -> None:
        await self.reader.close()
        await self.journal.close()


@pytest.mark.slow
async def test_a_leader_that_is_heard_of_is_not_taken_over(
    database: str, admin: Connection
) -> None:
    first = PostgresqlJournal(database, lambda: "made", address="there:9093", lease=60.0)
    second = Second(database)
    assert await second.sees() is None
    opened = await first.open(None)
    assert await second.sees() == (1, "there:9093", 0.0)
    second.clock.advance(59000)
    assert await second.sees() == (1, "there:9093", 59.0)
    expected = r"running on this data \(.*at there:9093.*for 60 s"
    with pytest.raises(JournalInUse, match=expected):
        await second.journal.open(None)
    await first.confirm(opened.fencing_token)
    second.clock.advance(1000)
    assert await second.sees() == (1, "there:9093", 0.0)
    second.clock.advance(60000)
    assert (await second.journal.open(None)).fencing_token == opened.fencing_token + 1
    with pytest.raises(JournalFenced):
        await first.confirm(opened.fencing_token)
    await first.close()
    assert await second.sees() == (2, "second:1", 0.0)
    await second.close()
    assert await admin.fetchval("SELECT address FROM lacuna.leader") is None


async def test_who_has_just_come_waits_for_a_lease(database: str) -> None:
    """It waits for a whole lease, even if the leader's last renewal is long ago according to the database's clock."""
    first, second = journal_of(database), Second(database)
    await first.open(None)
    with pytest.raises(JournalInUse):
        await second.journal.open(None)
    second.clock.advance(60000)
    assert (await second.journal.open(None)).fencing_token == 2
    await first.close()
    await second.close()


@pytest.mark.slow
async def test_a_takeover_beside_a_renewal_finds_it(database: str, admin: Connection) -> None:
    """It waits for the row lock before it checks whether the leader is silent."""
    first, second = journal_of(database), Second(database)
    opened = await first.open(None)
    await second.sees()
    second.clock.advance(60000)
    renewing = await asyncpg.connect(database)
    async with renewing.transaction():
        await renewing.execute("SELECT FROM lacuna.leader FOR SHARE")
        opening = asyncio.ensure_future(second.journal.open(None))
        await wait_until_blocked(admin)
        await renewing.execute("SELECT nextval('lacuna.renewals')")
    await renewing.close()
    with pytest.raises(JournalInUse):
        await opening
    await first.confirm(opened.fencing_token)
    await first.close()
    await second.close()


@pytest.mark.slow
async def test_renewals_leave_nothing_behind(database: str, admin: Connection) -> None:
    """During an old transaction, each renewal left a version of the leader's row: an append took 12 ms, not 1 ms."""
    async with led(journal_of(database)) as (journal, token):
        old = await asyncpg.connect(database)
        async with old.transaction(isolation="repeatable_read"):
            await old.fetchval("SELECT count(*) FROM lacuna.leader")
            size = await admin.fetchval("SELECT pg_total_relation_size('lacuna.leader')")
            renewer = journal.renewer(token)
            for _ in range(500):
                await renewer.renew()
                await journal.confirm(token)
            await renewer.close()
            await journal.append([b"a"], token)
            tables = "('lacuna.leader'), ('lacuna.renewals')"
            total = f"SELECT sum(pg_relation_size(name)) FROM (VALUES {tables}) AS of (name)"
            assert await admin.fetchval(total) == 2 * 8192
            assert await admin.fetchval("SELECT pg_total_relation_size('lacuna.leader')") == size
        await old.close()


@pytest.mark.slow
async def test_of_two_that_take_over_one_does(database: str) -> None:
    first, rivals = journal_of(database), [Second(database) for _ in range(4)]
    await first.open(None)
    for rival in rivals:
        await rival.sees()
        rival.clock.advance(60000)
    took = await asyncio.gather(
        *(rival.journal.open(None) for rival in rivals), return_exceptions=True
    )
    assert [type(each) for each in took].count(OpenedJournal) == 1
    assert [type(each) for each in took].count(JournalInUse) == 3
    await first.close()
    for rival in rivals:
        await rival.close()


# Standbys


@pytest.mark.slow
async def test_a_reader_follows_beside_the_leader(database: str) -> None:
    second = Second(database)
    assert [each async for each in second.reader.read(0)] == []
    assert await second.reader.load_snapshot() is None
    async with led(journal_of(database)) as (first, token):
        await first.append([b"a", b"b"], token)
        [seen] = [each async for each in second.reader.read(0)]
        assert seen == JournalBatch(2, [b"a", b"b"])
        await first.append([b"c"], token)
        assert [each async for each in second.reader.read(2)] == [JournalBatch(3, [b"c"])]
        await first.append([b"d"], token)
        await first.store_snapshot(Snapshot(3, (b"three",)))
        await first.store_snapshot(Snapshot(4, (b"four",)))
        assert await second.reader.load_snapshot() == Snapshot(4, (b"four",))
        for after_position in (0, 1):
            with pytest.raises(JournalTrimmed, match=f"after position {after_position} have been"):
                [each async for each in second.reader.read(after_position)]
        # One that has slept for so long finds no append of its own, since that was trimmed too. Nothing was replaced.
        with pytest.raises(JournalTrimmed):
            [each async for each in second.reader.read(2, seen.seal)]
        assert [each async for each in second.reader.read(3)] == [JournalBatch(4, [b"d"])]
    await second.close()


async def test_a_bucket_of_another_cluster_is_refused_before_anything_is_made(
    database: str,
) -> None:
    bucket = MemoryStore()
    claim_store(bucket, "other")
    place = Place(database, "s3://bucket")

    def journal() -> PostgresqlJournal:
        return PostgresqlJournal(
            database, lambda: "made", snapshots=snapshots_at(place, bucket), place=place
        )

    with pytest.raises(JournalForeign, match="belongs to cluster other, but the journal is new"):
        await journal().check()
    await written(journal_of(database))
    with pytest.raises(
        JournalForeign, match="cluster other, but the journal belongs to cluster made"
    ):
        await journal().check()


# Lost connections


async def test_an_append_whose_connection_is_ended_is_in_doubt(
    database: str, admin: Connection
) -> None:
    async with led(journal_of(database)) as (journal, token):
        await journal.append([b"a"], token)
        transaction = await hold_position(admin, 2)
        append = journal.append([b"b", b"c"], token)
        [pid] = await wait_until_blocked(admin)
        await admin.execute("SELECT pg_terminate_backend($1)", pid)
        with pytest.raises(
            JournalInDoubt, match="Reopening the journal will show whether positions 2 to 3 were"
        ):
            await append
        with pytest.raises(JournalInDoubt):
            journal.append([b"d"], token)
        await transaction.rollback()
    again = await journal.open(None)
    assert (again.fencing_token, again.position) == (2, 1)
    assert await journal.append([b"b"], again.fencing_token) == 2
    await journal.close()


@pytest.mark.slow
async def test_an_append_is_not_sent_over_a_connection_that_was_ended(
    database: str, admin: Connection
) -> None:
    async with led(journal_of(database)) as (journal, token):
        assert journal._connection is not None
        ended = asyncio.Event()
        journal._connection.add_termination_listener(lambda _: ended.set())
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'lacuna' AND datname = current_database()"
        )
        await ended.wait()
        with pytest.raises(JournalUnreachable, match="PostgreSQL has closed the connection"):
            await journal.append([b"a"], token)
        with pytest.raises(JournalUnreachable):
            await journal.confirm(token)
    assert await records_of(journal_of(database)) == []


def over_once_answered(line: Line) -> Callable[..., Awaitable[str]]:
    """Return a `Connection.execute` that times out after the server has answered, without receiving the answer."""
    execute = asyncpg.Connection.execute

    async def answered(connection: Connection, *statement: Any, timeout: float) -> str:
        executing = asyncio.ensure_future(execute(connection, *statement, timeout=timeout))
        await line.answered()
        executing.cancel()
        raise TimeoutError

    return answered


@pytest.mark.parametrize("is_cut", [True, False])
async def test_what_was_written_without_an_answer_is_found_at_the_next_opening(
    postgresql: PostgresqlServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    is_cut: bool,
) -> None:
    """S2: the answer is lost with the connection, or the connection stalls."""
    name = database.partition("?")[0].rpartition("/")[2]
    async with Line(postgresql) as line:
        url = postgresql.url(name, folder=line.folder)
        async with led(PostgresqlJournal(url, lambda: "made", answer_timeout=60.0)) as (
            journal,
            token,
        ):
            await journal.append([b"a"], token)
            line.silence()
            if not is_cut:
                monkeypatch.setattr(asyncpg.Connection, "execute", over_once_answered(line))
            append = journal.append([b"b", b"c"], token)
            await line.answered()
            if is_cut:
                line.cut()
            why = "connection" if is_cut else "no answer in time"
            with pytest.raises(JournalInDoubt, match=rf"during an append \(.*{why}.*2 to 3"):
                await append
            monkeypatch.undo()
    journal = journal_of(database)
    assert (await journal.open(None)).position == 3
    assert await batches(journal) == [JournalBatch(1, [b"a"]), JournalBatch(3, [b"b", b"c"])]
    await journal.close()


@pytest.mark.slow
async def test_a_confirmation_that_is_not_answered_fails(
    postgresql: PostgresqlServer, database: str
) -> None:
    name = database.partition("?")[0].rpartition("/")[2]
    async with Line(postgresql) as line:
        url = postgresql.url(name, folder=line.folder)
        async with led(PostgresqlJournal(url, lambda: "made", answer_timeout=0.2)) as (
            journal,
            token,
        ):
            line.silence()
            with pytest.raises(JournalUnreachable, match="no answer in time: PostgreSQL cannot be"):
                await journal.confirm(token)
            with pytest.raises(JournalUnreachable, match="has closed the connection"):
                await journal.append([b"a"], token)


@pytest.mark.slow
async def test_a_server_that_is_killed_and_restarted_has_what_it_acknowledged(
    postgresql: PostgresqlServer, database: str
) -> None:
    async with led(journal_of(database)) as (journal, token):
        acknowledged: list[bytes] = []

        async def append_on() -> None:
            while True:
                record = b"%d" % len(acknowledged)
                await journal.append([record], token)
                acknowledged.append(record)

        restarting = asyncio.ensure_future(asyncio.to_thread(postgresql.restart))
        with pytest.raises((JournalInDoubt, JournalUnreachable)):
            await append_on()
        await restarting
    records = await records_of(journal_of(database))
    assert records[: len(acknowledged)] == acknowledged
    assert len(records) <= len(acknowledged) + 1


# What an operator is told


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("mysql://lacuna@there/x", JournalRefused, "does not begin with postgresql://: use post"),
        ("postgresql://lacuna@[there/x", JournalRefused, "malformed .*: use postgresql://USER"),
        ("postgresql://lacuna@there:port/x", JournalRefused, "malformed .*port"),
        (
            "postgresql://lacuna@127.0.0.1:1/x",
            JournalUnreachable,
            r"127.0.0.1:1/x: .*Check that it",
        ),
        ("postgresql://lacuna@/x?host=/nowhere", JournalUnreachable, "No such file.*Check that it"),
        ("postgresql://lacuna@/x?sslmode=never", JournalRefused, "malformed .*sslmode"),
    ],
)
async def test_a_url_that_leads_nowhere(url: str, error: type[JournalError], message: str) -> None:
    with pytest.raises(error, match=message):
        await PostgresqlJournal(url, lambda: "made").open(None)


def test_a_url_is_shown_without_its_secrets() -> None:
    url = "postgresql://me:secret@one:5432,two:5433/db?password=secret"
    assert name_of(url) == "postgresql://me@one:5432,two:5433/db"
    assert name_of("postgres:///db") == "postgres:///db"


async def test_a_database_that_is_not_there(postgresql: PostgresqlServer) -> None:
    with pytest.raises(JournalRefused, match=r'"nothing" does not exist. Create it with createdb'):
        await journal_of(postgresql.url("nothing")).open(None)


@pytest.mark.parametrize(
    ("user", "password"), [("lacuna", "wrong"), ("nobody", PASSWORD), ("lacuna", "")]
)
async def test_a_password_that_is_refused(
    postgresql: PostgresqlServer, user: str, password: str
) -> None:
    url = postgresql.url("postgres", user=user, password=password)
    with pytest.raises(JournalError, match="password") as raised:
        await journal_of(url).open(None)
    assert isinstance(raised.value, JournalRefused)
    assert PASSWORD not in str(raised.value)


async def test_a_user_who_may_make_no_schema(
    postgresql: PostgresqlServer, database: str, admin: Connection
) -> None:
    """Opening fails until an administrator creates the schema."""
    name = database.partition("?")[0].rpartition("/")[2]
    await admin.execute(f"CREATE USER {name}_user PASSWORD '{PASSWORD}'")
    url = postgresql.url(name, user=f"{name}_user")
    with pytest.raises(JournalRefused, match=r"permission denied.*GRANT CREATE ON DATABASE"):
        await journal_of(url).open(None)
    await admin.execute(f"CREATE SCHEMA lacuna AUTHORIZATION {name}_user")
    await written(journal_of(url), 2)
    assert await records_of(journal_of(url)) == [b"record 1", b"record 2"]


async def test_a_replica_is_not_written_to(database: str, admin: Connection) -> None:
    """A read-only database responds like a replica."""
    await written(journal_of(database), 1)
    name = await admin.fetchval("SELECT current_database()")
    await admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(
        JournalUnreachable, match=r"read-only replica\. Specify the address of the prim"
    ):
        await journal_of(database).open(None)


@pytest.mark.parametrize("table", ["records", "theirs"])
async def test_a_strangers_schema_is_refused_and_left_alone(
    database: str, admin: Connection, table: str
) -> None:
    await admin.execute("CREATE SCHEMA lacuna")
    await admin.execute(f"CREATE TABLE lacuna.{table} (a integer)")
    with pytest.raises(
        JournalForeign, match=f"contains a table {table}, so it is not a Lacuna journal"
    ):
        await journal_of(database).open(None)
    assert await admin.fetchval("SELECT to_regclass('lacuna.journal')") is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DROP TABLE lacuna.leader", '"lacuna.leader" does not exist.*not a Lacuna journal'),
        ("ALTER TABLE lacuna.journal DROP format_version", "format_version.*not a Lacuna journal"),
        ("DELETE FROM lacuna.journal", "journal is empty: restore it from a backup"),
    ],
)
async def test_tables_that_are_not_ours(
    database: str, admin: Connection, change: str, message: str
) -> None:
    await written(journal_of(database))
    await admin.execute(change)
    with pytest.raises(JournalForeign, match=message):
        await journal_of(database).open(None)


async def test_a_later_format_is_refused_before_anything_else_is_read(
    database: str, admin: Connection
) -> None:
    await written(journal_of(database))
    await admin.execute("UPDATE lacuna.journal SET format_version = 99")
    await admin.execute("ALTER TABLE lacuna.journal DROP cluster_id")
    before = await admin.fetchval("SELECT epoch FROM lacuna.leader")
    expected = (
        r"^postgresql://lacuna@/\w+: its format is 99, but this version reads only up to 1: install"
    )
    with pytest.raises(JournalOfAnotherVersion, match=expected):
        await journal_of(database).open(None)
    assert await admin.fetchval("SELECT epoch FROM lacuna.leader") == before


async def test_another_clusters_journal_is_not_taken_over(database: str, admin: Connection) -> None:
    await written(journal_of(database))
    before = await admin.fetchval("SELECT epoch FROM lacuna.leader")
    with pytest.raises(
        JournalForeign, match="belongs to cluster made, not other: specify the datab"
    ):
        await journal_of(database).open("other")
    assert await admin.fetchval("SELECT epoch FROM lacuna.leader") == before


async def test_a_server_without_room_says_so(database: str, admin: Connection) -> None:
    """The failed append leaves nothing behind."""
    async with led(journal_of(database)) as (journal, token):
        await admin.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS"
            " $$BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END$$"
        )
        await admin.execute(
            "CREATE TRIGGER fails BEFORE INSERT ON lacuna.appends"
            " FOR EACH ROW WHEN (new.last = 2) EXECUTE FUNCTION fail()"
        )
        with pytest.raises(
            JournalError, match=r"no space left\. Free resources on the server"
        ) as raised:
            await journal.append([b"a", b"b"], token)
        assert not isinstance(raised.value, JournalInDoubt)
    assert await records_of(journal_of(database)) == []


@pytest.mark.slow
async def test_a_position_that_is_taken_stops_the_writer(database: str, admin: Connection) -> None:
    async with led(journal_of(database)) as (journal, token):
        await admin.execute("INSERT INTO lacuna.appends VALUES (1, 1, 0, '')")
        with pytest.raises(JournalFenced, match="another control plane has appended position 1"):
            await journal.append([b"a"], token)


@pytest.mark.slow
async def test_settings_that_lose_acknowledged_commits_are_named(
    postgresql: PostgresqlServer,
    database: str,
    admin: Connection,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "lacuna.controlplane"):
        await journal_of(database).check()
    assert "synchronous_commit" not in caplog.text
    assert "PostgreSQL runs with fsync off, so a power cut" in caplog.text
    assert "standbys" not in caplog.text
    assert PASSWORD not in caplog.text
    with replication(postgresql, tmp_path):
        while not await admin.fetchval("SELECT count(*) FROM pg_stat_replication"):
            pass
        await journal_of(database).check()
    assert "waits for none of its standbys, so a failover" in caplog.text


@pytest.mark.parametrize(
    ("value", "loss"),
    [("off", "a crash of the server"), ("local", "a failover"), ("remote_write", "a failover")],
)
async def test_a_weak_synchronous_commit_is_overridden_or_else_named(
    database: str,
    admin: Connection,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    value: str,
    loss: str,
) -> None:
    name = await admin.fetchval("SELECT current_database()")
    await admin.execute(f"ALTER DATABASE {name} SET synchronous_commit = {value}")
    await journal_of(database).check()
    assert "synchronous_commit" not in caplog.text
    monkeypatch.setattr(postgresql_connection, "_SETTINGS", {})  # as a pooler may ignore them
    await journal_of(database).check()
    assert f"PostgreSQL runs with synchronous_commit {value}, so {loss} can lose" in caplog.text


@pytest.mark.slow
async def test_a_pooler_that_refuses_settings_is_called_one(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PgBouncer responds like this. The error used to claim that the server was unreachable."""
    refusal = asyncpg.ProtocolViolationError(
        "unsupported startup parameter: default_transaction_isolation"
    )
    monkeypatch.setattr(asyncpg, "connect", AsyncMock(side_effect=refusal))
    with pytest.raises(JournalRefused, match="A pooler such as pgbouncer rejects settings"):
        await journal_of(database).check()


# A synchronous standby


@pytest_asyncio.fixture
async def without_standby(postgresql: PostgresqlServer) -> AsyncIterator[PostgresqlServer]:
    """A second server. Once `waits` is called, its commits wait for a standby that never connects."""
    found = binaries()
    assert found is not None, "there is one server already"
    server = PostgresqlServer(found)
    server.start()
    yield server
    server.stop()


async def waits(server: PostgresqlServer, url: str) -> Connection:
    """Make commits wait for a standby. Return a connection that does not wait."""
    admin = await asyncpg.connect(
        url, server_settings={"synchronous_commit": "local", "application_name": "admin"}
    )
    await admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    await admin.execute("SELECT pg_reload_conf()")
    probe = await asyncpg.connect(url, server_settings={"application_name": "probe"})
    async with asyncio.timeout(60):
        while not await _has_waited(admin, probe):
            pass
    await probe.close()
    return admin


async def _has_waited(admin: Connection, probe: Connection) -> bool:
    """Return whether a commit waits for a standby. The server's processes apply the setting one by one."""
    commit = asyncio.ensure_future(probe.execute("SELECT pg_logical_emit_message(true, '', '')"))
    while not commit.done():
        if await _cancels(admin, "probe"):
            await commit
            return True
    return False


async def _cancels(admin: Connection, application: str) -> bool:
    """Cancel the wait of an application's connection. Return whether there was one waiting."""
    return bool(
        await admin.fetchval(
            "SELECT bool_or(pg_cancel_backend(pid)) FROM pg_stat_activity "
            "WHERE application_name = $1 AND wait_event = 'SyncRep'",
            application,
        )
    )


async def cancelled(admin: Connection) -> None:
    """Cancel the wait of the journal's connection as soon as there is one."""
    async with asyncio.timeout(60):
        while not await _cancels(admin, "lacuna"):
            pass


@pytest.mark.slow
async def test_a_write_that_no_standby_has_does_not_count(
    without_standby: PostgresqlServer,
) -> None:
    """The server reports success with a warning. The record used to be lost when the standby was promoted."""
    url = without_standby.make_database("waiting")
    journal = journal_of(url)
    opened = await journal.open(None)
    assert await journal.append([b"a"], opened.fencing_token) == 1
    admin = await waits(without_standby, url)
    renewing = asyncio.ensure_future(journal.confirm(opened.fencing_token))
    await cancelled(admin)
    with pytest.raises(
        JournalUnreachable, match=r"reported: canceling wait.* may be lost in a failover"
    ):
        await renewing
    other = journal_of(url)
    opening = asyncio.ensure_future(other.open(None))
    await cancelled(admin)
    with pytest.raises(JournalUnreachable, match="may be lost in a failover"):
        await opening
    await admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
    await admin.execute("SELECT pg_reload_conf()")
    opened = await other.open(None)
    await admin.close()
    admin = await waits(without_standby, url)
    appending = other.append([b"b"], opened.fencing_token)
    await cancelled(admin)
    with pytest.raises(JournalInDoubt, match="survive a failover"):
        await appending
    await admin.close()


@contextmanager
def replication(server: PostgresqlServer, folder: Path) -> Iterator[None]:
    """Receives the server's writes, as a standby does."""
    receiver = subprocess.Popen(
        server.command("pg_receivewal", "-D", str(folder)),
        env=server.environment(),
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        receiver.terminate()
        receiver.wait()


# Damage, snapshots and trimming


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            "UPDATE lacuna.appends SET records = 'x' WHERE first = 4",
            "4 to 4 does not match its checksum",
        ),
        (
            "UPDATE lacuna.appends SET crc = crc + 1 WHERE first = 4",
            "4 to 4 does not match its checksum",
        ),
        (
            "UPDATE lacuna.appends SET last = 3 WHERE first = 4",
            "4 to 3 does not match its checksum",
        ),
        (
            "UPDATE lacuna.appends SET last = 9 WHERE first = 5",
            "5 to 9 does not match its checksum",
        ),
        ("UPDATE lacuna.appends SET first = 6 WHERE first = 5", "gap after position 4:"),
        ("DELETE FROM lacuna.appends WHERE first = 4", "gap after position 3:"),
    ],
)
async def test_damage_is_found_and_named(
    database: str, admin: Connection, damage: str, message: str
) -> None:
    """There are four appends with one record each, and one with three."""
    await written(journal_of(database), 4)
    async with led(journal_of(database)) as (journal, token):
        await journal.append([b"a", b"b", b"c"], token)
        await admin.execute(damage)
        with pytest.raises(JournalCorrupt, match=message):
            await batches(journal)


async def test_an_append_of_many_records_is_read_in_pieces_and_returned_whole(
    database: str,
) -> None:
    async with led(journal_of(database)) as (journal, token):
        sizes = [1, 2000, 511, 1, 1024, 3]
        expected = []
        for size in sizes:
            records = [b"%d" % at for at in range(size)]
            position = await journal.append(records, token)
            expected.append(JournalBatch(position, records))
        assert await batches(journal) == expected
        assert await batches(journal, 2001) == expected[2:]


@pytest.mark.slow
async def test_records_are_trimmed_behind_the_older_of_two_snapshots(database: str) -> None:
    async with led(journal_of(database)) as (journal, token):
        for _ in range(20):
            await journal.append([b"record"] * 500, token)
        await journal.store_snapshot(Snapshot(9500, (b"first",)))
        assert len(await batches(journal)) == 20
        trimming = asyncio.ensure_future(journal.store_snapshot(Snapshot(10000, (b"second",))))
        assert await journal.append([b"between"], token) == 10001
        await trimming
        assert [batch.position for batch in await batches(journal, 9500)] == [10000, 10001]
        with pytest.raises(JournalTrimmed, match="the records after position 0 have been deleted"):
            await batches(journal)


@pytest.mark.slow
async def test_a_journal_whose_records_were_all_trimmed_goes_on(
    database: str, admin: Connection
) -> None:
    """A journal that begins with a snapshot looks the same."""
    await written(journal_of(database))
    await admin.execute("DELETE FROM lacuna.appends")
    await admin.execute("UPDATE lacuna.journal SET trimmed = 10")
    journal = journal_of(database)
    opened = await journal.open(None)
    assert opened.position == 10
    assert await journal.append([b"a"], opened.fencing_token) == 11
    assert await batches(journal, 10) == [JournalBatch(11, [b"a"])]
    await journal.close()


async def test_a_damaged_snapshot_costs_a_longer_replay(database: str, admin: Connection) -> None:
    await written(journal_of(database))
    snapshots = PostgresqlSnapshots(database)
    assert await snapshots.load("c") is None
    assert await snapshots.store(Snapshot(4, (b"state 4",)), "c") == 0
    assert await snapshots.store(Snapshot(8, (b"state 8",)), "c") == 4
    assert await snapshots.load("c") == Snapshot(8, (b"state 8",))
    await admin.execute("UPDATE lacuna.snapshots SET state = 'x' WHERE position = 8")
    assert await snapshots.load("c") == Snapshot(4, (b"state 4",))
    await admin.execute("UPDATE lacuna.snapshots SET parts = 2 WHERE position = 4")
    with pytest.raises(JournalCorrupt, match="position 4 is incomplete"):
        await snapshots.load("c")


@pytest.mark.slow
async def test_a_large_snapshot_is_stored_part_by_part(database: str, admin: Connection) -> None:
    await written(journal_of(database))
    snapshots = PostgresqlSnapshots(database)
    state = random.Random(1).randbytes(4500)
    parts = tuple(state[at : at + 1000] for at in range(0, len(state), 1000))
    assert [await snapshots.store(Snapshot(at, iter(parts)), "c") for at in (3, 5, 9)] == [0, 3, 5]
    assert await snapshots.load("c") == Snapshot(9, parts)
    await snapshots.store(Snapshot(9, parts[:2]), "c")
    assert await snapshots.load("c") == Snapshot(9, parts[:2])
    assert await admin.fetchval("SELECT count(*) FROM lacuna.snapshots") == 5 + 2


@pytest.mark.slow
async def test_two_who_store_the_same_snapshot_leave_one(database: str) -> None:
    await written(journal_of(database))
    snapshots = PostgresqlSnapshots(database)
    states = [b"a" * 9_000_000, b"b" * 10]
    await asyncio.gather(*(snapshots.store(Snapshot(5, (state,)), "c") for state in states))
    loaded = await snapshots.load("c")
    assert loaded is not None
    assert loaded.parts in [(state,) for state in states]


# Hot segments

LEASE = hot_lease(7)
#: Each test's table is full with 32 segments.
SEGMENT = 16 << 10


@pytest.fixture
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql_hot, "TABLE_BYTES", 32 * SEGMENT)


async def put_hot(journal: PostgresqlJournal, token: int, sequences: range) -> None:
    for sequence in sequences:
        await journal.append([b"commit"], token, [HotSegment((LEASE, sequence), bytes(SEGMENT))])
        # As the next table is created beside the appends, none would be there in time.
        if journal._hot._creating is not None:
            await journal._hot._creating


async def hot_tables(admin: Connection) -> dict[str, int]:
    rows = await admin.fetch(
        "SELECT relname, pg_total_relation_size(oid) AS size FROM pg_class "
        "WHERE relname ~ '^hot_[0-9]+$' ORDER BY oid"
    )
    return {row["relname"]: row["size"] for row in rows}


@pytest.mark.slow
@pytest.mark.usefixtures("small_tables")
async def test_a_table_is_dropped_once_nothing_in_it_is_live(
    database: str, admin: Connection
) -> None:
    async with led(journal_of(database)) as (journal, token):
        await put_hot(journal, token, range(100))
        before = await hot_tables(admin)
        assert list(before) == ["hot_1", "hot_2", "hot_3", "hot_4"]
        assert sum(before.values()) > 100 * SEGMENT
        await journal.drop_hot([(LEASE, sequence) for sequence in range(96) if sequence != 40])
        assert list(await hot_tables(admin)) == ["hot_2", "hot_4"]
    token = (await journal.open(None)).fencing_token
    assert sorted(journal.hot) == [(LEASE, each) for each in (*range(32, 64), *range(96, 100))]
    await journal.drop_hot(list(journal.hot))
    await put_hot(journal, token, range(100, 101))
    after = await hot_tables(admin)
    assert list(after) == ["hot_4"]
    assert sum(after.values()) < 16 * SEGMENT
    await journal.close()


@pytest.mark.slow
@pytest.mark.usefixtures("small_tables")
async def test_a_strangers_query_delays_the_end_of_its_table_only(
    database: str, admin: Connection
) -> None:
    async with led(journal_of(database)) as (journal, token):
        await put_hot(journal, token, range(70))
        stranger = await asyncpg.connect(database)
        async with stranger.transaction():
            await stranger.fetchval("SELECT count(*) FROM lacuna.hot_1")
            dropping = asyncio.ensure_future(journal.drop_hot(list(journal.hot)))
            await wait_until_blocked(admin)
            await put_hot(journal, token, range(70, 75))
            await dropping
            assert list(await hot_tables(admin)) == ["hot_1", "hot_3"]
        await journal.drop_hot([])
        assert list(await hot_tables(admin)) == ["hot_3"]
        await stranger.close()


@pytest.mark.slow
@pytest.mark.usefixtures("small_tables")
async def test_without_a_next_table_the_newest_grows(
    database: str, admin: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await written(journal_of(database), 0)
    await admin.execute("CREATE VIEW lacuna.hot_2 AS SELECT 1")
    async with led(journal_of(database)) as (journal, token):
        await put_hot(journal, token, range(40))
        assert "lacuna.hot_2, could not be created, so the newest one keeps growing" in caplog.text
        await admin.execute("DROP VIEW lacuna.hot_2")
        await put_hot(journal, token, range(40, 70))
        assert list(await hot_tables(admin)) == ["hot_1", "hot_2"]
        keys = [(LEASE, sequence) for sequence in range(70)]
        assert list(await journal.read_hot(keys)) == keys


@pytest.mark.slow
@pytest.mark.usefixtures("small_tables")
async def test_an_old_leader_drops_no_table(database: str, admin: Connection) -> None:
    old, new = journal_of(database), journal_of(database)
    token = (await old.open(None)).fencing_token
    await put_hot(old, token, range(40))
    token = (await new.open(None)).fencing_token
    with pytest.raises(JournalFenced, match="taken over"):
        await old.drop_hot(list(old.hot))
    with pytest.raises(JournalFenced, match="taken over"):
        await old.append([b"late"], token - 1, [HotSegment((LEASE, 40), b"late")])
    assert list(await hot_tables(admin)) == ["hot_1", "hot_2"]
    assert len(new.hot) == 40
    await new.close()
    await old.close()


async def test_an_append_that_was_not_answered_is_there_with_its_hot_bytes_or_not_at_all(
    database: str, admin: Connection
) -> None:
    async with led(journal_of(database)) as (journal, token):
        transaction = await hold_position(admin, 1)
        append = journal.append([b"a"], token, [HotSegment((LEASE, 1), b"hot")])
        await wait_until_blocked(admin)
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        )
        with pytest.raises(JournalInDoubt):
            await append
        assert journal.hot == {}
        await transaction.rollback()
    opened = await journal.open(None)
    assert (opened.position, dict(journal.hot)) == (0, {})
    await journal.close()


@pytest.mark.slow
async def test_damaged_hot_bytes_are_named(database: str, admin: Connection) -> None:
    async with led(journal_of(database)) as (journal, token):
        await put_hot(journal, token, range(2))
        await admin.execute("UPDATE lacuna.hot_1 SET bytes = 'x' WHERE sequence = 1")
        assert await journal.read_hot([(LEASE, 0)]) == {(LEASE, 0): bytes(SEGMENT)}
        with pytest.raises(
            JournalCorrupt, match=f"the hot segment 1 of lease {LEASE} does not match"
        ):
            await journal.read_hot([(LEASE, 0), (LEASE, 1)])
