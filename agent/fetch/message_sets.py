"""Fetch as message sets of magic 0 and 1, for clients before 0.11 (S22, S24).

The batches come from the FetchService, which plans, waits and reads as for everybody, and are converted here.
Such a set can hold neither a control record nor the end of a hole, so a filler says nothing to these clients: a
partition that has only that is read on behind the hole, up to the first record or to the end of the log.
There the fetch waits; its client then gets nothing and asks for the same offset again.

Sizes: before v3 there is a limit for each partition alone, and a message that does not fit is cut off, as brokers
of that time did, by which a client knows that it has to ask for more (Kafka 3.9 answers zero bytes, for which
it would ask without end). From v3 on (KIP-74) the first message of the answer comes whole.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from agent.conversions import convert
from agent.fetch.codec import (
    KAFKA_STORAGE_ERROR,
    NO_SESSION,
    NOT_LEADER_OR_FOLLOWER,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionAnswer,
    TopicAnswer,
)
from agent.fetch.service import log
from agent.wire import Buffer
from controlplane.errors import ErrorCode
from logstore.records.batch import BatchHeader
from logstore.records.errors import RecordsError
from logstore.records.legacy import from_batches

if TYPE_CHECKING:
    from agent.fetch.service import FetchService

FIRST_WITH_MAX_BYTES: Final = 3
_FIRST_MAGIC_1: Final = 2


async def fetch_message_sets(
    service: "FetchService", request: FetchRequest, turn: float
) -> FetchResponse:
    """The answer to a request of v0-v3, whose records are message sets.

    `turn`, from 0 to below 1, says with which partition an answer begins where the client does not
    choose (before v3): what an agent gives at once is bounded, and nobody shall always be the last.
    Raises ControlPlaneUnavailable where a view cannot be had.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.max_wait_ms / 1000
    wanted = {
        (topic.name, asked.partition): asked
        for topic in request.topics
        for asked in topic.partitions
    }
    if request.version < FIRST_WITH_MAX_BYTES:
        wanted = _rotated(wanted, int(turn * len(wanted)))
    left_ms = request.max_wait_ms
    while True:
        reading = _Reading(service, request, wanted)
        answers = await reading.read(left_ms)
        left_ms = int((deadline - loop.time()) * 1000)
        is_idle = not any(answer.size or answer.error_code for _, answer in answers)
        if not is_idle or not reading.has_moved or left_ms <= 0:
            topics = [TopicAnswer(name, b"", [answer]) for name, answer in answers]
            return FetchResponse(0, NO_SESSION, _merged(topics), is_committed=False)


class _Reading:
    """One attempt at an answer. Moves the offsets of `wanted` over the holes that it meets."""

    def __init__(
        self,
        service: "FetchService",
        request: FetchRequest,
        wanted: dict[tuple[str, int], FetchPartition],
    ) -> None:
        self._service = service
        self._is_cut = request.version < FIRST_WITH_MAX_BYTES
        self._magic = 1 if request.version >= _FIRST_MAGIC_1 else 0
        self._request = request
        self._wanted = wanted
        self._left = min(request.max_bytes, service.settings.max_response_bytes)
        self._has_given = False
        self.has_moved = False

    async def read(self, max_wait_ms: int) -> list[tuple[str, PartitionAnswer]]:
        """Answers by topic name; empty ones where nothing came in time."""
        topics = [FetchTopic(name, b"", [asked]) for (name, _), asked in self._wanted.items()]
        request = self._request._replace(max_wait_ms=max_wait_ms, topics=topics)
        response = await self._service.fetch(request)
        return [
            (topic.name, await self._convert((topic.name, answer.partition), answer))
            for topic in response.topics
            for answer in topic.partitions
        ]

    async def _convert(self, key: tuple[str, int], answer: PartitionAnswer) -> PartitionAnswer:
        """The answer as a message set, which begins behind the hole that may be there."""
        if not self._left and self._has_given:  # full: nothing is converted in vain
            return answer._replace(records=(), size=0)
        is_behind = self._wanted[key].fetch_offset < answer.high_watermark
        if self._is_cut and is_behind and not answer.size and self._left > 0:
            # Nothing fitted; the first batch of a fetch comes whole.
            answer = await self._fetch_alone(key)
        while answer.size:
            asked = self._wanted[key]
            limit = min(max(asked.partition_max_bytes, 0), self._left)
            try:
                message_set = await convert(
                    from_batches,
                    answer.records,
                    magic=self._magic,
                    max_bytes=limit,
                    first_offset=asked.fetch_offset,
                )
                next_offset = _next_offset(answer.records[-1])
            except RecordsError as error:
                log.warning("%s-%d cannot be converted: %s", *key, error)
                return PartitionAnswer(answer.partition, ErrorCode.CORRUPT_MESSAGE)
            if message_set:
                return self._give(answer, message_set, limit)
            self._wanted[key] = asked._replace(fetch_offset=next_offset)
            self.has_moved = True
            answer = await self._fetch_alone(key)
        if answer.error_code == KAFKA_STORAGE_ERROR:  # they do not know it, nor that they may retry
            return answer._replace(error_code=NOT_LEADER_OR_FOLLOWER)
        return answer

    async def _fetch_alone(self, key: tuple[str, int]) -> PartitionAnswer:
        """What one partition has from its offset on, now: at least one batch where there is any."""
        topics = [FetchTopic(key[0], b"", [self._wanted[key]])]
        request = self._request._replace(max_wait_ms=0, topics=topics)
        return (await self._service.fetch(request)).topics[0].partitions[0]

    def _give(self, answer: PartitionAnswer, message_set: bytes, limit: int) -> PartitionAnswer:
        if len(message_set) > limit:
            if self._is_cut:
                message_set = message_set[:limit]
            elif self._has_given:
                if len(message_set) > self._left:
                    self._left = 0
                message_set = b""
        self._has_given = True
        self._left -= min(len(message_set), self._left)
        return answer._replace(records=(message_set,), size=len(message_set))


def _next_offset(records: Buffer) -> int:
    """Behind the last batch. Raises RecordsError."""
    position = next_offset = 0
    while position < len(records):
        header = BatchHeader.parse(records, position)
        position += header.size
        next_offset = header.next_offset
    return next_offset


def _rotated(
    wanted: dict[tuple[str, int], FetchPartition], first: int
) -> dict[tuple[str, int], FetchPartition]:
    items = list(wanted.items())
    return dict(items[first:] + items[:first])


def _merged(topics: list[TopicAnswer]) -> list[TopicAnswer]:
    """Each topic once, its partitions in the order in which they came."""
    merged: dict[str, TopicAnswer] = {}
    for topic in topics:
        known = merged.setdefault(topic.name, topic)
        if known is not topic:
            known.partitions.extend(topic.partitions)
    return list(merged.values())
