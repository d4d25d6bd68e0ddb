"""Copies partitions: fetches records from their leaders, and appends them to the copy in order.

    a follower for each broker -> Outbox -> PUTs, several at a time -> commits, one after another

Everything below the last stable offset is decided, and a fetch returns nothing above it. The outbox limits how many
bytes may be fetched but not yet committed. If the target fails, the outbox is discarded, and copying restarts at the
ends of the partitions (see `mirror`). An error in one partition stops only that partition.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from lacuna.base.errors import UserError
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.log_pb2 import ImportSegment
from lacuna.importing.batches import Arrived, Copy, UncopyableError, arrive
from lacuna.importing.cluster import MOVING, READ_COMMITTED, Broker, Kafka, Place, name_of, show
from lacuna.importing.target import Stretch, Target, TargetFailed
from lacuna.logstore.objects import Part
from lacuna.wire.messages import fetch as wire

#: How long a fetch waits, and how many bytes it may return in total and for each partition.
_WAIT_MS: Final = 500
_FETCH_BYTES: Final = 16 << 20
_PARTITION_BYTES: Final = 4 << 20
#: The last version of the request with topic names; the next one has topic ids.
_BY_NAME_VERSION: Final = 12
_BY_ID_VERSION: Final = 13
#: The approximate size of a segment, how long a smaller one waits to grow, and how many are written at a time.
_SEGMENT_BYTES: Final = 8 << 20
_LINGER_SECONDS: Final = 0.1
_PUTS: Final = 3
#: The maximum number of slices in a segment, which the control plane commits in one step.
_MOST_SLICES: Final = 1_000
#: The maximum number of bytes fetched but not committed. Each follower may exceed it by one fetch.
_OUTBOX_BYTES: Final = 32 << 20
_PAUSE_SECONDS: Final = 0.5


@dataclass(slots=True)
class Track:
    """A partition that is being copied.

    `position` is the next offset to fetch. `queued` is the exclusive end of the fetched records, and `copied` that of
    the committed records. `stable_offset`, `high_watermark` and `log_start_offset` belong to the source; the first two
    are -1 before the first fetch. Records below `dropped_to` have been deleted from the copy, as they were at the
    source.
    """

    place: Place
    source_id: bytes
    source: str
    key: PartitionKey
    leader: int
    position: int
    queued: int
    copied: int
    next_epoch: int
    stable_offset: int = -1
    high_watermark: int = -1
    log_start_offset: int = 0
    dropped_to: int = 0
    stopped: str = ""

    @property
    def is_current(self) -> bool:
        """Whether everything that the source has decided has been copied."""
        return 0 <= self.stable_offset <= self.copied

    def __str__(self) -> str:
        return show(self.place)


@dataclass(slots=True)
class _Item:
    track: Track
    first_offset: int
    arrived: Arrived
    next_epoch: int
    size: int


class Outbox:
    """Batches that have been fetched but not committed."""

    def __init__(self) -> None:
        self._items: deque[_Item] = deque()
        self._waiting_bytes = 0
        self.held_bytes = 0
        self._is_filled = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def room(self) -> None:
        await self._has_room.wait()

    def add(self, track: Track, arrived: Arrived) -> None:
        """Add batches that begin where the partition's queued batches end."""
        size = sum(len(copy.data) for copy in arrived.copies)
        if arrived.leader_epoch >= 0:
            track.next_epoch = arrived.leader_epoch + 1
        self._items.append(_Item(track, track.queued, arrived, track.next_epoch, size))
        track.queued = track.position = arrived.end_offset
        self._waiting_bytes += size
        self.held_bytes += size
        if self.held_bytes >= _OUTBOX_BYTES:
            self._has_room.clear()
        self._is_filled.set()

    async def take(self) -> tuple[list[Track], list[Stretch], int]:
        """Wait for batches to write. Return their tracks, the batches by partition, and their total size in bytes."""
        await self._is_filled.wait()
        if self._waiting_bytes < _SEGMENT_BYTES:
            await asyncio.sleep(_LINGER_SECONDS)
        taken: dict[Place, list[_Item]] = {}
        size = 0
        while self._items and size < _SEGMENT_BYTES and len(taken) < _MOST_SLICES:
            item = self._items.popleft()
            taken.setdefault(item.track.place, []).append(item)
            size += item.size
        self._waiting_bytes -= size
        if not self._items:
            self._is_filled.clear()
        return [items[0].track for items in taken.values()], _stretches(taken.values()), size

    def release(self, size: int) -> None:
        self.held_bytes -= size
        if self.held_bytes < _OUTBOX_BYTES:
            self._has_room.set()


