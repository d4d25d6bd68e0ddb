"""Tests exactly-once consume-process-produce while every process is killed (S2-S5, S8, S12, S26).

Three workers move records from one topic to another, with the group's offsets in each transaction. SIGKILL ends agents,
workers and the leading control plane at seeded moments, and each is restarted. At the end, every input must have had
its effect once.
"""

from __future__ import annotations

import dataclasses
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lacuna.operating.moto import BUCKET, CREDENTIALS, MotoServer
from tests.clients.librd import COMMITTED, read

from . import takeovers
from .history import History, Rows, violations
from .processes import Deployment, Process

PARTITIONS = 6
INPUTS = 3000
STEPS = 30
TRANSACTIONS = INPUTS // 20
FAULTS = ("agent", "agent", "agent", "worker", "worker", "control", "control", "both")
DEADLINE_SECONDS = 300.0


class Progress:
    """Counts what the workers have committed, and wakes threads that wait for a count."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = threading.Condition()

    def heard(self, line: str) -> None:
        """Process a line that a worker printed."""
        if line.startswith("committed"):
            with self._changed:
                self.count += int(line.split()[1])
                self._changed.notify_all()

    def wait_for(self, count: int, seconds: float) -> bool:
        """Return whether this many records were committed within this many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self.count >= count, seconds)


