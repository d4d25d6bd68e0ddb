"""A cluster whose journal and objects are on a file system that loses whatever was not synced.

The page cache outlives a killed process, so only this test shows whether a sync is missing. The cluster runs on a
`PowerDisk`. At random moments, the disk saves the state that a power cut would leave, and the acknowledgements so far.
A cluster is then started on each of these saved states, and checked.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import apsw

from lacuna.agent.produce.settings import ProduceSettings
from lacuna.controlplane.client import InProcessClient
from lacuna.controlplane.clock import SystemClock
from lacuna.controlplane.journal.connections import Connection
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.logstore.objects import DirectoryStore
from lacuna.logstore.segments import claim_store
from lacuna.operating.agents import AgentParts, RunningAgent, start_agent
from tests.logstore.objects.sqlite_vfs import UnsyncedVfs
from tests.logstore.objects.unsynced import UnsyncedFileSystem

T = TypeVar("T")
Lie = Callable[[str, str], bool]

OBJECTS = "/store/objects"
CALL_SECONDS = 60.0
_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class Remains:
    """The state that a power cut would leave, and the number of facts recorded before it."""

    files: UnsyncedFileSystem
    facts: int


class PowerDisk(UnsyncedFileSystem):
    """A file system that saves, at random moments, the state that a power cut would leave.

    `lie(kind, path)` decides which syncs do nothing, and `facts` returns the number of facts so far. At most
    `longest_gap` changes and syncs lie between two saved states.
    """

    def __init__(
        self, lie: Lie, facts: Callable[[], int], rng: random.Random, longest_gap: int
    ) -> None:
        super().__init__()
        self.remains: list[Remains] = []
        self._lie = lie
        self._facts = facts
        self._rng = rng
        self._longest_gap = longest_gap
        self._next_cut = rng.randint(1, longest_gap)

    def _change(self) -> None:
        super()._change()
        if self.calls >= self._next_cut:
            self._next_cut = self.calls + self._rng.randint(1, self._longest_gap)
            self.cut()

    def _sync(self, kind: str, path: str) -> bool:
        return super()._sync(kind, path) and not self._lie(kind, path)

    def cut(self) -> None:
        """Save the state that a power cut would leave now: everything synced, and none, half or most of the rest."""
        share = self._rng.choice((0.0, 0.5, 0.9))
        facts = self._facts()
        survivor = self.after_crash(lambda: self._rng.random() < share)
        self.remains.append(Remains(survivor, facts))


class OneAtATime:
    """Wraps an object so that only one thread at a time calls its methods."""

    def __init__(self, inner: object) -> None:
        self._inner = inner
        self._lock = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def locked(*args: Any) -> Any:
            with self._lock:
                return found(*args)

        return locked


class _Journal:
    """Opens SQLite databases on an unsynced file system. `pragmas` maps statements to their replacements."""

    def __init__(self, files: UnsyncedFileSystem, pragmas: Mapping[str, str]) -> None:
        self._vfs_name = f"power-{next(_NUMBERS)}"
        self._vfs = UnsyncedVfs(self._vfs_name, files)
        self._pragmas = pragmas

    def connect(self, path: str) -> Connection:
        """Connect to the file with this name in the root directory, with a small WAL for frequent checkpoints."""
        connection = apsw.Connection(f"/{os.path.basename(path)}", vfs=self._vfs_name)
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("PRAGMA wal_autocheckpoint=20")
        return _Connection(connection, self._pragmas)


class _Connection:
    def __init__(self, connection: apsw.Connection, pragmas: Mapping[str, str]) -> None:
        self._connection = connection
        self._pragmas = pragmas
        self.close = connection.close

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> apsw.Cursor:
        return self._connection.execute(self._pragmas.get(statement, statement), tuple(parameters))


class PowerCluster:
    """A context manager that runs a control plane and an agent on a file system, in a separate thread.

    `folder` is a real folder, used only for the lock next to the journal. Flushes of at most `hot_bytes` become hot
    segments.
    """

    def __init__(
        self,
        files: UnsyncedFileSystem,
        folder: Path,
        pragmas: Mapping[str, str] | None = None,
        hot_bytes: int = 0,
    ) -> None:
        self._hot_bytes = hot_bytes
        self._files = cast(UnsyncedFileSystem, OneAtATime(files))
        self._connect = _Journal(self._files, pragmas or {}).connect
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._runtime: Runtime | None = None
        self._agent: RunningAgent | None = None
        self._store: DirectoryStore | None = None
        self.control: InProcessClient

    @property
    def bootstrap(self) -> str:
        """The agent's address."""
        assert self._agent is not None
        return self._agent.bootstrap

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.run(self._start())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the cluster's event loop. Return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(CALL_SECONDS)

    async def _start(self) -> None:
        journal = SqliteJournal(
            str(self._folder / "journal.db"), lambda: "cluster", connect=self._connect
        )
        fatal: list[BaseException] = []
        self._runtime = Runtime(
            journal,
            SystemClock(),
            lambda: os.urandom(16),
            RuntimeSettings(),
            on_fatal=fatal.append,
        )
        await self._runtime.start()
        self.control = InProcessClient(self._runtime)
        await self.control.cluster.ready()
        self._store = DirectoryStore(OBJECTS, file_system=self._files)
        claim_store(self._store, self._runtime.cluster_id)
        self._agent = await start_agent(
            control=self.control,
            store=self._store,
            parts=AgentParts(produce=ProduceSettings(hot_bytes=self._hot_bytes), housekeeping=None),
            clock=SystemClock(),
            randomness=random.SystemRandom(),
        )

    def _end(self) -> None:
        self.run(self._abort())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS)
        self._loop.close()

    async def _abort(self) -> None:
        if self._agent is not None:
            await self._agent.abort()
            await self._agent.context.produce.close()
            await self._agent.context.fetch.close()
        if self._runtime is not None:
            await self._runtime.abort()
        if self._store is not None:
            self._store.close()
