"""Tests that DeleteRecords, retention and collection leave nothing behind."""

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.settings import COLLECTION_GRACE_MS, LONGEST_PIN_MS
from lacuna.controlplane.v1.cluster_pb2 import AlterTopicConfigs, ConfigChange, ReleaseLease
from lacuna.controlplane.v1.log_pb2 import (
    ConfirmCollection,
    DeleteRecords,
    DeleteRecordsPartition,
    FilterUncommitted,
    PinReads,
    PlanCollection,
    SegmentId,
    UnpinReads,
)
from lacuna.controlplane.verbs import retention
from lacuna.logstore.segments.hot import hot_lease
from tests.controlplane.verbs.cluster import add_batch, collect, collection
from tests.controlplane.verbs.script import run

# DeleteRecords, retention


def test_delete_records_bounds() -> None:
    cluster = run("""
        topic a 1
        put a-0 x10
        put a-0 x10
        delete-records a-0 21                  -> OFFSET_OUT_OF_RANGE
        delete-records a-0 -2                  -> OFFSET_OUT_OF_RANGE
        delete-records b-0 0                   -> UNKNOWN_TOPIC_OR_PARTITION
        delete-records a-0 0                   -> 0
        delete-records a-0 9                   -> 9
        delete-records a-0 3                   -> 9
        see a-0                                -> 9..20..20
    """)
    assert len(cluster.found("a-0").extents) == 2
    run("delete-records a-0 10 -> 10", cluster)
    assert len(cluster.found("a-0").extents) == 1
    run("delete-records a-0 -1 -> 20\nsee a-0 -> 20..20..20", cluster)
    assert len(cluster.found("a-0").extents) == 0
    wanted = DeleteRecordsPartition(partition=cluster.partition("a-0"), before_offset=20)
    answers = cluster.do("delete_records", DeleteRecords(partitions=[wanted, wanted])).partitions
    assert [each.error_code for each in answers] == [0, 0]
    cluster.put("a-0")
    wanted.before_offset = 21
    answers = cluster.do("delete_records", DeleteRecords(partitions=[wanted, wanted])).partitions
    assert [each.error_code for each in answers] == [0, ErrorCode.INVALID_REQUEST]


