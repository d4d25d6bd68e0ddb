"""The scenarios of the contract, shared by all Python clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from tests.compat.harness.adapter import Client, Consumer, Message, Producer, UnsupportedError

FEEDS = ("start", "middle", "end", "all", "mixed")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
GROUP_RECORDS = 200
QUIET_SECONDS = 20.0
SETTLE_SECONDS = 60.0
Records = dict[str, list[str]]
Answer = tuple[Records, dict[str, Any]]


def line(message: Message) -> str:
    """Return a record as the contract prints it."""
    text = f"{_text(message.key)}={_text(message.value)}"
    if message.headers:
        text += "|" + ",".join(f"{name}:{_text(value)}" for name, value in message.headers)
    return text


def _text(value: bytes | None) -> str:
    return "~" if value is None else value.decode()


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


class Run:
    """One client against one cluster."""

    def __init__(
        self,
        client: Client,
        workload: dict[str, Any],
        prefix: str,
        legacy: Callable[[], Client] | None,
    ) -> None:
        self.client = client
        self.workload = workload
        self.prefix = prefix
        self._legacy = legacy

    def topic(self, name: str) -> str:
        """Return a topic's name with the prefix."""
        return f"{self.prefix}-{name}"

    @contextmanager
    def consumer(self, group: str, client: Client | None = None) -> Iterator[Consumer]:
        """Yield a consumer, and close it afterwards."""
        made = (client or self.client).consumer(self.topic(group))
        try:
            yield made
        finally:
            made.close()

    @contextmanager
    def producer(
        self, codec: str = "none", transactional_id: str | None = None
    ) -> Iterator[Producer]:
        """Yield a producer, and close it afterwards."""
        made = self.client.producer(codec, transactional_id)
        try:
            yield made
        finally:
            made.close()

    def read(self, name: str, partitions: Sequence[int], client: Client | None = None) -> Answer:
        """Read partitions from the start until the positions reach the ends. Return the facts about each partition."""
        topic = self.topic(name)
        with self.consumer("read", client) as consumer:
            ends = {p: consumer.bounds(topic, p)[1] for p in partitions}
            consumer.assign(topic, partitions)
            records: Records = {}
            for message in until(consumer, topic, ends):
                records.setdefault(f"{name}/{message.partition}", []).append(line(message))
            there = [p for p in partitions if consumer.position(topic, p) >= ends[p]]
        return records, {"at_end": there}

    def produce(self) -> Answer:
        """Produce with each codec in turn, then read the records back."""
        used = []
        for codec in CODECS:
            try:
                with self.producer(codec) as producer:
                    _send_all(producer, self.topic("produce"), self.workload["produce"])
            except UnsupportedError:
                continue
            used.append(codec)
        records, _ = self.read("produce", range(3))
        return records, {"codecs": used}

    def transactions(self) -> Answer:
        """Commit and abort, then read the committed records."""
        aborted = 0
        topic = self.topic("transactions")
        with self.producer(transactional_id=topic) as producer:
            for transaction in self.workload["transactions"]:
                producer.begin()
                for one in transaction["records"]:
                    sent = (one["partition"], _bytes(one["key"]), _bytes(one["value"]))
                    producer.send(topic, *sent, ())
                producer.flush()
                if transaction["commit"]:
                    producer.commit()
                else:
                    producer.abort()
                    aborted += 1
        records, _ = self.read("transactions", range(2))
        return records, {"aborted": aborted}

    def holes(self) -> Answer:
        """Read all feeds from start to end."""
        records: Records = {}
        ended = []
        for name in FEEDS:
            found, facts = self.read(name, [0])
            records |= found
            ended += [name] if facts["at_end"] else []
        return records, {"at_end": ended}

    def holes_inside(self) -> Answer:
        """Read the first record after each tenth of the offsets."""
        records: Records = {}
        for name in ("middle", "mixed"):
            with self.consumer("inside") as consumer:
                records[f"{name}/0"] = _firsts(consumer, self.topic(name))
        return records, {}

    def commit(self) -> Answer:
        """Read five records, commit and close. Another consumer continues from there."""
        topic = self.topic("mixed")
        with self.consumer("commit") as consumer:
            ends = {0: consumer.bounds(topic, 0)[1]}
            consumer.subscribe(topic)
            first = list(islice(until(consumer, topic, ends), 5))
            consumer.commit(topic, 0, first[-1].offset + 1)
        with self.consumer("commit") as consumer:
            consumer.subscribe(topic)
            rest = list(until(consumer, topic, ends))
            consumer.commit(topic, 0, consumer.position(topic, 0))
            lag = ends[0] - consumer.committed(topic, 0)
        return {"mixed/0": [line(m) for m in first + rest]}, {"lag": lag}

    def group(self) -> Answer:
        """Two members share the partitions, then one leaves."""
        topic = self.topic("group")
        records: Records = {}
        with self.consumer("g") as one:
            with self.consumer("g") as other:
                members = (one, other)
                for member in members:
                    member.subscribe(topic)
                while True:
                    for member in members:
                        _take(member, topic, records)
                    if _count(records) >= GROUP_RECORDS and all(m.assigned() == 2 for m in members):
                        break
                assigned = [member.assigned() for member in members]
            while one.assigned() != 4:
                _take(one, topic, records)
            alone = one.assigned()
        return records, {"assigned": assigned, "alone": alone}

    def eos(self) -> Answer:
        """Consume, transform and produce. The second transaction aborts and is repeated."""
        topic, output, group = self.topic("input"), self.topic("output"), self.topic("eos")
        with (
            self.producer(transactional_id=group) as producer,
            self.consumer("eos") as consumer,
        ):
            ends = {0: consumer.bounds(topic, 0)[1]}
            consumer.subscribe(topic)
            read = list(until(consumer, topic, ends))
            for number, first in enumerate(range(0, len(read), 10)):
                some = read[first : first + 10]
                is_last = first + 10 >= len(read)
                position = consumer.position(topic, 0) if is_last else some[-1].offset + 1
                for end in ["abort", "commit"] if number == 1 else ["commit"]:
                    producer.begin()
                    for message in some:
                        producer.send(output, 0, message.key, (message.value or b"").upper(), ())
                    producer.flush()
                    producer.send_offsets(consumer, group, topic, 0, position)
                    getattr(producer, end)()
            lag = _settled_lag(consumer, topic, ends[0])
        records, _ = self.read("output", [0])
        return records, {"committed": lag}

    def legacy(self) -> Answer:
        """Read message sets that others wrote, and the client's own."""
        if self._legacy is None:
            raise UnsupportedError("this version does not use message sets, or not with this Kafka")
        old = self._legacy()
        mixed, _ = self.read("mixed", [0], old)
        records: Records = {"mixed/0": mixed.get("mixed/0", [])}
        topic = self.topic("produce")
        with self.consumer("read", old) as consumer:
            before = consumer.bounds(topic, 0)[1]
        for codec in ("none", "gzip"):
            producer = old.producer(codec)
            for number in range(10):
                producer.send(topic, 0, f"old{number}".encode(), codec.encode() * 10, ())
            producer.flush()
            producer.close()
        with self.consumer("read", old) as consumer:
            ends = {0: consumer.bounds(topic, 0)[1]}
            consumer.assign(topic, [0], before)
            records["produce/0"] = [line(m) for m in until(consumer, topic, ends)]
        return records, {}


