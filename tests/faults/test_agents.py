"""Tests agents that are killed, suspended or gone, and partitions that move between them (S2-S5, S7, S10, S12)."""

from __future__ import annotations

import asyncio
import queue
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka.admin import KafkaAdminClient

from lacuna.controlplane.client import GrpcClient, InProcessClient, SessionLimits
from lacuna.logstore.objects import DirectoryStore
from lacuna.logstore.objects.store import Part
from lacuna.operating.agents import RunningAgent, start_agent
from lacuna.testing import Cluster
from tests.clients.batch import batch
from tests.clients.jvm import compiled, needs_jdk
from tests.clients.librd import consumer, eventually, producer, read
from tests.clients.probing import Target
from tests.clients.wire import ClosedError
from tests.simulation.stage import PARTS

from .history import Rows, log_violations, transaction_violations
from .load import PlainClient, Progress, TransactionalClient
from .processes import Deployment, Process
from .test_lost_coordinator import create

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
            return  # errors are librdkafka's own: it reconnects
        try:
            self._who.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].retriable():
                return  # the next commit covers it
            raise
        self.member_ids.add(self._who.memberid())
        self.commits.add()

    def await_commits(self, count: int) -> None:
        """Wait for this many more commits. Raises the member's error."""
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
    """Return the ports of the agents that lead partitions according to this agent's Metadata."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60)
    return {found.brokers[each.leader].port for each in found.topics[TOPIC].partitions.values()}


def coordinated_by(bootstrap: str, port: int) -> str:
    """Return a group whose coordinator is the agent on that port."""
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
    """Yield the ports that the control plane announces on each change that omits an agent with a live lease."""
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
        while time.monotonic() < died + 1.2 * SESSION_SECONDS:  # a lost session is noticed by then
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


FEW_PARTITIONS = 4


def live_agents(bootstrap: str) -> int:
    """Return the number of agents in an agent's DescribeCluster."""
    return len(Target(bootstrap).call("describe_cluster", 0)["brokers"])


def rows_of(bootstrap: str) -> Rows:
    """Return the rows that a read_committed consumer reads through this agent."""
    found = {}
    for partition in range(FEW_PARTITIONS):
        got = read(bootstrap, TOPIC, partition=partition)
        assert got.errors == []
        found[partition] = got.records
    return found


PAST_A_LEASE = 11.0
SLEEPERS = 16


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_s7_a_fetch_that_slept_tells_no_old_bounds(tmp_path: Path) -> None:
    """Fetches wait at an agent that is suspended past its lease, and more arrive meanwhile. None gets old bounds."""
    with (
        Deployment(tmp_path / "control", 2, [f"--objects={tmp_path / 'objects'}"]) as cluster,
        ThreadPoolExecutor(2 * SLEEPERS) as threads,
    ):
        sleeping, awake = map(Target, cluster.bootstrap.split(","))
        topic = sleeping.topic()
        targets = [Target(sleeping.bootstrap) for _ in range(2 * SLEEPERS)]

        def fetch(target: Target) -> dict[str, Any] | None:
            try:
                return target.fetch(topic, 0, max_wait_ms=2_000, min_bytes=1, isolation=1)
            except (ClosedError, ConnectionError):
                return None  # the agent knows that it has no lease

        for target in targets:
            target.fetch(topic, 0)  # not a connection's first fetch, which is confirmed anyway
        before = [threads.submit(fetch, target) for target in targets[:SLEEPERS]]
        time.sleep(0.5)  # until they wait
        cluster.agents[0].pause()
        assert awake.verdict(topic, batch()) == "NONE"
        meanwhile = [threads.submit(fetch, target) for target in targets[SLEEPERS:]]
        time.sleep(PAST_A_LEASE)
        cluster.agents[0].resume()
        answers = [future.result(60) for future in before + meanwhile]
    told = [answer for answer in answers if answer is not None and answer["error_code"] == 0]
    assert {answer["high_watermark"] for answer in told} <= {1}
    assert all(answer["records"] for answer in told)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_a_sleeper_had_in_flight(tmp_path: Path) -> None:
    """S10, S12: clients move to the other agent. The suspended agent's later commits are rejected or duplicates."""
    progress = Progress()
    with Deployment(tmp_path / "control", 2, [f"--objects={tmp_path / 'objects'}"]) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, FEW_PARTITIONS)])[TOPIC].result(SECONDS)
        args = (cluster.bootstrap, TOPIC, progress, FEW_PARTITIONS)
        plain = PlainClient(*args, socket_timeout_ms=2000)
        transactional = TransactionalClient(*args, number=1, socket_timeout_ms=2000)
        plain.start()
        transactional.start()
        sleeper = cluster.agents[0]
        assert progress.wait_for(500, SECONDS)
        sleeper.pause()
        awake = cluster.bootstrap.split(",")[1]
        while live_agents(awake) > 1:
            progress.wait_for(progress.count + 1, 1.0)
        assert progress.wait_for(progress.count + 1000, SECONDS), "the other one serves"
        sleeper.resume()
        assert progress.wait_for(progress.count + 1000, SECONDS)
        plain.stop()
        transactional.stop()
        eventually(lambda: live_agents(awake), 2, SECONDS)  # it has a lease again
        seen = [rows_of(address) for address in cluster.bootstrap.split(",")]
    assert seen[0] == seen[1]
    for partition, rows in seen[0].items():
        acknowledged = plain.acknowledged[partition]
        assert log_violations(partition, acknowledged, rows) == []
        mine = [value for _, value in rows if value.startswith(b"plain")]
        assert mine == [value for _, value in acknowledged], "order"
    assert transaction_violations(transactional.transactions, seen[0]) == []


