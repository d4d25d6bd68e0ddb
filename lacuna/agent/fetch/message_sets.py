"""Answers fetches with message sets of magic 0 and 1, for clients before 0.11 (S22, S24).

The FetchService plans, waits and reads as usual, and this module converts the batches. A message set cannot contain
control records or the end of a hole, so a filler cannot move these clients past a hole. If an answer would contain only
a filler, reading continues after the hole, up to the first record or the end of the log, where the fetch waits. If no
record arrives, the client gets none and requests the same offset again.

Before v3, only the individual partitions have a size limit. As in brokers of that time, a message that does not fit is
cut off, so that the client requests more bytes. Kafka 3.9 returns zero bytes instead, which would make such a client
repeat its request indefinitely. From v3 on (KIP-74), the first message of the answer is always complete.
"""

import asyncio
from typing import Final

from lacuna.agent.fetch.answers import failed
from lacuna.agent.fetch.service import FetchService, log
from lacuna.agent.fetch.sessions import Permission
from lacuna.agent.threads import convert
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.logstore.records.batch import BatchHeader
from lacuna.logstore.records.errors import RecordsError
from lacuna.logstore.records.legacy import from_batches
from lacuna.wire.layout import Buffer
from lacuna.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

FIRST_WITH_MAX_BYTES: Final = 3
_FIRST_MAGIC_1: Final = 2


async def fetch_message_sets(
    service: FetchService,
    request: FetchRequest,
    version: int,
    rotation: float,
    permission: Permission | None = None,
) -> FetchResponse:
    """Return the answer to a request of v0-v3, whose records are message sets.

    Before v3, clients do not choose the order of partitions. Since answers are limited in size, `rotation` (0 <=
    rotation < 1) chooses the first partition, so that no partition always comes last. Raises ControlPlaneUnavailable if
    a view cannot be obtained.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.max_wait_ms / 1000
    wanted = {
        (topic.topic, asked.partition): asked
        for topic in request.topics
        for asked in topic.partitions
    }
    if version < FIRST_WITH_MAX_BYTES:
        wanted = _rotated(wanted, int(rotation * len(wanted)))
    left_ms = request.max_wait_ms
    while True:
        reading = _Reading(service, request, version, wanted, permission)
        answers = await reading.read(left_ms)
        left_ms = int((deadline - loop.time()) * 1000)
        is_idle = not any(answer.records or answer.error_code for _, answer in answers)
        if not is_idle or not reading.has_moved or left_ms <= 0:
            return FetchResponse(responses=_by_topic(answers))


class _Reading:
    """One attempt to build an answer. It moves the offsets in `wanted` past the holes that it finds."""

    def __init__(
        self,
        service: FetchService,
        request: FetchRequest,
        version: int,
        wanted: dict[tuple[str, int], FetchPartition],
        permission: Permission | None,
    ) -> None:
        self._service = service
        self._permission = permission
        self._version = version
        self._is_cut = version < FIRST_WITH_MAX_BYTES
        self._magic = 1 if version >= _FIRST_MAGIC_1 else 0
        self._request = request
        self._wanted = wanted
        self._left = min(request.max_bytes, service.settings.max_response_bytes)
        self._has_given = False
        self.has_moved = False

    async def read(self, max_wait_ms: int) -> list[tuple[str, PartitionData]]:
        """Return (topic name, answer) for each partition; answers are empty if no records arrive in `max_wait_ms`."""
        topics = [FetchTopic(name, partitions=[asked]) for (name, _), asked in self._wanted.items()]
        request = self._request._replace(max_wait_ms=max_wait_ms, topics=topics)
        response = await self._service.fetch(request, self._version, self._permission)
        return [
            (topic.topic, await self._convert((topic.topic, answer.partition_index), answer))
            for topic in response.responses
            for answer in topic.partitions
        ]

    async def _convert(self, key: tuple[str, int], answer: PartitionData) -> PartitionData:
        """Convert an answer to a message set. If it begins with a hole, continue reading after the hole."""
        if not self._left and self._has_given:  # full: the message set would be dropped
            return answer._replace(records=())
        is_behind = self._wanted[key].fetch_offset < answer.high_watermark
        if self._is_cut and is_behind and not answer.records and self._left > 0:
            # No batch fitted. A fetch of this partition alone returns its first batch whole.
            answer = await self._fetch_alone(key)
        while answer.records:
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
                return failed(
                    answer.partition_index, ErrorCode.CORRUPT_MESSAGE, self._request.isolation_level
                )
            if message_set:
                return self._give(answer, message_set, limit)
            self._wanted[key] = asked._replace(fetch_offset=next_offset)
            self.has_moved = True
            answer = await self._fetch_alone(key)
        return answer

    async def _fetch_alone(self, key: tuple[str, int]) -> PartitionData:
        """Fetch one partition from its offset onward, without waiting. Returns at least one batch, if there are any."""
        topics = [FetchTopic(key[0], partitions=[self._wanted[key]])]
        request = self._request._replace(max_wait_ms=0, topics=topics)
        response = await self._service.fetch(request, self._version, self._permission)
        return response.responses[0].partitions[0]

    def _give(self, answer: PartitionData, message_set: bytes, limit: int) -> PartitionData:
        if len(message_set) > limit:
            if self._is_cut:
                message_set = message_set[:limit]
            elif self._has_given:
                if len(message_set) > self._left:
                    self._left = 0
                message_set = b""
        self._has_given = True
        self._left -= min(len(message_set), self._left)
        return answer._replace(records=(message_set,) if message_set else ())


def _next_offset(records: Buffer) -> int:
    """Return the offset after the last batch, or 0 if there are no batches. Raises RecordsError."""
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


def _by_topic(answers: list[tuple[str, PartitionData]]) -> list[FetchableTopicResponse]:
    topics: dict[str, list[PartitionData]] = {}
    for name, answer in answers:
        topics.setdefault(name, []).append(answer)
    return [FetchableTopicResponse(name, partitions=some) for name, some in topics.items()]
