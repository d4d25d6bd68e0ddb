"""Tests transactions, using tables (S4, S5, S8, S9, S21)."""

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.internal_topics import partition_of
from lacuna.controlplane.state.transactional import TRANSITIONS, IllegalTransition, TransactionState
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, TransactionEnded
from lacuna.controlplane.v1.transactions_pb2 import (
    DescribeTransactions,
    EndTxn,
    ListTransactions,
)
from tests.controlplane.verbs.cluster import ADDS_PARTITION, TRANSACTIONAL, Cluster, add_batch
from tests.controlplane.verbs.script import run

BEGUN_TV1 = """
    topic a 2
    init x                                 -> 1/0
    add x 1/0 a-0                          -> NONE
    put a-0 x10 1/0@0 txn                  -> 0
"""
BEGUN_TV2 = """
    topic a 2
    init x                                 -> 1/0
    put a-0 x10 1/0@0 tv2                  -> 0
"""


def begun_tv1(table: str) -> Cluster:
    return run(BEGUN_TV1 + table)


def begun_tv2(table: str) -> Cluster:
    return run(BEGUN_TV2 + table)


def test_s4_tv1_a_partition_must_have_been_added() -> None:
    run("""
        topic a 2
        init x                                 -> 1/0
        put a-0 x1 1/0@0 txn                   -> INVALID_TXN_STATE
        add x 1/0 a-0                          -> NONE
        state x                                -> Ongoing 1/0
        put a-1 x1 1/0@0 txn                   -> INVALID_TXN_STATE
        put a-0 x1 1/0@0 txn                   -> 0
        see a-0                                -> 0..0..1
        add x 1/0 a-0 a-1                      -> NONE NONE
        add x 1/0 a-0                          -> NONE
        verify x 1/0 a-1                       -> NONE
        end1 x 1/0 commit                      -> 1/0
        verify x 1/0 a-1                       -> TRANSACTION_ABORTABLE
    """)


def test_s4_late_produce_of_an_ended_transaction_changes_nothing() -> None:
    begun_tv1("""
        end1 x 1/0 abort                       -> 1/0
        put a-0 x1 1/0@10 txn                  -> INVALID_TXN_STATE
        put a-0 x10 1/0@0 txn                  -> INVALID_TXN_STATE   # even as a duplicate
        see a-0                                -> 0..10..10 [0,10)
    """)
    begun_tv2("""
        end2 x 1/0 abort                       -> 1/1
        put a-0 x1 1/0@10 tv2                  -> INVALID_PRODUCER_EPOCH
        put a-0 x1 9/0@0 tv2                   -> INVALID_PRODUCER_ID_MAPPING
        put a-0 x1 1/7@0 tv2                   -> INVALID_PRODUCER_EPOCH
        see a-0                                -> 0..10..10 [0,10)
        state x                                -> CompleteAbort 1/1
    """)


def test_s4_late_add_and_late_offsets_of_a_fenced_producer() -> None:
    begun_tv1("""
        offsets x 1/0 g                        -> NONE
        init x                                 -> 1/1
        add x 1/0 a-1                          -> PRODUCER_FENCED
        offsets x 1/0 g                        -> PRODUCER_FENCED
        commit-offset x 1/0 g a-0=5            -> INVALID_PRODUCER_EPOCH
        end1 x 1/0 commit                      -> PRODUCER_FENCED
        end2 x 1/0 commit                      -> PRODUCER_FENCED
        put a-0 x1 1/0@10 txn                  -> INVALID_PRODUCER_EPOCH
        see a-0                                -> 0..10..10 [0,10)
        state x                                -> Empty 1/1
    """)


