"""The GETs per GiB of a topic with which the agents of a zone serve its consumers, reading alone and sharing their
reads.

An agent in another zone writes everything, so each object contains slices of all partitions. Then only the zone's
agents run, with cold caches, while ten consumers each read everything.

- librdkafka reads from the leader of a partition, so each agent reads the slices of its own partitions.
- Each consumer reads one partition after another from a single agent, regardless of leaders (bench/fetches.py), so each
  agent reads everything.
- As in the first case, but an agent is killed once a hundredth of the data has been read.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from bench import BenchError
from bench.clients import POOL, POOL_SIZE, Deliveries, Threads, flush, ready_producer
from bench.counted_s3 import GET, CountedS3, use_credentials
from bench.fetches import Fetcher
from bench.figures import Better, Figure, Row, Run
from bench.lacuna import READY, LacunaGrpc
from bench.processes import Process
from bench.rounds import Bench
from bench.target import PARTITIONS, TIMEOUT_SECONDS, Topics

GETS = Figure("GETs/GiB of the topic", Better.LESS)
SECONDS = Figure("s until all have read all", Better.LESS)
PAUSE = Figure("longest pause of a consumer, s", Better.LESS)
RECORD_BYTES = 1024
CONSUMERS = 10
SHARING = {"alone": "off", "together": "auto"}
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Amount:
    """The MiB to write, in total and at once, the numbers of partitions and agents, and the number of agents before one
    dies.
    """

    mebibytes: int
    partitions: int
    at_once: int
    agents: tuple[int, ...]
    killed_of: int


AMOUNTS = {
    "smoke": Amount(4, 4, 2, (), 2),
    "quick": Amount(32, 20, 8, (1, 4), 4),
    "full": Amount(64, 20, 8, (1, 4, 10), 10),
}


class ZoneAgents(LacunaGrpc):
    """A writer in one zone until `to_readers`, and then agents in another zone."""

    def __init__(self, agents: int, sharing: str, store: str) -> None:
        options = ["--zone=writers", "--create-bucket", "--set", "merge.interval.ms=1h"]
        super().__init__(options, store=store)
        self._readers = agents
        self._sharing = sharing

    def to_readers(self) -> None:
        for process in self._processes[:-1]:
            process.stop()
        control = self._processes[-1]
        options = ["--zone=readers", "--set", f"fetch.zone.reads={self._sharing}"]
        options += ["--set", "merge.interval.ms=1h", "--set", "collect.interval.ms=1h"]
        arguments = [f"--control={control.value}", f"--store={self._store}", "--listen=127.0.0.1:0"]
        agents = [Process(["agent", *arguments, *options], READY) for _ in range(self._readers)]
        self._processes = [*agents, control]
        self._listens = [agent.value for agent in agents]
        self._listen = self._listens[0]

    def kill(self, number: int) -> None:
        self._processes.pop(number).kill()


@dataclass(slots=True)
class Reading:
    """A consumer's progress: its number of records, and the longest pause between two of them."""

    records: int = 0
    longest_pause: float = 0.0
    _last: float = field(default=0.0)

    def took(self, count: int) -> None:
        now = time.perf_counter()
        if self.records:
            self.longest_pause = max(self.longest_pause, now - self._last)
        self._last = now
        self.records += count


def zone(bench: Bench) -> Iterator[Row]:
    """Yields a row for each kind of work and number of agents, with agents that read alone and with agents that share
    reads.
    """
    amount = AMOUNTS[bench.size.name]
    use_credentials()
    for agents in amount.agents:
        for how, sharing in SHARING.items():
            plural = "s" if agents > 1 else ""
            for work, read in _WORKS.items():
                run = _measure(agents, sharing, amount, read)
                yield Row(f"{work}, {agents} agent{plural}, {how}", "lacuna", [run])
    for how, sharing in SHARING.items():
        agents = amount.killed_of
        run = _measure(agents, sharing, amount, _kill_an_agent)
        yield Row(f"{CONSUMERS} consumers, {agents} agents, one is killed, {how}", "lacuna", [run])


