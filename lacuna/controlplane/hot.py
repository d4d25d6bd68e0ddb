"""Handles hot segments for the runtime: passes them to the journal, reads them back, and drops them (adr/0071).

The state machine sees only their sizes. A segment is dropped soon after its extents have been replaced or deleted, or
if the state has no record of it, for example after a loss. Pins do not keep hot segments, because a job that runs for
hours would fill the journal. Instead, each job first copies the hot segments that it needs into the bucket, where pins
do apply (`lacuna.pipeline.hot`).
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Final

from lacuna.base.setting import MEBIBYTE
from lacuna.controlplane.journal.journal import (
    HotKey,
    HotSegment,
    Journal,
    JournalCorrupt,
    JournalError,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.parts import ANSWER_BYTES
from lacuna.controlplane.state.segments import SegmentTable
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import Failure, Reply
from lacuna.controlplane.v1.log_pb2 import CommitSegment, HotRead, ReadHot
from lacuna.controlplane.v1.log_pb2 import HotSegment as HotSegmentMessage

_log = logging.getLogger("lacuna.controlplane")

#: How long a segment remains readable after its extents have been replaced, for fetches planned before that.
GRACE_MS: Final = 10_000
#: How many segments one tick examines at most, and how many it drops.
_SEGMENTS_A_TICK: Final = 2_000
#: All segments are examined within this many ticks (5 s), unless there are too many. A tick examines at least
#: `_FEWEST_A_TICK`.
_TICKS_A_ROUND: Final = 20
_FEWEST_A_TICK: Final = 100
_CACHE_BYTES: Final = 64 * MEBIBYTE
_READS_AT_ONCE: Final = 4
#: The maximum number of waiting reads. Agents retry a rejected read.
_MOST_READS: Final = 1_000


class HotBytes:
    """The hot segments of one runtime. Use it only in the runtime's event loop."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        #: The segments that the next append will write.
        self._pending: list[HotSegment] = []
        self.pending_bytes = 0
        #: The segments written or read most recently, up to a limit.
        self._cache: OrderedDict[HotKey, bytes] = OrderedDict()
        self._cache_bytes = 0
        self._free_reads = asyncio.Semaphore(_READS_AT_ONCE)
        self._reads = 0
        self._kept_bytes = 0
        #: The segments that are not due to be dropped, least recently examined first.
        self._rounds: deque[HotKey] = deque()
        #: Segments to drop, once the journal is durable up to this position.
        self._due: list[HotKey] = []
        self._due_from = 0
        self._dropping: asyncio.Task[None] | None = None

    @property
    def kept_bytes(self) -> int:
        """The total bytes of hot segments in the journal, including those of the next append."""
        return self._kept_bytes + self.pending_bytes

    def opened(self) -> None:
        """Count the hot segments in the journal, once it is open."""
        self._kept_bytes = sum(self._journal.hot.values())
        self._rounds = deque(self._journal.hot)

    def add(self, commit: CommitSegment) -> None:
        """Include the bytes of a decided commit in the next append."""
        segment = commit.segment
        self._pending.append(HotSegment((segment.lease_id, segment.sequence), commit.hot))
        self.pending_bytes += len(commit.hot)

    def take(self) -> list[HotSegment]:
        """Return the segments to write with the append that is beginning."""
        taken, self._pending = self._pending, []
        self._kept_bytes += self.pending_bytes
        self.pending_bytes = 0
        for segment in taken:
            self._keep(segment.key, segment.data)
            self._rounds.append(segment.key)
        return taken

    async def read(self, command: ReadHot) -> Reply:
        """Return the first segments that the command names, as many as fit into one reply."""
        if self._reads >= _MOST_READS:
            message = f"{self._reads} reads of hot segments are already waiting: try again"
            return Reply(
                failure=Failure(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, message=message)
            )
        self._reads += 1
        try:
            async with self._free_reads:
                return Reply(hot_read=await self._read(_first(command, self._journal)))
        except JournalError as error:
            message = f"the journal's hot segments cannot be read: {error}"
            return Reply(
                failure=Failure(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, message=message)
            )
        finally:
            self._reads -= 1

    async def _read(self, keys: Sequence[HotKey]) -> HotRead:
        durable, cached = self._journal.hot, self._cache
        # Taken now, since the cache may drop them before the journal has returned the others.
        at_hand = {key: cached[key] for key in keys if key in cached and key in durable}
        missing = [key for key in keys if key not in at_hand and key in durable]
        found = await self._read_journal(missing)
        durable = self._journal.hot
        answer = HotRead()
        for key in keys:
            data = at_hand.get(key) if key in durable else None
            if data is None and (data := found.get(key)) is not None:
                self._keep(key, data)
            if data is not None:
                answer.segments.append(HotSegmentMessage(data=data))
            else:
                is_damaged = key in found
                answer.segments.append(
                    HotSegmentMessage(is_gone=not is_damaged, is_damaged=is_damaged)
                )
        return answer

    async def _read_journal(self, keys: Sequence[HotKey]) -> Mapping[HotKey, bytes | None]:
        """Return segments from the journal, with None for each damaged one, so that it does not affect the others."""
        if not keys:
            return {}
        try:
            return await self._journal.read_hot(keys)
        except JournalCorrupt as error:
            if len(keys) == 1:
                _log.error("%s", error)
                return {keys[0]: None}
        found: dict[HotKey, bytes | None] = {}
        for key in keys:
            found.update(await self._read_journal([key]))
        return found

    def drop_some(self, state: State, now_ms: int, *, decided: int, durable: int) -> None:
        """Examine some of the journal's segments, and drop those that are no longer needed.

        The state is at position `decided`, ahead of the journal. If a swap among the last records were lost, the
        extents that it replaced would exist again, so segments found to be no longer needed are dropped only once
        `durable` has reached that position.
        """
        if self._dropping is not None:
            return
        if not self._due:
            self._due, self._due_from = self._next_due(state.segments, now_ms), decided
        if self._due and self._due_from <= durable:
            due, self._due = self._due, []
            self._dropping = asyncio.create_task(self._drop(due))

    def _next_due(self, segments: SegmentTable, now_ms: int) -> list[HotKey]:
        due: list[HotKey] = []
        share = max(_FEWEST_A_TICK, len(self._rounds) // _TICKS_A_ROUND)
        for _ in range(min(len(self._rounds), share, _SEGMENTS_A_TICK)):
            key = self._rounds.popleft()
            kept = due if _is_due(key, segments, now_ms) else self._rounds
            kept.append(key)
        return due

    async def _drop(self, keys: Sequence[HotKey]) -> None:
        sizes = {key: self._journal.hot.get(key, 0) for key in keys}
        try:
            await self._journal.drop_hot(keys)
        except JournalError as error:
            # The next round tries again.
            _log.warning("%d hot segments could not be dropped: %s", len(keys), error)
        finally:
            self._dropping = None
        for key, size in sizes.items():
            if key in self._journal.hot:
                self._rounds.append(key)
            else:
                self._kept_bytes -= size
                self._cache_bytes -= len(self._cache.pop(key, b""))

    async def close(self) -> None:
        """Stop dropping segments. The next leader drops the rest."""
        if self._dropping is not None:
            self._dropping.cancel()
            await asyncio.gather(self._dropping, return_exceptions=True)

    def _keep(self, key: HotKey, data: bytes) -> None:
        self._cache_bytes += len(data) - len(self._cache.pop(key, b""))
        self._cache[key] = data
        while self._cache_bytes > _CACHE_BYTES:
            _, dropped = self._cache.popitem(last=False)
            self._cache_bytes -= len(dropped)


def _first(command: ReadHot, journal: Journal) -> list[HotKey]:
    """Return the first segments that a command names: as many as fit into one reply, but at least one."""
    keys: list[HotKey] = []
    size = 0
    for segment in command.segments:
        keys.append(key := (segment.lease_id, segment.sequence))
        size += journal.hot.get(key, 0)
        if size >= ANSWER_BYTES:
            break
    return keys


def _is_due(key: HotKey, segments: SegmentTable, now_ms: int) -> bool:
    replaced_ms = segments.replaced.get(key)
    if replaced_ms is None:
        return key not in segments
    return replaced_ms + GRACE_MS <= now_ms
