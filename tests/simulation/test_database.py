"""Tests that the simulated PostgreSQL answers the journal's statements as a real one does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest import mock

import asyncpg
import pytest

from lacuna.controlplane.journal import postgresql as statements
from lacuna.controlplane.journal import postgresql_hot as hot
from lacuna.controlplane.journal import postgresql_renewing
from lacuna.controlplane.journal.journal import JournalFenced, JournalInDoubt
from lacuna.controlplane.journal.postgresql import PostgresqlJournal
from lacuna.controlplane.journal.postgresql_connection import connect
from lacuna.controlplane.journal.postgresql_reading import _FIT, _LEADER, _READ, _TRIMMED
from tests.journal_servers import database, kept_database, postgresql
from tests.simulation.cluster import Surroundings
from tests.simulation.database import URL, DatabaseHost, connecting

__all__ = ["database", "kept_database", "postgresql"]

T = TypeVar("T")

ROW = (7, b"seven")
#: (what it is asked, statement, arguments); SEEN is the number of the leader's last renewal, as it was read last.
SEEN = "seen"
Step = tuple[str, str, tuple[object, ...]]
SCRIPT: list[Step] = [
    ("val", statements._TAKE_FREE, ("one:1",)),
    ("val", statements._TAKE_FREE, ("other:1",)),
    ("val", statements._END, ()),
    ("do", statements._APPEND, (1, 1, 2, *ROW)),
    ("do", statements._APPEND, (1, 3, 3, *ROW)),
    ("do", statements._APPEND, (1, 3, 4, *ROW)),
    ("do", statements._APPEND, (0, 4, 4, *ROW)),
    ("do", statements._APPEND, (2, 4, 4, *ROW)),
    ("rows", _READ, (0, 10, 1 << 20)),
    ("rows", _READ, (1, 10, 1 << 20)),
    ("rows", _READ, (0, 10, 1)),
    ("rows", _READ, (3, 10, 1 << 20)),
    ("row", _LEADER, ()),
    ("val", postgresql_renewing.RENEW, (2,)),
    ("val", statements._TAKE_OVER, ("two:1", 2, SEEN)),
    ("val", postgresql_renewing.RENEW, (1,)),
    ("val", statements._TAKE_OVER, ("two:1", 1, SEEN)),
    ("row", _LEADER, ()),
    ("val", statements._TAKE_OVER, ("two:1", 1, SEEN)),
    ("do", statements._APPEND, (1, 4, 4, *ROW)),
    ("do", statements._APPEND, (2, 4, 4, *ROW)),
    ("do", statements._TRIM, (1, 2)),
    ("do", statements._TRIM, (2, 2)),
    ("rows", _FIT, (1, 2, 7)),
    ("rows", _FIT, (1, 2, 8)),
    ("rows", _FIT, (1, 9, 7)),
    ("do", hot._APPEND.format(1), (2, 5, 6, *ROW, [1, 1], [1, 2], [5, 6], [b"a", b"bc"])),
    ("do", hot._APPEND.format(1), (1, 7, 7, *ROW, [1], [3], [5], [b"late"])),
    ("rows", hot._NUMBERS, ("lacuna",)),
    ("rows", hot._SIZES.format(1), ()),
    ("rows", hot._READ.format(1), ([1, 1], [2, 3])),
    ("val", _TRIMMED, ()),
    ("rows", _READ, (0, 10, 1 << 20)),
    ("do", statements._TRIM, (2, 4)),
    ("rows", _FIT, (1, 2, 7)),
    ("val", statements._END, ()),
    ("do", statements._RELEASE, (1,)),
    ("do", statements._RELEASE, (2,)),
    ("row", _LEADER, ()),
    ("val", statements._SEIZE, ("three:1",)),
    ("val", statements._HAS_ASYNCHRONOUS_STANDBY, ()),
]


async def answers(connection: Any) -> list[object]:
    """Return a database's answer to each step."""
    seen: object = None
    found: list[object] = []
    for how, text, given in SCRIPT:
        arguments = [seen if each is SEEN else each for each in given]
        try:
            if how == "do":
                found.append(await connection.execute(text, *arguments))
            elif how == "val":
                found.append(await connection.fetchval(text, *arguments))
            elif how == "rows":
                found.append([tuple(row) for row in await connection.fetch(text, *arguments)])
            else:
                row = dict((await connection.fetchrow(text, *arguments)).items())
                seen = row["renewals"]
                found.append(row)
        except asyncpg.PostgresError as error:
            found.append(type(error).__name__)
    return found


