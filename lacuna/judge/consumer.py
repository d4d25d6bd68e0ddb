"""Reads records (filtered as in Kafka's consumers), log ends, committed offsets, and the records of share groups."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from lacuna.judge import client as kafka
from lacuna.judge.client import Api, Batch, Client, Lost, read_batches
from lacuna.judge.history import Read
from lacuna.judge.producer import name_and_index
from lacuna.wire.messages import fetch as wire
from lacuna.wire.messages.offsets import (
    OFFSET_COMMIT_REQUEST,
    OFFSET_COMMIT_RESPONSE,
    OFFSET_FETCH_REQUEST,
    OFFSET_FETCH_RESPONSE,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from lacuna.wire.messages.share_groups import (
    SHARE_GROUP_HEARTBEAT_REQUEST,
    SHARE_GROUP_HEARTBEAT_RESPONSE,
    ShareGroupHeartbeatRequest,
)
from lacuna.wire.messages.share_records import (
    SHARE_ACKNOWLEDGE_REQUEST,
    SHARE_ACKNOWLEDGE_RESPONSE,
    SHARE_FETCH_REQUEST,
    SHARE_FETCH_RESPONSE,
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
)
from lacuna.wire.messages.share_records import FetchPartition as SharePartition
from lacuna.wire.messages.share_records import FetchTopic as ShareTopic

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
LATEST: Final = -1
EARLIEST: Final = -2

_FETCH: Final = Api(wire.FETCH_REQUEST, wire.FETCH_RESPONSE, 12)
#: From this version on, a leader does not answer while its high watermark may be behind its predecessor's (KIP-207).
_LIST_OFFSETS: Final = Api(wire.LIST_OFFSETS_REQUEST, wire.LIST_OFFSETS_RESPONSE, 6)
_OFFSET_FETCH: Final = Api(OFFSET_FETCH_REQUEST, OFFSET_FETCH_RESPONSE, 8)
_OFFSET_COMMIT: Final = Api(OFFSET_COMMIT_REQUEST, OFFSET_COMMIT_RESPONSE, 9)
_HEARTBEAT: Final = Api(SHARE_GROUP_HEARTBEAT_REQUEST, SHARE_GROUP_HEARTBEAT_RESPONSE, 1)
_SHARE_FETCH: Final = Api(SHARE_FETCH_REQUEST, SHARE_FETCH_RESPONSE, 1)
_ACKNOWLEDGE: Final = Api(SHARE_ACKNOWLEDGE_REQUEST, SHARE_ACKNOWLEDGE_RESPONSE, 1)
_MOST_ANSWER_BYTES: Final = 1 << 20

_LEAVING: Final = -1
GAP, ACCEPTED, RELEASED = 0, 1, 2


def visible(
    batches: Sequence[Batch], aborted: Sequence[wire.AbortedTransaction]
) -> list[tuple[int, str]]:
    """Return the records in batches, without those of aborted transactions, as Kafka's consumers do."""
    waiting = deque(sorted(aborted, key=lambda each: each.first_offset))
    producers: set[int] = set()
    records: list[tuple[int, str]] = []
    for batch in batches:
        while waiting and waiting[0].first_offset < batch.next_offset:
            producers.add(waiting.popleft().producer_id)
        if batch.control == 0:
            producers.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in producers):
            records += batch.records
    return records


async def fetch(
    client: Client, place: str, offset: int, isolation: int, *, most_bytes: int, wait_ms: int
) -> Read:
    """Read records from an offset. Raises Refused and Lost."""
    name, index = name_and_index(place)
    request = wire.FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=most_bytes,
        isolation_level=isolation,
        topics=[
            wire.FetchTopic(
                name,
                partitions=[wire.FetchPartition(index, -1, offset, partition_max_bytes=most_bytes)],
            )
        ],
    )
    answer = await client.done(await client.leader(place), _FETCH, request)
    ((each,),) = [topic.partitions for topic in answer.responses]
    batches = list(read_batches(b"".join(each.records or ())))
    aborted = (each.aborted_transactions or ()) if isolation == READ_COMMITTED else ()
    records = tuple(row for row in visible(batches, aborted) if row[0] >= offset)
    end = max([offset, *(batch.next_offset for batch in batches)])
    return Read(place, offset, end, records)


async def bound(client: Client, place: str, isolation: int, timestamp: int = LATEST) -> int:
    """Return the offset that ListOffsets reports for a timestamp or an end of the log. Raises Refused and Lost."""
    name, index = name_and_index(place)
    request = wire.ListOffsetsRequest(
        -1,
        isolation,
        [wire.ListOffsetsTopic(name, [wire.ListOffsetsPartition(index, timestamp=timestamp)])],
    )
    answer = await client.done(await client.leader(place), _LIST_OFFSETS, request)
    ((each,),) = [topic.partitions for topic in answer.topics]
    return each.offset