def test_unknown_ids_and_empty_ids() -> None:
    run("""
        topic a 1
        init x                                 -> 1/0
        add y 1/0 a-0                          -> INVALID_PRODUCER_ID_MAPPING
        add x 2/0 a-0                          -> INVALID_PRODUCER_ID_MAPPING
        add '' 1/0 a-0                         -> INVALID_REQUEST
        add x 1/0 a-0 a-9                      -> OPERATION_NOT_ATTEMPTED UNKNOWN_TOPIC_OR_PARTITION
        state x                                -> Empty 1/0
        offsets y 1/0 g                        -> INVALID_PRODUCER_ID_MAPPING
        commit-offset y 1/0 g a-0=1            -> INVALID_PRODUCER_ID_MAPPING
        end1 '' 1/0 commit                     -> INVALID_REQUEST
        end1 y 1/0 commit                      -> INVALID_PRODUCER_ID_MAPPING
        end1 x 2/0 commit                      -> INVALID_PRODUCER_ID_MAPPING
        end2 x 2/0 commit                      -> INVALID_PRODUCER_ID_MAPPING
        state y                                -> TRANSACTIONAL_ID_NOT_FOUND
        state ''                               -> INVALID_REQUEST
        init ''                                -> INVALID_REQUEST
        init x from=1/-1                       -> INVALID_REQUEST
        init x from=-1/0                       -> INVALID_REQUEST
        offsets x 1/0 ''                       -> NONE   # as Kafka
        state x                                -> Ongoing 1/0
    """)


def test_s5_tv1_the_same_outcome_again_is_no_error_and_the_other_is() -> None:
    begun_tv1("""
        end1 x 1/0 commit                      -> 1/0
        end1 x 1/0 commit                      -> 1/0
        end1 x 1/0 abort                       -> INVALID_TXN_STATE
        add x 1/0 a-0                          -> NONE
        end1 x 1/0 abort                       -> 1/0
        end1 x 1/0 abort                       -> 1/0
        end1 x 1/0 commit                      -> INVALID_TXN_STATE
        init x                                 -> 1/1
        end1 x 1/1 commit                      -> INVALID_TXN_STATE   # nothing was begun
        end1 x 1/1 abort                       -> INVALID_TXN_STATE
    """)


def test_s5_tv1_a_delayed_end_cannot_be_told_from_a_right_one() -> None:
    begun_tv1("""
        end1 x 1/0 commit                      -> 1/0
        add x 1/0 a-0                          -> NONE
        put a-0 x1 1/0@10 txn                  -> 10
        end1 x 1/0 commit                      -> 1/0    # sent for the first, ends the second
        see a-0                                -> 0..11..11
    """)


def test_s5_tv2_a_delayed_end_is_refused() -> None:
    begun_tv2("""
        end2 x 1/0 commit                      -> 1/1
        put a-0 x1 1/1@0 tv2                   -> 10
        end2 x 1/0 commit                      -> PRODUCER_FENCED
        end2 x 1/0 abort                       -> PRODUCER_FENCED
        see a-0                                -> 0..10..11
    """)


@pytest.mark.parametrize(("outcome", "other"), [("commit", "abort"), ("abort", "commit")])
def test_s5_tv2_a_retry_gets_the_same_producer_id_and_epoch(outcome: str, other: str) -> None:
    begun_tv2(f"""
        end2 x 1/0 {outcome}                   -> 1/1
        end2 x 1/0 {outcome}                   -> 1/1
        end2 x 1/0 {other}                     -> INVALID_TXN_STATE
        end2 x 1/0 {outcome}                   -> 1/1
        init x                                 -> 1/2
        end2 x 1/0 {outcome}                   -> PRODUCER_FENCED
    """)


def test_s5_tv2_an_abort_of_nothing_bumps_and_a_commit_of_nothing_is_refused() -> None:
    run("""
        init x                                 -> 1/0
        end2 x 1/0 commit                      -> INVALID_TXN_STATE
        end2 x 1/0 abort                       -> 1/1
        end2 x 1/0 abort                       -> 1/1   # a retry
        end2 x 1/1 abort                       -> 1/2
        end2 x 1/2 commit                      -> INVALID_TXN_STATE
        state x                                -> CompleteAbort 1/2
    """)


