"""Tests idempotence windows with tables (S10)."""

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.verbs import windows
from lacuna.controlplane.verbs.turn import Turn
from tests.controlplane.verbs.cluster import Cluster, add_batch
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
