"""An in-memory journal, durable for as long as the object exists."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from functools import partial

from lacuna.controlplane.journal.journal import (
    HotKey,
    HotSegment,
    JournalBatch,
    JournalCorrupt,
    JournalFenced,
    JournalForeign,
    JournalInUse,
    OpenedJournal,
    Seal,
    Snapshot,
)


class MemoryJournal:
    """Appends become durable in the next iteration of the event loop or, while `is_held`, on `release`."""

    def __init__(self, new_cluster_id: str = "memory") -> None:
        self._new_cluster_id = new_cluster_id
        self._cluster_id: str | None = None
        self._batches: list[JournalBatch] = []
        self._position = 0
        self._snapshot: Snapshot | None = None
        self._fencing_token = 0
        self._is_open = False
        self._under_way: tuple[asyncio.Future[int], list[bytes], Sequence[HotSegment]] | None = None
        self._hot: dict[HotKey, bytes] = {}
        #: The hot segments whose bytes are damaged.
        self.damaged: set[HotKey] = set()
        self.is_held = False
        #: How the next append ends, if it is not held.
        self._next: partial[None] | None = None

    async def open(self, cluster_id: str | None) -> OpenedJournal:
        """Take over the journal. The first opening sets the cluster id."""
        if self._is_open:
            raise JournalInUse("another control plane is running on this data: stop it first")
        if self._cluster_id is None:
            self._cluster_id = cluster_id or self._new_cluster_id
        elif cluster_id not in (None, self._cluster_id):
            raise JournalForeign(
                f"the journal belongs to cluster {self._cluster_id}, not {cluster_id}"
            )
        self._is_open = True
        self._fencing_token += 1
        return OpenedJournal(self._cluster_id, self._fencing_token, self._position)

    async def read(
        self, after_position: int, _: Seal | None = None, /
    ) -> AsyncIterator[JournalBatch]:
        """Return the batches after `after_position`."""
        for batch in self._batches:
            if batch.position > after_position:
                yield batch

    @property
    def hot(self) -> Mapping[HotKey, int]:
        """The durable hot segments."""
        return {key: len(data) for key, data in self._hot.items()}

    async def read_hot(self, keys: Sequence[HotKey]) -> Mapping[HotKey, bytes]:
        """Return the hot segments that exist."""
        if any(key in self.damaged for key in keys):
            raise JournalCorrupt("a hot segment is damaged")
        return {key: self._hot[key] for key in keys if key in self._hot}

    async def drop_hot(self, keys: Collection[HotKey]) -> None:
        for key in keys:
            self._hot.pop(key, None)

    def append(
        self, records: Sequence[bytes], fencing_token: int, hot: Sequence[HotSegment] = ()
    ) -> "asyncio.Future[int]":
        """Append. Becomes durable in the next iteration of the event loop, or when `release` is called."""
        loop = asyncio.get_running_loop()
        appended: asyncio.Future[int] = loop.create_future()
        if fencing_token != self._fencing_token:
            appended.set_exception(
                JournalFenced("another control plane has taken this journal over")
            )
            return appended
        self._under_way = (appended, list(records), hot)
        end, self._next = self._next, None
        if end is not None or not self.is_held:
            loop.call_soon(end or self._end)
        return appended

    def release(self, error: Exception | None = None) -> None:
        """Finish the append in progress, durably or with `error`. Without an error, the next append is not held."""
        if self._under_way is None and self.is_held:
            self._next = partial(self._end, error)
        self._end(error)

    def _end(self, error: Exception | None = None) -> None:
        if self._under_way is None:
            return
        appended, records, hot = self._under_way
        self._under_way = None
        if error is not None:
            appended.set_exception(error)
            return
        self._position += len(records)
        self._batches.append(JournalBatch(self._position, records))
        self._hot.update(hot)
        if not appended.done():
            appended.set_result(self._position)

    async def load_snapshot(self) -> Snapshot | None:
        return self._snapshot

    async def store_snapshot(self, snapshot: Snapshot) -> None:
        """Store a snapshot and drop the batches that it covers."""
        self._snapshot = snapshot
        self._batches = [batch for batch in self._batches if batch.position > snapshot.position]

    async def close(self) -> None:
        """Release the journal. An append that is being held is lost, as in a crash."""
        if self._under_way is not None and not self.is_held:
            self.release()
        self._under_way = None
        self._is_open = False
