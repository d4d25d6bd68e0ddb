"""Tests coordinators that disappear for longer than their leases, one after the other (S5, S26).

librdkafka waits in send_offsets_to_transaction once it has dropped a group's cached coordinator. It does so when the
coordinator disappears from Metadata, or when all brokers seem to be down (docs/clients.md, adr/0018).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lacuna.controlplane.state.settings import LEASE_DURATION_MS
from tests.clients.librd import consumer, eventually, producer, send

from .load import Progress
from .processes import Deployment, Process

WORKERS = 6  # each with its own group, so that each of two agents coordinates some
GROUPS = 4  # likewise
STEP = 100
SECONDS = 90.0
AWAY = {1: 0, 3: 1}  # which agent at which step


def pause(agent: Process) -> None:
    """Suspend the agent past its lease."""
    agent.pause()
    time.sleep(LEASE_DURATION_MS / 1000 + 3)
    agent.resume()


def restart(agent: Process) -> None:
    """Stop the agent cleanly and start it again, as a rolling restart does."""
    agent.stop()
    time.sleep(3)
    agent.start()


class Worker:
    """An exactly-once loop in its own process, which can be ended while the client hangs."""

    def __init__(self, bootstrap: str, number: int) -> None:
        self.committed = Progress()
        arguments = [bootstrap, f"group-{number}", "source", "sink", f"worker-{number}"]
        self.process = Process(
            f"worker {number}", "tests.faults.plain_eos_worker", arguments, heard=self._heard
        )

    def _heard(self, line: str) -> None:
        if line.startswith("committed"):
            self.committed.add(int(line.split()[1]))

    def await_count(self, count: int) -> None:
        """Wait until it has moved this many records."""
        if not self.committed.wait_for(count, SECONDS):
            raise AssertionError(
                f"stuck at {self.committed.count} of {count}:\n{self.process.output}"
            )


@contextmanager
def workers(bootstrap: str) -> Iterator[list[Worker]]:
    """Start all workers."""
    with ExitStack() as stack:
        made = [Worker(bootstrap, number) for number in range(WORKERS)]
        for each in made:
            stack.callback(each.process.discard)
            each.process.start()
        yield made


def create(cluster: Deployment, *topics: str) -> None:
    """Create topics with one partition each."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_topics([NewTopic(name, 1) for name in topics]).values():
        made.result(SECONDS)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("leave", [pause, restart])
def test_exactly_once_loops_go_on(tmp_path: Path, leave: Callable[[Process], None]) -> None:
    """S26: the loops continue, whichever agent is the coordinator."""
    with Deployment(tmp_path / "control", 2, [f"--objects={tmp_path / 'objects'}"]) as cluster:
        create(cluster, "source", "sink")
        feed = producer(cluster.bootstrap, enable_idempotence=True)
        with workers(cluster.bootstrap) as crew:
            count = 0
            for step in range(5):
                send(feed, "source", [b"%d" % number for number in range(STEP)])
                count += STEP
                if step in AWAY:
                    leave(cluster.agents[AWAY[step]])
                for each in crew:
                    each.await_count(count)


def add_offsets(who: Producer, bootstrap: str) -> None:
    """Begin a transaction for each group that contains only the group's offsets, without a time limit."""
    for number in range(GROUPS):
        group = consumer(bootstrap, group_id=f"group-{number}")
        who.begin_transaction()
        who.send_offsets_to_transaction(
            [TopicPartition("source", 0, 1)], group.consumer_group_metadata()
        )
        who.commit_transaction()
        group.close()


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_coordinator_that_a_client_has_dropped_is_looked_up_again(tmp_path: Path) -> None:
    """S26: a restarted control plane no longer knows which agents have left."""
    with Deployment(tmp_path / "control", 2, [f"--objects={tmp_path / 'objects'}"]) as cluster:
        create(cluster, "source")
        who = producer(cluster.bootstrap, "mover")
        add_offsets(who, cluster.bootstrap)
        cluster.agents[1].stop()
        cluster.control.stop()
        cluster.control.start()
        eventually(lambda: len(who.list_topics(timeout=SECONDS).brokers), 1)
        cluster.agents[1].start()
        eventually(lambda: len(who.list_topics(timeout=SECONDS).brokers), 2)
        again = threading.Thread(target=add_offsets, args=(who, cluster.bootstrap), daemon=True)
        again.start()
        again.join(SECONDS)
        assert not again.is_alive(), "send_offsets_to_transaction waits for a dropped broker"