def test_s5_tv2_after_the_coordinators_own_abort_a_commit_is_fenced() -> None:
    begun_tv2("""
        clock +60000                           -> transaction_ended
        state x                                -> CompleteAbort 1/1
        put a-0 x1 1/0@10 tv2                  -> INVALID_PRODUCER_EPOCH
        add x 1/0 a-0                          -> PRODUCER_FENCED
        end2 x 1/0 commit                      -> PRODUCER_FENCED
        end1 x 1/0 commit                      -> PRODUCER_FENCED
        end1 x 1/0 abort                       -> PRODUCER_FENCED
        end2 x 1/0 abort                       -> 1/1    # the outcome that it has
        init x from=1/0                        -> 1/1    # KIP-360: its producer can go on
        end2 x 1/0 abort                       -> PRODUCER_FENCED
        init x                                 -> 1/2
        init x from=1/0                        -> PRODUCER_FENCED
    """)


def test_s5_tv2_a_retry_across_the_rollover_to_a_new_producer_id() -> None:
    run("""
        epoch 32765
        put a-0 x1 1/32765@0 tv2               -> 0
        end2 x 1/32765 commit                  -> 1/32766
        put a-0 x1 1/32766@0 tv2               -> 1
        end2 x 1/32766 commit                  -> 2/0
        end2 x 1/32766 commit                  -> 2/0
        end2 x 1/32766 abort                   -> INVALID_TXN_STATE
        end2 x 1/32765 commit                  -> INVALID_PRODUCER_ID_MAPPING
        put a-0 x1 1/32766@1 tv2               -> INVALID_PRODUCER_EPOCH   # of the window
        put a-0 x1 1/32766@1 txn               -> INVALID_PRODUCER_EPOCH
        put a-1 x1 1/32766@1 tv2               -> INVALID_PRODUCER_ID_MAPPING
        producers a-0                          -> 1/32767@-1:-1
        init x from=1/32766                    -> 2/0    # KIP-360: a retry after exhaustion
        put a-0 x1 2/0@0 tv2                   -> 2
        end2 x 2/0 abort                       -> 2/1
        end2 x 1/32766 commit                  -> INVALID_PRODUCER_ID_MAPPING
        see a-0                                -> 0..3..3 [2,3)
    """)


def test_s8_epoch_exhaustion_gives_a_new_producer_id() -> None:
    run("""
        epoch 32765
        init x                                 -> 1/32766
        init x                                 -> 2/0
        init x                                 -> 2/1
    """)
    run("""
        epoch 32766
        init x from=1/32766                    -> 2/0
        init x from=1/32766                    -> 2/0    # a retry
        init x from=1/32765                    -> PRODUCER_FENCED
    """)


def test_s8_after_the_rollover_the_old_producer_is_fenced_until_the_next_epoch() -> None:
    """Measurements show that Kafka does the same."""
    run("""
        epoch 32766
        put a-0 x1 1/32766@0 tv2               -> 0
        init x                                 -> 2/0
        producers a-0                          -> 1/32767@-1:-1
        end1 x 1/32766 commit                  -> INVALID_PRODUCER_ID_MAPPING
        end2 x 1/32766 commit                  -> PRODUCER_FENCED
        end2 x 1/32766 abort                   -> PRODUCER_FENCED
        end2 x 1/32765 commit                  -> INVALID_PRODUCER_ID_MAPPING
        put a-0 x1 1/32766@1 tv2               -> INVALID_PRODUCER_EPOCH
        add x 1/32766 a-0                      -> INVALID_PRODUCER_ID_MAPPING
        commit-offset2 x 1/32766 g a-0=1       -> INVALID_PRODUCER_ID_MAPPING
        init x from=1/32766                    -> PRODUCER_FENCED
        end2 x 2/0 abort                       -> 2/1
        end2 x 1/32766 commit                  -> INVALID_PRODUCER_ID_MAPPING
    """)