async def found_offset(client: Client, group: str, place: str) -> int:
    """Return a group's committed offset, or 0 if there is none. Raises Refused if an open transaction may still change
    it.
    """
    name, index = name_and_index(place)
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group, topics=[OffsetFetchRequestTopics(name, partition_indexes=[index])]
            )
        ],
        require_stable=True,
    )
    answer = await client.done(await client.coordinator(kafka.GROUP, group), _OFFSET_FETCH, request)
    (found,) = answer.groups
    ((each,),) = [topic.partitions for topic in found.topics]
    return max(0, each.committed_offset)


async def commit_offset(client: Client, group: str, place: str, offset: int) -> None:
    name, index = name_and_index(place)
    request = OffsetCommitRequest(
        group,
        topics=[
            OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(index, offset)])
        ],
    )
    await client.done(await client.coordinator(kafka.GROUP, group), _OFFSET_COMMIT, request)


@dataclass(frozen=True, slots=True)
class Acquired:
    """A record that a member acquired, with its delivery count. `value` is None for a gap."""

    place: str
    offset: int
    value: str | None
    count: int


@dataclass(slots=True)
class Member:
    """A member of a share group, with a share session at each leader."""

    client: Client
    group: str
    topic: str
    member_id: str
    epoch: int = 0
    lock_seconds: float = 0.0
    places: Sequence[str] = ()
    _sessions: dict[int, int] = field(default_factory=dict)
    _next_beat: float = 0.0

    async def beat(self) -> None:
        """Send a heartbeat, to join the group or to stay in it. Raises Refused and Lost."""
        now = asyncio.get_running_loop().time()
        if now < self._next_beat:
            return
        topics = [self.topic] if self.epoch == 0 else None
        request = ShareGroupHeartbeatRequest(
            self.group, self.member_id, self.epoch, subscribed_topic_names=topics
        )
        node = await self.client.coordinator(kafka.GROUP, self.group)
        answer = await self.client.done(node, _HEARTBEAT, request)
        self.epoch = answer.member_epoch
        self._next_beat = now + min(answer.heartbeat_interval_ms / 1000, 0.5)
        if answer.assignment is not None:
            self.places = [
                f"{self.topic}/{index}"
                for each in answer.assignment.topic_partitions
                for index in each.partitions
            ]

    async def leave(self) -> None:
        self.epoch, self._next_beat = _LEAVING, 0.0
        await self.beat()

    def _next_epoch(self, node: int) -> int:
        epoch = self._sessions.get(node, 0)
        self._sessions[node] = epoch + 1
        return epoch

    async def acquire(self, most: int, wait_ms: int) -> list[Acquired]:
        """Acquire records from the leaders of the assigned places, one after another. Raises Refused and Lost."""
        by_leader: dict[int, list[str]] = {}
        for place in self.places:
            by_leader.setdefault(await self.client.leader(place), []).append(place)
        acquired: list[Acquired] = []
        for node, places in by_leader.items():
            acquired += await self._acquire(node, places, most, wait_ms)
        return acquired

    async def _acquire(
        self, node: int, places: Sequence[str], most: int, wait_ms: int
    ) -> list[Acquired]:
        topic_id = self.client.topic_ids[self.topic]
        partitions = [SharePartition(name_and_index(place)[1]) for place in places]
        request = ShareFetchRequest(
            self.group,
            self.member_id,
            self._next_epoch(node),
            wait_ms,
            min_bytes=1,
            max_bytes=_MOST_ANSWER_BYTES,
            max_records=most,
            batch_size=most,
            topics=[ShareTopic(topic_id, partitions)],
        )
        answer = await self.client.done(node, _SHARE_FETCH, request)
        self.lock_seconds = answer.acquisition_lock_timeout_ms / 1000
        acquired = []
        for topic in answer.responses:
            for each in topic.partitions:
                batches = read_batches(b"".join(each.records))
                values = dict(row for batch in batches for row in batch.records)
                place = f"{self.topic}/{each.partition_index}"
                acquired += [
                    Acquired(place, offset, values.get(offset), run.delivery_count)
                    for run in each.acquired_records
                    for offset in range(run.first_offset, run.last_offset + 1)
                ]
        return acquired

    async def settle(self, place: str, how: Sequence[tuple[int, int]]) -> None:
        """Acknowledge offsets of a place, each with its acknowledgement type. Raises Refused and Lost."""
        node = await self.client.leader(place)
        if node not in self._sessions:
            raise Lost("the leader has moved, so its locks are gone", is_unsent=True)
        name, index = name_and_index(place)
        batches = [AcknowledgementBatch(offset, offset, [kind]) for offset, kind in how]
        topic = AcknowledgeTopic(
            self.client.topic_ids[name], [AcknowledgePartition(index, batches)]
        )
        request = ShareAcknowledgeRequest(
            self.group, self.member_id, self._next_epoch(node), topics=[topic]
        )
        await self.client.done(node, _ACKNOWLEDGE, request)
