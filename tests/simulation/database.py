"""A PostgreSQL that implements a journal's statements, as a process on the simulated network.

It guarantees only what the journal relies on. A statement is its own transaction and sees everything committed before
it began. The leader's row has a lock: appends share it, a change to the row waits for them, and a statement that has
waited evaluates its condition on the current row. Committed data survives the end of the server, and a statement is
executed even if its client has disconnected. `connecting` replaces `asyncpg.connect`.

It creates no tables and stores no snapshots: a cluster with a bucket stores those there. All hot segments are in one
table, since a simulated cluster does not fill it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import asyncpg

from lacuna.controlplane.journal import (
    postgresql,
    postgresql_hot,
    postgresql_reading,
    postgresql_renewing,
    postgresql_schema,
)
from tests.simulation.cluster import Host, Surroundings
from tests.simulation.loop import Process
from tests.simulation.network import End, Network

HOST: Final = "database"
PORT: Final = 5432
URL: Final = f"postgresql://lacuna@{HOST}:{PORT}/lacuna"
#: What a statement waits for a lock at most, as the journal's connections ask for (`lock_timeout`).
LOCK_SECONDS: Final = 10.0
#: After how long a wait for the standby is cancelled.
_CANCELLED_SECONDS: Final = 0.05
#: What a new connection says first.
_HELLO: Final = ""


class Row(dict[str, Any]):
    """A row of an answer: `row["first"]`, and its values in order, as in asyncpg's records."""

    def __iter__(self) -> Any:
        return iter(self.values())


class Append(NamedTuple):
    """A row of lacuna.appends."""

    first: int
    last: int
    crc: int
    records: bytes


class Hot(NamedTuple):
    """A row of lacuna.hot_1."""

    lease_id: int
    sequence: int
    crc: int
    bytes: bytes


@dataclass(slots=True)
class Tables:
    """The database's data on disk."""

    cluster_id: str
    trimmed: int = 0
    epoch: int = 0
    address: str | None = None
    renewals: int = 1
    appends: list[Append] = field(default_factory=list)
    hot: dict[tuple[int, int], Hot] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The position of the last record."""
        return max(self.trimmed, self.appends[-1].last if self.appends else 0)


class DatabaseHost(Host):
    """The machine of the database. Some time after a power loss, another machine takes over its address and
    its disk.
    """

    def __init__(self, around: Surroundings, cluster_id: str) -> None:
        super().__init__(around, HOST)
        self.tables = Tables(cluster_id)
        #: What multiplies how long a commit takes.
        self.slowness = 1.0
        #: Whether a synchronous standby is cut off, and each wait for it cancelled: a success with a warning.
        self.is_standby_cut = False
        #: What the standby has, if that is less.
        self._replicated: Tables | None = None
        #: Called with the position of the last record when a standby is promoted that has less.
        self.on_loss: Callable[[int], None] = lambda _: None

    async def _serve(self, process: Process) -> None:
        server = _Server(self, process)
        self.around.network.listen(process, HOST, PORT, server.accept)
        await self.around.loop.create_future()

    def commits(self) -> None:
        """Save the standby's state before changes that may not reach it."""
        if self.is_standby_cut and self._replicated is None:
            tables = self.tables
            self._replicated = replace(tables, appends=list(tables.appends), hot=dict(tables.hot))

    def join_standby(self) -> None:
        """Let the standby catch up."""
        self.is_standby_cut, self._replicated = False, None

    def _lose_power(self) -> None:
        if self._replicated is not None:
            self.tables = self._replicated
            self.on_loss(self.tables.end)
        self.join_standby()

    async def _stop(self) -> None:
        """Shut down quickly. The end of the process closes connections."""


# The client's side.


