"""Members of a share group, which together take the records of one partition (KIP-932).

A record whose acceptance was confirmed is never delivered again, delivery counts only grow, and no delivered record
belongs to an aborted transaction. Members accept, release and reject records at random. A killed member comes back
under another name, and the records it held are delivered again once their locks have ended. Each rejected record is in
the dead-letter queue once.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.logstore.records.batch import Record, read_batches
from lacuna.wire.messages.share_groups import ShareGroupHeartbeatRequest
from lacuna.wire.messages.share_records import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from tests.simulation.consumers import Consumer
from tests.simulation.history import History, Place, Read
from tests.simulation.kafka import (
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    RETRIABLE,
    Client,
    KafkaError,
    Unanswered,
)

GROUP: Final = "queue"
LETTERS: Final[Place] = ("dlq.queue", 0)
RULES: Final = {"errors.deadletterqueue.auto.create.topics.enable": "true"}
CONFIGS: Final = {
    "share.auto.offset.reset": "earliest",
    "share.isolation.level": "read_committed",
    "share.record.lock.duration.ms": "15000",
    "share.delivery.count.limit": "10",
    "errors.deadletterqueue.topic.name": LETTERS[0],
    "errors.deadletterqueue.copy.record.enable": "true",
}
_GAP, _ACCEPT, _RELEASE, _REJECT = range(4)
#: Java's interval is 5 s. A rare rejoin takes this long to be noticed.
_BEAT_EVERY: Final = 1.5
_OUT_OF_SESSION: Final = (
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.INVALID_REQUEST,
)


class Deliveries:
    """What the members of one group have learned, by place and offset."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._counts: dict[tuple[Place, int], int] = {}
        self._values: dict[tuple[Place, int], bytes] = {}
        self._finished: dict[tuple[Place, int], str] = {}
        self._rejected: set[tuple[Place, int]] = set()
        self._letters: set[tuple[Place, int]] = set()

    def delivered(self, who: str, place: Place, offset: int, count: int, value: bytes) -> None:
        """Check a record that a member got with this delivery count."""
        self._history.counts["records shared"] += 1
        at = place, offset
        self._values[at] = value
        if at in self._finished:
            self._history.wrong(f"{who} got {at}, which {self._finished[at]} had finished")
        if count <= self._counts.get(at, 0):
            self._history.wrong(f"{who} got {at} as delivery {count}, after {self._counts[at]}")
        self._counts[at] = count

    def finished(self, who: str, place: Place, offset: int, kind: int) -> None:
        """Note that a member's acceptance or rejection of a record was confirmed."""
        self._history.counts["shared records finished"] += 1
        self._finished.setdefault((place, offset), who)
        if kind == _REJECT:
            self._rejected.add((place, offset))

    def buried(self, letter: Record) -> None:
        """Check a letter in the dead-letter queue."""
        self._history.counts["dead letters"] += 1
        headers = {name: value or b"" for name, value in letter.headers}
        place = headers[b"__dlq.errors.topic"].decode(), int(headers[b"__dlq.errors.partition"])
        at = place, int(headers[b"__dlq.errors.offset"])
        if at in self._letters:
            self._history.wrong(f"the dead-letter queue has {at} twice")
        self._letters.add(at)
        if at in self._finished and at not in self._rejected:
            self._history.wrong(f"the dead-letter queue has {at}, which was accepted")
        if letter.value != self._values.get(at, letter.value):
            self._history.wrong(f"the letter of {at} has {letter.value!r}")

    async def read_letters(self, client: Client) -> None:
        """Compare the dead-letter queue with the rejected records, once none is waiting to be added."""
        reader = _LetterReader("the reader of letters", client, self._history, client.random, 1)
        reader.deliveries = self
        while self._rejected:
            self._letters.clear()
            try:
                await reader.read_all(LETTERS)
                break
            except Unanswered:
                await client.pause()
        for at in sorted(self._rejected - self._letters):
            self._history.wrong(f"{at} was rejected, and is not in the dead-letter queue")


class _LetterReader(Consumer):
    """Reads the dead-letter queue."""

    deliveries: Deliveries

    def saw(self, place: Place, read: Read, record: Record) -> None:
        self.deliveries.buried(record)


