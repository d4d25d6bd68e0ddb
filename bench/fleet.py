"""A simulated fleet: the commands that its agents would send to a control plane, without any records.

Each zone has its share of the agents, and one producer per `GROUP` partitions. A partition is written and read on one
agent in each zone, chosen by Lacuna's own placement. Transactions last a second. A flush contains a slice for each of
its agent's partitions, with batches of at most 64 KiB.
"""

import asyncio
import random
from array import array
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

from bench import BenchError
from bench.figures import GIBIBYTE
from bench.plane import initialize
from lacuna.agent.rendezvous import partition_key, place
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.service import ServiceSettings
from lacuna.controlplane.serving import serve_session
from lacuna.controlplane.shared.batches import (
    BATCH_VERDICT,
    COMMITTED_BATCH,
    FLAG_ADDS_PARTITION,
    FLAG_TRANSACTIONAL,
    SLICE_VERDICT,
    TRANSACTIONAL_ID_SHIFT,
    SegmentSlice,
    commit_of,
)
from lacuna.controlplane.shared.contract import own_contract
from lacuna.controlplane.shared.log.pieces import Piece, Pieces
from lacuna.controlplane.shared.log.reads import plan_reads
from lacuna.controlplane.v1.cluster_pb2 import (
    CreateTopic,
    CreateTopics,
    RegisterAgent,
    RenewLease,
    TopicPartition,
)
from lacuna.controlplane.v1.control_pb2 import Command, Reply, SessionRequest, SessionResponse
from lacuna.controlplane.v1.log_pb2 import SegmentId
from lacuna.controlplane.v1.transactions_pb2 import EndTxn
from lacuna.logstore.objects.s3 import READ_GAP

TICK_MS: Final = 10
GROUP: Final = 10
TRANSACTION_MS: Final = 1_000
ABORTED_SHARE: Final = 0.5
BATCH_BYTES: Final = 64 << 10
RECORD_BYTES: Final = 1 << 10
CONSUMER_GROUPS: Final = 3
TOPIC_PARTITIONS: Final = 1_000
RENEWAL_MS: Final = 3_000
TIMEOUT_MS: Final = 60_000
FLAGS: Final = FLAG_TRANSACTIONAL | FLAG_ADDS_PARTITION


class Line:
    """An agent's session, whose stream carries bytes, as in gRPC."""

    def __init__(self, runtime: Runtime, answered: Callable[[int], None]) -> None:
        self.received: list[SessionResponse] = []
        self._answered = answered
        self._request = SessionRequest(contract=own_contract())
        self._requests: asyncio.Queue[bytes] = asyncio.Queue()
        self._settles: dict[int, Callable[[Reply], None]] = {}
        self._last_id = 0
        served = serve_session(runtime, self._parsed(), self._write, ServiceSettings().max_outbox)
        self.stream = asyncio.create_task(served)

    def ask(self, command: Command, settle: Callable[[Reply], None]) -> None:
        """Queues a command for the next request. `settle` receives the reply."""
        self._last_id += 1
        command.command_id = self._last_id
        self._settles[self._last_id] = settle
        self._request.commands.append(command)

    def subscribe(self, partitions: list[TopicPartition]) -> None:
        self._request.subscribe.extend(partitions)

    @property
    def has_request(self) -> bool:
        return bool(self._request.commands or self._request.subscribe)

    def take(self) -> tuple[bytes, int]:
        """Returns the next request, and how many commands it contains."""
        request, self._request = self._request, SessionRequest()
        return request.SerializeToString(), len(request.commands)

    def send(self, data: bytes) -> None:
        self._requests.put_nowait(data)

    def settle(self) -> int:
        """Delivers the replies, and returns the size in bytes of the partition deltas that arrived with them."""
        received, self.received = self.received, []
        size = 0
        for response in received:
            size += sum(delta.ByteSize() for delta in response.partitions)
            for reply in response.replies:
                if reply.HasField("failure"):
                    raise BenchError(f"the control plane rejected a command: {reply}")
                self._settles.pop(reply.command_id)(reply)
        return size

    async def _parsed(self) -> AsyncIterator[SessionRequest]:
        while True:
            yield SessionRequest.FromString(await self._requests.get())

    async def _write(self, response: SessionResponse) -> None:
        response.SerializeToString()
        self.received.append(response)
        self._answered(len(response.replies))


