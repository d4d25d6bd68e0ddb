"""Tests power cuts and a failing disk: acknowledged records survive (S2), and nothing is partial (S3)."""

from __future__ import annotations

import errno
import random
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer

from lacuna.agent.produce.settings import ProduceSettings
from lacuna.controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.logstore.objects import DirectoryStore
from lacuna.logstore.objects.filesystem import FileSystem
from lacuna.logstore.objects.store import Part, Reads, WritableBuffer
from lacuna.logstore.records.batch import read_batches
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster
from tests.clients.batch import batch
from tests.clients.hurry import keep_leases
from tests.clients.librd import producer, read, send
from tests.clients.probing import Target, error_name
from tests.seeds import seeds

from .history import Rows, Transaction, log_violations, transaction_violations
from .power import OBJECTS, Lie, PowerCluster, PowerDisk, Remains

TOPIC = "powered"
PARTITIONS = 2
ROUNDS = 30
LONGEST_GAP = 50
SEGMENTS = "/segments/"
HOT_BYTES = 64 << 10

LIES: dict[str, Lie] = {
    "the object": lambda kind, path: kind == "fsync" and path.startswith(OBJECTS),
    "the object's directory": lambda kind, path: kind == "fsync_directory" and SEGMENTS in path,
    "the directories above": lambda kind, path: (
        kind == "fsync_directory" and path.startswith(OBJECTS) and SEGMENTS not in path
    ),
    "the journal's log": lambda kind, path: kind == "fsync" and path == "/journal.db-wal",
    "the journal's database": lambda kind, path: kind == "fsync" and path == "/journal.db",
    "the journal's directory": lambda kind, path: kind == "fsync_directory" and path == "/",
}


