"""Has snapshots made by a process of their own, so that no commit waits for one."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from typing import Final

from controlplane.journal.journal import JournalError
from controlplane.journal.sqlite import SqliteJournal

_SHOWN_BYTES: Final = 2000


class SnapshotProcess:
    """Snapshots of `journal`. `machine` names the machine as `module` or `module:attribute`."""

    def __init__(self, journal: SqliteJournal, machine: str) -> None:
        self._journal = journal
        self._machine = machine
        self._process: Process | None = None

    @property
    def pid(self) -> int | None:
        """Of the process under way."""
        return None if self._process is None else self._process.pid

    async def make(self, position: int) -> None:
        """As Snapshotter says. Raises JournalError with what the process said."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "controlplane.journal.snapshotter",
            self._journal.path,
            self._machine,
            str(position),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        _, said = await self._process.communicate()
        code = self._process.returncode
        self._process = None
        if code != 0:
            raise JournalError(
                f"the snapshot process ended with {code}: {said[-_SHOWN_BYTES:].decode().strip()}"
            )
        await self._journal.trim()

    async def close(self) -> None:
        """As Snapshotter says."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
