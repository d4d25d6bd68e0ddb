"""Imports from a running cluster: another Lacuna, and in slow tests Apache Kafka with an importer that is killed."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lacuna.base.data_folder import ADDRESS_NAME, left
from lacuna.base.errors import UserError
from lacuna.controlplane.client import ControlPlace
from lacuna.importing.cluster import Kafka
from lacuna.importing.cutover import cut_over, standings
from lacuna.importing.following import Budget
from lacuna.importing.mirror import Importer, ImportSettings
from lacuna.importing.topics import Selection
from lacuna.importing.verifying import compare_mirrors
from lacuna.operating.control import connect
from lacuna.operating.kafka import Agents
from lacuna.operating.stores import open_checked
from lacuna.testing import Cluster
from tests.forked import LACUNA
from tests.golden.broker import kafka

SECONDS: Final = 60.0
LEVELS: Final = ("read_committed", "read_uncommitted")


@pytest.fixture(scope="module")
def source() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


class Run:
    """What an import said, and where it got to."""

    def __init__(self, importer: Importer, lines: Sequence[str]) -> None:
        self.progress = importer.progress
        self.lines = lines


def imported(source: str, target: Cluster, *topics: str, **settings: Any) -> Run:
    """Import topics once."""
    lines: list[str] = []

    async def run() -> Importer:
        place = ControlPlace(left(target.data, ADDRESS_NAME))
        store = open_checked(target.store_url)
        async with connect(place) as control:
            importer = Importer(
                Agents(source),
                Agents(target.bootstrap),
                control,
                store,
                ImportSettings(selection=Selection(topics), is_once=True, **settings),
                lines.append,
            )
            await importer.run()
        return importer

    return Run(asyncio.run(run()), lines)


def differences(source: str, target: str, *topics: str) -> list[str]:
    """Compare topics as `lacuna import verify` does."""

    async def compare() -> list[str]:
        async with (
            Kafka(Agents(source), "the source") as there,
            Kafka(Agents(target), "here") as here,
        ):
            return [
                each.difference
                async for each in compare_mirrors(there, here, Selection(topics))
                if each.difference
            ]

    return asyncio.run(compare())


def created(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=named)])[name].result(SECONDS)


def send(bootstrap: str, topic: str, values: Sequence[str], **config: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **config})
    for value in values:
        producer.produce(topic, value.encode(), headers=[("h", None)], partition=0)
    assert producer.flush(SECONDS) == 0


def refused(bootstrap: str, topic: str) -> KafkaError:
    """Return the error of a record that must not be accepted."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(SECONDS)
    (error,) = errors
    assert error is not None
    return error


