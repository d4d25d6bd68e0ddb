"""Tests the bound on idempotence windows (docs/limits.md) and the order in which they are dropped."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.controlplane import machine
from lacuna.controlplane.state.windows import ProducerSettings
from lacuna.controlplane.v1.cluster_pb2 import DeleteTopics
from lacuna.controlplane.v1.transactions_pb2 import InitProducerId
from tests.controlplane.verbs.cluster import ADDS_PARTITION, TRANSACTIONAL, Cluster, add_batch

MINUTE_MS = 60_000
IN_ALL, OF_PARTITION, PER_COMMIT = 20, 8, 5


def bounded(in_all: int, of_partition: int) -> Cluster:
    cluster = Cluster()
    cluster.state.windows.settings = ProducerSettings(
        producer_windows_max=in_all, partition_producer_windows_max=of_partition
    )
    return cluster


def known(cluster: Cluster, name: str) -> list[int]:
    return sorted(cluster.found(name).producers)


def test_those_of_a_partition_that_were_not_used_for_longest_are_dropped() -> None:
    cluster = bounded(100, 3)
    cluster.create("a", 2)
    for producer_id in (1, 2, 3):
        cluster.put("a-0", producer=(producer_id, 0), sequence=0)
        cluster.put("a-1", producer=(producer_id, 0), sequence=0)
        cluster.now_ms += 1
    assert cluster.put("a-0", producer=(1, 0), sequence=1) == 3
    cluster.now_ms += 1
    assert cluster.put("a-0", producer=(4, 0), sequence=0) == 4
    assert cluster.tick() == ["producers_expired"]
    assert known(cluster, "a-0") == [1, 3, 4]
    assert known(cluster, "a-1") == [1, 2, 3]
    assert cluster.put("a-0", producer=(1, 0), sequence=1) == 3, "a repeated batch is known"
    cluster.check()


def test_of_all_those_not_used_for_longest_are_dropped_and_no_time_is_needed() -> None:
    cluster = bounded(3, 100)
    cluster.is_time_doubtful = True
    for number in range(4):
        cluster.create(f"t{number}")
        cluster.put(f"t{number}-0", producer=(number, 0), sequence=0)
        cluster.now_ms += MINUTE_MS
        if number == 2:
            cluster.put("t0-0", producer=(0, 0), sequence=1)
    assert cluster.state.windows.count == 4, "one more than there may be, until the next commit"
    cluster.put("t3-0", producer=(3, 0), sequence=1)
    assert [known(cluster, f"t{number}-0") for number in range(4)] == [[0], [], [2], [3]]
    cluster.check()


def test_a_dropped_producer_goes_on_as_in_kafka() -> None:
    cluster = bounded(100, 1)
    cluster.create("a")
    cluster.put("a-0", producer=(1, 0), sequence=0)
    cluster.now_ms += 1
    cluster.put("a-0", producer=(2, 0), sequence=0)
    cluster.tick()
    assert known(cluster, "a-0") == [2]
    assert cluster.put("a-0", producer=(1, 0), sequence=1) == 2, "any sequence is its first"
    assert cluster.put("a-0", producer=(1, 0), sequence=3) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_the_windows_of_open_transactions_stay() -> None:
    cluster = bounded(1, 1)
    cluster.create("a")
    given = cluster.do(
        "init_producer_id",
        InitProducerId(
            has_transactional_id=True,
            transactional_id="x",
            transaction_timeout_ms=900_000,
            producer_id=-1,
            producer_epoch=-1,
        ),
    ).producer_id
    flags = TRANSACTIONAL | ADDS_PARTITION
    cluster.put("a-0", producer=(given, 0), sequence=0, flags=flags)
    for producer_id in (8, 9):
        cluster.now_ms += 1
        cluster.put("a-0", producer=(producer_id, 0), sequence=0)
    cluster.tick()
    assert known(cluster, "a-0") == [given]
    assert cluster.put("a-0", producer=(given, 0), sequence=1, flags=flags) == 3


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"),
            st.integers(0, 3),
            st.lists(st.integers(1, 40), min_size=1, max_size=PER_COMMIT, unique=True),
        ),
        st.tuples(st.just("wait"), st.integers(0, 30), st.just([])),
        st.tuples(st.just("delete"), st.integers(0, 3), st.just([])),
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_producers_leave_no_more_windows_than_there_may_be(
    steps: list[tuple[str, int, list[int]]],
) -> None:
    cluster = bounded(IN_ALL, OF_PARTITION)
    for step, number, producer_ids in steps:
        name = f"t{number}"
        if step == "put":
            if name not in cluster.state.topics_by_name:
                cluster.create(name)
            put_all(cluster, f"{name}-0", producer_ids)
        elif step == "wait":
            cluster.now_ms += number * MINUTE_MS
        elif name in cluster.state.topics_by_name:
            topic_id = cluster.state.topics_by_name[name].topic_id
            cluster.do("delete_topics", DeleteTopics(topic_ids=[topic_id]))
        windows, partitions = cluster.state.windows, cluster.state.partitions.values()
        assert windows.count == sum(len(each.producers) for each in partitions)
        assert windows.count <= IN_ALL + PER_COMMIT
        assert all(len(each.producers) <= OF_PARTITION + PER_COMMIT for each in partitions)
    cluster.tick()
    windows, partitions = cluster.state.windows, cluster.state.partitions.values()
    assert windows.count <= IN_ALL
    assert all(len(each.producers) <= OF_PARTITION for each in partitions)
    assert set(windows.oldest()) == {
        each for some in partitions for each in some.producers.values()
    }
    again = machine.restore((machine.snapshot(cluster.state),)).windows
    assert again.count == windows.count
    cluster.check()


def put_all(cluster: Cluster, name: str, producer_ids: list[int]) -> None:
    """Commit a batch of each of these producers at once."""
    given = cluster.slice(name)
    for producer_id in producer_ids:
        window = cluster.found(name).producers.get(producer_id)
        sequence = 0 if window is None else window.last_sequence + 1
        add_batch(given, producer=(producer_id, 0), sequence=sequence, timestamp=cluster.now_ms)
    cluster.commit(given)