BEYOND = """
        epoch 32766
        put a-0 x1 1/32766@0 tv2               -> 0
        clock +60000                           -> transaction_ended
        state x                                -> CompleteAbort 1/32767
        producers a-0                          -> 1/32767@-1:-1
"""


def beyond(table: str) -> None:
    run(BEYOND + table)


def test_s8_no_producer_acts_in_the_coordinators_last_epoch() -> None:
    beyond("""
        put a-0 x1 1/32767@0 tv2               -> INVALID_PRODUCER_EPOCH
        put a-0 x1 1/32766@1 tv2               -> INVALID_PRODUCER_EPOCH
        add x 1/32767 a-0                      -> PRODUCER_FENCED
        commit-offset2 x 1/32767 g a-0=1       -> INVALID_PRODUCER_EPOCH
        end1 x 1/32767 abort                   -> PRODUCER_FENCED
        end2 x 1/32767 abort                   -> PRODUCER_FENCED
        init x from=1/32767                    -> PRODUCER_FENCED
        init x                                 -> 2/0
    """)


def test_s8_after_the_coordinators_last_epoch_a_producer_goes_on_with_a_new_id() -> None:
    """This happens with KIP-360 and with a repeated abort. No client sees epoch 32767."""
    beyond("""
        init x from=1/32766                    -> 2/0
        init x from=1/32766                    -> 2/0    # a retry
        state x                                -> Empty 2/0
    """)
    beyond("""
        end2 x 1/32766 commit                  -> PRODUCER_FENCED
        end2 x 1/32766 abort                   -> 2/0
        end2 x 1/32766 abort                   -> 2/0    # a retry
        end2 x 1/32766 commit                  -> PRODUCER_FENCED
        init x from=1/32766                    -> 2/0
        put a-0 x1 2/0@0 tv2                   -> 1
        producers a-0                          -> 1/32767@-1:-1 2/0@0:1
    """)
    beyond("abort x -> INVALID_TXN_STATE")


def test_s8_init_bumps_the_epoch_and_aborts_what_was_ongoing() -> None:
    begun_tv1("""
        init x                                 -> 1/1
        see a-0                                -> 0..10..10 [0,10)
        state x                                -> Empty 1/1
        add x 1/1 a-0                          -> NONE
        put a-0 x1 1/1@10 txn                  -> OUT_OF_ORDER_SEQUENCE_NUMBER
        put a-0 x1 1/1@0 txn                   -> 10
    """)


def test_s8_kip_360_recovery_and_its_retry() -> None:
    begun_tv1("""
        end1 x 1/0 abort                       -> 1/0
        init x from=1/0                        -> 1/1
        init x from=1/0                        -> 1/1    # the answer was lost
        init x from=1/1                        -> 1/2
        init x from=1/0                        -> PRODUCER_FENCED
        init x from=7/0                        -> PRODUCER_FENCED
        init x                                 -> 1/3
        init x from=1/2                        -> PRODUCER_FENCED   # another instance took over
        init new from=7/3                      -> 2/0    # its state had expired
        add x 1/3 a-0                          -> NONE
        init x from=1/3                        -> 1/4    # aborts, as it is the same producer
        state x                                -> Empty 1/4
    """)


def test_s8_a_recovery_of_a_stale_instance_aborts_nothing() -> None:
    begun_tv2("""
        end2 x 1/0 commit                      -> 1/1
        put a-0 x1 1/1@0 tv2                   -> 10
        init x from=1/0                        -> PRODUCER_FENCED
        state x                                -> Ongoing 1/1
    """)