def read(bootstrap: str, topic: str, partition: int, level: str) -> tuple[int, list[Any]]:
    """Return where a consumer ends in a partition, and each record with its offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    place = TopicPartition(topic, partition)
    place.offset = consumer.get_watermark_offsets(place, SECONDS)[0]
    consumer.assign([place])
    rows = []
    while True:
        message = consumer.poll(SECONDS)
        assert message is not None
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            break
        rows.append(
            (
                message.offset(),
                message.timestamp(),
                message.key(),
                message.value(),
                message.headers(),
            )
        )
    (end,) = consumer.position([place])
    consumer.close()
    return end.offset, rows


def commit(bootstrap: str, group: str, *offsets: TopicPartition) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=list(offsets), asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    ((found),) = consumer.committed([TopicPartition(topic, 0)], SECONDS)
    consumer.close()
    return int(found.offset)


def test_records_groups_and_configs_arrive_and_producers_after_promotion(
    source: Cluster, target: Cluster
) -> None:
    there, here = source.bootstrap, target.bootstrap
    created(there, "orders", 2, retention_ms="-1", flush_messages="9")
    send(there, "orders", ["a", "b", "c"], **{"compression.type": "lz4"})
    commit(there, "billing", TopicPartition("orders", 0, 2))
    first = imported(there, target, "orders")
    assert first.lines == ["orders: copied, and without effect here: flush.messages"]
    send(there, "orders", ["d"], **{"enable.idempotence": True})
    second = imported(there, target, "orders")
    assert 0 < second.progress.counts.bytes_copied < first.progress.counts.bytes_copied
    for level in LEVELS:
        assert read(here, "orders", 0, level) == read(there, "orders", 0, level)
    assert committed(here, "billing", "orders") == 2
    assert differences(there, here, "orders") == []
    assert refused(here, "orders").code() == KafkaError.POLICY_VIOLATION
    lines = asyncio.run(
        cut_over(Agents(there), Agents(here), ["orders"], is_all=False, is_forced=False)
    )
    assert lines == ["promoted orders: producers and consumers may use it"]
    send(here, "orders", ["here"])
    send(there, "orders", ["there"])
    end, rows = read(here, "orders", 0, "read_committed")
    assert (end, [row[3] for row in rows]) == (5, [b"a", b"b", b"c", b"d", b"here"])
    (difference,) = differences(there, here, "orders")
    assert difference.startswith("orders[0] read_committed: offset 4 has the timestamp")
    (line,) = imported(there, target, "orders").lines
    assert line.startswith("orders exists here and is no mirror: it was promoted")


def test_what_is_open_at_the_source_is_not_here_until_it_is_decided(
    source: Cluster, target: Cluster
) -> None:
    there, here = source.bootstrap, target.bootstrap
    created(there, "tx")
    producer = Producer({"bootstrap.servers": there, "transactional.id": "t"})
    producer.init_transactions()
    for is_committed in (True, False):
        producer.begin_transaction()
        for value in ("1", "2"):
            producer.produce("tx", value, partition=0)
        producer.flush()
        (producer.commit_transaction if is_committed else producer.abort_transaction)()
    producer.begin_transaction()
    producer.produce("tx", b"open", partition=0)
    producer.flush()
    send(there, "tx", ["behind"])
    imported(there, target, "tx")

    async def lags() -> list[tuple[int, int]]:
        async with Kafka(Agents(there), "there") as one, Kafka(Agents(here), "here") as two:
            return [(each.lag, each.undecided) for each in await standings(one, two, ["tx"])]

    assert asyncio.run(lags()) == [(0, 2)]
    assert read(here, "tx", 0, "read_uncommitted")[0] == 4, "aborted records are passed"
    with pytest.raises(UserError, match="2 offsets are open at the source"):
        asyncio.run(cut_over(Agents(there), Agents(here), ["tx"], is_all=False, is_forced=False))
    producer.commit_transaction()
    imported(there, target, "tx")
    for level in LEVELS:
        assert read(here, "tx", 0, level) == read(there, "tx", 0, "read_committed")


def test_a_log_that_begins_late_begins_as_late_here_and_a_gap_must_be_accepted(
    source: Cluster, target: Cluster
) -> None:
    there, here = source.bootstrap, target.bootstrap
    created(there, "late")
    send(there, "late", ["1", "2", "3"])
    admin = AdminClient({"bootstrap.servers": there})

    def delete(offset: int) -> None:
        place = TopicPartition("late", 0, offset)
        admin.delete_records([place])[place].result(SECONDS)

    delete(2)
    imported(there, target, "late")
    assert read(here, "late", 0, "read_committed") == read(there, "late", 0, "read_committed")
    send(there, "late", ["4", "5", "6"])
    delete(5)
    run = imported(there, target, "late")
    (line,) = run.lines
    assert line.startswith(
        "late[0] ends at offset 3 here, but the source has deleted its records below 5 already: add --accept-gaps"
    )
    imported(there, target, "late", accepts_gaps=True)
    assert read(here, "late", 0, "read_committed") == read(there, "late", 0, "read_committed")


def test_a_topic_that_was_created_again_is_not_copied_over_the_old_one(
    source: Cluster, target: Cluster
) -> None:
    there, here = source.bootstrap, target.bootstrap
    created(there, "again")
    send(there, "again", ["old"])
    imported(there, target, "again")
    admin = AdminClient({"bootstrap.servers": there})
    admin.delete_topics(["again"])["again"].result(SECONDS)
    (line,) = imported(there, target, "again").lines
    assert line.startswith("again was deleted at the source: promote its copy")
    created(there, "again")
    send(there, "again", ["new", "newer"])
    (line,) = imported(there, target, "again").lines
    assert line.startswith("again was deleted at the source and created again")
    _, rows = read(here, "again", 0, "read_committed")
    assert [row[3] for row in rows] == [b"old"]


def test_partitions_that_are_added_are_copied_too(source: Cluster, target: Cluster) -> None:
    there, here = source.bootstrap, target.bootstrap
    created(there, "wider")
    imported(there, target, "wider")
    source.run(_widened(source, "wider", 3))
    producer = Producer({"bootstrap.servers": there})
    producer.produce("wider", b"x", partition=2)
    producer.flush(SECONDS)
    imported(there, target, "wider")
    assert read(here, "wider", 2, "read_committed") == read(there, "wider", 2, "read_committed")


async def _widened(cluster: Cluster, name: str, count: int) -> None:
    from lacuna.controlplane.v1.cluster_pb2 import CreatePartitions, CreatePartitionsTopic
    from lacuna.controlplane.v1.control_pb2 import Command

    topic = CreatePartitionsTopic(name=name, partition_count=count)
    await cluster.embedded.control.call(Command(create_partitions=CreatePartitions(topics=[topic])))


def test_a_source_that_does_not_answer_is_named(target: Cluster) -> None:
    with pytest.raises(UserError, match=r"the source does not answer at 127\.0\.0\.1:1 \(.*\)"):
        imported("127.0.0.1:1", target)


def test_a_cluster_is_not_imported_into_itself(target: Cluster) -> None:
    with pytest.raises(UserError, match="the source is this cluster itself"):
        imported(target.bootstrap, target)


def test_bytes_are_spread_over_time() -> None:
    async def spent(pace: int | None) -> float:
        loop = asyncio.get_running_loop()
        slept: list[float] = []
        budget = Budget(pace)
        began = loop.time()
        for _ in range(3):
            await budget.spend(100)
            slept.append(loop.time() - began)
        return slept[-1]

    assert asyncio.run(spent(10_000)) > 0.02
    assert asyncio.run(spent(None)) < SECONDS


class Load:
    """Transactions, half of them aborted, and plain records of every codec, until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        writers: list[Callable[[], None]] = [lambda: self._transactions(1), self._plain]
        writers += [lambda: self._transactions(2), lambda: self._transactions(3)]
        self._threads = [threading.Thread(target=each) for each in writers]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive()

    def _transactions(self, number: int) -> None:
        chosen = random.Random(number)
        codec = ("none", "lz4", "gzip", "zstd")[number]
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": f"load-{number}",
                "compression.type": codec,
            }
        )
        producer.init_transactions(SECONDS)
        while not self._is_over.is_set():
            producer.begin_transaction()
            for index in range(chosen.randrange(1, 20)):
                producer.produce("tx", b"v" * index * 9, f"{number}-{index}", partition=index % 2)
            is_committed = chosen.random() < 0.5
            (producer.commit_transaction if is_committed else producer.abort_transaction)(SECONDS)

    def _plain(self) -> None:
        codecs = ("none", "gzip", "snappy", "lz4", "zstd")
        producers = [
            Producer({"bootstrap.servers": self._bootstrap, "compression.type": codec})
            for codec in codecs
        ]
        count = 0
        while not self._is_over.wait(0.01):
            for producer in producers:
                count += 1
                for topic in ("stamped", "compacted"):
                    producer.produce(topic, b"p" * count, str(count % 7), headers={"n": b"1"})
        for producer in producers:
            producer.flush(SECONDS)


