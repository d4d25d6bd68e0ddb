"""Consumers of the simulation, which tail partitions at both isolation levels and check the records.

Records that a consumer has seen must stay: they neither change nor vanish, offsets grow, and no read_committed consumer
sees an aborted record. A reader that begins after an acknowledgement sees the acknowledged records.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.logstore.records.batch import Record, read_batches
from tests.messages import REQUESTS, make, nested
from tests.simulation.history import EARLIEST, LATEST, History, Place, Read
from tests.simulation.kafka import RETRIABLE, Client, KafkaError, Unanswered

#: How long an agent's lease lasts here, and how old its views may be.
LEASE_SECONDS: Final = 3.0
#: How old the bounds of an answer may be when it is sent: its connection's answers are sent in order.
OLDEST_SECONDS: Final = LEASE_SECONDS + 1.0


class Consumer:
    """Reads partitions. `isolation` is 0 for read_uncommitted and 1 for read_committed."""

    def __init__(
        self, name: str, client: Client, history: History, randomness: random.Random, isolation: int
    ) -> None:
        self.name = name
        self.client = client
        self.history = history
        self.random = randomness
        self.isolation = isolation
        self.reads: dict[Place, Read] = {}
        #: The connection over which a partition was read last.
        self._over: dict[Place, object] = {}
        #: The agent to ask, instead of the leader.
        self.address: tuple[str, int] | None = None
        #: Whether to ask another agent each time, as where leaders come and go.
        self.wanders = False

    async def run(self, places: Sequence[Place]) -> None:
        """Tail the partitions forever, in one task each."""
        await asyncio.gather(*(self._tail(place) for place in places))

    async def _tail(self, place: Place) -> None:
        read: Read | None = None
        passed = -1
        while True:
            asked = self.history.now()
            try:
                if read is None:
                    read = self.reads[place] = await self._from_start(place, passed)
                answer = await self.fetch(place, read.position)
            except Unanswered:
                self.client.forget_leader(place[0])
                await self.client.pause()
                continue
            code = ErrorCode(answer.error_code)
            if code == ErrorCode.NONE:
                self.client.served()
                self.take(place, read, answer)
            elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
                passed, read = self._passed(place, read.position, asked), None
            elif code in RETRIABLE:
                self.client.forget_leader(place[0])
                await self.client.pause()
            else:
                self.history.wrong(f"{self.name} could not fetch {place}: {code.name}")
                return

    def _passed(self, place: Place, position: int, asked: float) -> int:
        """Return `position`, which the log's start must have passed, or -1 if the agent may be behind."""
        is_known = self.history.has_told(self._over.get(place), place, position)
        return position if is_known or not self.history.may_be_stale(asked) else -1

    async def _from_start(self, place: Place, passed: int = -1) -> Read:
        """Begin at the log's start, which must have passed the offset that was out of range."""
        start = await self.offset(place, EARLIEST)
        if start <= passed and "/" not in place[0]:
            self.history.wrong(
                f"{self.name} was at {passed} of {place}, which was out of range, and its log starts at {start}"
            )
        return Read(start, start)

    def take(self, place: Place, read: Read, answer: Any) -> bool:
        """Add the records of an answer. Return whether there were batches."""
        got = False
        for found in read_batches(b"".join(answer.records or ())):
            got = True
            header = found.header
            if header.next_offset <= read.position:
                continue
            if header.is_control:
                read.position = header.next_offset
                continue
            for record in found.records():
                if record.offset < read.position:
                    continue
                self.saw(place, read, record)
            read.position = header.next_offset
        return got

    def saw(self, place: Place, read: Read, record: Record) -> None:
        """Add one record."""
        value = record.value or b""
        self.history.saw(self.name, place, record.offset, value, is_committed=self.isolation == 1)
        read.rows.append((record.offset, value))

    async def fetch(
        self,
        place: Place,
        offset: int,
        *,
        max_wait_ms: int = 500,
        address: tuple[str, int] | None = None,
    ) -> Any:
        """Fetch one partition once, from its leader or from the agent at `address`. Raises Unanswered, KafkaError."""
        topic, partition = place
        address = address or self.address or await self.client.leader(topic, partition)
        if self.wanders:
            address = self.random.choice(self.client.agents)
        version = 13 if "/" in topic else self.random.choice((12, 13))
        named = {"topic_id": self.client.topic_id(topic)} if version > 12 else {"topic": topic}
        asked = nested(
            1,
            version,
            "FetchPartition",
            partition=partition,
            fetch_offset=offset,
            partition_max_bytes=self.random.choice((200, 4_000, 1 << 20)),
        )
        request = make(
            REQUESTS[1].body,
            version,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            isolation_level=self.isolation,
            topics=(nested(1, version, "FetchTopic", **named, partitions=(asked,)),),
        )
        self.history.counts["fetches"] += 1
        answer, sent_at = await self.client.ask(address, 1, version, request, is_timed=True)
        over = self._over[place] = self.client.connected(address)
        if answer.error_code:
            raise KafkaError(answer.error_code, "fetch")
        found = answer.responses[0].partitions[0]
        if not found.error_code:
            self.history.told(self.name, over, place, 0, found.high_watermark)
            self.history.told(self.name, over, place, 1, found.last_stable_offset)
            self.history.not_older(self.name, place, found.high_watermark, sent_at - OLDEST_SECONDS)
        return found

    async def offset(self, place: Place, time: int, asked_of: tuple[str, int] | None = None) -> int:
        """Look up an offset by time, and repeat this until there is one. Raises Unanswered, KafkaError."""
        topic, partition = place
        isolation = self.isolation if time == LATEST else 0
        while True:
            address = asked_of or await self.client.leader(topic, partition)
            before, since = self.history.bound(place, time, isolation), self.history.now()
            asked = nested(2, 7, "ListOffsetsPartition", partition_index=partition, timestamp=time)
            request = make(
                REQUESTS[2].body,
                7,
                replica_id=-1,
                isolation_level=self.isolation,
                topics=(
                    nested(
                        2, 7, "ListOffsetsTopic", name=topic.partition("/")[0], partitions=(asked,)
                    ),
                ),
            )
            answer = (await self.client.ask(address, 2, 7, request)).topics[0].partitions[0]
            code = ErrorCode(answer.error_code)
            if code == ErrorCode.NONE and "/" in topic:
                return int(answer.offset)  # ListOffsets has no ids: it may be another topic's
            if code == ErrorCode.NONE:
                self.history.bounded(
                    self.name, place, time, isolation, answer.offset, before, since
                )
                return int(answer.offset)
            if code not in RETRIABLE:
                raise KafkaError(code, "list offsets")
            self.client.forget_leader(topic)
            await self.client.pause()

    async def read_all(self, place: Place) -> Read:
        """Return everything from the log's start to its current end. Raises Unanswered, KafkaError."""
        read = await self._from_start(place)
        end = await self.offset(place, LATEST)
        while read.position < end:
            asked = self.history.now()
            answer = await self.fetch(place, read.position)
            code = ErrorCode(answer.error_code)
            if code == ErrorCode.NONE:
                self.take(place, read, answer)
            elif code in RETRIABLE:
                self.client.forget_leader(place[0])
                await self.client.pause()
            elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
                read = await self._from_start(place, self._passed(place, read.position, asked))
            else:
                raise KafkaError(code, f"fetch of {place} at {read.position}")
        return read
