"""Tests producers: their ids and epochs, and their windows of sequence numbers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.controlplane import machine
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.windows import ProducerSettings
from lacuna.controlplane.v1.cluster_pb2 import DeleteTopics
from lacuna.controlplane.verbs import windows
from lacuna.controlplane.verbs.turn import Turn
from tests.controlplane.verbs.cluster import (
    ADDS_PARTITION,
    TRANSACTIONAL,
    Cluster,
    add_batch,
    init_of,
)
from tests.controlplane.verbs.script import run


def test_s10_a_duplicate_gets_its_first_answer_and_a_gap_is_refused() -> None:
    run("""
        topic a 2
        init -                                 -> 1/0
        put a-0 x10 1/0@0                      -> 0
        put a-0 x10 1/0@10                     -> 10
        put a-0 x10 1/0@0                      -> 0     # again
        put a-0 x10 1/0@10                     -> 10
        put a-0 x5 1/0@10                      -> OUT_OF_ORDER_SEQUENCE_NUMBER  # not the same batch
        put a-0 x1 1/0@21                      -> OUT_OF_ORDER_SEQUENCE_NUMBER
        put a-0 x1 1/0@20                      -> 20
        put a-1 x1 1/0@77                      -> 0     # no state there: any first sequence
        see a-0                                -> 0..21..21
        producers a-0                          -> 1/0@20:-1
        producers a-9                          -> UNKNOWN_TOPIC_OR_PARTITION
    """)


def test_s10_five_batches_are_remembered_and_a_sixth_is_forgotten() -> None:
    run("""
        topic a 1
        init -
        put a-0 x1 1/0@0                       -> 0
        put a-0 x1 1/0@1                       -> 1
        put a-0 x1 1/0@2                       -> 2
        put a-0 x1 1/0@3                       -> 3
        put a-0 x1 1/0@4                       -> 4
        put a-0 x1 1/0@0                       -> 0
        put a-0 x1 1/0@5                       -> 5
        put a-0 x1 1/0@0                       -> OUT_OF_ORDER_SEQUENCE_NUMBER
        put a-0 x1 1/0@1                       -> 1
    """)


def test_s10_five_batches_are_remembered_within_one_slice_too() -> None:
    cluster = run("topic a 1\ninit -")
    given = cluster.slice("a-0")
    for sequence in (0, 1, 2, 2, 4, 3, 4, 5, 1, 0):
        add_batch(given, producer=(1, 0), sequence=sequence)
    verdict = cluster.commit(given).slices[0]
    gap = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert list(verdict.error_codes) == [0, 0, 0, 0, gap, 0, 0, 0, 0, gap]
    assert list(verdict.base_offsets) == [0, 1, 2, 2, -1, 3, 4, 5, 1, -1]
    cluster.check()


def test_s10_sequences_wrap_from_the_largest_to_zero() -> None:
    run("""
        topic a 2
        init -
        put a-0 x1 1/0@2147483646              -> 0
        put a-0 x1 1/0@2147483647              -> 1
        put a-0 x1 1/0@0                       -> 2
        put a-0 x1 1/0@2147483647              -> 1
        put a-1 x3 1/0@2147483646              -> 0     # 2147483646, 2147483647, 0
        put a-1 x1 1/0@1                       -> 3
        put a-1 x3 1/0@2147483646              -> 0
    """)


def test_s10_epochs() -> None:
    run("""
        topic a 1
        init -
        put a-0 x1 1/3@0                       -> 0
        put a-0 x1 1/2@1                       -> INVALID_PRODUCER_EPOCH
        put a-0 x1 1/4@1                       -> OUT_OF_ORDER_SEQUENCE_NUMBER
        put a-0 x1 1/4@0                       -> 1
        put a-0 x1 1/3@1                       -> INVALID_PRODUCER_EPOCH
        put a-0 x1 1/4@1                       -> 2
    """)


def test_s10_without_state_tv2_begins_at_zero_and_tv1_anywhere() -> None:
    run("""
        topic a 2
        init x                                 -> 1/0
        put a-0 x1 1/0@1 tv2                   -> OUT_OF_ORDER_SEQUENCE_NUMBER
        state x                                -> Ongoing 1/0   # it has joined (S9)
        add x 1/0 a-1                          -> NONE
        put a-1 x1 1/0@8 txn                   -> 0
    """)


def test_s10_a_non_transactional_batch_inside_the_same_ids_transaction() -> None:
    run("""
        topic a 2
        init x                                 -> 1/0
        put a-0 x1 1/0@0 tv2                   -> 0
        put a-0 x1 1/0@1                       -> INVALID_TXN_STATE
        put a-1 x1 1/0@0                       -> 0     # in another partition it is not inside
        put a-0 x1 1/0@0                       -> 0     # a duplicate is answered first
        end2 x 1/0 commit                      -> 1/1
        put a-0 x1 1/0@1                       -> INVALID_PRODUCER_EPOCH
        put a-0 x1 1/1@0                       -> 1
    """)


def test_s10_a_non_transactional_batch_behind_a_transactional_one_in_one_slice() -> None:
    cluster = run("topic a 1\ninit x")
    given = cluster.slice("a-0")
    add_batch(given, producer=(1, 0), sequence=0, flags=12)
    add_batch(given, producer=(1, 0), sequence=1)
    add_batch(given, producer=(1, 0), sequence=1, flags=4)  # TV1 flag: joined by the first batch
    codes = list(cluster.commit(given).slices[0].error_codes)
    assert codes == [0, ErrorCode.INVALID_TXN_STATE, 0]


def test_s10_s11_log_append_time_is_answered_to_duplicates_too() -> None:
    cluster = run("topic a 1\ninit -")
    for _ in range(2):
        given = cluster.slice("a-0")
        add_batch(given, producer=(1, 0), sequence=0, flags=1, timestamp=777 + cluster.sequence)
        verdict = cluster.commit(given).slices[0]
        assert (verdict.base_offsets[0], verdict.append_times[0]) == (0, 777)
    given = cluster.slice("a-0")
    add_batch(given, producer=(1, 0), sequence=1, timestamp=777)
    assert cluster.commit(given).slices[0].append_times[0] == -1


def test_s8_producer_id_zero_is_never_given() -> None:
    cluster = Cluster()
    run("init - -> 1/0\ninit x -> 2/0\ninit - from=9/9 -> 3/0", cluster)


def test_s8_windows_that_nobody_uses_expire_through_the_journal() -> None:
    cluster = run("""
        topic a 1
        topic gone 1
        init -                                 -> 1/0
        init -                                 -> 2/0
        init -                                 -> 3/0
        put a-0 x1 1/0@0                       -> 0
        put a-0 x1 2/0@0                       -> 1
        put gone-0 x1 2/0@0                    -> 0
        delete-topic gone                      -> NONE
        put a-0 x1 3/0@0                       -> 2
        producers a-0                          -> 1/0@0:-1 2/0@0:-1 3/0@0:-1
        clock +72000000                        ->
        put a-0 x1 2/0@1                       -> 3
        clock +21600000                        -> producers_expired
        producers a-0                          -> 2/0@1:-1
        clock +108000000                       -> producers_expired
        producers a-0                          ->
        clock +1                               ->
    """)
    assert not cluster.state.windows.count
    assert not list(cluster.state.windows.oldest())


def test_s8_the_window_of_an_ongoing_transaction_does_not_expire() -> None:
    cluster = run("""
        topic a 1
        init x timeout=900000                  -> 1/0
        put a-0 x1 1/0@0 tv2                   -> 0
    """)
    cluster.now_ms += 100 * 3_600_000
    turn = Turn(cluster.state, cluster.context())
    windows.tick_producers(turn)
    assert turn.records == []
    run(
        """
        clock +0                               -> transaction_ended
        clock +1                               -> producers_expired
        """,
        cluster,
    )


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
        init_of("x", 900_000),
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
    """Commit one batch from each of these producers together."""
    given = cluster.slice(name)
    for producer_id in producer_ids:
        window = cluster.found(name).producers.get(producer_id)
        sequence = 0 if window is None else window.last_sequence + 1
        add_batch(given, producer=(producer_id, 0), sequence=sequence, timestamp=cluster.now_ms)
    cluster.commit(given)
