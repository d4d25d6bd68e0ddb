"""Runs a PostgreSQL server for tests, using the binaries from Debian's `postgresql` package."""

import asyncio
import glob
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import asyncpg

PASSWORD = "secret"
SECONDS = 120
_SOCKET = ".s.PGSQL.5432"

# Only processes are killed here, never the machine, so nothing has to reach the disk.
_CONFIGURATION = """
listen_addresses = ''
unix_socket_directories = '{folder}'
fsync = off
shared_buffers = 16MB
autovacuum = off
"""
_ACCESS = """
local all all scram-sha-256
local replication all scram-sha-256
"""
_CLEAR = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid();
DROP SCHEMA IF EXISTS lacuna, lacuna_kept_1, lacuna_kept_2, public CASCADE;
CREATE SCHEMA public;
"""

#: Stops the server of a folder, and takes that away, once the process that has started it closes this one's input or
#: has ended, however it did.
_KEEPER = 'read _; "$0" stop -D data -m immediate -t "$1"; rm -r "$PWD"'


def binaries() -> str | None:
    """Return the folder of the newest server's binaries, or None if none is installed."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    if not found:
        on_path = shutil.which("initdb")
        return None if on_path is None else os.path.dirname(os.path.realpath(on_path))
    return os.path.dirname(max(found, key=lambda path: int(path.split("/")[4])))


class PostgresqlServer:
    """A server that listens only on a Unix socket. It runs as `postgres` if the tests run as root.

    That user can access its folder, unlike perhaps the tests' temporary folders. `configuration` is added to the
    server's defaults, with `{folder}` replaced by its folder.
    """

    def __init__(self, bin_folder: str, configuration: str = _CONFIGURATION) -> None:
        self._bin = Path(bin_folder)
        self._configuration = configuration
        self.folder = Path(tempfile.mkdtemp(prefix="lacuna-postgresql-", dir="/tmp"))
        self._user = "postgres" if os.getuid() == 0 else None
        self._keeper: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            shutil.chown(self.folder, self._user, self._user)

    def start(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD)
        if self._user is not None:
            shutil.chown(password, self._user)
        self.run(
            "initdb",
            "-D",
            "data",
            "-U",
            "lacuna",
            "--pwfile",
            "password",
            "--no-sync",
            "-A",
            "scram-sha-256",
        )
        data = self.folder / "data"
        with open(data / "postgresql.conf", "a") as file:
            file.write(self._configuration.format(folder=self.folder))
        (data / "pg_hba.conf").write_text(_ACCESS)
        self._keeper = subprocess.Popen(
            ["sh", "-c", _KEEPER, *self.command("pg_ctl", str(SECONDS))],
            cwd=self.folder,
            user=self._user,
            group=self._user,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for others
        )
        self._control("start", "-l", "log")

    @property
    def pid(self) -> int:
        """The id of the server's main process."""
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def restart(self) -> None:
        """Kill every process of the server simultaneously, and restart it with its data."""
        self._control("restart", "-m", "immediate", "-l", "log")

    def stop(self) -> None:
        if self._keeper is None:
            shutil.rmtree(self.folder)
            return
        self._keeper.communicate(timeout=2 * SECONDS)
        assert self._keeper.returncode == 0, f"the server of {self.folder} did not stop"

    def url(
        self, database: str, *, user: str = "lacuna", password: str = PASSWORD, folder: str = ""
    ) -> str:
        host = quote(folder or str(self.folder), safe="")
        return f"postgresql://{user}:{password}@/{database}?host={host}"

    @property
    def socket_path(self) -> str:
        """The server's Unix socket."""
        return str(self.folder / _SOCKET)

    def tcp_url(self, database: str, address: str) -> str:
        """Return the URL of a database for a client that reaches the server at a HOST:PORT."""
        return f"postgresql://lacuna:{PASSWORD}@{address}/{database}"

    def make_database(self, name: str) -> str:
        """Create an empty database and return its URL."""
        self.run("createdb", name)
        return self.url(name)

    def clear_database(self, name: str) -> None:
        """Restore a database's initial state. Creating another one takes ten times as long."""
        self.run("psql", "-Xqd", "postgres", "-c", f"ALTER DATABASE {name} RESET ALL")
        self.run("psql", "-Xqd", name, "-v", "ON_ERROR_STOP=1", "-c", _CLEAR)

    def command(self, program: str, *arguments: str) -> list[str]:
        return [str(self._bin / program), *arguments]

    def run(self, program: str, *arguments: str) -> None:
        # Output goes to a file, since the server that pg_ctl starts keeps a pipe open.
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(
                self.command(program, *arguments),
                cwd=self.folder,
                user=self._user,
                group=self._user,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                timeout=SECONDS,
                check=False,
            )
            said.seek(0)
            assert done.returncode == 0, f"{program} ended with {done.returncode}:\n{said.read()}"

    def environment(self) -> dict[str, str]:
        """The environment variables with which the server's own programs find it."""
        ours = {"PGHOST": str(self.folder), "PGUSER": "lacuna", "PGPASSWORD": PASSWORD}
        return {**os.environ, **ours, "LC_ALL": "C.UTF-8"}

    def _control(self, action: str, *arguments: str) -> None:
        self.run("pg_ctl", action, "-D", "data", "-w", "-t", str(SECONDS), *arguments)


class Line:
    """A route to the server that can lose or hold back its answers."""

    def __init__(self, server: PostgresqlServer) -> None:
        self._server = server
        self._folder = tempfile.TemporaryDirectory(prefix="lacuna-line-")
        self.folder = self._folder.name
        self._listener: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._is_silent = False
        self._lost = asyncio.Event()

    async def __aenter__(self) -> "Line":
        path = os.path.join(self.folder, _SOCKET)
        self._listener = await asyncio.start_unix_server(self._carry, path)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        self.cut()
        self._folder.cleanup()

    def silence(self) -> None:
        """Drop all answers from now on."""
        self._is_silent = True

    async def answered(self) -> None:
        """Wait until the server has sent an answer that no client has received."""
        await self._lost.wait()

    def cut(self) -> None:
        for end in self._ends:
            end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = self._server.socket_path
        server_reader, server_writer = await asyncio.open_unix_connection(path)
        self._ends |= {writer, server_writer}
        await asyncio.gather(
            self._pass_on(reader, server_writer, is_answer=False),
            self._pass_on(server_reader, writer, is_answer=True),
        )

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                if is_answer and self._is_silent:
                    self._lost.set()
                else:
                    writer.write(data)
        except OSError:
            return
        finally:
            writer.close()


async def wait_until_blocked(
    connection: "asyncpg.Connection[asyncpg.Record]", count: int = 1
) -> list[int]:
    """Wait until `count` backends of this database wait for a lock. Return their process ids."""
    while True:
        rows = await connection.fetch(
            "SELECT pid FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        if len(rows) >= count:
            return [row["pid"] for row in rows]
