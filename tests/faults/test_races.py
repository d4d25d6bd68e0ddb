"""Two things at once, in the worst order: slow PUTs, lost replies, dead agents, deleted topics, sick disks."""

from __future__ import annotations

import errno
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from agent.housekeeping import Housekeeping
from agent.lease import NO_LEASE
from controlplane.client import InProcessClient
from lacuna.agents import RunningAgent
from lacuna.testing import Cluster
from logstore.objects import DirectoryStore
from logstore.objects.faults import Fault, FaultKind, Hold
from logstore.segments import segments_prefix
from tests.clients.batch import batch
from tests.clients.librd import UNCOMMITTED, eventually, producer, read, send, transaction
from tests.clients.probing import Target, error_name

from .disturbed import (
    GRACE_MS,
    LEASE_MS,
    PARTS,
    WAIT_SECONDS,
    CommitLink,
    Delayed,
    GatedStore,
    SickDisk,
    end_leases,
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Two agents over a store with faults."""
    data = tmp_path / "lacuna"
    with Cluster(
        data,
        agents=2,
        parts=PARTS,
        open_store=lambda: GatedStore(DirectoryStore(data / "objects")),
    ) as made:
        yield made
        store_of(made).gate.set()


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    """A thread for calls that are to wait while the test goes on."""
    with ThreadPoolExecutor(2) as made:
        yield made


def store_of(cluster: Cluster) -> GatedStore:
    store = cluster.embedded.store
    assert isinstance(store, GatedStore)
    return store


def hold_puts(cluster: Cluster) -> Hold:
    """Every PUT from now on. In threads, as with a slow disk: in the event loop, where a quick one may go,
    it would hold up all that is to happen meanwhile.
    """
    for agent in cluster.embedded.agents:
        agent.context.produce.flusher._pace = None
    return store_of(cluster).hold("put")


def addresses(cluster: Cluster) -> list[str]:
    return cluster.bootstrap.split(",")


def objects(cluster: Cluster) -> int:
    """Segments in the store, committed or not."""
    prefix = segments_prefix(cluster.embedded.running.plane.cluster_id)
    return sum(1 for _ in cluster.embedded.store.list(prefix))


def collect(cluster: Cluster, agent: RunningAgent) -> int:
    """Past the grace period, how many objects that were never committed an agent finds and deletes."""
    assert PARTS.housekeeping is not None
    cluster.advance(GRACE_MS)
    # Of leases that have ended an idle agent hears when it renews, and asks for another then.
    eventually(lambda: agent.context.lease.lease_id != NO_LEASE, True)
    collector = Housekeeping(agent.context, PARTS.housekeeping).collector
    return cluster.run(collector.run_once()).uncommitted


class Outbox:
    """Values that an idempotent producer is to deliver, and where they went."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.offsets: list[int] = []
        self.errors: list[str] = []
        self._topic = topic
        self._who: Producer = producer(bootstrap, enable_idempotence=True)

    def send(self, *values: bytes) -> None:
        """Each in a request of its own, where the flight allows it."""
        for value in values:
            self._who.produce(self._topic, value, partition=0, on_delivery=self._delivered)
            self._who.poll(0)

    def flush(self) -> list[int]:
        """All offsets, once everything was delivered."""
        assert self._who.flush(60) == 0
        assert self.errors == []
        return self.offsets

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error.str())
        else:
            self.offsets.append(message.offset() or 0)


def test_a_put_that_arrives_after_its_lease(cluster: Cluster) -> None:
    """S10, S12: its commit is refused, the client sends again under the next lease, the object is swept."""
    topic = cluster.create_topic("t")
    outbox = Outbox(cluster.bootstrap, topic)
    outbox.send(b"before")
    assert outbox.flush() == [0]
    hold = hold_puts(cluster)
    outbox.send(b"slow 1", b"slow 2", b"slow 3")
    hold.wait_until_reached()
    cluster.run(end_leases(cluster))
    hold.release()
    assert outbox.flush() == [0, 1, 2, 3]
    values = [b"before", b"slow 1", b"slow 2", b"slow 3"]
    assert read(cluster.bootstrap, topic).values == values
    count = objects(cluster)
    swept = collect(cluster, cluster.embedded.agents[0])
    assert swept >= 1
    assert objects(cluster) == count - swept
    assert read(cluster.bootstrap, topic).values == values


