"""Days of small flushes: neither metadata nor objects grow, and no consumer is affected (S14, S19)."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from lacuna.agent.housekeeping import (
    Housekeeping,
    HousekeepingSettings,
    MergeSettings,
    collecting,
    service,
)
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.controlplane.client import PartitionView
from lacuna.logstore.segments import SegmentId, lease_prefix, segment_key, segments_prefix
from lacuna.logstore.segments.hot import hot_lease
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster
from tests.agent.harness import ScriptedControl, make_context

NEVER = 1 << 40
GRACE_MS = 600_000
PARTS = AgentParts(
    produce=ProduceSettings(hot_bytes=0),
    housekeeping=HousekeepingSettings(
        merge_interval_ms=NEVER,
        collect_interval_ms=NEVER,
        merge=MergeSettings(min_extents=8, min_age_ms=0),
    ),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster that merges and collects only on a test's request."""
    with Cluster(parts=PARTS) as cluster:
        yield cluster


def housekeeping(cluster: Cluster) -> Housekeeping:
    found = cluster.embedded.agents[0].housekeeping
    assert found is not None
    return found


def merge_all(cluster: Cluster) -> int:
    """Merge until nothing is left to merge, and return how many extents are gone."""
    merger = housekeeping(cluster).merger
    gone = 0
    while report := cluster.run(merger.run_once()):
        assert report.refused == 0
        gone += report.extents_before - report.extents_after
    return gone


def collect_all(cluster: Cluster) -> int:
    """Collect segments past their grace period, and return how many objects are gone."""
    cluster.advance(GRACE_MS)
    collector = housekeeping(cluster).collector
    gone = 0
    while (report := cluster.run(collector.run_once())).replaced:
        gone += report.replaced
    return gone


def objects(cluster: Cluster) -> int:
    """Return the number of segments in the store."""
    embedded = cluster.embedded
    prefix = segments_prefix(embedded.running.runtime.cluster_id)
    return sum(1 for _ in embedded.store.list(prefix))


def state_size(cluster: Cluster) -> int:
    """Return the size of the durable state in bytes."""

    async def measure() -> int:
        return len(cluster.embedded.running.runtime.serialized_state())

    return cluster.run(measure())


def write(producer: Producer, topic: str, first: int, count: int) -> None:
    """Write one flush per record."""
    for number in range(first, first + count):
        producer.produce(topic, f"v{number}".encode(), key=f"k{number}".encode(), timestamp=number)
        assert producer.flush(60) == 0


def read(
    cluster: Cluster, topic: str, isolation: str
) -> list[tuple[int | None, bytes | None, bytes | None, int]]:
    """Return (offset, key, value, timestamp) from the start to the end of partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "g",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    try:
        while True:
            message = consumer.poll(60)
            assert message is not None, "the consumer stands still"
            error = message.error()
            if error is None:
                stamp = message.timestamp()[1]
                found.append((message.offset(), message.key(), message.value(), stamp))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
    finally:
        consumer.close()


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    return cluster.create_topic(request.node.name)


@pytest.mark.slow
def test_small_flushes_become_one_object(cluster: Cluster, topic: str) -> None:
    """S19: keys, values, timestamps and offsets are unchanged, and the small objects are gone."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    write(producer, topic, 0, 60)
    before = read(cluster, topic, "read_committed")
    objects_before, state_before = objects(cluster), state_size(cluster)
    assert merge_all(cluster) >= 59
    assert read(cluster, topic, "read_committed") == before
    assert [record[0] for record in before] == list(range(60))
    assert collect_all(cluster) >= 60
    assert objects(cluster) <= objects_before - 59
    assert state_size(cluster) < state_before
    assert read(cluster, topic, "read_committed") == before