def test_s8_transaction_timeouts() -> None:
    run("""
        topic a 1
        init x timeout=0                       -> INVALID_TRANSACTION_TIMEOUT
        init x timeout=-1                      -> INVALID_TRANSACTION_TIMEOUT
        init x timeout=900001                  -> INVALID_TRANSACTION_TIMEOUT
        init x timeout=900000                  -> 1/0
        init x timeout=5000                    -> 1/1
        init y timeout=3000                    -> 2/0
        add x 1/1 a-0                          -> NONE
        put a-0 x10 1/1@0 txn                  -> 0
        add y 2/0 a-0                          -> NONE
        clock +4000                            -> transaction_ended
        state y                                -> CompleteAbort 2/1
        state x                                -> Ongoing 1/1
        clock +999                             ->
        clock +1                               -> transaction_ended
        see a-0                                -> 0..10..10 [0,10)
        end1 x 1/1 commit                      -> PRODUCER_FENCED
        add x 1/1 a-0                          -> PRODUCER_FENCED
        put a-0 x1 1/1@10 txn                  -> INVALID_PRODUCER_EPOCH
        init x from=1/1                        -> 1/2
    """)


def test_s8_transactional_ids_that_nobody_uses_expire() -> None:
    week = 7 * 24 * 3_600_000
    run(f"""
        topic a 1
        init x                                 -> 1/0
        init y timeout=900000                  -> 2/0
        clock +{week - 1000}                   ->
        add y 2/0 a-0                          -> NONE
        clock +999                             ->
        clock +1                               -> transactional_ids_expired
        state x                                -> TRANSACTIONAL_ID_NOT_FOUND
        state y                                -> Ongoing 2/0
        add x 1/0 a-0                          -> INVALID_PRODUCER_ID_MAPPING
        init x from=1/0                        -> 3/0
    """)


def test_s9_a_partition_joins_before_its_batch_is_refused() -> None:
    """Measurements show that Kafka does the same. A batch that its producer may not send adds no partition."""
    cluster = begun_tv2("""
        put a-1 x1 1/0@5 tv2                   -> OUT_OF_ORDER_SEQUENCE_NUMBER
        see a-1                                -> 0..0..0
    """)
    described = cluster.do("describe_transactions", DescribeTransactions(transactional_ids=["x"]))
    partitions = described.transactions[0].partitions
    assert [each.partition for each in partitions] == [0, 1]
    assert described.transactions[0].start_time_ms == cluster.now_ms
    assert described.transactions[0].transaction_timeout_ms == 60_000


def test_s9_a_transaction_of_which_all_was_refused_can_be_committed() -> None:
    run("""
        topic a 2
        init x                                 -> 1/0
        put a-0 x1 1/7@0 tv2                   -> INVALID_PRODUCER_EPOCH
        end2 x 1/0 commit                      -> INVALID_TXN_STATE
        put a-0 x1 1/0@5 tv2                   -> OUT_OF_ORDER_SEQUENCE_NUMBER
        state x                                -> Ongoing 1/0
        put a-1 x1 1/0@5 tv2                   -> OUT_OF_ORDER_SEQUENCE_NUMBER
        put a-0 x1 1/0@0 tv2                   -> 0
        end2 x 1/0 commit                      -> 1/1
        see a-0                                -> 0..1..1
        put a-0 x1 1/1@5 tv2                   -> OUT_OF_ORDER_SEQUENCE_NUMBER
        end2 x 1/1 abort                       -> 1/2
        commit-offset2 x 1/2 g b-0=5           -> UNKNOWN_TOPIC_OR_PARTITION
        commit-offset2 x 1/2 '' a-0=5          -> INVALID_GROUP_ID
        end2 x 1/2 commit                      -> 1/3
        commit-offset2 x 1/3 '' a-0=5          -> INVALID_GROUP_ID
        end2 x 1/3 commit                      -> INVALID_TXN_STATE
    """)