SCRIPTS = {
    "dead ranges below the log start disappear": """
        topic a 1
        init x
        put a-0 x10 1/0@0 tv2
        end2 x 1/0 abort                       -> 1/1
        delete-records a-0 4                   -> 4
        see a-0                                -> 4..10..10 [0,10)   # as its extent
        delete-records a-0 10                  -> 10
        see a-0                                -> 10..10..10
        put a-0 x10 1/1@0 tv2                  -> 10
        delete-records a-0 20                  -> 20
        end2 x 1/1 abort                       -> 1/2
        see a-0                                -> 20..20..20
    """,
    "retention ms takes whole extents below the lso": """
        topic a 1 retention.ms=1000
        topic b 1 retention.ms=-1
        topic c 1
        init x timeout=900000                  -> 1/0
        put a-0 x1 lat=1000000                 -> 0
        put a-0 x1 lat=1000500                 -> 1
        put a-0 x1 1/0@0 tv2                   -> 2
        put b-0 x1 lat=1                       -> 0
        put c-0 x1 lat=1000000                 -> 0
        clock +0                               ->
        clock +1001                            -> log_starts_moved
        see a-0                                -> 1..2..3
        clock +1000                            -> log_starts_moved
        see a-0                                -> 2..2..3
        end2 x 1/0 commit                      -> 1/1
        clock +1000                            -> log_starts_moved
        see a-0                                -> 3..3..3
        see b-0                                -> 0..1..1
        see c-0                                -> 0..1..1
        delete-records c-0 -1                  -> 1
        put c-0 x1 lat=1000000                 -> 1
        clock +604796999                       -> producers_expired
        see c-0                                -> 1..2..2
        clock +300000                          -> transactional_ids_expired log_starts_moved
        see c-0                                -> 2..2..2
    """,
    # Old records that are replayed can be read before they are deleted, as in Kafka.
    "ages are looked at once in five minutes": """
        topic a 1 retention.ms=500000
        clock +0                               ->
        put a-0 x1 lat=5                       -> 0
        clock +299999                          ->
        see a-0                                -> 0..1..1
        clock +1                               -> log_starts_moved
        see a-0                                -> 1..1..1
        clock +299999                          ->
        put a-0 x1 lat=5                       -> 1
        clock +0                               ->
        clock +1                               -> log_starts_moved
        see a-0                                -> 2..2..2
    """,
    # Time since then counts for retention, whether or not a tick has seen the partition.
    "a partition is as old as the tick before it": """
        clock +0                               ->
        topic a 1 retention.ms=1000
        put a-0 x1 lat=1000000                 -> 0
        clock +2000                            -> log_starts_moved
        see a-0                                -> 1..1..1
    """,
    "retention of records without a timestamp counts from when they could be read": """
        topic a 1 retention.ms=10000
        init x timeout=900000                  -> 1/0
        put a-0 x1 1/0@0 tv2 lat=1             -> 0
        put a-0 x1 lat=-1                      -> 1
        clock +8000                            ->
        end2 x 1/0 commit                      -> 1/1
        clock +10000                           -> log_starts_moved
        see a-0                                -> 1..2..2
        clock +10000                           -> log_starts_moved
        see a-0                                -> 2..2..2
    """,
    "a topic without delete keeps what retention would take": """
        topic a 1 cleanup.policy=compact retention.ms=1000 retention.bytes=0
        topic b 1 cleanup.policy=compact,delete retention.ms=1000
        topic c 1 cleanup.policy= retention.ms=1000 retention.bytes=0
        put a-0 x1 lat=1000000                 -> 0
        put b-0 x1 lat=1000000                 -> 0
        put c-0 x1 lat=1000000                 -> 0
        delete-records a-0 1                   -> POLICY_VIOLATION
        clock +0                               ->
        clock +5000                            -> log_starts_moved
        see a-0                                -> 0..1..1
        see b-0                                -> 1..1..1
        see c-0                                -> 0..1..1
    """,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_what_is_deleted(script: str) -> None:
    run(script)


def test_ages_are_looked_at_as_often_as_retention_ms_says() -> None:
    """A shorter retention takes effect without waiting for five minutes."""
    cluster = run("""
        topic a 1 retention.ms=500000
        clock +0                               ->
        put a-0 x1 lat=5                       -> 0
        clock +1000                            ->
    """)
    change = ConfigChange(name="retention.ms", value="1000")
    cluster.do("alter_topic_configs", AlterTopicConfigs(name="a", changes=[change]))
    run("clock +0 -> log_starts_moved\nsee a-0 -> 1..1..1", cluster)


def test_retention_goes_on_at_once_with_a_partition_of_many_extents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "RETENTION_EXTENTS", 2)
    cluster = run("topic a 1 retention.ms=1000")
    for _ in range(5):
        cluster.put("a-0", timestamp=5)
    run("clock +0 ->\nclock +1000 -> log_starts_moved", cluster)
    assert [cluster.tick() for _ in range(3)] == [["log_starts_moved"]] * 2 + [[]]
    run("see a-0 -> 5..5..5", cluster)


def test_retention_takes_records_without_a_timestamp_by_the_time_of_their_commit() -> None:
    """Kafka uses the file's time in this case. Expired records after such a record wait for it."""
    cluster = run("topic a 1 retention.ms=10000\nclock +0 ->")
    cluster.put("a-0", timestamp=-1)
    cluster.now_ms += 5_000
    for timestamp in (5, -1, 5):
        cluster.put("a-0", timestamp=timestamp)
    run(
        """
        clock +4000                            ->
        clock +2000                            -> log_starts_moved
        see a-0                                -> 2..4..4
        clock +10000                           -> log_starts_moved
        see a-0                                -> 4..4..4
    """,
        cluster,
    )


def test_retention_bytes_takes_the_oldest_beyond_the_limit() -> None:
    run("""
        topic a 1 retention.bytes=250 retention.ms=-1
        put a-0 x1
        put a-0 x1
        clock +0                               ->
        put a-0 x1
        clock +0                               ->     # 300 - 100 would be below the limit
        put a-0 x1
        clock +0                               -> log_starts_moved
        see a-0                                -> 1..4..4
    """)
    run("""
        topic a 1 retention.bytes=0
        put a-0 x1
        clock +0                               -> log_starts_moved
        see a-0                                -> 1..1..1
        clock +0                               ->
    """)


# Collection


def test_a_replaced_segment_is_collected_after_the_grace_period() -> None:
    cluster = run("topic a 2\nput a-0 x1\nput a-0 x1\nput a-1 x1")
    given = [cluster.slice(text) for text in ("a-0", "a-1")]
    for each in given:
        add_batch(each)
    cluster.commit(*given)  # segment 4, in both partitions
    run("delete-records a-0 -1 -> 3", cluster)
    assert list(collection(cluster).segments) == []
    cluster.now_ms += COLLECTION_GRACE_MS - 1
    assert list(collection(cluster).segments) == []
    cluster.now_ms += 1
    assert [each.sequence for each in collection(cluster, 1).segments] == [1]
    assert collect(cluster) == [1, 2]
    assert collect(cluster) == []
    run("delete-topic a -> NONE", cluster)
    cluster.now_ms += COLLECTION_GRACE_MS
    assert collect(cluster) == [3, 4]
    assert len(cluster.state.segments) == 0
    cluster.check()