def _measure(
    agents: int,
    sharing: str,
    amount: Amount,
    read: Callable[["ZoneAgents", str, Amount], list[Reading]],
) -> Run:
    with CountedS3() as service, ZoneAgents(agents, sharing, service.url) as server:
        topic = Topics(server).create("zone", amount.partitions)
        _write(ready_producer(server, topic), topic, amount)
        server.to_readers()
        before, started = service.counts(), time.perf_counter()
        readings = read(server, topic, amount)
        seconds = time.perf_counter() - started
        counted: Counter[str] = service.counts() - before
    return {
        GETS: counted[GET] / (amount.mebibytes / 1024),
        SECONDS: seconds,
        PAUSE: max(each.longest_pause for each in readings),
    }


def _write(client: Any, topic: str, amount: Amount) -> None:
    """Writes records to all partitions, one after another, `at_once` MiB at a time."""
    deliveries = Deliveries()
    total = amount.mebibytes * 1024
    for index in range(total):
        client.produce(
            topic,
            POOL[index % POOL_SIZE],
            partition=index % amount.partitions,
            on_delivery=deliveries,
        )
        if index % (amount.at_once * 1024) == 0:
            flush(client)
    flush(client)
    deliveries.check(total)


def _in_threads(
    work: Callable[[int, Reading], None],
    meanwhile: Callable[[list[Reading]], None] = lambda _: None,
) -> list[Reading]:
    readings = [Reading() for _ in range(CONSUMERS)]
    with Threads(lambda number: work(number, readings[number]), CONSUMERS):
        meanwhile(readings)
    return readings


def _kill_an_agent(server: ZoneAgents, topic: str, amount: Amount) -> list[Reading]:
    """Kills the last agent once a hundredth of the data has been read, when most is still unread."""
    few = CONSUMERS * amount.mebibytes * 1024 // 100

    def kill(readings: list[Reading]) -> None:
        limit = time.monotonic() + TIMEOUT_SECONDS
        while sum(each.records for each in readings) < few and time.monotonic() < limit:
            time.sleep(0.01)
        server.kill(len(server.bootstraps) - 1)

    return _consume(server, topic, amount, kill)


def _consume(
    server: ZoneAgents,
    topic: str,
    amount: Amount,
    meanwhile: Callable[[list[Reading]], None] = lambda _: None,
) -> list[Reading]:
    def work(_: int, reading: Reading) -> None:
        _read_with_librdkafka(server.bootstraps[0], topic, amount, reading)

    return _in_threads(work, meanwhile)


def _read_with_librdkafka(bootstrap: str, topic: str, amount: Amount, reading: Reading) -> None:
    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "zone",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "queued.max.messages.kbytes": 4096,
        }
    )
    client.assign([TopicPartition(topic, index, 0) for index in range(amount.partitions)])
    ended: set[int | None] = set()
    deadline = time.monotonic() + 2 * TIMEOUT_SECONDS
    while len(ended) < amount.partitions:
        if time.monotonic() > deadline:
            raise BenchError(f"a consumer has read only {reading.records} records")
        messages = client.consume(1000, _POLL_SECONDS)
        records = sum(message.error() is None for message in messages)
        if records:
            reading.took(records)
        for message in messages:
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    client.close()
    # The producer has already written one record to each of the first partitions.
    if reading.records != amount.mebibytes * 1024 + PARTITIONS:
        raise BenchError(f"a consumer has read {reading.records} records")


def _read_partition(server: ZoneAgents, topic: str, amount: Amount) -> list[Reading]:
    """Makes each consumer read one partition after another from its own agent."""

    def work(number: int, reading: Reading) -> None:
        bootstrap = server.bootstraps[number % len(server.bootstraps)]
        with Fetcher(bootstrap) as fetcher:
            for partition in range(amount.partitions):
                offset, at_end = 0, False
                while not at_end:
                    answer = fetcher.fetch(topic, {partition: offset})
                    reading.took(answer.next_offsets[partition] - offset)
                    offset, at_end = answer.next_offsets[partition], answer.at_end

    return _in_threads(work)


_WORKS = {
    f"{CONSUMERS} consumers of all": _consume,
    f"{CONSUMERS} consumers of one partition after the other, each of its own agent": _read_partition,
}