class SimulatedConnection:
    """A connection of the process that opened it, with the part of asyncpg's interface that the journal uses."""

    def __init__(self, end: End, command_timeout: float) -> None:
        self._end = end
        self._command_timeout = command_timeout
        self._asked = 0
        self._listeners: list[LogListener] = []
        self._answer: asyncio.Future[Answer] | None = None
        end.open(self._answered, self._broken)

    def _answered(self, message: tuple[int, Answer]) -> None:
        number, answer = message
        if number == self._asked and self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _broken(self, _: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(
                asyncpg.ConnectionDoesNotExistError(
                    "connection was closed in the middle of operation"
                )
            )

    def add_log_listener(self, listener: LogListener) -> None:
        """Call `listener` with the server's warnings."""
        self._listeners.append(listener)

    def is_closed(self) -> bool:
        """Return whether the connection is known to be unusable."""
        return not self._end.is_open

    def terminate(self) -> None:
        """Close the connection without waiting."""
        self._end.reset()
        self._broken(None)

    async def close(self, *, timeout: float | None = None) -> None:
        """Close the connection after the pending statements."""
        del timeout
        self._end.close()

    async def execute(self, query: str, *args: object, timeout: float | None = None) -> str:
        """Run a statement, and return the status. Raises asyncpg's errors, and TimeoutError."""
        return (await self._ask(query, args, timeout))[0]

    async def fetch(self, query: str, *args: object, timeout: float | None = None) -> Rows:
        """Run a statement, and return the rows."""
        return (await self._ask(query, args, timeout))[1]

    async def fetchrow(self, query: str, *args: object, timeout: float | None = None) -> Row | None:
        """Run a statement, and return the first row."""
        rows = await self.fetch(query, *args, timeout=timeout)
        return rows[0] if rows else None

    async def fetchval(self, query: str, *args: object, timeout: float | None = None) -> Any:
        """Run a statement, and return the first value of the first row."""
        row = await self.fetchrow(query, *args, timeout=timeout)
        return None if row is None else next(iter(row))

    async def _ask(
        self, query: str, args: tuple[object, ...], timeout: float | None
    ) -> tuple[str, Rows]:
        if not self._end.is_open:
            raise asyncpg.InterfaceError("connection is closed")
        if self._answer is not None:
            raise asyncpg.InterfaceError("another operation is in progress")
        self._answer = asyncio.get_running_loop().create_future()
        self._asked += 1
        self._end.send((self._asked, query, args))
        try:
            # The server is not asked to stop: it may do what it was asked at any later time.
            async with asyncio.timeout(timeout or self._command_timeout):
                answer = await self._answer
        finally:
            self._answer = None
        if isinstance(answer, asyncpg.PostgresError):
            raise answer
        if isinstance(answer, Warned):
            for listener in self._listeners:
                listener(self, NotReplicated())
            answer = answer.answer
        return answer


def connecting(network: Network) -> Callable[..., Coroutine[Any, Any, SimulatedConnection]]:
    """Return a replacement for `asyncpg.connect`."""

    async def connect(
        _: str, *, timeout: float, command_timeout: float, server_settings: object
    ) -> SimulatedConnection:
        del server_settings
        async with asyncio.timeout(timeout):
            connection = SimulatedConnection(await network.connect(HOST, PORT), command_timeout)
            await connection.execute(_HELLO)
            return connection

    return connect


# The server's side.


class _RowLock:
    """The lock of one row, shared or exclusive. Waiters are served in order."""

    def __init__(self) -> None:
        self._sharing = 0
        self._is_taken = False
        self._waiting: deque[tuple[asyncio.Future[None], bool]] = deque()

    @asynccontextmanager
    async def held(self, *, is_shared: bool) -> AsyncIterator[None]:
        """Run the body with the lock. Raises LockNotAvailableError."""
        await self._take(is_shared)
        try:
            yield
        finally:
            if is_shared:
                self._sharing -= 1
            else:
                self._is_taken = False
            self._grant()

    async def _take(self, is_shared: bool) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, is_shared))
        self._grant()
        try:
            async with asyncio.timeout(LOCK_SECONDS):
                await turn
        except TimeoutError:
            self._waiting = deque(each for each in self._waiting if each[0] is not turn)
            raise _error("55P03", "canceling statement due to lock timeout") from None

    def _grant(self) -> None:
        while self._waiting and not self._is_taken:
            turn, is_shared = self._waiting[0]
            if not is_shared and self._sharing:
                return
            self._waiting.popleft()
            if is_shared:
                self._sharing += 1
            else:
                self._is_taken = True
            turn.set_result(None)


class NotReplicated(asyncpg.PostgresLogMessage):
    """PostgreSQL's error when a wait for a standby is cancelled."""

    severity_en = "WARNING"
    message = "canceling wait for synchronous replication due to user request"


Rows: TypeAlias = "list[Row]"
Done: TypeAlias = "tuple[str, Rows]"
"""A statement's status and rows."""
LogListener: TypeAlias = "Callable[[Any, asyncpg.PostgresLogMessage], None]"