NAMES = [f"name-{number}" for number in range(8)]  # so many that each of two agents has some


@pytest.fixture(params=[Process.stop, Process.kill], ids=["stopped", "killed"])
def bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A cluster with groups and transactional ids. One of its two agents has just left."""
    leave: Callable[[Process], None] = request.param
    with Deployment(tmp_path / "control", 2, [f"--objects={tmp_path / 'objects'}"]) as cluster:
        create(cluster, "t")
        for name in NAMES:
            producer(cluster.bootstrap, name)
            group = consumer(cluster.bootstrap, group_id=name)
            group.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
            group.close()
        leave(cluster.agents[1])
        yield cluster.agents[0].address
        cluster.agents[1].start()


def live(bootstrap: str) -> int:
    """Return the number of brokers that a newly started tool sees."""
    return len(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=SECONDS).brokers)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_tools_of_python_list_all_without_the_agent_that_has_gone(bootstrap: str) -> None:
    eventually(lambda: live(bootstrap), 1)
    by_kafka_python = KafkaAdminClient(bootstrap_servers=bootstrap)
    assert sorted(group["group_id"] for group in by_kafka_python.list_groups()) == NAMES
    by_kafka_python.close()
    by_librdkafka = AdminClient({"bootstrap.servers": bootstrap})
    listed = by_librdkafka.list_consumer_groups(request_timeout=SECONDS).result()
    assert (sorted(group.group_id for group in listed.valid), listed.errors) == (NAMES, [])
    writer = producer(bootstrap)
    assert len(writer.list_topics("t", timeout=SECONDS).brokers) == 2


@needs_jdk
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_tools_of_java_list_all_without_the_agent_that_has_gone(bootstrap: str) -> None:
    eventually(lambda: live(bootstrap), 1)
    command = [*compiled(), "lacuna.Listing", bootstrap]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    assert [line.split() for line in listed.stdout.splitlines()] == [NAMES, NAMES]


ROUNDS = 8
#: Clients that constantly request Metadata never fall silent at an agent that sends them elsewhere.
HAND_OVER_MS = 500


class UnevenStore(DirectoryStore):
    """PUTs take up to 30 ms, so the first one sent often arrives last."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        super().__init__(root)
        self._rng = rng

    def put(self, key: str, parts: Sequence[Part]) -> None:
        time.sleep(self._rng.random() * 0.03)
        super().put(key, parts)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_order_holds_while_partitions_move(tmp_path: Path) -> None:
    """S10, S12: there is no fatal error, loss, duplicate or reordering, and transactions are whole."""
    progress, rng = Progress(), random.Random(4)
    with Cluster(
        tmp_path / "lacuna",
        parts=PARTS,
        open_store=lambda: UnevenStore(tmp_path / "objects", rng),
    ) as cluster:
        topic = cluster.create_topic("t", FEW_PARTITIONS)
        args = (cluster.bootstrap, topic, progress, FEW_PARTITIONS)
        plain = [PlainClient(*args, topic_metadata_refresh_interval_ms=20) for _ in range(2)]
        transactional = TransactionalClient(*args, number=1, topic_metadata_refresh_interval_ms=20)
        for each in (*plain, transactional):
            each.start()
        served = []
        for _ in range(ROUNDS):
            agents = [cluster.run(_join(cluster)) for _ in range(2)]
            assert progress.wait_for(progress.count + 300, SECONDS)
            for agent in agents:
                cluster.run(agent.stop())
                cluster.run(agent.context.control.close())
                served.append(agent.context.produce.flusher.metrics.batches)
            assert progress.wait_for(progress.count + 300, SECONDS)
        for each in (*plain, transactional):
            each.stop()
        found = {p: read(cluster.bootstrap, topic, partition=p) for p in range(FEW_PARTITIONS)}
    assert sum(count > 0 for count in served) >= ROUNDS / 2, "partitions have moved"
    assert [got.errors for got in found.values()] == [[]] * FEW_PARTITIONS
    rows = {partition: got.records for partition, got in found.items()}
    for client in plain:
        for partition, acknowledged in client.acknowledged.items():
            assert acknowledged == sorted(acknowledged), "order"
            assert set(acknowledged) <= set(rows[partition])
    counts = [sum(map(len, client.acknowledged.values())) for client in plain]
    plain_rows = [value for each in rows.values() for _, value in each if value[:5] == b"plain"]
    assert len(plain_rows) == sum(counts)
    assert transaction_violations(transactional.transactions, rows) == []


async def _join(cluster: Cluster) -> RunningAgent:
    embedded = cluster.embedded
    control = InProcessClient(embedded.running.runtime)
    await control.cluster.ready()
    return await start_agent(
        control=control,
        store=embedded.store,
        parts=replace(
            PARTS.without_housekeeping(), agent=replace(PARTS.agent, hand_over_ms=HAND_OVER_MS)
        ),
        clock=embedded.clock,
        randomness=random.SystemRandom(),
    )
