"""A control plane and an agent in separate processes, with the journal in each of the possible places."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from bench.counted_s3 import BUCKET, JOURNAL_PUT, PUT, CountedS3
from bench.lacuna import LacunaGrpc
from bench.meter import cpu_seconds, process_tree
from lacuna.base.pace import LoopLoad, MeasuredPace
from lacuna.controlplane.journal.bucket import BucketJournal
from lacuna.controlplane.journal.journal import Journal
from lacuna.controlplane.journal.postgresql import PostgresqlJournal
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.logstore.objects import open_conditional_store
from lacuna.operating.stores import open_checked
from tests.postgresql import PostgresqlServer, binaries

SQLITE, POSTGRESQL, SLOW_BUCKET = "sqlite", "postgresql", "bucket + 50 ms"
CONTROL_PLANE, AGENT, DATABASE = "control plane", "agent", "PostgreSQL"

#: Added to PostgreSQL's defaults, with which the server syncs before each response.
_ON_A_SOCKET: Final = """
listen_addresses = ''
unix_socket_directories = '{folder}'
"""


@contextmanager
def postgresql() -> Iterator[PostgresqlServer | None]:
    """Starts a server on a Unix socket. If PostgreSQL is not installed, prints a message and yields None."""
    folder = binaries()
    if folder is None:
        print(f"{POSTGRESQL} is left out, because it is not installed (apt-get install postgresql)")
        yield None
        return
    server = PostgresqlServer(folder, _ON_A_SOCKET)
    try:
        server.start()
        yield server
    finally:
        server.stop()


class InSqlite(LacunaGrpc):
    """A target with its journal in SQLite. The CPU time of each part is counted separately."""

    def __init__(self, label: str = SQLITE, store: str = "") -> None:
        super().__init__(label=label, store=store)

    @property
    def parts(self) -> Mapping[str, int]:
        """The process id of each part, by name. A part includes the process's descendants."""
        agent, control = self._processes
        return {CONTROL_PLANE: control.pid, AGENT: agent.pid}

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(self.parts.values()) if self._processes else ()

    def counts(self) -> Mapping[str, float]:
        return {part: cpu_seconds(process_tree([pid])) for part, pid in self.parts.items()}

    @contextmanager
    def another_journal(self) -> Iterator[Journal]:
        """Yields a new journal, not yet opened, in the same kind of place as the control plane's."""
        path = str(self.data / "another.db")
        yield SqliteJournal(path, _cluster_id, pace=MeasuredPace(LoopLoad()))


class InPostgresql(InSqlite):
    """A target with its journal in a new database on this server."""

    def __init__(self, server: PostgresqlServer) -> None:
        super().__init__(POSTGRESQL)
        self._server = server
        self._url = server.make_database("bench")
        self._another = server.make_database("another")

    @property
    def parts(self) -> Mapping[str, int]:
        return {**super().parts, DATABASE: self._server.pid}

    @property
    def journal(self) -> Sequence[str]:
        return [f"--journal={self._url}"]

    @contextmanager
    def another_journal(self) -> Iterator[Journal]:
        yield PostgresqlJournal(self._another, _cluster_id)


class InBucket(InSqlite):
    def __init__(self, service: CountedS3) -> None:
        super().__init__(SLOW_BUCKET, service.url)
        self._service = service
        open_checked(self.store, create_bucket=True).close()

    @property
    def pids(self) -> tuple[int, ...]:
        return (*super().pids, self._service.pid)

    @property
    def journal(self) -> Sequence[str]:
        return ["--journal=bucket", f"--store={self.store}"]

    def counts(self) -> Mapping[str, float]:
        requests = self._service.counts()
        return {**super().counts(), PUT: requests[PUT], JOURNAL_PUT: requests[JOURNAL_PUT]}

    @contextmanager
    def another_journal(self) -> Iterator[Journal]:
        url = f"s3://{BUCKET}/another?endpoint={self._service.endpoint}"
        store = open_conditional_store(url)
        yield BucketJournal(store, _cluster_id)
        store.close()


def _cluster_id() -> str:
    return "bench"