@dataclass(frozen=True, slots=True)
class Load:
    """A load of `gibibytes` per second, spread evenly over all partitions and flushed every `interval_ms`."""

    partitions: int
    interval_ms: int = 250
    zones: int = 3
    agents: int = 20
    gibibytes: float = 1.0

    @property
    def slice_bytes(self) -> int:
        """The size of a partition's slice in a flush."""
        flushes = self.partitions * self.zones * 1000 / self.interval_ms
        return int(self.gibibytes * GIBIBYTE / flushes)

    @property
    def slices_a_second(self) -> int:
        """The number of slices per second that all agents commit together."""
        return self.partitions * self.zones * 1000 // self.interval_ms

    def batches(self) -> list[tuple[int, int]]:
        """Returns the numbers of bytes and records in each batch of a slice."""
        count = -(-self.slice_bytes // BATCH_BYTES)
        size = self.slice_bytes // count
        return [(size, max(1, size // RECORD_BYTES))] * count


@dataclass(slots=True)
class Producer:
    """A transactional producer. `is_open` is true if it has written since its last transaction ended."""

    transactional_id: str
    producer_id: int = -1
    producer_epoch: int = -1
    is_open: bool = False


@dataclass(slots=True)
class Place:
    """A partition on an agent that writes it, and the producer that writes to it there, with its next sequence."""

    key: TopicPartition
    producer: Producer
    producer_epoch: int = -1
    sequence: int = 0


@dataclass(slots=True)
class Agent:
    line: Line
    zone: int
    lease_id: int = 0
    sequence: int = 0
    places: list[Place] = field(default_factory=list)

    def next_sequence(self) -> int:
        """Takes the sequence for the agent's next segment."""
        self.sequence += 1
        return self.sequence


class Fleet:
    """A load's agents and producers. Call `register`, `create`, `begin` and `place`, with an exchange after each."""

    def __init__(self, load: Load, lines: list[Line]) -> None:
        self.load = load
        self.agents = [Agent(line, number % load.zones) for number, line in enumerate(lines)]
        self.producers: list[Producer] = []
        self.flushes = self.slices = self.ended = 0
        self.keys: list[TopicPartition] = []
        self._batches = load.batches()
        self._random = random.Random(7)

    def register(self) -> None:
        for number, agent in enumerate(self.agents):

            def settle(reply: Reply, agent: Agent = agent) -> None:
                agent.lease_id = reply.agent_registered.lease_id

            registration = RegisterAgent(host=f"agent-{number}", port=9, zone=str(agent.zone))
            agent.line.ask(Command(register_agent=registration), settle)

    def create(self) -> None:
        for first in range(0, self.load.partitions, TOPIC_PARTITIONS):
            count = min(TOPIC_PARTITIONS, self.load.partitions - first)
            topic = CreateTopic(name=f"topic-{first}", partition_count=count)
            command = Command(create_topics=CreateTopics(topics=[topic]))
            self.agents[0].line.ask(command, self._created)

    def _created(self, reply: Reply) -> None:
        (topic,) = reply.topics_created.topics
        _check(topic.error_code)
        count = min(TOPIC_PARTITIONS, self.load.partitions - len(self.keys))
        self.keys += [
            TopicPartition(topic_id=topic.topic_id, partition=index) for index in range(count)
        ]

    def begin(self) -> None:
        """Initializes the producers: one per zone and `GROUP` partitions."""
        for group in range(-(-self.load.partitions // GROUP)):
            for zone in range(self.load.zones):
                producer = Producer(f"producer-{group}-{zone}")
                self.producers.append(producer)

                def settle(reply: Reply, producer: Producer = producer) -> None:
                    made = reply.producer_id_initialized
                    _check(made.error_code)
                    producer.producer_id = made.producer_id
                    producer.producer_epoch = made.producer_epoch

                agent = self.agents[group % len(self.agents)]
                agent.line.ask(initialize(producer.transactional_id, TIMEOUT_MS), settle)

    def place(self) -> None:
        """Places each partition on one agent per zone, and subscribes the agents on which it is read."""
        zones = [
            tuple(number for number, agent in enumerate(self.agents) if agent.zone == zone)
            for zone in range(self.load.zones)
        ]
        watched: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for index, key in enumerate(self.keys):
            for zone, numbers in enumerate(zones):
                number = place(partition_key(key.topic_id, key.partition), numbers)
                producer = self.producers[index // GROUP * self.load.zones + zone]
                self.agents[number].places.append(Place(key, producer))
                if self._is_read(index, zone):
                    watched[number].append(key)
        for number, keys in watched.items():
            self.agents[number].line.subscribe(keys)

    def _is_read(self, index: int, zone: int) -> bool:
        """Whether consumers read a partition in this zone. Groups read in different zones if there are enough."""
        return (zone - index) % self.load.zones < CONSUMER_GROUPS

    def counts(self) -> dict[str, float]:
        """Returns the totals so far: flushes, slices, batches and ends of transactions."""
        return {
            "flushes": self.flushes,
            "slices": self.slices,
            "batches": self.slices * len(self._batches),
            "transactions": self.ended,
        }

    def flush(self, now_ms: int) -> None:
        """Sends lease renewals, and the commits of the agents whose flush is due."""
        for number, agent in enumerate(self.agents):
            phase = number * self.load.interval_ms // len(self.agents) // TICK_MS * TICK_MS
            if now_ms % self.load.interval_ms == phase and agent.places:
                self.flushes += 1
                self.slices += len(agent.places)
                agent.line.ask(self._commit(agent, now_ms), _committed)
            if now_ms % RENEWAL_MS == number * TICK_MS:
                renewal = RenewLease(lease_id=agent.lease_id)
                agent.line.ask(Command(renew_lease=renewal), lambda _: None)

    def _commit(self, agent: Agent, now_ms: int) -> Command:
        slices: list[SegmentSlice] = []
        numbers: dict[str, int] = {}
        pack, position = COMMITTED_BATCH.pack, 0
        for each in agent.places:
            producer = each.producer
            producer.is_open = True
            if each.producer_epoch != producer.producer_epoch:
                each.producer_epoch, each.sequence = producer.producer_epoch, 0
            number = numbers.setdefault(producer.transactional_id, len(numbers) + 1)
            flags = FLAGS | number << TRANSACTIONAL_ID_SHIFT
            rows = b""
            for size, records in self._batches:
                rows += pack(
                    position,
                    size,
                    records,
                    now_ms,
                    producer.producer_id,
                    producer.producer_epoch,
                    each.sequence,
                    flags,
                )
                position += size
                each.sequence += records
            slices.append(SegmentSlice((each.key.topic_id, each.key.partition), rows))
        segment = SegmentId(lease_id=agent.lease_id, sequence=agent.next_sequence())
        size = len(agent.places) * self.load.slice_bytes + 1024
        return Command(commit_segment=commit_of(segment, size, slices, numbers))

    def end_transactions(self, now_ms: int) -> None:
        """Ends the transactions that are due, and aborts half of them."""
        phases = TRANSACTION_MS // TICK_MS
        due = now_ms // TICK_MS % phases
        for number in range(due, len(self.producers), phases):
            producer = self.producers[number]
            if not producer.is_open:
                continue
            producer.is_open = False
            self.ended += 1

            def settle(reply: Reply, producer: Producer = producer) -> None:
                _check(reply.txn_ended.error_code)
                producer.producer_id = reply.txn_ended.producer_id
                producer.producer_epoch = reply.txn_ended.producer_epoch

            end = EndTxn(
                transactional_id=producer.transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                committed=self._random.random() >= ABORTED_SHARE,
                bumps_epoch=True,
            )
            agent = self.agents[number % len(self.agents)]
            agent.line.ask(Command(end_txn=end), settle)

    def gets_an_object(self) -> float:
        """Returns the smallest number of GETs per object with which the consumers' agents can read it: each agent reads
        it in one fetch, right after the commit.

        The agent that wrote the object has it in its cache. Only half of the transactions are read; the others are
        aborted.
        """
        index_of = {key.SerializeToString(): index for index, key in enumerate(self.keys)}
        readers: dict[tuple[int, int], int] = {}
        for number, agent in enumerate(self.agents):
            for each in agent.places:
                readers[index_of[each.key.SerializeToString()], agent.zone] = number
        gets = objects = 0
        for writer, agent in enumerate(self.agents):
            objects += bool(agent.places)
            for reader, pieces in self._read_by(agent, index_of, readers).items():
                gets += len(requests_of(pieces)) if reader != writer else 0
        return gets / objects

    def _read_by(
        self, agent: Agent, index_of: dict[bytes, int], readers: dict[tuple[int, int], int]
    ) -> dict[int, list[Piece]]:
        """Returns the pieces of one of `agent`'s objects, by the index of the agent that reads them."""
        found: defaultdict[int, list[Piece]] = defaultdict(list)
        position, size = 0, self.load.slice_bytes
        is_live: defaultdict[str, bool] = defaultdict(
            lambda: self._random.random() >= ABORTED_SHARE
        )
        for each in agent.places:
            index = index_of[each.key.SerializeToString()]
            if is_live[each.producer.transactional_id]:
                for zone in range(self.load.zones):
                    if self._is_read(index, zone):
                        found[readers[index, zone]].append(Piece(1, 1, position, size, 0, 1, 0))
            position += size
        return found


def requests_of(pieces: list[Piece]) -> "array[int]":
    """Returns the sizes of the GETs that Lacuna's own read plan needs for these pieces in a store like S3."""
    starts = array("q", bytes(8 * len(pieces)))
    reads = plan_reads(
        Pieces.of(pieces), starts, array("q", range(len(pieces))), lambda *_: "", read_gap=READ_GAP
    )
    return reads.spans


def _committed(reply: Reply) -> None:
    answer = reply.segment_committed
    _check(answer.error_code)
    for rows, row in ((answer.slices, SLICE_VERDICT), (answer.batches, BATCH_VERDICT)):
        for code, *_ in row.iter_unpack(rows):
            _check(code)


def _check(error_code: int) -> None:
    """Raises BenchError if the control plane rejected a valid command."""
    if error_code:
        raise BenchError(f"the control plane rejected the simulated fleet's command: {error_code}")
