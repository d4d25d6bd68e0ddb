"""Tests that clients of a killed agent move to the other one long before its lease ends (S2, S3, S5, S26)."""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lacuna.controlplane.client import GrpcClient, SessionLimits
from tests.clients.librd import consumer, read

from .history import transaction_violations
from .load import Progress, TransactionalClient
from .processes import Deployment

TOPIC = "t"
PARTITIONS = 16  # so many that each of two agents leads some
SECONDS = 60.0
SESSION_SECONDS = 20.0


class Member(threading.Thread):
    """A member of a group that polls and commits, and counts the changes of its membership."""

    def __init__(self, bootstrap: str, group: str) -> None:
        super().__init__(daemon=True)
        self.commits = Progress()
        self.assignments: list[int] = []
        self.member_ids: set[str] = set()
        self.failure: BaseException | None = None
        self._stopped = threading.Event()
        self._who = consumer(
            bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=int(SESSION_SECONDS * 1000),
        )

    def run(self) -> None:
        try:
            self._who.subscribe([TOPIC], on_assign=self._assigned, on_lost=self._lost)
            while not self._stopped.is_set():
                self._step(self._who.consume(100, 0.1))
        except BaseException as error:
            self.failure = error
        finally:
            self._who.close()

    def _assigned(self, who: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignments.append(len(partitions))
        self.member_ids.add(who.memberid())

    def _lost(self, who: Consumer, partitions: list[TopicPartition]) -> None:
        raise AssertionError(f"{len(partitions)} partitions lost: thrown out of the group")

    def _step(self, messages: list[Message]) -> None:
        if not any(message.error() is None for message in messages):
            return  # errors are librdkafka's own: it connects again
        try:
            self._who.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].retriable():
                return  # the next commit covers it
            raise
        self.member_ids.add(self._who.memberid())
        self.commits.add()

    def await_commits(self, count: int) -> None:
        """Wait for this many further commits. Raises the member's error."""
        if not self.commits.wait_for(self.commits.count + count, SECONDS):
            self.stop()
            raise AssertionError("the member does not go on")

    def stop(self) -> None:
        """Stop the member. Raises its error."""
        self._stopped.set()
        self.join(SECONDS)
        if self.failure is not None:
            raise self.failure


def leading_ports(bootstrap: str) -> set[int]:
    """Return the agents that lead according to this one's Metadata."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60)
    return {found.brokers[each.leader].port for each in found.topics[TOPIC].partitions.values()}


def coordinated_by(bootstrap: str, port: int) -> str:
    """Return a group whose coordinator is the agent at that port."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [f"g{number}" for number in range(32)]
    for name, future in admin.describe_consumer_groups(names).items():
        if future.result(SECONDS).coordinator.port == port:
            return str(name)
    raise AssertionError(f"the agent of port {port} coordinates none of {len(names)} groups")


def await_ports(bootstrap: str, expected: set[int]) -> None:
    """Poll until exactly these agents lead."""
    deadline = time.monotonic() + SECONDS
    while (found := leading_ports(bootstrap)) != expected:
        assert time.monotonic() < deadline, f"the leaders are {found}"


@contextmanager
def ports_beside_a_live_lease(control: str) -> Iterator[queue.SimpleQueue[set[int]]]:
    """Return the ports that the control plane announces at each change that omits an agent with a lease."""
    found: queue.SimpleQueue[set[int]] = queue.SimpleQueue()
    watching, is_over = threading.Event(), threading.Event()

    async def watch() -> None:
        client = GrpcClient(control, random.random, SessionLimits(give_up_after=60))

        def look() -> None:
            if client.cluster.hidden_lease_ids:
                found.put({agent.port for agent in client.cluster.agents})

        client.start()
        await client.cluster.ready()
        client.cluster.add_listener(look)
        watching.set()
        await asyncio.to_thread(is_over.wait)
        await client.close()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(asyncio.run, watch())
        try:
            assert watching.wait(SECONDS)
            yield found
        finally:
            is_over.set()
            running.result(SECONDS)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_members_and_transactions_outlive_their_coordinator(tmp_path: Path) -> None:
    """S26: the member keeps its id and generation, because it finds the other agent within its session."""
    with Deployment(tmp_path / "control", 2, [f"--objects={tmp_path / 'objects'}"]) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(SECONDS)
        killed, left = (int(each.rpartition(":")[2]) for each in cluster.bootstrap.split(","))
        survivor = f"127.0.0.1:{left}"
        await_ports(survivor, {killed, left})
        member = Member(cluster.bootstrap, coordinated_by(survivor, killed))
        progress = Progress()
        writer = TransactionalClient(cluster.bootstrap, TOPIC, progress, PARTITIONS, number=1)
        writer.start()
        member.start()
        member.await_commits(5)
        with ports_beside_a_live_lease(cluster.control_address) as named:
            cluster.agents[0].kill()
            died = time.monotonic()
            await_ports(survivor, {left})
            assert named.get(timeout=SECONDS) == {left}, "before its lease has ended"
            assert leading_ports(survivor) == {left}
        done = progress.count
        while time.monotonic() < died + 1.2 * SESSION_SECONDS:  # a lost session shows by then
            member.await_commits(1)
        assert progress.wait_for(done + 10, SECONDS), "transactions go on"
        cluster.agents[0].start()
        await_ports(survivor, {killed, left})
        member.await_commits(5)
        writer.stop()
        member.stop()
        found = {each: read(survivor, TOPIC, partition=each).records for each in range(PARTITIONS)}
    assert member.assignments == [PARTITIONS], "one generation"
    assert len(member.member_ids) == 1
    assert transaction_violations(writer.transactions, found) == []