def _stretches(taken: Iterable[Sequence[_Item]]) -> list[Stretch]:
    stretches = []
    for items in taken:
        first, last = items[0], items[-1]
        copies: list[Copy] = [copy for item in items for copy in item.arrived.copies]
        stretches.append(
            Stretch(
                first.track.key,
                first.track.source,
                first.first_offset,
                last.arrived.end_offset,
                last.next_epoch,
                copies,
            )
        )
    return stretches


class Budget:
    """Limits the average transfer rate to `bytes_per_second` (None: no limit)."""

    def __init__(self, bytes_per_second: int | None) -> None:
        self._pace = bytes_per_second
        self._free_at = 0.0

    async def spend(self, size: int) -> None:
        """Wait as long as the limit requires after receiving `size` bytes."""
        if self._pace is None:
            return
        now = asyncio.get_running_loop().time()
        self._free_at = max(now, self._free_at) + size / self._pace
        await asyncio.sleep(self._free_at - now)


@dataclass(slots=True)
class Counts:
    bytes_copied: int = 0
    segments: int = 0
    stopped: list[str] = field(default_factory=list)


class Following:
    """Copies the added partitions until it is cancelled or something fails.

    `progressed` is set after each commit and whenever a partition stops. `moved` is set when a broker turns out not to
    know a partition, or not to be its leader.
    """

    def __init__(
        self,
        source: Kafka,
        target: Target,
        budget: Budget,
        counts: Counts,
        progressed: asyncio.Event,
        *,
        keeps_aborted: bool,
    ) -> None:
        self._source = source
        self._target = target
        self._tracks: dict[Place, Track] = {}
        self._by_id: dict[tuple[bytes, int], Track] = {}
        self._budget = budget
        self._counts = counts
        self._outbox = Outbox()
        self._puts: asyncio.Queue[tuple[list[Track], asyncio.Task[ImportSegment], int]] = (
            asyncio.Queue(_PUTS)
        )
        self._progressed = progressed
        self._keeps_aborted = keeps_aborted
        self.moved = asyncio.Event()

    async def run(self) -> None:
        """Copy until cancelled. Raises UserError and the target's errors."""
        async with asyncio.TaskGroup() as group:
            nodes: set[int] = set()
            group.create_task(self._write(group))
            group.create_task(self._commit())
            while True:
                for node in {each.leader for each in self._tracks.values()} - nodes - {-1}:
                    nodes.add(node)
                    group.create_task(self._follow(node))
                await asyncio.sleep(_PAUSE_SECONDS)

    def add(self, track: Track) -> None:
        """Copy a partition from its position. Records that the source has already deleted become a hole."""
        self._tracks[track.place] = track
        self._by_id[track.source_id, track.place[1]] = track
        if not track.stopped and track.position > track.queued:
            self._outbox.add(track, Arrived((), track.position, -1))

    def stop(self, track: Track, reason: str, *, is_told: bool = False) -> None:
        """Stop copying a partition. `is_told` means that the user already knows why."""
        if not track.stopped:
            track.stopped = f"{track} {reason}"
            if not is_told:
                self._counts.stopped.append(track.stopped)
            self._progressed.set()

    async def _follow(self, node: int) -> None:
        broker = await self._source.connect(node)
        try:
            turn = 0
            while True:
                tracks = [
                    each
                    for each in self._tracks.values()
                    if each.leader == node and not each.stopped
                ]
                if not tracks:
                    await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                await self._outbox.room()
                # Only the first partition may return a batch of any size, so the partitions take turns being first.
                turn = (turn + 1) % len(tracks)
                size = await self._fetch(broker, [*tracks[turn:], *tracks[:turn]])
                await self._budget.spend(size)
        finally:
            await broker.close()

    async def _fetch(self, broker: Broker, tracks: Sequence[Track]) -> int:
        """Fetch the partitions once, and return the number of bytes received."""
        has_ids = all(any(each.source_id) for each in tracks)
        wanted = _BY_ID_VERSION if has_ids else _BY_NAME_VERSION
        answer = await broker.ask(wire.FETCH_REQUEST, wire.FETCH_RESPONSE, wanted, _request(tracks))
        if answer.error_code:
            raise TargetFailed(f"the source rejected a fetch request: {name_of(answer.error_code)}")
        size = 0
        is_moving = False
        for track, data in self._answers(answer):
            if data.error_code:
                is_moving = self._failed(track, data) or is_moving
            else:
                size += self._take(track, data)
        if is_moving:
            await asyncio.sleep(_PAUSE_SECONDS)
        return size

    def _answers(self, answer: wire.FetchResponse) -> Iterator[tuple[Track, wire.PartitionData]]:
        for topic in answer.responses:
            for data in topic.partitions:
                if topic.topic:
                    track = self._tracks.get((topic.topic, data.partition_index))
                else:
                    track = self._by_id.get((topic.topic_id, data.partition_index))
                if track is not None and not track.stopped:
                    yield track, data

    def _failed(self, track: Track, data: wire.PartitionData) -> bool:
        """Handle a partition's error, and return whether to pause before the next fetch."""
        code = data.error_code
        if code in MOVING or code in _UNKNOWN:
            self.moved.set()
            return True
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.stop(track, OUT_OF_RANGE.format(track.position))
        else:
            self.stop(track, f"cannot be read from the source: {name_of(code)}")
        return False

    def _take(self, track: Track, data: wire.PartitionData) -> int:
        if data.diverging_epoch.end_offset >= 0:
            self.stop(track, TRUNCATED.format(track.position, data.diverging_epoch.end_offset))
            return 0
        track.high_watermark = data.high_watermark
        track.stable_offset = data.last_stable_offset
        track.log_start_offset = data.log_start_offset
        records = joined(data.records or ())
        if not len(records):
            self._progressed.set()
            return 0
        try:
            arrived = arrive(
                records,
                aborted_in(data),
                track.queued,
                keeps_aborted=self._keeps_aborted,
            )
        except UncopyableError as error:
            self.stop(track, f"cannot be copied from offset {error.offset} onward: {error}")
            return len(records)
        if arrived.end_offset > track.queued:
            self._outbox.add(track, arrived)
        return len(records)

    async def _write(self, group: asyncio.TaskGroup) -> None:
        while True:
            tracks, stretches, size = await self._outbox.take()
            put = group.create_task(self._target.put(stretches))
            await self._puts.put((tracks, put, size))

    async def _commit(self) -> None:
        while True:
            tracks, put, size = await self._puts.get()
            command = await put
            codes = await self._target.commit(command)
            for track, each, code in zip(tracks, command.slices, codes, strict=True):
                self._settle(track, each.end_offset, code)
            self._outbox.release(size)
            self._counts.bytes_copied += size
            self._counts.segments += 1
            self._progressed.set()

    def _settle(self, track: Track, end_offset: int, code: int) -> None:
        if code == ErrorCode.NONE:
            track.copied = end_offset
        elif code == ErrorCode.POLICY_VIOLATION:
            self.stop(track, "was promoted, so it is no longer copied")
        elif code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self.stop(track, "was deleted here: to copy it again, restart the import")
        elif not track.stopped:
            raise OutranError(
                f"{track} does not end where this importer left it: another importer is copying it too, "
                "or this importer was disconnected"
            )


