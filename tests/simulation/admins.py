"""Admins of the simulation, and the clients of the topics that they create and delete.

A temporary topic is called "name/id" in places, so a topic that is recreated under the same name is a different topic:
records sent to one must never be read from the other. Its clients treat an unknown topic as normal.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import DELETE, SET
from tests.messages import REQUESTS, make, nested
from tests.simulation.consumers import Consumer
from tests.simulation.history import EARLIEST, LATEST, History, Place
from tests.simulation.kafka import RETRIABLE, Client, KafkaError, Unanswered
from tests.simulation.producers import Fatal, TransactionalProducer

#: How long an admin retries one request.
GIVE_UP_AFTER: Final = 10.0
NAMES: Final = ("temp-0", "temp-1")
#: The most partitions of a temporary topic.
MOST_PARTITIONS: Final = 3
#: Configs that change nothing that the history asks for, with values to set. Only EXPIRING also has retention.
CONFIGS: Final[Mapping[str, Sequence[str]]] = {
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "compression.type": ("producer", "zstd", "uncompressed"),
}
RETENTION: Final[Mapping[str, Sequence[str]]] = {
    "retention.ms": ("1000", "5000", "-1"),
    "retention.bytes": ("0", "2000", "-1"),
}
#: A compacted topic's records only go because of a later one, whatever its policy becomes.
POLICIES: Final[Mapping[str, Sequence[str]]] = {
    "cleanup.policy": ("compact", "compact,delete", "delete")
}
EXPIRING: Final = "temp-1"
_TOPIC: Final = 2


@dataclass(slots=True)
class Topics:
    """The admins' knowledge of the temporary topics, which survives a killed admin."""

    #: The id of each topic that must exist: its creation was answered, and nobody asked to delete it.
    existing: dict[str, bytes] = field(default_factory=dict)
    #: Names that somebody asked to delete without being answered: the request may still come.
    doubtful: set[str] = field(default_factory=set)
    deleted: set[bytes] = field(default_factory=set)


async def places_of(client: Client, names: Sequence[str] = NAMES) -> list[Place]:
    """Return the partitions of the temporary topics that exist now. Raises Unanswered."""
    await client.refresh(*names)
    client.served()
    return [
        (f"{name}/{client.topics[name][0].hex()}", partition)
        for name in names
        if name in client.topics
        for partition in sorted(client.topics[name][1])
    ]


async def places_at_the_end(client: Client) -> list[Place]:
    """Like `places_of`, but retried until it is answered."""
    while True:
        try:
            return await places_of(client)
        except Unanswered:
            await client.pause()


class TemporaryProducer(TransactionalProducer):
    """Runs transactions over temporary and other topics."""

    def __init__(
        self, name: str, client: Client, history: History, randomness: random.Random
    ) -> None:
        super().__init__(name, "id-temporary", client, history, randomness, is_second=True)
        self.version = 13  # the first that names topics by id

    async def run(self, places: Sequence[Place]) -> None:
        """Run transactions forever. Starts over when it is fenced or a topic is deleted."""
        while True:
            try:
                await self.init()
                while True:
                    await self.transact([*await places_of(self.client), self.random.choice(places)])
                    await asyncio.sleep(0.3 * self.random.random())
            except (Fatal, KafkaError, Unanswered) as error:
                self.history.counts[f"temporary: {type(error).__name__}"] += 1
                await self.client.pause()


class TemporaryConsumer(Consumer):
    """Repeatedly reads everything in the temporary topics."""

    async def run(self, _: Sequence[Place] = ()) -> None:
        """Read forever."""
        while True:
            try:
                for place in await places_of(self.client):
                    await self.read_all(place)
            except (KafkaError, Unanswered):
                await self.client.pause()
            await asyncio.sleep(0.5 + self.random.random())


