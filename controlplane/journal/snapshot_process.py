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
        """As Snapshotter says. Raises JournalError with what the process said, or why there was none."""
        try:
            self._process = await self._start(position)
        except OSError as error:
            raise JournalError(
                f"{sys.executable} could not be started for it: {error}. Free memory, or allow more processes"
                " (ulimit -u) or open files (ulimit -n); where Python was replaced, start the control plane again"
            ) from error
        _, said = await self._process.communicate()
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
            "controlplane.journal.snapshotter",
            self._journal.path,
            self._machine,
            str(position),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    async def close(self) -> None:
        """As Snapshotter says."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