def test_s9_a_segment_may_begin_a_transaction_with_a_refused_batch() -> None:
    """Its accepted batches, from this producer and another one, belong to the right transactions."""
    cluster = run("topic a 3\ninit x\ninit y")
    slices = [cluster.slice(f"a-{index}") for index in range(3)]
    flags = TRANSACTIONAL | ADDS_PARTITION
    add_batch(slices[0], producer=(1, 0), sequence=4, flags=flags)
    add_batch(slices[1], producer=(2, 0), sequence=0, flags=flags)
    add_batch(slices[2], producer=(1, 0), sequence=0, flags=flags)
    committed = cluster.commit(*slices)
    codes = [list(each.error_codes) for each in committed.slices]
    assert codes == [[ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER], [0], [0]]
    run(
        """
        see a-1                                -> 0..0..1
        see a-2                                -> 0..0..1
        end2 x 1/0 abort                       -> 1/1
        see a-1                                -> 0..0..1
        see a-2                                -> 0..1..1 [0,1)
        end2 y 2/0 commit                      -> 2/1
        see a-1                                -> 0..1..1
    """,
        cluster,
    )


def test_s21_a_transaction_names_the_partitions_of_the_groups_whose_offsets_it_commits() -> None:
    """It lists these partitions of __consumer_offsets until it ends, as in Kafka."""
    cluster = begun_tv1("offsets x 1/0 g  -> NONE\noffsets x 1/0 h  -> NONE")
    command = DescribeTransactions(transactional_ids=["x"])
    (described,) = cluster.do("describe_transactions", command).transactions
    assert list(described.offsets_partitions) == sorted((partition_of("g"), partition_of("h")))
    run("end1 x 1/0 commit  -> 1/0", cluster)
    (described,) = cluster.do("describe_transactions", command).transactions
    assert list(described.offsets_partitions) == []


def test_s21_an_operators_abort_ends_the_whole_transaction_and_bumps() -> None:
    begun_tv1("""
        add x 1/0 a-1                          -> NONE
        put a-1 x3 1/0@0 txn                   -> 0
        abort 9/0                              -> INVALID_PRODUCER_ID_MAPPING
        abort 1/5                              -> INVALID_PRODUCER_EPOCH
        abort 1/0                              -> NONE
        abort 1/1                              -> INVALID_TXN_STATE
        see a-0                                -> 0..10..10 [0,10)
        see a-1                                -> 0..3..3 [0,3)
        end1 x 1/0 commit                      -> PRODUCER_FENCED
        add x 1/0 a-0                          -> PRODUCER_FENCED
        abort nobody                           -> TRANSACTIONAL_ID_NOT_FOUND
        abort x                                -> INVALID_TXN_STATE
        add x 1/1 a-0                          -> NONE
        abort x                                -> NONE
        state x                                -> CompleteAbort 1/2
    """)


def test_s21_describe_producers_shows_where_the_transaction_began() -> None:
    begun_tv1("""
        put a-0 x5 1/0@10 txn                  -> 10
        producers a-0                          -> 1/0@14:0
        end1 x 1/0 commit                      -> 1/0
        producers a-0                          -> 1/0@14:-1
    """)


def test_s21_s9_a_new_epoch_at_the_end_forgets_the_sequence() -> None:
    """Kafka's markers with the next epoch do the same: under TV2, on a timeout, with a successor, and with a new id."""
    cluster = run("""
        topic a 1
        init x                                 -> 1/0
        put a-0 x5 1/0@0 tv2                   -> 0
        end2 x 1/0 commit                      -> 1/1
        producers a-0                          -> 1/1@-1:-1
        put a-0 x1 1/1@5 tv2                   -> OUT_OF_ORDER_SEQUENCE_NUMBER
        put a-0 x1 1/1@0 tv2                   -> 5
        end2 x 1/1 abort                       -> 1/2
        producers a-0                          -> 1/2@-1:-1
        put a-0 x1 1/2@0 tv2                   -> 6
        init x                                 -> 1/3
        producers a-0                          -> 1/3@-1:-1
        put a-0 x1 1/3@0 tv2                   -> 7
        clock +60001                           -> transaction_ended
        producers a-0                          -> 1/4@-1:-1
    """)
    (window,) = cluster.found("a-0").producers.values()
    assert window.last_timestamp == cluster.now_ms
    run("clock +90000000 -> producers_expired\nproducers a-0 ->", cluster)


