"""Kills instances of a Kafka Streams 4.4 application, agents and the leader (KIP-1071, KIP-447).

    python -m tests.faults.test_streams                     two agents and a control plane
    python -m tests.faults.test_streams --kafka FOLDER      a Kafka 4.4, whose broker is killed instead

The application has group.protocol=streams and exactly_once_v2: it sums its input by word in a store that has a
changelog and follows a repartition topic. It grows from one instance to four. Two of them, an agent and the leader are
killed while it works. It shrinks to one instance again, and then continues with another topology. Every committed input
must be in the sums once. Prints the counts. The exit code is 1 if they are wrong.
"""

from __future__ import annotations

import argparse
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.jvm import needs_jdk, streams
from tests.clients.librd import read
from tests.faults.load import Progress, TransactionalClient
from tests.faults.processes import Deployment, end_by_exception
from tests.golden.broker import Broker, broker

PREFIX: Final = "scaled"
GROUP, WORDS, SUMS, AGAIN = (f"{PREFIX}-{each}" for each in ("app", "words", "sums", "again"))
PARTITIONS: Final = 4
#: For each transaction.
RECORDS: Final = 12
#: A killed instance keeps its tasks until its session ends, after 45 s.
LIMIT_SECONDS: Final = 150.0
PAUSE_SECONDS: Final = 0.05


class Instance:
    """A process of the application."""

    def __init__(self, command: Sequence[str], bootstrap: str, *options: str) -> None:
        run = [command[0], *options, *command[1:], "App", bootstrap, PREFIX, "any"]
        self._process = subprocess.Popen(
            run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(line.strip())
        self._said.put("it ended")

    def expect(self, state: str) -> Instance:
        """Wait until it reports a state, and return the instance."""
        said = self._said.get(timeout=LIMIT_SECONDS)
        assert said == state, said
        return self

    def leave(self) -> None:
        """Let it leave its group and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(LIMIT_SECONDS) == 0

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._process.kill()
        self._process.wait()


class Words(TransactionalClient):
    """Writes transactions, and aborts every third one. Each value is a unique number."""

    _number = 0

    def _transaction(self, who: Producer) -> None:
        self._number += 1
        who.begin_transaction()
        for at in range(RECORDS):
            partition = at % PARTITIONS
            word = f"word{partition}-{at // PARTITIONS}"
            value = f"{word} {self._number * 100 + at}"
            who.produce(self.topic, value, partition=partition)
        if self._number % 3:
            self.insist(lambda: who.commit_transaction(60.0))
            self.progress.add()
        else:
            self.insist(lambda: who.abort_transaction(60.0))


def values_of(bootstrap: str, topic: str) -> list[str]:
    """Return the committed values of a topic, in the order of its partitions."""
    return [
        value.decode()
        for partition in range(PARTITIONS)
        for value in read(bootstrap, topic, partition=partition).values
    ]


def sums_of(bootstrap: str) -> Counter[str]:
    """Return each "COUNT SUM" that the committed input must produce."""
    sums: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    found: Counter[str] = Counter()
    for each in values_of(bootstrap, WORDS):
        word, _, number = each.partition(" ")
        count, total = sums[word]
        sums[word] = count + 1, total + int(number)
        found["{} {}".format(*sums[word])] += 1
    return found


def differences(bootstrap: str, topic: str, expected: Counter[str]) -> list[str]:
    """Wait until a topic has as many sums as expected, and return which are missing or superfluous."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        found = Counter(values_of(bootstrap, topic))
        if found.total() >= expected.total() or time.monotonic() > deadline:
            break
    missing, more = expected - found, found - expected
    return [
        *(f"{topic} lacks {each}" for each in missing),
        *(f"{topic} has {each} too often" for each in more),
    ]


class Play:
    """The application and its input on a cluster."""

    def __init__(self, bootstrap: str, command: Sequence[str]) -> None:
        self._bootstrap, self._command = bootstrap, command
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic(each, PARTITIONS, 1) for each in (WORDS, SUMS, AGAIN)]
        for future in self._admin.create_topics(topics).values():
            future.result(60)
        self._progress = Progress()
        self._writers = 0
        self._stack = ExitStack()

    def run(self, kills: Sequence[Callable[[], None]]) -> list[str]:
        """Scale the application, kill instances, call each of `kills`, and change the topology. Return violations."""
        with self._stack:
            words = self._write()
            first = self._start().expect("RUNNING")
            self._await_work()
            rest = [self._start() for _ in range(3)]
            for each in rest:
                each.expect("RUNNING")
            self._await_work()
            for kill, victim in zip(kills, (first, rest.pop()), strict=True):
                victim.kill()
                kill()
                self._await_work()
                rest.append(self._start())
            for each in rest[2:]:
                each.expect("RUNNING")
            self._await_work()
            for each in rest[1:]:
                each.leave()
            self._await_work()
            words.stop()
            found = differences(self._bootstrap, SUMS, sums_of(self._bootstrap))
            self._start("-Dapp.more=true").expect("ERROR")
            return found + self._change_topology(rest[0])

    def _change_topology(self, last: Instance) -> list[str]:
        """Continue with another topology, as Kafka 4.4 allows it: in a new group, with the old group's offsets."""
        last.leave()
        offsets = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])
        kept = offsets[GROUP].result(60)
        # Without their metadata: librdkafka may send bytes other than those it was given.
        bare = [
            TopicPartition(each.topic, each.partition, each.offset)
            for each in kept.topic_partitions
        ]
        self._admin.delete_consumer_groups([GROUP])[GROUP].result(60)
        places = ConsumerGroupTopicPartitions(GROUP, bare)
        self._admin.alter_consumer_group_offsets([places])[GROUP].result(60)
        self._start("-Dapp.more=true").expect("RUNNING")
        words = self._write()
        self._await_work()
        words.stop()
        expected = sums_of(self._bootstrap)
        found = differences(self._bootstrap, SUMS, expected)
        sys.stdout.write(f"{expected.total():,} sums of {self._progress.count} transactions\n")
        return found + differences(self._bootstrap, AGAIN, expected)

    def _start(self, *options: str) -> Instance:
        made = Instance(self._command, self._bootstrap, *options)
        self._stack.callback(made.kill)
        return made

    def _write(self) -> Words:
        self._writers += 1
        made = Words(
            self._bootstrap, WORDS, self._progress, PARTITIONS, self._writers, PAUSE_SECONDS
        )
        made.start()
        return made

    def _await_work(self) -> None:
        """Wait until ten more transactions are committed."""
        assert self._progress.wait_for(self._progress.count + 10, LIMIT_SECONDS)


