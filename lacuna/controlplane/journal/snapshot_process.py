"""Takes each snapshot in a separate process, so that no commit waits for one."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from typing import Final

from lacuna.controlplane.journal.journal import JournalError, SharedJournal
from lacuna.controlplane.journal.sqlite import SqliteJournal

_SHOWN_BYTES: Final = 2000


class SnapshotProcess:
    """Takes snapshots of `journal`, each in a separate process."""

    def __init__(self, journal: SqliteJournal | SharedJournal) -> None:
        self._journal = journal
        self._process: Process | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the snapshot process, or None if none is running."""
        return None if self._process is None else self._process.pid

    async def make(self, position: int) -> None:
        """Take a snapshot at `position` or later, then trim the journal.

        Raises JournalError with the process's output, or with the reason why it could not be started.
        """
        try:
            self._process = await self._start(position)
        except OSError as error:
            raise JournalError(
                f"{sys.executable} could not be started as the snapshot process: {error}. Free "
                "memory, or allow more processes (ulimit -u) or open files (ulimit -n); if "
                "Python was replaced, restart the control plane"
            ) from error
        # The place may contain a password, which every user of the machine could see in an argument.
        _, said = await self._process.communicate(self._journal.place.encode())
        code = self._process.returncode
        self._process = None
        if code != 0:
            shown = said[-_SHOWN_BYTES:].decode(errors="replace").strip()
            raise JournalError(f"the snapshot process ended with {code}: {shown}")
        await self._journal.trim()

    async def _start(self, position: int) -> Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "lacuna.controlplane.journal.snapshotter",
            str(position),
            stdin=PIPE,
            stdout=DEVNULL,
            stderr=PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