class Simulated:
    """A simulated database, and a process that uses it."""

    def __init__(self) -> None:
        self.around = Surroundings(1)
        self.loop = self.around.loop
        self.host = DatabaseHost(self.around, "made")
        self.host.start()
        self.process = self.loop.process("control")
        self.loop.run(0.1)

    def begin(self, work: Any) -> asyncio.Task[Any]:
        """Start work in the process."""
        return self.process.start(work)

    def run(self, task: asyncio.Task[T]) -> T:
        """Let time pass until it ends."""
        task.add_done_callback(lambda _: self.loop.stop())
        self.loop.run(self.loop.time() + 60.0)
        return task.result()

    def journal(self) -> PostgresqlJournal:
        return PostgresqlJournal(URL, lambda: "made", answer_timeout=3.0)


@pytest.fixture
def simulated() -> Iterator[Simulated]:
    found = Simulated()
    with mock.patch.object(asyncpg, "connect", connecting(found.around.network)):
        yield found
    found.loop.end()
    assert found.loop.unhandled == []


@pytest.mark.slow
def test_it_answers_as_postgresql_does(simulated: Simulated, database: str) -> None:
    async def ask_real() -> list[object]:
        with real_connections():
            await (journal := PostgresqlJournal(database, lambda: "made")).open(None)
            await journal.close()
            connection = await connect(database)
        await connection.execute("UPDATE lacuna.leader SET epoch = 0, address = NULL")
        try:
            return await answers(connection)
        finally:
            await connection.close()

    async def ask_simulated() -> list[object]:
        return await answers(await connect(URL))

    assert simulated.run(simulated.begin(ask_simulated())) == asyncio.run(ask_real())


REAL_CONNECT = asyncpg.connect


@contextmanager
def real_connections() -> Iterator[None]:
    with mock.patch.object(asyncpg, "connect", REAL_CONNECT):
        yield


def test_a_takeover_waits_for_the_append_under_way(simulated: Simulated) -> None:
    run, begin = simulated.run, simulated.begin
    old, new = simulated.journal(), simulated.journal()
    before = run(begin(old.open(None)))
    simulated.host.slowness = 1_000.0
    appending = begin(appended(old, before.fencing_token))
    simulated.loop.run(simulated.loop.time() + 0.01)
    opening = begin(new.open(None))
    assert run(appending) == 2
    assert not opening.done()
    assert run(opening).position == 2
    simulated.host.slowness = 1.0
    with pytest.raises(JournalFenced):
        run(begin(appended(old, before.fencing_token)))
    run(begin(old.close()))
    run(begin(new.close()))


@pytest.mark.parametrize("is_done", [True, False])
def test_an_append_is_in_doubt_if_the_connection_breaks(
    simulated: Simulated, *, is_done: bool
) -> None:
    run, begin = simulated.run, simulated.begin
    journal = simulated.journal()
    opened = run(begin(journal.open(None)))
    simulated.host.slowness = 1_000.0
    appending = begin(appended(journal, opened.fencing_token))
    simulated.loop.run(simulated.loop.time() + 0.01)
    if is_done:
        # Nobody tells the client, and the server goes on.
        simulated.around.network.cut("control", simulated.host.name, 20.0)
    else:
        simulated.host.kill(back_after=0.1)
    with pytest.raises(JournalInDoubt):
        run(appending)
    simulated.host.slowness = 1.0
    run(begin(journal.close()))
    simulated.loop.run(simulated.loop.time() + 20.0)
    assert run(begin(journal.open(None))).position == (2 if is_done else 0)
    run(begin(journal.close()))


async def appended(journal: PostgresqlJournal, fencing_token: int) -> int:
    return await journal.append([b"a", b"b"], fencing_token)
