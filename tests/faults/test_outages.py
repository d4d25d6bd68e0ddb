"""Tests failures of the control plane, its leader or its database under load (S2, S3, S5, S8, S26)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lacuna.controlplane.shared_service import ask_status
from tests.clients.librd import consumer, eventually, producer, read, send
from tests.postgresql import PostgresqlServer, binaries

from .asking import Asking
from .checked_load import Load
from .foreign import NEEDS, missing
from .load import insist
from .outages import Outage
from .processes import Deployment, Process
from .takeovers import deployment
from .wires import Fault, Wire

OUTCOMES = {"committed": True, "aborted": False}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Deployment]:
    """A control plane and two agents, each in its own process."""
    with Deployment(tmp_path / "control", 2, [f"--objects={tmp_path / 'objects'}"]) as made:
        admin = AdminClient({"bootstrap.servers": made.bootstrap})
        admin.create_topics([NewTopic("t", 1)])["t"].result(60)
        yield made


def restart(cluster: Deployment, kind: str) -> None:
    """Kill or stop the control plane, and start it on the same journal."""
    if kind == "killed":
        cluster.control.kill()
    else:
        cluster.control.stop()
    cluster.control.start()


@pytest.mark.parametrize("kind", ["killed", pytest.param("stopped", marks=pytest.mark.slow)])
def test_transactions_go_on(cluster: Deployment, kind: str) -> None:
    """S2, S5: open transactions stay open, contain records from before and after the restart, and end as their clients
    request.
    """
    open_now: dict[str, Producer] = {}
    for name in OUTCOMES:
        who = open_now[name] = producer(cluster.bootstrap, name)
        who.begin_transaction()
        send(who, "t", [f"{name} before".encode()])
    member = consumer(cluster.bootstrap, group_id="g")
    restart(cluster, kind)
    for name, is_committed in OUTCOMES.items():
        who = open_now[name]
        send(who, "t", [f"{name} behind".encode()])
        if is_committed:
            _send_offset(who, member)
            insist(lambda who=who: who.commit_transaction(60))  # type: ignore[misc]
        else:
            insist(lambda who=who: who.abort_transaction(60))  # type: ignore[misc]
    got = read(cluster.bootstrap, "t")
    assert got.values == [b"committed before", b"committed behind"]
    restart(cluster, kind)
    again = read(cluster.bootstrap, "t")
    assert (again.records, again.position) == (got.records, 4)
    eventually(lambda: _committed(member), 2)
    member.close()


def _committed(member: Consumer) -> int | None:
    """Return the committed offset, or None while the coordinator waits for the control plane, after which other clients
    retry by themselves.
    """
    try:
        return int(member.committed([TopicPartition("t", 0)], 60)[0].offset)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.COORDINATOR_NOT_AVAILABLE:
            raise
        return None


def _send_offset(who: Producer, member: Consumer) -> None:
    metadata = member.consumer_group_metadata()
    offset = TopicPartition("t", 0, 2)
    insist(lambda: who.send_offsets_to_transaction([offset], metadata, 60))


@pytest.mark.slow
def test_nothing_is_acknowledged_without_it(cluster: Deployment) -> None:
    """S2: during the outage, agents accept nothing and lose nothing. Afterwards, everything is delivered in order."""
    told: list[int | None] = []
    who = producer(cluster.bootstrap, enable_idempotence=True)
    send(who, "t", [b"before"])
    cluster.control.kill()
    for number in range(20):
        who.produce(
            "t",
            b"while %d" % number,
            partition=0,
            on_delivery=lambda error, message: told.append(message.offset()),
        )
    who.flush(2)
    assert told == []
    cluster.control.start()
    assert who.flush(60) == 0
    assert told == list(range(1, 21))
    values = read(cluster.bootstrap, "t").values
    assert values == [b"before", *(b"while %d" % number for number in range(20))]


@pytest.mark.slow
def test_offsets_are_looked_for_until_it_is_back(cluster: Deployment) -> None:
    """S7: agents wait 10 s for the control plane, then return an error after which librdkafka retries three times."""
    send(producer(cluster.bootstrap), "t", [b"0", b"1"])
    who = consumer(
        cluster.bootstrap, group_id="g", retry_backoff_ms=3000, retry_backoff_max_ms=20_000
    )
    cluster.control.kill()
    back = threading.Timer(11.0, cluster.control.start)
    back.start()
    try:
        assert who.get_watermark_offsets(TopicPartition("t", 0), 60) == (0, 2)
    finally:
        back.join()
        who.close()


@pytest.fixture(params=["postgresql", "bucket"])
def planes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Deployment]:
    """Two control planes on one journal, and two agents."""
    is_bucket = request.param == "bucket"
    database = "" if is_bucket else request.getfixturevalue("database")
    with deployment(request.param, tmp_path, database=database) as made:
        yield made


@contextmanager
def loaded(planes: Deployment, foreign: Sequence[str] = ()) -> Iterator[Load]:
    """Run the load around the body, and check it."""
    load = Load(planes, foreign)
    yield load
    load.await_more()
    assert load.violations() == []


def epoch(address: str) -> int:
    status = asyncio.run(ask_status(address))
    assert status is not None
    return status.epoch


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(missing()), reason="needs a JDK, Maven and Go")
@pytest.mark.parametrize("way", ["killed", "stopped"])
def test_a_standby_takes_over(planes: Deployment, way: str) -> None:
    """Each leader fails in turn and returns as a standby. librdkafka, Java and franz-go continue."""
    with loaded(planes, list(NEEDS)) as load:
        for _ in range(2):
            leader = planes.leader()
            if way == "killed":
                leader.kill()
            else:
                leader.stop()
            load.await_commits(time.monotonic())
            assert planes.leader() is not leader
            leader.start()
    assert epoch(planes.controls[0].address) >= 3


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_leader_that_was_suspended_never_answers_under_its_old_epoch(
    planes: Deployment,
) -> None:
    """Requests sent during the suspension reach it when it resumes, over connections that are still open."""
    with loaded(planes) as load:
        old = planes.leader()
        before = epoch(old.address)
        with Asking(old.address) as asking:
            old.pause()
            suspended = time.monotonic()
            load.await_more()
            new = next(each for each in planes.controls if each is not old)
            assert epoch(new.address) > before
            old.resume()
            load.await_more()
            assert planes.leader() is new
            # It is now a standby for the new leader, whose epoch it reports.
            while epoch(old.address) != epoch(new.address):
                pass
            assert max(asking.asked.values()) > suspended + 1, "it was asked while it slept"
            assert asking.answered_late(suspended) == []


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(missing()), reason="needs a JDK, Maven and Go")
@pytest.mark.parametrize("planes", ["postgresql"], indirect=True)
def test_all_of_them_are_away_for_a_while(planes: Deployment) -> None:
    """S7, S26: the outage exceeds the time for which agents trust their state, and a member's session."""
    outage = Outage(planes, 25)
    outage.watch()
    assert outage.wrong == []