def test_s21_list_transactions_filters() -> None:
    cluster = run("""
        topic a 1
        init old                               -> 1/0
        init young                             -> 2/0
        init idle                              -> 3/0
        add old 1/0 a-0                        -> NONE
        clock +500                             ->
        add young 2/0 a-0                      -> NONE
        clock +100                             ->
    """)

    def listed(**filters: object) -> tuple[list[str], list[str]]:
        filters.setdefault("duration_ms", -1)
        answer = cluster.do("list_transactions", ListTransactions(**filters))  # type: ignore[arg-type]
        return [each.transactional_id for each in answer.transactions], list(answer.unknown_states)

    assert listed() == (["idle", "old", "young"], [])
    assert listed(states=["Ongoing"]) == (["old", "young"], [])
    assert listed(states=["Empty", "Dreaming", "PrepareCommit"]) == (["idle"], ["Dreaming"])
    assert listed(producer_ids=[2, 3]) == (["idle", "young"], [])
    assert listed(duration_ms=100) == (["old"], [])
    assert listed(duration_ms=99) == (["old", "young"], [])
    assert listed(duration_ms=0) == (["idle", "old", "young"], [])


def test_s26_offsets_are_pending_until_the_flip_and_flip_with_it() -> None:
    run("""
        topic a 1
        init x                                 -> 1/0
        commit-offset x 1/0 g a-0=5            -> INVALID_TXN_STATE   # the group was not added
        offsets x 1/0 g                        -> NONE
        offsets x 1/0 g                        -> NONE
        commit-offset x 1/0 g a-0=5            -> NONE
        fetch-offset g a-0                     -> UNSTABLE_OFFSET_COMMIT
        end1 x 1/0 commit                      -> 1/0
        fetch-offset g a-0                     -> 5
        commit-offset x 1/0 g a-0=9            -> INVALID_TXN_STATE   # S4: late
        offsets x 1/0 g                        -> NONE
        commit-offset x 1/0 g a-0=9            -> NONE
        end1 x 1/0 abort                       -> 1/0
        fetch-offset g a-0                     -> 5
    """)


def test_s9_s26_tv2_adds_the_group_by_the_way() -> None:
    run("""
        topic a 1
        init x                                 -> 1/0
        commit-offset2 x 1/0 g a-0=5           -> NONE
        state x                                -> Ongoing 1/0
        commit-offset2 x 1/0 g a-0=6           -> NONE
        end2 x 1/0 commit                      -> 1/1
        fetch-offset g a-0                     -> 6
        commit-offset2 x 1/0 g a-0=7           -> INVALID_PRODUCER_EPOCH
        commit-offset2 x 1/1 g z-0=7           -> UNKNOWN_TOPIC_OR_PARTITION
        delete-topic a                         -> NONE
        topic a 1                              -> NONE
        fetch-offset g a-0                     -> -1
    """)


def test_transitions_are_data_and_an_illegal_one_is_our_own_mistake() -> None:
    assert set(TRANSITIONS) == set(TransactionState)
    cluster = run("init x")
    ended = TransactionEnded(producer_id=1, committed=True, next_producer_id=1)
    with pytest.raises(IllegalTransition, match="'x': commit cannot happen in state Empty"):
        machine.replay(cluster.state, JournalRecord(now_ms=1, transaction_ended=ended))


def test_an_agent_that_slept_past_its_lease_ends_no_transaction() -> None:
    """S4, S5: under TV1, a delayed EndTxn looks valid, but an agent whose lease has expired is no coordinator."""
    cluster = run("""
        topic a 1
        init x
        put a-0 x10 1/0@0 tv2
    """)
    command = EndTxn(
        transactional_id="x", producer_id=1, producer_epoch=0, committed=True, lease_id=99
    )
    assert cluster.do("end_txn", command).error_code == ErrorCode.NOT_COORDINATOR
    run("see a-0 -> 0..0..10", cluster)
    command.lease_id = cluster.lease_id
    assert cluster.do("end_txn", command).error_code == ErrorCode.NONE
    run("see a-0 -> 0..10..10", cluster)