def run_here(folder: Path, command: Sequence[str]) -> list[str]:
    """Run the application on two agents and a control plane."""
    store = [f"--store=file://{folder / 'objects'}"]
    with Deployment(folder / "control", 2, store) as cluster:

        def kill_agent() -> None:
            cluster.agents[0].kill()
            cluster.agents[0].start()

        def kill_leader() -> None:
            cluster.control.kill()
            cluster.control.start()

        return Play(cluster.bootstrap, command).run((kill_agent, kill_leader))


def run_on_kafka(folder: Path, command: Sequence[str]) -> list[str]:
    """Run the application on Kafka."""

    def kill(it: Broker) -> None:
        it.end(signal.SIGKILL)
        it.start()

    with broker(folder) as it:
        return Play(it.bootstrap, command).run((lambda: kill(it), lambda: kill(it)))


@needs_jdk
@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_streams_sum_every_input_once(tmp_path: Path) -> None:
    """S26: instances come, leave and are killed, as are an agent and the leader, and the topology changes."""
    assert run_here(tmp_path, streams(tmp_path / "streams")) == []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", type=Path, help="start Kafka 4.4 in this folder")
    asked = parser.parse_args()
    end_by_exception()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = streams(folder / "streams")
        found = run_on_kafka(asked.kafka, command) if asked.kafka else run_here(folder, command)
    sys.stdout.writelines(f"{each}\n" for each in found[:50])
    sys.stdout.write(f"{len(found)} violations, {time.monotonic() - began:.0f} s\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