#: Longer than a lease, so that the leader has lost its leadership by then.
FAULT_SECONDS = 5.0
FAULTS = [fault for fault in Fault if fault is not Fault.NONE]


class Cluster:
    """Two control planes, each with its own connection to one database, and two agents."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.server = PostgresqlServer(binaries() or "")
        stack.callback(self.server.stop)
        self.server.start()
        self.server.make_database("journal")
        self.wires = [stack.enter_context(Wire(self.server.socket_path)) for _ in range(2)]
        journals = [
            [f"--journal={self.server.tcp_url('journal', wire.address)}"] for wire in self.wires
        ]
        store = f"file://{folder / 'objects'}"
        made = Deployment(folder / "control", 2, [f"--store={store}"], journals=journals)
        self.deployment = stack.enter_context(made)
        self.load = Load(self.deployment, pause=0.01)

    def wire_of(self, control: Process) -> Wire:
        return self.wires[self.deployment.controls.index(control)]


@pytest.fixture
def on_database(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(binaries() is None, reason="needs a PostgreSQL server")
def test_the_server_is_killed_and_restarted(on_database: Cluster) -> None:
    for _ in range(3):
        on_database.server.restart()
        on_database.load.await_commits(time.monotonic())
    assert on_database.load.violations() == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(binaries() is None, reason="needs a PostgreSQL server")
def test_nobody_reaches_it_for_a_while(on_database: Cluster) -> None:
    """Writes in flight may have succeeded or not. The next leader resolves them."""
    for fault in FAULTS:
        for wire in on_database.wires:
            wire.suffer(fault)
        time.sleep(FAULT_SECONDS)
        for wire in on_database.wires:
            wire.mend()
        on_database.load.await_commits(time.monotonic())
    assert on_database.load.violations() == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(binaries() is None, reason="needs a PostgreSQL server")
def test_the_leader_alone_does_not_reach_it(on_database: Cluster) -> None:
    """The other control plane takes over."""
    for fault in FAULTS:
        leader = on_database.deployment.leader()
        wire = on_database.wire_of(leader)
        wire.suffer(fault)
        on_database.load.await_commits(time.monotonic())
        assert on_database.deployment.leader() is not leader
        wire.mend()
    assert on_database.load.violations() == []