def until(consumer: Consumer, topic: str, ends: dict[int, int]) -> Iterator[Message]:
    """Return what a consumer reads up to `ends`, or until no record has arrived for a while."""
    quiet = time.monotonic() + QUIET_SECONDS
    while not all(consumer.has_ended(topic, p, end) for p, end in ends.items()):
        for message in consumer.poll(0.1):
            quiet = time.monotonic() + QUIET_SECONDS
            yield message
        if time.monotonic() > quiet:
            return


def _settled_lag(consumer: Consumer, topic: str, end: int) -> int:
    """Wait for the lag, since Kafka shows a transaction's offsets only some time after it answers the commit."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while (lag := end - consumer.committed(topic, 0)) and time.monotonic() < deadline:
        consumer.poll(0.1)
    return lag


def _firsts(consumer: Consumer, topic: str) -> list[str]:
    earliest, latest = consumer.bounds(topic, 0)
    found: list[str] = []
    for tenth in range(10):
        consumer.assign(topic, [0], earliest + tenth * (latest - earliest) // 10)
        message = next(until(consumer, topic, {0: latest}), None)
        if message is not None and line(message) not in found[-1:]:
            found.append(line(message))
    return found


def _take(consumer: Consumer, topic: str, records: Records) -> None:
    """Poll once. Commits after the records, so that the next owner continues there."""
    behind: dict[int, int] = {}
    for message in consumer.poll(0.05):
        records.setdefault(f"group/{message.partition}", []).append(line(message))
        behind[message.partition] = message.offset + 1
    for partition, offset in behind.items():
        consumer.commit(topic, partition, offset)


def _count(records: Records) -> int:
    return sum(len(set(lines)) for lines in records.values())


def _send_all(producer: Producer, topic: str, records: Sequence[dict[str, Any]]) -> None:
    for number, one in enumerate(records):
        headers = [(name, _bytes(value)) for name, value in one["headers"]]
        producer.send(topic, number % 3, _bytes(one["key"]), _bytes(one["value"]), headers)
    producer.flush()
