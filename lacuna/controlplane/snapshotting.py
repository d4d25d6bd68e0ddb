"""Takes a snapshot of the state once the journal has grown enough since the last one."""

import asyncio
import logging

from lacuna.controlplane.journal.journal import JournalError, Snapshotter

_log = logging.getLogger("lacuna.controlplane")


class Snapshots:
    """Takes one runtime's snapshots, one at a time. One is due after a given number of records, bytes or appends."""

    def __init__(
        self,
        snapshotter: Snapshotter | None,
        most_records: int,
        most_bytes: int,
        most_appends: int | None,
    ) -> None:
        self._snapshotter = snapshotter
        self._most_records = most_records
        self._most_bytes = most_bytes
        self._most_appends = most_appends
        #: The records, bytes and appends since the last snapshot.
        self.records = 0
        self._bytes = 0
        self._appends = 0
        self._making: asyncio.Task[None] | None = None

    def count(self, records: int, size: int, appends: int) -> None:
        """Count what has been written or replayed since the last snapshot."""
        self.records += records
        self._bytes += size
        self._appends += appends

    def make_if_due(self, durable: int) -> None:
        """Begin a snapshot of the journal up to its last durable position, if one is due and none is in progress."""
        if self._snapshotter is None or self._making is not None:
            return
        most_appends = self._most_appends
        if (
            self.records >= self._most_records
            or self._bytes >= self._most_bytes
            or (most_appends is not None and self._appends >= most_appends)
        ):
            self.records = self._bytes = self._appends = 0
            self._making = asyncio.create_task(self._make(self._snapshotter, durable))

    async def cancel(self) -> None:
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)

    async def close(self) -> None:
        if self._snapshotter is not None:
            await self._snapshotter.close()

    async def _make(self, snapshotter: Snapshotter, durable: int) -> None:
        """Take a snapshot. A failure is only logged, and the next attempt is made when the next snapshot is due.

        A failure merely makes the next replay longer, and an immediate retry would usually fail for the same reason.
        """
        try:
            await snapshotter.make(durable)
        except JournalError as error:
            _log.warning(
                "no snapshot could be taken at position %d; the next attempt follows after %d "
                "records or %d bytes: %s",
                durable,
                self._most_records,
                self._most_bytes,
                error,
            )
        finally:
            self._making = None