class Facts:
    """The acknowledgements of clients, in order."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, int, bytes]] = []

    def count(self) -> int:
        """Return the number of facts."""
        return len(self.rows)

    def acknowledged(self, count: int) -> Rows:
        """Return partition → (offset, value) of the plain records in the first facts."""
        found: dict[int, list[tuple[int, bytes]]] = {p: [] for p in range(PARTITIONS)}
        for kind, partition, offset, value in self.rows[:count]:
            if kind == "plain":
                found[partition].append((offset, value))
        return found

    def transactions(self, count: int) -> list[Transaction]:
        """Return the transactions in the first facts, by number."""
        found: dict[int, Transaction] = {}
        for kind, partition, number, value in self.rows[:count]:
            if kind == "value":
                one = found.setdefault(number, Transaction())
                one.values.setdefault(partition, []).append(value)
            elif kind == "end":
                found[number].is_committed = value == b"commit"
        return list(found.values())


def work(bootstrap: str, facts: Facts) -> None:
    """Write plain records and transactions alternately with real clients. Every third transaction aborts."""
    plain, transactional = producer(bootstrap, enable_idempotence=True), producer(bootstrap, "t")
    for number in range(ROUNDS):
        _send(plain, facts, number)
        transactional.begin_transaction()
        for at in range(3):
            partition, value = (number + at) % PARTITIONS, b"txn %d %d" % (number, at)
            facts.rows.append(("value", partition, number, value))
            transactional.produce(TOPIC, value, partition=partition)
        if number % 3 == 2:
            transactional.abort_transaction(60)
        else:
            transactional.commit_transaction(60)
        facts.rows.append(("end", 0, number, b"abort" if number % 3 == 2 else b"commit"))


def _send(plain: Producer, facts: Facts, number: int) -> None:
    def delivered(error: object, message: Message) -> None:
        assert error is None
        row = (message.partition() or 0, message.offset() or 0, bytes(message.value() or b""))
        facts.rows.append(("plain", *row))

    for partition in range(PARTITIONS):
        value = b"plain %d " % number + bytes(200)
        plain.produce(TOPIC, value, partition=partition, on_delivery=delivered)
    assert plain.flush(60) == 0


def create_topic(cluster: PowerCluster) -> None:
    topic = CreateTopic(name=TOPIC, partition_count=PARTITIONS)
    command = Command(create_topics=CreateTopics(topics=[topic]))
    (made,) = cluster.run(cluster.control.call(command)).topics_created.topics
    assert made.error_code == 0


def read_all(bootstrap: str) -> tuple[Rows, list[str]]:
    """Return what a read_committed consumer reads once no transaction is open, and the errors that it receives."""
    t = Target(bootstrap)
    t.transactional("t")
    found: dict[int, list[tuple[int, bytes]]] = {}
    for partition in range(PARTITIONS):
        rows = found.setdefault(partition, [])
        position, end = 0, 1
        while position < end:
            answer = t.fetch(TOPIC, position, index=partition, isolation=1)
            if answer["error_code"]:
                return found, [f"partition {partition}: error {answer['error_code']} at {position}"]
            end = answer["last_stable_offset"]
            for read_batch in read_batches(answer["records"] or b""):
                position = read_batch.header.next_offset
                if not read_batch.header.is_control:
                    rows += [(each.offset, each.value or b"") for each in read_batch.records()]
    return found, []


def loss(remains: Remains, facts: Facts, folder: Path) -> list[str]:
    """Return the errors in a cluster that starts from this saved state."""
    folder.mkdir()
    try:
        with PowerCluster(remains.files, folder) as cluster:
            if TOPIC not in cluster.control.cluster.topics_by_name:
                return ["the topic is gone"] if remains.facts else []
            read, found = read_all(cluster.bootstrap)
    except Exception as error:
        return [f"it does not start: {error!r}"]
    for partition, acknowledged in facts.acknowledged(remains.facts).items():
        found += log_violations(partition, acknowledged, read.get(partition, ()))
    return found + transaction_violations(facts.transactions(remains.facts), read)


def losses(
    tmp_path: Path,
    lie: Lie,
    pragmas: Mapping[str, str] | None = None,
    seed: int = 7,
    hot_bytes: int = 0,
) -> Iterator[str]:
    """Yield what was lost at each simulated power cut."""
    rng = random.Random(seed)
    facts = Facts()
    disk = PowerDisk(lie, facts.count, rng, LONGEST_GAP)
    disk.make_directory("/store")
    with PowerCluster(disk, tmp_path, pragmas, hot_bytes) as cluster:
        create_topic(cluster)
        facts.rows.append(("topic", 0, 0, b""))
        work(cluster.bootstrap, facts)
        disk.cut()
    remains = [each for each in disk.remains if each.facts]
    assert len(remains) > 20
    for number, each in enumerate(remains):
        yield from loss(each, facts, tmp_path / f"after-{number}")


@pytest.mark.slow
@pytest.mark.parametrize("hot_bytes", [0, HOT_BYTES])
@pytest.mark.parametrize("seed", seeds(1, 2))
def test_nothing_acknowledged_is_lost(tmp_path: Path, seed: int, hot_bytes: int) -> None:
    """S2, S3: at several dozen moments, with any part of the unsynced data."""
    assert [*losses(tmp_path, lambda kind, path: False, seed=seed, hot_bytes=hot_bytes)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", LIES)
def test_without_a_sync_something_is_lost(tmp_path: Path, name: str) -> None:
    """S2: every sync is necessary, and the checker proves it."""
    assert any(losses(tmp_path, LIES[name]))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LIES if "journal" in name])
def test_without_a_sync_of_the_journal_hot_segments_are_lost(tmp_path: Path, name: str) -> None:
    """S2: the records of a hot segment are only in the journal."""
    assert any(losses(tmp_path, LIES[name], hot_bytes=HOT_BYTES))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["OFF", "NORMAL"])
def test_a_weaker_mode_of_the_journal_loses_something(tmp_path: Path, mode: str) -> None:
    """S2: synchronous=FULL is necessary."""
    weaker = {"PRAGMA synchronous=FULL": f"PRAGMA synchronous={mode}"}
    assert any(losses(tmp_path, lambda kind, path: False, weaker))


class SickDisk(FileSystem):
    """A file system on which every write, open and read fails with `errno`, unless it is 0.

    It recovers after `failures` failed calls, unless this is None.
    """

    def __init__(self) -> None:
        self.errno = 0
        self.failures: int | None = None

    def write(self, fd: int, parts: Sequence[Part]) -> None:
        self._fail()
        super().write(fd, parts)

    def read_ranges(
        self, paths: list[str], firsts: array[int], reads: Reads, buffer: WritableBuffer
    ) -> Sequence[int]:
        if self.errno:
            return [-self.errno] * len(reads.sizes)
        return super().read_ranges(paths, firsts, reads, buffer)

    def open(self, path: str) -> int:
        self._fail()
        return super().open(path)

    def _fail(self) -> None:
        if not self.errno:
            return
        error = OSError(self.errno, errno.errorcode[self.errno])
        if self.failures is not None:
            self.failures -= 1
            if not self.failures:
                self.errno = 0
        raise error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.ENOSPC, "no space left below"), (errno.EACCES, "give this user permission")],
)
def test_a_sick_disk_is_said_and_outlived(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int, message: str
) -> None:
    """S2: retriable errors name the problem. After the disk recovers, all requests succeed."""
    disk, data = SickDisk(), tmp_path / "lacuna"

    def open_store() -> DirectoryStore:
        return DirectoryStore(data / "objects", file_system=disk)

    putting = AgentParts(produce=ProduceSettings(hot_bytes=0))
    with Cluster(data, open_store=open_store, parts=putting) as cluster:
        keep_leases(cluster)
        topic, raw = cluster.create_topic("t"), Target(cluster.bootstrap)
        assert raw.verdict(topic, batch([b"raw"])) == "NONE"
        disk.errno = number
        assert raw.verdict(topic, batch([b"lost"])) == "KAFKA_STORAGE_ERROR"
        assert message in caplog.text
        if number == errno.EACCES:
            assert error_name(raw.fetch(topic, 0)["error_code"]) == "KAFKA_STORAGE_ERROR"
        disk.failures = 3
        who = producer(cluster.bootstrap, enable_idempotence=True)
        assert send(who, topic, [b"patient"]) == [1]
        assert disk.errno == 0, "it was mended while the client tried again"
        assert read(cluster.bootstrap, topic).offsets[-1:] == [1]
