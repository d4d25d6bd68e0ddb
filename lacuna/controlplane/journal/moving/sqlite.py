"""A journal in SQLite that begins with a snapshot."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Self

from lacuna.controlplane.journal.connections import (
    FORMAT_VERSION,
    connect_read_only,
    errors_of,
    transaction,
    writing,
)
from lacuna.controlplane.journal.formats import UNFINISHED
from lacuna.controlplane.journal.journal import (
    HotSegment,
    JournalCorrupt,
    JournalForeign,
    JournalUnfinished,
)
from lacuna.controlplane.journal.moving.beginning import Beginning, occupied
from lacuna.controlplane.journal.snapshots import SnapshotDatabase, load_newest, snapshots_path
from lacuna.controlplane.journal.sqlite import take_lock
from lacuna.controlplane.journal.sqlite_hot import insert_hot
from lacuna.controlplane.journal.tables import create, last_position, read_meta
from lacuna.controlplane.journal.witness import witness_path


class SqliteTarget:
    """The file at `path`, whose directory exists."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._lock: int | None = None

    async def __aenter__(self) -> Self:
        self._lock = take_lock(self.name)
        try:
            with errors_of(self.name):
                self._check_free()
        except BaseException:
            os.close(self._lock)
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._lock is not None
        os.close(self._lock)

    def _check_free(self) -> None:
        """Raise JournalForeign unless the place is empty or contains an unfinished copy."""
        if not os.path.exists(self.name):
            for path in (snapshots_path(self.name), witness_path(self.name)):
                if os.path.exists(path):
                    raise JournalForeign(
                        f"{path} belongs to a different journal: move it elsewhere, or specify a different path"
                    )
            return
        try:
            with closing(connect_read_only(self.name)) as connection:
                stored = read_meta(connection)
        except JournalUnfinished:
            return
        if stored is not None:
            remedy = "specify a different path, or move the file and those beside it elsewhere"
            raise JournalForeign(occupied(self.name, stored["cluster_id"], remedy))

    async def write(self, beginning: Beginning) -> None:
        await asyncio.to_thread(self._write, beginning)

    def _write(self, beginning: Beginning) -> None:
        with errors_of(self.name):
            # The journal itself is written last. Without it, the other files count as an unfinished copy.
            for path in (
                witness_path(self.name),
                *_files(snapshots_path(self.name)),
                *_files(self.name),
            ):
                with suppress(FileNotFoundError):
                    os.unlink(path)
            with writing(self.name) as connection:
                position = beginning.snapshot.position
                create(connection, beginning.cluster_id, beginning.epoch, position, UNFINISHED)
            database = SnapshotDatabase(snapshots_path(self.name), beginning.cluster_id)
            with closing(database) as snapshots:
                snapshots.store(beginning.snapshot)

    async def add_hot(self, hot: Sequence[HotSegment]) -> None:
        await asyncio.to_thread(self._add_hot, hot)

    def _add_hot(self, hot: Sequence[HotSegment]) -> None:
        with errors_of(self.name), writing(self.name) as connection, transaction(connection):
            insert_hot(connection, hot)

    async def read_back(self) -> Beginning:
        return await asyncio.to_thread(self._read_back)

    def _read_back(self) -> Beginning:
        with errors_of(self.name):
            with closing(connect_read_only(self.name)) as connection:
                stored = dict(connection.execute("SELECT key, value FROM meta").fetchall())
                position = last_position(connection)
            with closing(connect_read_only(snapshots_path(self.name))) as connection:
                snapshot = load_newest(connection, stored["cluster_id"])
        if snapshot is None or snapshot.position != position:
            raise JournalCorrupt(f"{self.name} does not contain what was written: copy it again")
        return Beginning(stored["cluster_id"], stored["fencing_token"], snapshot)

    async def finish(self) -> None:
        await asyncio.to_thread(self._finish)

    def _finish(self) -> None:
        with errors_of(self.name), writing(self.name) as connection:
            connection.execute(
                "UPDATE meta SET value=? WHERE key='format_version'", (FORMAT_VERSION,)
            )


def _files(path: str) -> list[str]:
    return [path + suffix for suffix in ("-wal", "-shm", "")]