@pytest.mark.parametrize("fault", ["lose_commands", "lose_replies"])
def test_a_commit_that_is_lost_on_the_way(cluster: Cluster, fault: str) -> None:
    """S2, S10: there or back, it is sent again under the same segment id and gets the same verdicts."""
    topic = cluster.create_topic("t")
    links = [CommitLink(agent) for agent in cluster.embedded.agents]
    for link in links:
        setattr(link, fault, 2)
    outbox = Outbox(cluster.bootstrap, topic)
    outbox.send(b"one", b"two")
    assert outbox.flush() == [0, 1]
    who = producer(cluster.bootstrap, "t")
    for link in links:
        setattr(link, fault, 1)
    assert transaction(who, topic, [b"three"], commit=True) == [2]
    assert read(cluster.bootstrap, topic).values == [b"one", b"two", b"three"]
    flushers = [agent.context.produce.flusher for agent in cluster.embedded.agents]
    assert sum(flusher.metrics.commits_repeated for flusher in flushers) == 3
    assert sum(flusher.metrics.flushes_failed for flusher in flushers) == 0


def test_an_agent_that_dies_between_put_and_commit(cluster: Cluster) -> None:
    """S2, S10: nothing of it is visible; the client goes to the other agent; the object is swept."""
    topic = cluster.create_topic("t")
    reached: queue.SimpleQueue[CommitLink] = queue.SimpleQueue()
    links = [CommitLink(agent, reached) for agent in cluster.embedded.agents]
    for link in links:
        link.is_cut = True
    outbox = Outbox(cluster.bootstrap, topic)
    outbox.send(b"value")
    dead = reached.get(timeout=WAIT_SECONDS)
    (survivor,) = (link for link in links if link is not dead)
    address = survivor.agent.bootstrap
    assert objects(cluster) == 1
    cluster.run(dead.agent.abort())
    assert Target(address).fetch(topic, 0)["high_watermark"] == 0
    cluster.run(end_leases(cluster, kept=[survivor.agent]))
    survivor.is_cut = False
    assert outbox.flush() == [0]
    assert read(address, topic, UNCOMMITTED).values == [b"value"]
    assert _collect_alone(cluster, survivor.agent) == 1
    assert objects(cluster) == 1