class Sharer:
    """A member that takes records from one partition, and acknowledges them with its next fetch."""

    def __init__(
        self, name: str, client: Client, history: History, deliveries: Deliveries, slow: float
    ) -> None:
        """`slow` is how often it works on its records for about as long as it may hold them, then returns them."""
        self.name = name
        self.client = client
        self._history = history
        self._deliveries = deliveries
        self._slow = slow
        self._random: random.Random = client.random
        self._epoch = 0

    async def run(self, place: Place) -> None:
        """Take part in the group forever."""
        await self.client.configure(GROUP_CONFIGS, GROUP, CONFIGS)
        await self.client.configure(BROKER_CONFIGS, "", RULES)
        await asyncio.gather(self._beat([place[0]]), self._take(place))

    async def _beat(self, topics: list[str]) -> None:
        while True:
            names = topics if self._epoch == 0 else None
            request = ShareGroupHeartbeatRequest(
                GROUP, self.name, self._epoch, subscribed_topic_names=names
            )
            try:
                answer = await self.client.coordinated(0, GROUP, 76, 1, request)
            except (Unanswered, KafkaError):
                await self.client.pause()
                continue
            code = ErrorCode(answer.error_code)
            if code in RETRIABLE:
                self.client.forget_coordinator(0, GROUP)
            elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
                self._epoch = 0
                continue
            elif code:
                self._history.wrong(f"{self.name} could not stay in its group: {code.name}")
            else:
                self._epoch = answer.member_epoch
            await asyncio.sleep(_BEAT_EVERY)

    async def _take(self, place: Place) -> None:
        """Fetch and acknowledge forever."""
        epoch, held = 0, dict[int, int]()
        while True:
            try:
                answer = await self._fetch(place, epoch, held)
            except (Unanswered, KafkaError):
                # The fate of the acknowledgements is unknown.
                epoch, held = 0, {}
                self.client.forget_leader(place[0])
                await self.client.pause()
                continue
            code = ErrorCode(answer.error_code)
            if code in _OUT_OF_SESSION or code in RETRIABLE:
                epoch, held = 0, {}
                self.client.forget_leader(place[0])
                await self.client.pause()
                continue
            if code:
                self._history.wrong(f"{self.name} could not share {place}: {code.name}")
                return
            epoch += 1
            self.client.served()
            held = self._took(place, answer, held)
            if held and self._random.random() < self._slow:
                await asyncio.sleep(self._random.uniform(14.5, 16.5))
                held = dict.fromkeys(held, _RELEASE)

    async def _fetch(self, place: Place, epoch: int, held: dict[int, int]) -> Any:
        address = await self.client.leader(*place)
        batches = [
            AcknowledgementBatch(offset, offset, (kind,)) for offset, kind in sorted(held.items())
        ]
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=epoch,
            max_wait_ms=500,
            max_records=self._random.choice((1, 3, 20)),
            topics=[
                FetchTopic(self.client.topic_id(place[0]), [FetchPartition(place[1], batches)])
            ],
        )
        return await self.client.ask(address, 78, 2, request)

    def _took(self, place: Place, answer: Any, held: dict[int, int]) -> dict[int, int]:
        """Note what was acknowledged and delivered, and return how to acknowledge the new records."""
        for partition in [each for topic in answer.responses for each in topic.partitions]:
            if partition.acknowledge_error_code == 0 and not partition.error_code:
                for offset, kind in held.items():
                    if kind != _RELEASE:
                        self._deliveries.finished(self.name, place, offset, kind)
            counts = {
                offset: run.delivery_count
                for run in partition.acquired_records
                for offset in range(run.first_offset, run.last_offset + 1)
            }
            delivered = dict[int, bytes]()
            for batch in read_batches(b"".join(partition.records or ())):
                for record in batch.records():
                    if record.offset in counts:
                        value = record.value or b""
                        self._history.saw(self.name, place, record.offset, value, is_committed=True)
                        delivered[record.offset] = value
            for offset, count in counts.items():
                value = delivered.get(offset, b"")
                self._deliveries.delivered(self.name, place, offset, count, value)
            return {
                offset: self._random.choice((_ACCEPT, _ACCEPT, _ACCEPT, _RELEASE, _REJECT))
                if offset in delivered
                else _GAP  # merged away with an aborted transaction
                for offset in counts
            }
        return {}
