"""Hot flushes: decides which flushes become hot segments, and which of these are also copied to the bucket (adr/0071).

A hot segment has no object in the bucket until it is merged. If an operator restored an older copy of the journal,
nothing in the bucket would show that records are missing. The newest hot segment is therefore periodically put into the
bucket, in the background, under its own key. Its footer records how far the journal had advanced (adr/0020).
"""

import asyncio
import logging
from concurrent.futures import Executor
from contextlib import suppress
from math import inf
from typing import Final, Protocol

from lacuna.agent.produce.settings import ProduceSettings
from lacuna.controlplane.client import ClusterView
from lacuna.logstore.objects.store import ObjectExistsError, ObjectStore, ObjectStoreError
from lacuna.logstore.segments.hot import lease_of
from lacuna.logstore.segments.paths import SegmentId, segment_key

log = logging.getLogger("lacuna.agent.produce")

#: Up to this size, writing a file takes about as long as its sync.
SMALL_BYTES: Final = 128 * 1024
#: The maximum size that is worth writing twice, first to the journal and then to the bucket, to save the wait for a
#: PUT.
_HOT_BYTES: Final = 512 * 1024
#: How long all flushes are put into the store after the control plane has refused a hot segment.
_COLD_SECONDS: Final = 1.0
#: The longest wait between copies. Merging moves a segment out of the journal after a minute, and collection then
#: deletes the segment's copy.
_LONGEST_WAIT_SECONDS: Final = 60.0
#: How long the agent waits for the last copy when it stops.
_LAST_COPY_SECONDS: Final = 2.0


class HotLease(Protocol):
    """The part of an agent's lease (agent/lease.py) that hot flushes use."""

    cluster_id: str
    is_journal_shared: bool

    async def confirm(self, lease_id: int) -> None:
        """Make sure that objects put under this lease will be collected even if it has ended."""
        ...


class HotFlushes:
    """Decides which flushes become hot segments. Belongs to one event loop."""

    def __init__(self, store: ObjectStore, lease: HotLease, settings: ProduceSettings) -> None:
        self._sent = store.metrics.sent
        self._lease = lease
        self._settings = settings
        #: The loop time until which all flushes are put into the store, since the control plane accepts no hot segments
        #: for now.
        self._cold_until = -inf

    @property
    def most_bytes(self) -> int:
        """The size in bytes of the largest flush that becomes a hot segment, or 0 if none does."""
        if self._settings.hot_bytes >= 0:
            return self._settings.hot_bytes
        if self._is_folder:
            return SMALL_BYTES
        return _HOT_BYTES if self._lease.is_journal_shared else 0

    @property
    def is_journal_as_durable(self) -> bool:
        """Whether records in the journal are as durable as those in the store. Valid once the agent is registered."""
        # A folder is on a disk, as is a journal that is not shared.
        return self._is_folder or self._lease.is_journal_shared

    @property
    def _is_folder(self) -> bool:
        return self._sent.prices is None

    def takes(self, size: int) -> bool:
        """Whether a flush of this many bytes becomes a hot segment."""
        return size <= self.most_bytes and not self.is_cold

    @property
    def is_cold(self) -> bool:
        """Whether the control plane has recently refused a hot segment."""
        return asyncio.get_running_loop().time() < self._cold_until

    def refused(self) -> None:
        self._cold_until = asyncio.get_running_loop().time() + _COLD_SECONDS


class HotCopies:
    """Puts the newest hot segment into the bucket, a few seconds after the first hot segment that has no copy.

    The live agent processes share one rate, so their number has little effect on the cost of the copies. If a copy
    fails, a later segment is put instead, since any recent one serves the purpose.
    """

    def __init__(
        self,
        bucket: ObjectStore,
        cluster: ClusterView,
        lease: HotLease,
        executor: Executor,
        settings: ProduceSettings,
    ) -> None:
        """`bucket` is the store below the encryption layer, since hot segments are already encrypted."""
        self._bucket = bucket
        self._cluster = cluster
        self._lease = lease
        self._executor = executor
        self._seconds = settings.hot_copy_interval_ms / 1000
        #: The newest segment that was committed since the last copy, with its bytes.
        self._newest: tuple[SegmentId, bytes] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._putting: asyncio.Task[None] | None = None
        self._is_closed = False
        self.copied = 0
        self.failed = 0

    def committed(self, segment_id: SegmentId, data: bytes) -> None:
        """Note that a hot segment is durable in the journal, and schedule a copy."""
        self._newest = segment_id, data
        self._schedule()

    async def close(self) -> None:
        """Put the last copy, if the store responds soon enough."""
        self._is_closed = True
        self._begin()
        if self._putting is not None:
            await asyncio.wait((self._putting,), timeout=_LAST_COPY_SECONDS)
        self.abort()

    def abort(self) -> None:
        """Put no more copies."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._putting is not None:
            self._putting.cancel()

    def _schedule(self) -> None:
        if self._newest is None or self._timer or self._putting or self._is_closed:
            return
        pace = max(1, self._cluster.agent_processes) * self._seconds
        wait = max(self._seconds, min(pace, _LONGEST_WAIT_SECONDS))
        self._timer = asyncio.get_running_loop().call_later(wait, self._begin)

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._newest is not None and self._putting is None:
            newest, self._newest = self._newest, None
            self._putting = asyncio.create_task(self._put(*newest), name="hot copy")

    async def _put(self, segment_id: SegmentId, data: bytes) -> None:
        key = segment_key(self._lease.cluster_id, segment_id)
        loop = asyncio.get_running_loop()
        try:
            with suppress(ObjectExistsError):  # a job has put it
                await loop.run_in_executor(self._executor, self._bucket.put, key, [data])
            self.copied += 1
            # If the agent was suspended, the lease may have ended and been swept before this.
            await self._lease.confirm(lease_of(segment_id.lease_id))
        except ObjectStoreError as error:
            log.warning("hot segment %s could not be copied to the bucket: %s", key, error)
            self.failed += 1
        finally:
            self._putting = None
            self._schedule()