@dataclass(frozen=True, slots=True)
class Warned:
    """The answer to a write that the standby may not have."""

    answer: Done


Answer: TypeAlias = "Done | Warned | asyncpg.PostgresError"
"""What a statement has done, or why it failed."""
_WRITES: Final = ("INSERT 0 1", "UPDATE 1")


class _Server:
    """The server process, which answers each connection's statements in order."""

    def __init__(self, host: DatabaseHost, process: Process) -> None:
        self._host = host
        self._tables = host.tables
        self._process = process
        self._lock = _RowLock()

    def accept(self, end: End, _: str) -> None:
        """Serve a new connection."""
        asyncio.get_running_loop().create_task(self._serve(end))

    async def _serve(self, end: End) -> None:
        asked: asyncio.Queue[tuple[int, str, tuple[Any, ...]] | None] = asyncio.Queue()
        end.open(asked.put_nowait, lambda _: asked.put_nowait(None))
        while (message := await asked.get()) is not None:
            number, text, arguments = message
            end.send((number, await self._answer(text, arguments)))

    async def _answer(self, text: str, arguments: tuple[Any, ...]) -> Answer:
        statement = STATEMENTS.get(text)
        if statement is None:
            self._process.loop.unhandled.append((HOST, f"does not know the statement {text}"))
            return _error("42601", "syntax error")
        try:
            answer = await statement(self, *arguments)
            if isinstance(answer, tuple) and answer[0] in _WRITES and self._host.is_standby_cut:
                return Warned(answer)
            return answer
        except asyncpg.PostgresError as error:
            return error

    # Statements. What they do takes place between two awaits, so others see all of it or nothing.

    async def append(
        self, epoch: int, first: int, last: int, crc: int, records: bytes, *hot: list[Any]
    ) -> Answer:
        tables = self._tables
        sent = [Hot(*each) for each in zip(*hot, strict=True)]
        async with self._lock.held(is_shared=True):
            if not self.is_fence_passed(epoch):
                return "INSERT 0 0", []
            at = bisect_left(tables.appends, first, key=_first)
            if at < len(tables.appends) and tables.appends[at].first == first:
                raise _error("23505", "duplicate key value violates unique constraint")
            await self._commit()
            insort(tables.appends, Append(first, last, crc, records))
            tables.hot.update({each[:2]: each for each in sent})
        return "INSERT 0 1", []

    def is_fence_passed(self, epoch: int) -> bool:
        """Return whether the leader's row has this epoch."""
        return self._tables.epoch == epoch

    async def take_over(self, address: str, epoch: int, renewals: int) -> Answer:
        tables = self._tables
        return await self._become(
            address, lambda: (tables.epoch, tables.renewals) == (epoch, renewals)
        )

    async def take_free(self, address: str) -> Answer:
        return await self._become(address, lambda: self._tables.address is None)

    async def seize(self, address: str) -> Answer:
        return await self._become(address, lambda: True)

    async def _become(self, address: str, may: Callable[[], bool]) -> Answer:
        tables = self._tables
        async with self._lock.held(is_shared=False):
            if not may():
                return "UPDATE 0", []
            await self._commit()
            tables.epoch += 1
            tables.address = address
            return "UPDATE 1", [Row(epoch=tables.epoch)]

    async def renew(self, epoch: int) -> Answer:
        tables = self._tables
        async with self._lock.held(is_shared=True):
            if tables.epoch != epoch:
                return "SELECT 0", []
            # A sequence is not part of the transaction.
            tables.renewals += 1
            await self._commit()
            if self._host.is_standby_cut:
                return Warned(_one(tables.renewals))
            return _one(tables.renewals)

    async def release(self, epoch: int) -> Answer:
        async with self._lock.held(is_shared=False):
            if self._tables.epoch != epoch:
                return "UPDATE 0", []
            await self._commit()
            self._tables.address = None
        return "UPDATE 1", []

    async def trim(self, epoch: int, end: int) -> Answer:
        tables = self._tables
        async with self._lock.held(is_shared=True):
            if not self.is_fence_passed(epoch):
                return "UPDATE 0", []
            await self._commit()
            tables.appends = [each for each in tables.appends if each.last >= end]
            tables.trimmed = max(tables.trimmed, end)
        return "UPDATE 1", []

    async def leader(self) -> Answer:
        tables = self._tables
        row = Row(
            epoch=tables.epoch,
            address=tables.address,
            renewals=tables.renewals,
            format_version=postgresql_schema.FORMAT_VERSION,
        )
        return "SELECT 1", [row]

    async def read(self, position: int, most: int, most_bytes: int) -> Answer:
        rows, size = [], 0
        appends = self._tables.appends
        start = bisect_right(appends, position, key=_first)
        if start:
            rows.append(Row({**appends[start - 1]._asdict(), "records": None}))
        for each in appends[start : start + most]:
            if size >= most_bytes:
                break
            size += len(each.records)
            rows.append(Row(each._asdict()))
        return f"SELECT {len(rows)}", rows

    async def fit(self, first: int, last: int, crc: int) -> Answer:
        tables = self._tables
        row = Row(
            is_there=any(each[:3] == (first, last, crc) for each in tables.appends),
            begins_before=any(each.first <= last for each in tables.appends),
            trimmed=tables.trimmed,
            last=tables.end,
        )
        return "SELECT 1", [row]

    async def hot_sizes(self) -> Answer:
        rows = [
            Row(lease_id=each.lease_id, sequence=each.sequence, size=len(each.bytes))
            for each in self._tables.hot.values()
        ]
        return f"SELECT {len(rows)}", rows

    async def read_hot(self, lease_ids: list[int], sequences: list[int]) -> Answer:
        hot = self._tables.hot
        wanted = zip(lease_ids, sequences, strict=True)
        rows = [Row(hot[key]._asdict()) for key in wanted if key in hot]
        return f"SELECT {len(rows)}", rows

    async def trimmed(self) -> Answer:
        return _one(self._tables.trimmed)

    async def end(self) -> Answer:
        return _one(self._tables.end)

    async def cluster_id(self) -> Answer:
        return _one(self._tables.cluster_id)

    async def _commit(self) -> None:
        """Wait for the disk, and for the standby until that wait is cancelled."""
        host = self._host
        await asyncio.sleep((0.0002 + 0.0008 * host.random.random()) * host.slowness)
        if host.is_standby_cut:
            await asyncio.sleep(_CANCELLED_SECONDS)
        host.commits()