@pytest.mark.slow
@pytest.mark.java
def test_apache_kafka_is_copied_exactly_by_an_importer_that_is_killed(tmp_path: Path) -> None:
    with kafka(tmp_path / "kafka", heap="512M") as there, Cluster() as target:
        here = target.bootstrap
        created(there, "tx", 2)
        created(there, "stamped", message_timestamp_type="LogAppendTime")
        created(there, "compacted", cleanup_policy="compact")
        load = Load(there)
        try:
            for _ in range(5):
                _kill_an_importer(there, target)
        finally:
            load.stop()
        commit(there, "billing", TopicPartition("tx", 0, 5))
        imported(there, target)
        places = [("tx", 0), ("tx", 1), ("stamped", 0), ("compacted", 0)]
        for topic, partition in places:
            wanted = read(there, topic, partition, "read_committed")
            assert wanted[1], "the load wrote something"
            for level in LEVELS:
                end, rows = read(here, topic, partition, level)
                if topic == "compacted":  # agents may have compacted it since
                    of_source = {row[0]: row for row in wanted[1]}
                    assert all(of_source[row[0]] == row for row in rows)
                    assert (end, rows[-1]) == (wanted[0], wanted[1][-1])
                else:
                    assert (end, rows) == wanted
        assert differences(there, here) == []
        assert committed(here, "billing", "tx") == 5


def _kill_an_importer(source: str, target: Cluster) -> None:
    """Run an importer until it has copied something, and kill it in the middle of its work."""
    command = [*LACUNA, "import", "run", "--from", source, "-b", target.bootstrap]
    before = _copied(target)
    process = subprocess.Popen(
        [*command, f"--data={target.data}"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        moved = threading.Event()
        timer = threading.Timer(SECONDS, moved.set)
        timer.start()
        while _copied(target) <= before:
            assert process.poll() is None
            assert not moved.wait(0.02), "nothing was copied"
        timer.cancel()
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait(SECONDS)


def _copied(target: Cluster) -> int:
    partitions = target.embedded.running.plane._state.partitions
    return sum(each.high_watermark for each in [*partitions.values()])