def _collect_alone(cluster: Cluster, agent: RunningAgent) -> int:
    """As `collect`, while other agents are dead."""
    assert PARTS.housekeeping is not None
    for _ in range(GRACE_MS // LEASE_MS + 1):
        cluster.run(end_leases(cluster, kept=[agent]))
    return cluster.run(
        Housekeeping(agent.context, PARTS.housekeeping).collector.run_once()
    ).uncommitted


def test_a_fetch_that_meets_a_collected_object(
    cluster: Cluster, elsewhere: ThreadPoolExecutor
) -> None:
    """S14, S19: it plans again, and its client gets the same records from the merged object."""
    topic, store = cluster.create_topic("t"), store_of(cluster)
    values = [b"value %d" % number for number in range(6)]
    who = producer(cluster.bootstrap)
    for value in values:
        send(who, topic, [value])
    agent = cluster.embedded.agents[0]
    assert agent.housekeeping is not None
    reader = Target(addresses(cluster)[1])
    store.gate.clear()
    answer = elsewhere.submit(reader.fetch, topic, 0)
    assert store.reached.wait(WAIT_SECONDS)
    assert cluster.run(agent.housekeeping.merger.run_once())
    cluster.advance(GRACE_MS)
    assert cluster.run(agent.housekeeping.collector.run_once()).replaced == 6
    store.gate.set()
    got = answer.result(WAIT_SECONDS)
    assert got["error_code"] == 0
    assert all(value in got["records"] for value in values)
    assert read(cluster.bootstrap, topic).values == values


def test_a_fetch_that_meets_records_deleted_meanwhile(
    cluster: Cluster, elsewhere: ThreadPoolExecutor
) -> None:
    """S7: the client is told so at once or at its next fetch, and never gets other bytes."""
    topic, store = cluster.create_topic("t"), store_of(cluster)
    send(producer(cluster.bootstrap), topic, [b"deleted"])
    reader = Target(addresses(cluster)[1])
    store.gate.clear()
    answer = elsewhere.submit(reader.fetch, topic, 0)
    assert store.reached.wait(WAIT_SECONDS)
    delete_first = {"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}
    Target(addresses(cluster)[0]).call("delete_records", 2, topics=[delete_first], timeout=5000)
    agent = cluster.embedded.agents[0]
    assert agent.housekeeping is not None
    cluster.advance(GRACE_MS)
    assert cluster.run(agent.housekeeping.collector.run_once()).replaced == 1
    store.gate.set()
    got = answer.result(WAIT_SECONDS)
    assert error_name(got["error_code"]) in ("OFFSET_OUT_OF_RANGE", "KAFKA_STORAGE_ERROR")
    assert not got["records"]
    assert error_name(reader.fetch(topic, 0)["error_code"]) == "OFFSET_OUT_OF_RANGE"
    assert reader.fetch(topic, 1)["error_code"] == 0


@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_topic_deleted_and_made_again_with_records_in_flight(
    cluster: Cluster, elsewhere: ThreadPoolExecutor, is_transactional: bool
) -> None:
    """S6: what was meant for the old topic never enters the new one, nor does its outcome touch it."""
    one, two = (Target(address) for address in addresses(cluster))
    topic, other = one.topic(retention_ms=-1), one.topic(retention_ms=-1)
    who = one.transactional() if is_transactional else one.idempotent()
    data = batch([b"old"], producer_id=who.id, producer_epoch=who.epoch, base_sequence=0)
    if is_transactional:
        assert one.add_partitions(who, topic) == "NONE"
        assert one.add_partitions(who, other) == "NONE"
        data = one.txn_batch(who, 0, b"old")
    hold = hold_puts(cluster)
    late = elsewhere.submit(
        one.verdict, topic, data, version=11, transactional_id=who.transactional_id
    )
    hold.wait_until_reached()
    two.call("delete_topics", 5, topic_names=[topic], timeout=5000)
    cluster.create_topic(topic)
    hold.release()
    assert late.result(WAIT_SECONDS) in ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")
    for t in (one, two):
        row = t.fetch(topic, 0)
        assert (row["error_code"], row["high_watermark"], row["last_stable_offset"]) == (0, 0, 0)
    if is_transactional:
        assert two.txn_produce(who, topic, 0) == "TRANSACTION_ABORTABLE", "it was never added"
        assert two.txn_produce(who, other, 0, b"kept") == "NONE"
        assert one.end(who, True) == "NONE"
        assert read(cluster.bootstrap, other).values == [b"kept"]
    send(producer(cluster.bootstrap), topic, [b"new"])
    assert read(cluster.bootstrap, topic).records == [(0, b"new")]


def test_an_agent_that_has_not_heard_does_not_reset_a_client(
    cluster: Cluster, elsewhere: ThreadPoolExecutor
) -> None:
    """S7: an offset beyond what it knows is OFFSET_OUT_OF_RANGE only after a confirming read."""
    topic = cluster.create_topic("t")
    ahead, behind = (Target(address) for address in addresses(cluster))
    assert behind.fetch(topic, 0)["high_watermark"] == 0
    control = cluster.embedded.agents[1].context.control
    assert isinstance(control, InProcessClient)
    delayed = Delayed(control)
    assert ahead.verdict(topic, batch([b"a", b"b"])) == "NONE"
    answers: list[Future[object]] = [
        elsewhere.submit(behind.fetch, topic, 2),
        elsewhere.submit(Target(addresses(cluster)[1]).list_offset, topic, -1),
    ]
    assert delayed.is_replied.wait(WAIT_SECONDS), "it asks the control plane"
    assert not any(answer.done() for answer in answers)
    cluster.run(delayed.release())
    fetched, listed = (answer.result(WAIT_SECONDS) for answer in answers)
    assert isinstance(fetched, dict)
    assert isinstance(listed, dict)
    assert (fetched["error_code"], fetched["high_watermark"]) == (0, 2)
    assert listed["offset"] == 2
    assert error_name(behind.fetch(topic, 3)["error_code"]) == "OFFSET_OUT_OF_RANGE"


@pytest.mark.parametrize("kind", [FaultKind.ERROR, FaultKind.LOST_REPLY])
@pytest.mark.parametrize("is_fresh", [False, True])
def test_a_failed_flush_leaves_no_gap(cluster: Cluster, kind: FaultKind, is_fresh: bool) -> None:
    """S12: what its producer sent meanwhile fails with it, is sent again, and keeps its order."""
    topic, store = cluster.create_topic("t"), store_of(cluster)
    outbox = Outbox(cluster.bootstrap, topic)
    values = [b"value %d" % number for number in range(40)]
    if not is_fresh:
        outbox.send(values.pop(0))
        outbox.flush()
    count = len(values) + (not is_fresh)
    for part in range(4):
        hold = hold_puts(cluster)
        store.fail(Fault("put", kind))
        outbox.send(*values[part * 10 : part * 10 + 10])
        hold.wait_until_reached()
        hold.release()
    assert outbox.flush() == list(range(count))
    assert read(cluster.bootstrap, topic).values[-len(values) :] == values


def test_what_comes_behind_a_failed_batch_waits_for_it(cluster: Cluster) -> None:
    """S12: also what was on the wire when its failure was told, of a producer without state (S10)."""
    topic, store = cluster.create_topic("t"), store_of(cluster)
    one = Target(addresses(cluster)[0])
    who = one.idempotent()

    def sent(sequence: int) -> str:
        data = batch(
            [b"value %d" % sequence],
            producer_id=who.id,
            producer_epoch=who.epoch,
            base_sequence=sequence,
        )
        return one.verdict(topic, data)

    store.fail(Fault("put", FaultKind.ERROR))
    assert sent(0) == "KAFKA_STORAGE_ERROR"
    assert sent(1) == "NOT_LEADER_OR_FOLLOWER"
    assert sent(2) == "NOT_LEADER_OR_FOLLOWER"
    assert [sent(number) for number in range(3)] == ["NONE"] * 3


@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.ENOSPC, "no space left below"), (errno.EACCES, "give this user the right")],
)
def test_a_sick_disk_is_said_and_outlived(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int, message: str
) -> None:
    """S2: retriable errors that say what the matter is; when it is mended everything goes on."""
    disk, data = SickDisk(), tmp_path / "lacuna"
    open_store: Callable[[], DirectoryStore] = lambda: DirectoryStore(  # noqa: E731
        data / "objects", file_system=disk
    )
    with Cluster(data, parts=PARTS, open_store=open_store) as cluster:
        topic, raw = cluster.create_topic("t"), Target(cluster.bootstrap)
        assert raw.verdict(topic, batch([b"raw"])) == "NONE"
        disk.errno = number
        assert raw.verdict(topic, batch([b"lost"])) == "KAFKA_STORAGE_ERROR"
        assert message in caplog.text
        if number == errno.EACCES:
            assert error_name(raw.fetch(topic, 0)["error_code"]) == "KAFKA_STORAGE_ERROR"
        outbox = Outbox(cluster.bootstrap, topic)
        outbox.send(b"patient")
        mended = threading.Timer(0.3, setattr, (disk, "errno", 0))
        mended.start()
        assert outbox.flush() == [1]
        mended.join()
        assert read(cluster.bootstrap, topic).offsets[-1:] == [1]