_first: Final = attrgetter("first")


def _one(value: object) -> Done:
    return "SELECT 1", [Row(value=value)]


def _constant(value: object) -> Callable[[_Server], Coroutine[Any, Any, Answer]]:
    async def answer(_: _Server) -> Answer:
        return _one(value)

    return answer


def _error(code: str, message: str) -> asyncpg.PostgresError:
    error: asyncpg.PostgresError = asyncpg.PostgresError.new(
        {"C": code, "M": message, "V": "ERROR"}
    )
    return error


#: What the journal asks, by its text. A statement that is changed or new has to be taught to the server.
STATEMENTS: Final[dict[str, Callable[..., Coroutine[Any, Any, Answer]]]] = {
    _HELLO: _constant(None),
    postgresql._APPEND: _Server.append,
    postgresql_hot._APPEND.format(1): _Server.append,
    postgresql_hot._NUMBERS: lambda _server, _schema: _constant(1)(_server),
    postgresql_hot._SIZES.format(1): _Server.hot_sizes,
    postgresql_hot._READ.format(1): _Server.read_hot,
    postgresql._TAKE_OVER: _Server.take_over,
    postgresql._TAKE_FREE: _Server.take_free,
    postgresql._SEIZE: _Server.seize,
    postgresql_renewing.RENEW: _Server.renew,
    postgresql._RELEASE: _Server.release,
    postgresql._END: _Server.end,
    postgresql._TRIM: _Server.trim,
    postgresql._HAS_ASYNCHRONOUS_STANDBY: _constant(False),
    "SELECT current_setting($1)": lambda _server, _name: _constant("on")(_server),
    postgresql_reading._READ: _Server.read,
    postgresql_reading._TRIMMED: _Server.trimmed,
    postgresql_reading._FIT: _Server.fit,
    postgresql_reading._LEADER: _Server.leader,
    postgresql_schema._IS_THERE: _constant(True),
    "SELECT format_version FROM lacuna.journal": _constant(postgresql_schema.FORMAT_VERSION),
    "SELECT cluster_id FROM lacuna.journal": _Server.cluster_id,
    "UPDATE lacuna.journal SET format_version = $1 WHERE format_version < $1": (
        lambda _server, _version: _constant(None)(_server)
    ),
}