class Feeder(threading.Thread):
    """Writes the input, a step whenever the workers have nearly caught up. `acknowledged` contains its
    acknowledgements.
    """

    def __init__(self, bootstrap: str, topic: str, progress: Progress) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[int, list[tuple[int, bytes]]] = {p: [] for p in range(PARTITIONS)}
        self.errors: list[str] = []
        self._topic = topic
        self._progress = progress
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 290_000,
            }
        )

    def run(self) -> None:
        for step in range(STEPS):
            for number in range(step * INPUTS // STEPS, (step + 1) * INPUTS // STEPS):
                partition = number % PARTITIONS
                value = b"input %d" % number
                self._producer.produce(
                    self._topic, value, partition=partition, on_delivery=self._delivered
                )
            if self._producer.flush(DEADLINE_SECONDS):
                self.errors.append("flush did not end")
                return
            self._progress.wait_for(step * INPUTS // STEPS, 2.0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error.str())
            return
        row = (message.offset() or 0, bytes(message.value() or b""))
        self.acknowledged[message.partition() or 0].append(row)


@contextmanager
def deployment(kind: str, path: Path) -> Iterator[Deployment]:
    """Start two agents over a directory or a moto bucket, or over a journal that two control planes share.

    Most flushes become hot segments, except over "s3".
    """
    with ExitStack() as stack:
        if kind in ("postgresql", "bucket"):
            # On a busy machine, a request to moto's server may take a second.
            made = takeovers.deployment(kind, path, "--lease-ms=10000")
            yield stack.enter_context(made)
            return
        store, environment = [f"--objects={path / 'objects'}"], {}
        if kind == "s3":
            endpoint = stack.enter_context(MotoServer()).endpoint
            store = [f"--bucket={BUCKET}", f"--endpoint={endpoint}", "--create-bucket"]
            store += ["--flush-ms=20"]
            environment = CREDENTIALS
        yield stack.enter_context(Deployment(path / "control", 2, store, environment))


@contextmanager
def workers(bootstrap: str, progress: Progress) -> Iterator[list[Process]]:
    """Start three workers, two of them static members of their group."""
    made = []
    for number in range(3):
        arguments = [bootstrap, "group", "source", "sink", f"worker-{number}"]
        arguments += [f"static-{number}"] if number else []
        made.append(
            Process(f"worker {number}", "tests.faults.eos_worker", arguments, heard=progress.heard)
        )
    try:
        for each in made:
            each.start()
        yield made
    except BaseException as error:
        for each in made:
            error.add_note(f"{each.name}:\n{each.ask()}")
        raise
    finally:
        for each in made:
            each.discard()


def cause_faults(
    rng: random.Random, cluster: Deployment, crew: Sequence[Process], progress: Progress
) -> None:
    """Cause each fault at a random moment after a random number of committed records."""
    victims = list(FAULTS)
    rng.shuffle(victims)
    moments = sorted(rng.sample(range(INPUTS // 20, INPUTS * 9 // 10), len(victims)))
    for kind, moment in zip(victims, moments, strict=True):
        assert progress.wait_for(moment, DEADLINE_SECONDS), f"stuck at {progress.count}"
        time.sleep(rng.random() * 0.2)
        hit = victims_of(kind, cluster, crew, rng)
        for victim in hit:
            victim.kill()
        for victim in hit:
            victim.start()


def victims_of(
    kind: str, cluster: Deployment, crew: Sequence[Process], rng: random.Random
) -> list[Process]:
    """Return the processes that a fault kills together."""
    if kind == "worker":
        return [rng.choice(crew)]
    agents = [] if kind == "control" else [rng.choice(cluster.agents)]
    return agents if kind == "agent" else [cluster.leader(), *agents]


def await_end(bootstrap: str, progress: Progress, deadline: float) -> dict[int, int]:
    """Wait until the group reaches the end of every partition. Return its offsets."""
    who = Consumer({"bootstrap.servers": bootstrap, "group.id": "group"})
    partitions = [TopicPartition("source", number) for number in range(PARTITIONS)]
    try:
        while True:
            ends = {p.partition: end_of(who, p, deadline) for p in partitions}
            committed = committed_of(who, partitions, deadline)
            positions = {p.partition: p.offset for p in committed}
            if positions == ends or time.monotonic() > deadline:
                return positions
            progress.wait_for(progress.count + 1, 1.0)
    finally:
        who.close()


#: The errors of a group while no control plane leads, or while its coordinator's broker leaves.
NOBODY_COORDINATES = (
    KafkaError._DESTROY_BROKER,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
)


def committed_of(
    who: Consumer, partitions: list[TopicPartition], deadline: float
) -> list[TopicPartition]:
    """Return the group's offsets, as soon as it has a coordinator."""
    while True:
        try:
            found: list[TopicPartition] = who.committed(partitions, 60)
            return found
        except KafkaException as error:
            if error.args[0].code() not in NOBODY_COORDINATES or time.monotonic() > deadline:
                raise


#: The errors that librdkafka reports for a partition whose leader it does not know, or whose leader's broker has gone.
LEADER_IS_UNKNOWN = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._DESTROY_BROKER,
)


def end_of(who: Consumer, partition: TopicPartition, deadline: float) -> int:
    """Return the high watermark of a partition. Refreshes metadata while its leader is unknown.

    librdkafka drops a broker that a response no longer names, but keeps the leaders of topics that the response does
    not describe. Without a refresh, it then reports an unknown partition for up to five minutes.
    """
    while True:
        try:
            return who.get_watermark_offsets(partition, 60)[1]
        except KafkaException as error:
            if error.args[0].code() not in LEADER_IS_UNKNOWN or time.monotonic() > deadline:
                raise
            who.list_topics(partition.topic, 60)


def rows_of(bootstrap: str, topic: str) -> Rows:
    """Return the rows that a read_committed consumer reads."""
    found = {}
    for partition in range(PARTITIONS):
        got = read(bootstrap, topic, COMMITTED, partition=partition)
        assert got.errors == []
        found[partition] = got.records
    return found


def refuse_mutations(history: History, rng: random.Random) -> None:
    """Verify that the checker detects one effect that is lost, duplicated or swapped with the next one, at any
    position.
    """
    for _ in range(10):
        partition = rng.randrange(PARTITIONS)
        values = history.outputs[partition]
        at = rng.randrange(len(values) - 1)
        before, one, two, behind = values[:at], values[at], values[at + 1], values[at + 2 :]
        for mutated in ([two], [one, one, two], [two, one]):
            outputs = {**history.outputs, partition: [*before, *mutated, *behind]}
            assert violations(dataclasses.replace(history, outputs=outputs))


@pytest.mark.slow
@pytest.mark.timeout(480)
@pytest.mark.parametrize(
    ("kind", "seed"), [("directory", 1), ("postgresql", 2), ("s3", 3), ("bucket", 4)]
)
def test_every_input_has_its_effect_once(kind: str, seed: int, tmp_path: Path) -> None:
    """S2, S4, S5, S8, S26: for any failure at any time."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    progress = Progress()
    with deployment(kind, tmp_path) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topics = [NewTopic(name, PARTITIONS) for name in ("source", "sink")]
        for future in admin.create_topics(topics).values():
            future.result(60)
        feeder = Feeder(cluster.bootstrap, "source", progress)
        feeder.start()
        with workers(cluster.bootstrap, progress) as crew:
            cause_faults(random.Random(seed), cluster, crew, progress)
            feeder.join(max(0.0, deadline - time.monotonic()))
            assert not feeder.is_alive()
            assert feeder.errors == []
            positions = await_end(cluster.bootstrap, progress, deadline)
            for each in crew:
                each.stop()
            outputs = rows_of(cluster.bootstrap, "sink")
            history = History(
                inputs=feeder.acknowledged,
                read=rows_of(cluster.bootstrap, "source"),
                outputs={p: [value for _, value in rows] for p, rows in outputs.items()},
                positions=positions,
            )
            assert sum(map(len, history.inputs.values())) == INPUTS
            assert violations(history) == []
            refuse_mutations(history, random.Random(seed))