class Admin:
    """Performs operators' actions one after another, and retries each until it is answered."""

    def __init__(
        self,
        name: str,
        client: Client,
        history: History,
        randomness: random.Random,
        topics: Topics,
        places: Sequence[Place],
        compacted: Sequence[str],
    ) -> None:
        """The topics `places` and `compacted` are never deleted."""
        self.name = name
        self.client = client
        self.history = history
        self.random = randomness
        self.topics = topics
        self.places = places
        self.compacted = compacted
        self._reader = Consumer(name, client, history, randomness, isolation=0)

    async def run(self) -> None:
        """Operate forever."""
        while True:
            try:
                await self._operate()
                self.client.served()
            except (KafkaError, Unanswered, TimeoutError) as error:
                self.history.counts[f"admin: {type(error).__name__}"] += 1
            await asyncio.sleep(0.2 + self.random.random())

    async def _operate(self) -> None:
        kinds = ("topic", "grow", "alter", "cut", "abort")
        kind = self.random.choices(kinds, (5, 1, 2, 1, 3))[0]
        if kind == "abort" and self.history.is_over:
            return
        self.history.counts[f"admin: {kind}"] += 1
        name = self.random.choice(NAMES)
        if kind == "topic":
            await self._create_or_delete(name)
        elif kind == "grow":
            await self._grow(name)
        elif kind == "alter":
            await self._alter(self.random.choice((name, self.places[0][0], *self.compacted)))
        elif kind == "cut":
            await self._delete_records(self.random.choice(self.places))
        else:
            await self._abort_a_transaction()

    async def _ask(self, key: int, version: int, request: object) -> Any:
        """Ask any agent until it answers. Raises TimeoutError."""
        async with asyncio.timeout(GIVE_UP_AFTER):
            while True:
                try:
                    return await self.client.ask_any(key, version, request)
                except Unanswered:
                    await self.client.pause()

    # Topics.

    async def _create_or_delete(self, name: str) -> None:
        await self.client.refresh(name)
        if name in self.client.topics:
            await self._delete(name, self.client.topics[name][0])
        else:
            await self._create(name)

    async def _create(self, name: str) -> None:
        wanted = nested(
            19,
            7,
            "CreatableTopic",
            name=name,
            num_partitions=self.random.randint(1, MOST_PARTITIONS - 1),
            replication_factor=1,
        )
        request = make(REQUESTS[19].body, 7, topics=(wanted,), timeout_ms=5_000)
        while True:
            answer = (await self._ask(19, 7, request)).topics[0]
            code = ErrorCode(answer.error_code)
            if code == ErrorCode.NONE:
                self.history.counts["topics created"] += 1
                if answer.topic_id in self.topics.deleted:
                    self.history.wrong(
                        f"{name} was created with the id of a topic that was deleted"
                    )
                self.topics.existing[name] = answer.topic_id
                return
            self._expect(code, {ErrorCode.TOPIC_ALREADY_EXISTS}, f"create {name}")
            if code == ErrorCode.TOPIC_ALREADY_EXISTS:
                return
            await self.client.pause()

    async def _delete(self, name: str, topic_id: bytes) -> None:
        by_id = self.random.random() < 0.6
        named = {"topic_id": topic_id} if by_id else {"name": name}
        wanted = nested(20, 6, "DeleteTopicState", **named)
        request = make(REQUESTS[20].body, 6, topics=(wanted,), timeout_ms=5_000)
        self.topics.existing.pop(name, None)
        if by_id:
            answer = (await self._ask(20, 6, request)).responses[0]
        else:  # only once: a request that is not answered may still come when the name is used again
            self.topics.doubtful.add(name)
            answer = (await self.client.ask_any(20, 6, request)).responses[0]
            self.topics.doubtful.discard(name)
        self._expect(answer.error_code, set(), f"delete {name}")
        if answer.error_code == ErrorCode.NONE:
            self.history.counts["topics deleted"] += 1
            self.topics.deleted.add(answer.topic_id)

    async def _grow(self, name: str) -> None:
        await self.client.refresh(name)
        if name not in self.client.topics:
            return
        count = len(self.client.topics[name][1]) + 1
        if count > MOST_PARTITIONS:
            return
        wanted = nested(37, 3, "CreatePartitionsTopic", name=name, count_=count, assignments=None)
        request = make(REQUESTS[37].body, 3, topics=(wanted,), timeout_ms=5_000)
        answer = (await self._ask(37, 3, request)).results[0]
        self._expect(
            answer.error_code, {ErrorCode.INVALID_PARTITIONS}, f"grow {name} to {count} partitions"
        )

    async def _alter(self, name: str) -> None:
        configs = {EXPIRING: {**CONFIGS, **RETENTION}}.get(name, CONFIGS)
        if name in self.compacted:
            configs = POLICIES
        config = self.random.choice(sorted(configs))
        value: str | None = self.random.choice(configs[config])
        operation = SET
        if self.random.random() < 0.2:
            operation, value = DELETE, None
        change = nested(
            44, 1, "AlterableConfig", name=config, config_operation=operation, value=value
        )
        wanted = nested(
            44,
            1,
            "AlterConfigsResource",
            resource_type=_TOPIC,
            resource_name=name,
            configs=(change,),
        )
        request = make(REQUESTS[44].body, 1, resources=(wanted,))
        answer = (await self._ask(44, 1, request)).responses[0]
        self._expect(answer.error_code, set(), f"alter {name}")

    def _expect(self, code: int, allowed: set[ErrorCode], what: str) -> None:
        """Accept retriable errors, including one that says that a topic does not exist.

        UNKNOWN_SERVER_ERROR is accepted too, because a leader may have become silent during this request (adr/0050).
        """
        normal = {ErrorCode.NONE, ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR}
        if code not in RETRIABLE | normal | allowed:
            self.history.wrong(f"{self.name} could not {what}: {ErrorCode(code).name}")

    # Records.

    async def _delete_records(self, place: Place) -> None:
        start = await self._reader.offset(place, EARLIEST)
        end = await self._reader.offset(place, LATEST)
        before = start + int((end - start) * self.random.choice((0, 0.2, 0.6, 1)))
        if self.random.random() < 0.1:
            before = -1
        self.history.asks_to_cut(place, math.inf if before < 0 else before)
        wanted = nested(21, 2, "DeleteRecordsPartition", partition_index=place[1], offset=before)
        topic = nested(21, 2, "DeleteRecordsTopic", name=place[0], partitions=(wanted,))
        request = make(REQUESTS[21].body, 2, topics=(topic,), timeout_ms=5_000)
        answer = (await self._ask(21, 2, request)).topics[0].partitions[0]
        if answer.error_code:
            self._expect(answer.error_code, set(), f"delete records of {place}")
            return
        if answer.low_watermark < before:
            self.history.wrong(f"{place} starts at {answer.low_watermark} after a cut at {before}")
        self.history.cut(place, answer.low_watermark)

    # Transactions.

    async def _abort_a_transaction(self) -> None:
        """Find an open transaction as operators do, then abort it."""
        look = self.random.choice((self._listed_transaction, self._open_producer))
        found = await look()
        if found is None:
            return
        producer_id, epoch, topic, partition = found
        place = nested(27, 1, "WritableTxnMarkerTopic", name=topic, partition_indexes=(partition,))
        marker = nested(
            27,
            1,
            "WritableTxnMarker",
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=False,
            topics=(place,),
        )
        answer = await self._ask(27, 1, make(REQUESTS[27].body, 1, markers=(marker,)))
        if answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE:
            self.history.aborted(self.name, producer_id, epoch)

    async def _listed_transaction(self) -> tuple[int, int, str, int] | None:
        """Return the producer id and epoch of an open transaction, and one of its partitions."""
        listed = await self._ask(66, 1, make(REQUESTS[66].body, 1, state_filters=("Ongoing",)))
        if not listed.transaction_states:
            return None
        chosen = self.random.choice(listed.transaction_states).transactional_id
        request = make(REQUESTS[65].body, 0, transactional_ids=(chosen,))
        found = (await self.client.coordinated(1, chosen, 65, 0, request)).transaction_states[0]
        if found.error_code or found.transaction_state != "Ongoing" or not found.topics:
            return None
        topic = self.random.choice(found.topics)
        return found.producer_id, found.producer_epoch, topic.topic, topic.partitions[0]

    async def _open_producer(self) -> tuple[int, int, str, int] | None:
        """Return the same for a producer whose transaction blocks readers of a partition."""
        topic, partition = self.random.choice(self.places)
        asked = nested(61, 0, "TopicRequest", name=topic, partition_indexes=(partition,))
        answer = await self._ask(61, 0, make(REQUESTS[61].body, 0, topics=(asked,)))
        for each in answer.topics[0].partitions[0].active_producers:
            if each.current_txn_start_offset >= 0:
                return each.producer_id, each.producer_epoch, topic, partition
        return None


def check_topics(history: History, topics: Topics, places: Sequence[Place]) -> None:
    """Compare the temporary topics that exist at the end with the expected ones."""
    there = {bytes.fromhex(topic.partition("/")[2]) for topic, _ in places}
    for name, topic_id in topics.existing.items():
        if topic_id not in there and name not in topics.doubtful:
            history.wrong(f"{name} was created with id {topic_id.hex()}, not deleted, and is gone")
    for topic_id in there & topics.deleted:
        history.wrong(f"the topic with id {topic_id.hex()} was deleted and is still there")