def transactions(cluster: Cluster, topic: str, outcomes: str) -> None:
    """Write a transaction of one record for each letter: c commits, a aborts."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for number, outcome in enumerate(outcomes):
        producer.begin_transaction()
        write(producer, topic, number, 1)
        finish: Callable[[float], None] = (
            producer.commit_transaction if outcome == "c" else producer.abort_transaction
        )
        finish(60)


@pytest.mark.slow
def test_aborted_records_leave_for_good(cluster: Cluster, topic: str) -> None:
    """S14: after merging, read_uncommitted sees the holes too, and metadata does not count aborted records."""
    transactions(cluster, topic, "caaac" * 8)
    committed = read(cluster, topic, "read_committed")
    assert len(committed) == 16
    assert len(read(cluster, topic, "read_uncommitted")) == 40
    merge_all(cluster)
    assert read(cluster, topic, "read_committed") == committed
    assert read(cluster, topic, "read_uncommitted") == committed
    control = cluster.embedded.control

    async def ready_view() -> PartitionView:
        view = control.partition(control.cluster.topics_by_name[topic].topic_id, 0)
        await view.ready()
        return view

    view = cluster.run(ready_view())
    assert len(view.dead) == 0
    assert len(view.extents) <= 2


@pytest.mark.slow
def test_a_wholly_aborted_log_leaves_no_object(cluster: Cluster, topic: str) -> None:
    """S14, S17: nothing is left to write, and the consumer still moves past the hole."""
    merge_all(cluster)
    collect_all(cluster)
    before = objects(cluster)
    transactions(cluster, topic, "a" * 20)
    assert objects(cluster) == before + 20
    assert merge_all(cluster) == 20
    assert read(cluster, topic, "read_committed") == []
    assert read(cluster, topic, "read_uncommitted") == []
    assert collect_all(cluster) >= 20
    assert objects(cluster) == before
    description = cluster.explain(topic, 0)
    assert description.high_watermark == 20
    assert [each.row.fate for each in description.lines] == ["hole", "filler"]


def test_an_ongoing_transaction_is_not_touched(cluster: Cluster, topic: str) -> None:
    """S3: nothing at or after the last stable offset is merged."""
    plain = Producer({"bootstrap.servers": cluster.bootstrap})
    held = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    held.init_transactions(60)
    held.begin_transaction()
    write(held, topic, 0, 1)
    write(plain, topic, 1, 20)
    merge_all(cluster)
    assert len(cluster.explain(topic, 0).lines) == 21
    held.commit_transaction(60)
    merge_all(cluster)
    assert len(cluster.explain(topic, 0).lines) == 1
    assert [record[0] for record in read(cluster, topic, "read_committed")] == list(range(21))


@pytest.mark.slow
def test_growth_is_bounded_over_many_rounds(cluster: Cluster, topic: str) -> None:
    """Rounds of flushes, merges and collections leave the number of objects and the state size unchanged."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    sizes, counts = [], []
    for round_number in range(6):
        write(producer, topic, round_number * 20, 20)
        merge_all(cluster)
        collect_all(cluster)
        sizes.append(state_size(cluster))
        counts.append(objects(cluster))
    assert counts[-1] <= counts[0] + 5
    assert sizes[-1] <= sizes[0] + 5 * 400
    assert len(read(cluster, topic, "read_committed")) == 120


def test_one_round_of_collection_takes_all_that_is_due(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan is bounded but a round is not, so objects are deleted as fast as they are created."""
    monkeypatch.setattr(collecting, "SEGMENTS_A_PLAN", 7)
    monkeypatch.setattr(service, "SEGMENTS_A_PLAN", 7)
    merge_all(cluster)
    collect_all(cluster)
    before = objects(cluster)
    write(Producer({"bootstrap.servers": cluster.bootstrap}), topic, 0, 30)
    merge_all(cluster)
    cluster.advance(GRACE_MS)
    cluster.run(housekeeping(cluster).collect())
    assert objects(cluster) == before + 1


def test_an_uncommitted_object_of_an_ended_lease_is_collected(cluster: Cluster, topic: str) -> None:
    """A dead writer's objects are found by the prefixes of its lease; committed ones are kept."""
    embedded = cluster.embedded
    lease = embedded.agents[0].context.lease
    write(Producer({"bootstrap.servers": cluster.bootstrap}), topic, 0, 1)
    for lease_id in (lease.lease_id, hot_lease(lease.lease_id)):
        orphan = segment_key(lease.cluster_id, SegmentId(lease_id, 10**6))
        embedded.store.put(orphan, [b"never committed"])
    strange = lease_prefix(lease.cluster_id, lease.lease_id) + "notes.txt"
    embedded.store.put(strange, [b"somebody else's"])
    cluster.restart()
    before = objects(cluster)
    cluster.advance(GRACE_MS)
    report = cluster.run(housekeeping(cluster).collector.run_once())
    assert report.uncommitted == 2
    assert objects(cluster) == before - 2 - report.replaced
    assert cluster.embedded.store.get(strange, 0, 8) == b"somebody"
    assert [record[0] for record in read(cluster, topic, "read_committed")] == [0]


async def test_a_round_that_fails_by_our_mistake_is_not_the_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The error used to end the task silently, after which nothing was merged or collected."""
    settings = HousekeepingSettings(merge_interval_ms=10, collect_interval_ms=NEVER)
    keeping = Housekeeping(make_context(ScriptedControl()), settings)
    again = asyncio.Event()
    rounds: list[None] = []

    async def merge() -> None:
        rounds.append(None)
        if len(rounds) == 1:
            raise ValueError("nobody thought of it")
        again.set()
        await asyncio.Event().wait()

    keeping.merge = merge  # type: ignore[method-assign]
    keeping.start()
    async with asyncio.timeout(60):
        await again.wait()
    await keeping.stop()
    assert "unexpected error in merging" in caplog.text
    assert keeping.metrics.merges_failed == 1
    assert keeping.metrics.collections_failed == 0
    assert keeping.metrics.last_failure == "merging: nobody thought of it"


def test_what_was_merged_is_counted(cluster: Cluster, topic: str) -> None:
    metrics = housekeeping(cluster).metrics
    merges, before, written = metrics.merges, metrics.extents_before, metrics.bytes_written
    write(Producer({"bootstrap.servers": cluster.bootstrap}), topic, 0, 12)
    cluster.run(housekeeping(cluster).merge())
    assert metrics.merges == merges + 1
    assert metrics.extents_before == before + 12
    assert metrics.bytes_written > written
    deleted = metrics.objects_deleted
    cluster.advance(GRACE_MS)
    cluster.run(housekeeping(cluster).collect())
    assert metrics.objects_deleted >= deleted + 12