#: Errors for topics that a broker does not know yet. The copying of deleted topics stops when topics are aligned.
_UNKNOWN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class OutranError(UserError):
    """A partition no longer ends where this importer left it, so copying must resume at the current end."""


RECREATED: Final = (
    "was deleted and recreated at the source: the copy is of the old topic. Promote the copy, or delete it "
    "here and restart the import"
)
DELETED: Final = "was deleted at the source: promote its copy, or delete it here"
OUT_OF_RANGE: Final = (
    "cannot continue at offset {}, which the source no longer has: the source has deleted records "
    "before they were copied, or has lost some. Run `lacuna import run` again to see which of these happened"
)
TRUNCATED: Final = (
    "cannot continue at offset {}: the source has lost the records from offset {} onward, as happens after an "
    "unclean leader election, and may now have different ones there. Delete the topic here, and restart its import"
)


def _request(tracks: Sequence[Track]) -> wire.FetchRequest:
    topics: dict[tuple[str, bytes], list[wire.FetchPartition]] = {}
    for each in tracks:
        wanted = wire.FetchPartition(
            each.place[1],
            fetch_offset=each.position,
            last_fetched_epoch=each.next_epoch - 1,
            partition_max_bytes=_PARTITION_BYTES,
        )
        topics.setdefault((each.place[0], each.source_id), []).append(wanted)
    return wire.FetchRequest(
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=_FETCH_BYTES,
        isolation_level=READ_COMMITTED,
        topics=[
            wire.FetchTopic(name, topic_id, partitions)
            for (name, topic_id), partitions in topics.items()
        ],
    )


def joined(parts: Sequence[Part]) -> Part:
    """Return the records of a response, usually a single part, as one buffer."""
    return parts[0] if len(parts) == 1 else b"".join(parts)


def aborted_in(data: wire.PartitionData) -> list[tuple[int, int]]:
    return [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