def test_a_segment_of_which_nothing_was_accepted_is_collected() -> None:
    cluster = run("put b-0 x1 -> UNKNOWN_TOPIC_ID")
    cluster.now_ms += COLLECTION_GRACE_MS
    assert collect(cluster) == [1]


def test_only_what_was_replaced_can_be_confirmed() -> None:
    cluster = run("topic a 1\nput a-0 x1")
    before = machine.snapshot(cluster.state)
    command = ConfirmCollection(
        segments=[SegmentId(lease_id=1, sequence=1), SegmentId(lease_id=9, sequence=9)],
        swept_lease_ids=[1, 9],
    )
    cluster.do("confirm_collection", command)
    assert machine.snapshot(cluster.state) == before


def test_what_is_confirmed_twice_is_forgotten_once() -> None:
    cluster = run("topic a 1\nput a-0 x1\ndelete-records a-0 1")
    cluster.register()
    cluster.do("release_lease", ReleaseLease(lease_id=1))
    cluster.now_ms += COLLECTION_GRACE_MS
    segment = SegmentId(lease_id=1, sequence=1)
    command = ConfirmCollection(segments=[segment, segment], swept_lease_ids=[1, 1])
    for _ in range(2):
        assert cluster.do("confirm_collection", command).error_code == 0
    assert len(cluster.state.segments) == 0
    assert cluster.state.ended_leases == {}
    cluster.check()


def test_a_pin_holds_what_was_alive_when_it_was_taken() -> None:
    cluster = run("topic a 1\nput a-0 x1\nput a-0 x1\ndelete-records a-0 1 -> 1")
    cluster.now_ms += 1
    pin = cluster.do("pin_reads", PinReads(duration_ms=10 * COLLECTION_GRACE_MS)).pin_id
    run("delete-records a-0 2 -> 2", cluster)
    cluster.now_ms += 2 * COLLECTION_GRACE_MS
    assert collect(cluster) == [1]  # it was gone before the pin
    cluster.check()
    assert cluster.do("unpin_reads", UnpinReads(pin_id=pin)).error_code == 0
    assert collect(cluster) == [2]
    assert cluster.do("unpin_reads", UnpinReads(pin_id=pin)).error_code == (
        ErrorCode.INVALID_REQUEST
    )


def test_a_pin_ends_by_itself() -> None:
    cluster = run("topic a 1\nput a-0 x1")
    cluster.do("pin_reads", PinReads(duration_ms=2 * COLLECTION_GRACE_MS))
    run("delete-records a-0 1 -> 1", cluster)
    cluster.now_ms += 2 * COLLECTION_GRACE_MS - 1
    assert collect(cluster) == []
    assert cluster.tick(1) == ["pins_ended"]
    assert collect(cluster) == [1]
    assert cluster.state.segments.pins == {}
    for duration_ms in (0, LONGEST_PIN_MS + 1):
        failure = cluster.do("pin_reads", PinReads(duration_ms=duration_ms))
        assert failure.error_code == ErrorCode.INVALID_REQUEST


def test_uncommitted_objects_of_ended_leases_are_swept() -> None:
    cluster = run("topic a 1\nput a-0 x1")
    cluster.register()  # lease 2 lives on
    listed = [
        SegmentId(lease_id=lease_id, sequence=sequence)
        for lease_id, sequence in [(1, 1), (1, 2), (2, 7), (3, 1), (0, 1), (hot_lease(1), 3)]
    ]
    strays = [listed[1], listed[-1]]
    command = FilterUncommitted(segments=listed)
    assert list(cluster.do("filter_uncommitted", command).segments) == []
    cluster.do("release_lease", ReleaseLease(lease_id=1))
    assert list(collection(cluster).swept_lease_ids) == []
    assert list(cluster.do("filter_uncommitted", command).segments) == strays
    cluster.now_ms += COLLECTION_GRACE_MS
    assert list(collection(cluster).swept_lease_ids) == [1]
    cluster.check()
    collect(cluster)
    assert list(collection(cluster).swept_lease_ids) == []
    assert list(cluster.do("filter_uncommitted", command).segments) == strays
    ended = PlanCollection(lease_id=1)
    assert cluster.do("plan_collection", ended).error_code == ErrorCode.LEASE_EXPIRED
