"""Tests offsets, bounds and topic ids, using tables (S1, S2, S3, S6)."""

import pytest

from lacuna.controlplane.shared.batches import SegmentSlice
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.log_pb2 import ReadPartitions
from tests.controlplane.verbs.cluster import (
    ADDS_PARTITION,
    TRANSACTIONAL,
    Unchecked,
    add_batch,
)
from tests.controlplane.verbs.script import run


def test_s1_offsets_are_contiguous_and_no_outcome_takes_one() -> None:
    run("""
        topic a 1                              -> NONE
        init x                                 -> 1/0
        put a-0 x10                            -> 0
        put a-0 x5 1/0@0 tv2                   -> 10
        end2 x 1/0 commit                      -> 1/1
        put a-0 x1                             -> 15
        put a-0 x5 1/1@0 tv2                   -> 16
        end2 x 1/1 abort                       -> 1/2
        put a-0 x1                             -> 21
        see a-0                                -> 0..22..22 [16,21)
    """)


def test_s3_lso_is_the_first_offset_of_the_oldest_ongoing_transaction() -> None:
    run("""
        topic a 1
        init x                                 -> 1/0
        init y                                 -> 2/0
        put a-0 x3
        see a-0                                -> 0..3..3
        put a-0 x2 1/0@0 tv2                   -> 3
        put a-0 x2 2/0@0 tv2                   -> 5
        put a-0 x4                             -> 7
        see a-0                                -> 0..3..11
        end2 y 2/0 commit                      -> 2/1   # the younger one moves nothing
        see a-0                                -> 0..3..11
        put a-0 x1 2/1@0 tv2                   -> 11
        end2 x 1/0 commit                      -> 1/1
        see a-0                                -> 0..11..12
        end2 y 2/1 abort                       -> 2/2
        see a-0                                -> 0..12..12 [11,12)
    """)


def test_s3_lso_is_never_behind_the_log_start() -> None:
    run("""
        topic a 1
        init x
        put a-0 x10 1/0@0 tv2                  -> 0
        put a-0 x10 1/0@10 tv2                 -> 10
        see a-0                                -> 0..0..20
        delete-records a-0 12                  -> 12
        see a-0                                -> 12..12..20
        end2 x 1/0 abort                       -> 1/1
        see a-0                                -> 12..20..20 [0,20)
    """)


@pytest.mark.slow
def test_s3_lso_with_thousands_of_ongoing_transactions_is_found_at_once() -> None:
    cluster = Unchecked()
    cluster.create("a")
    lines = []
    for number in range(1, 301):
        lines += [f"init t{number}", f"put a-0 x1 {number}/0@0 tv2"]
    for number in range(1, 300):
        lines += [f"end2 t{number} {number}/0 commit", f"see a-0 -> 0..{number}..300"]
    run("\n".join(lines), cluster)


def test_s1_s3_abort_over_several_partitions_is_one_record_and_one_version_each() -> None:
    cluster = run("""
        topic a 3
        init x
        put a-0 x10 1/0@0 tv2
        put a-1 x10 1/0@0 tv2
    """)
    partitions = [cluster.found(f"a-{index}") for index in range(3)]
    before = [partition.version for partition in partitions]
    records = len(cluster.journal)
    run("end2 x 1/0 abort -> 1/1", cluster)
    assert len(cluster.journal) == records + 1
    assert [partition.version - old for partition, old in zip(partitions, before, strict=True)] == [
        1,
        1,
        0,
    ]


def test_s6_a_deleted_id_is_refused_and_a_recreated_topic_is_empty() -> None:
    cluster = run("""
        topic a 1
        put a-0 x10                            -> 0
    """)
    old = cluster.partition("a-0")
    run(
        """
        delete-topic a                         -> NONE
        delete-topic a                         -> UNKNOWN_TOPIC_ID
        topic a 1                              -> NONE
        see a-0                                -> 0..0..0
        put a-7 x1                             -> UNKNOWN_TOPIC_OR_PARTITION
        put b-0 x1                             -> UNKNOWN_TOPIC_ID
    """,
        cluster,
    )
    given = SegmentSlice(key_of(old))
    add_batch(given)
    verdict = cluster.commit(given).slices[0]
    assert verdict.error_code == 100  # UNKNOWN_TOPIC_ID
    assert not verdict.error_codes
    run("see a-0 -> 0..0..0", cluster)


def test_s6_ending_a_transaction_passes_over_deleted_partitions() -> None:
    run("""
        topic a 1
        topic b 1
        init x
        put a-0 x1 1/0@0 tv2
        put b-0 x1 1/0@0 tv2
        delete-topic a                         -> NONE
        end2 x 1/0 abort                       -> 1/1
        see b-0                                -> 0..1..1 [0,1)
    """)


def test_s7_a_confirming_read_tells_all_bounds() -> None:
    cluster = run("""
        topic a 1
        init x
        put a-0 x4
        put a-0 x4 1/0@0 tv2
        delete-records a-0 2                   -> 2
    """)
    unknown = TopicPartition(topic_id=b"?" * 16)
    command = ReadPartitions(partitions=[cluster.partition("a-0"), unknown])
    known, missing = cluster.do("read_partitions", command).partitions
    assert (known.log_start_offset, known.last_stable_offset, known.high_watermark) == (2, 4, 8)
    assert known.version == cluster.found("a-0").version
    assert missing.error_code == 3


def test_extents_a_run_is_of_one_transaction_and_one_timestamp_type() -> None:
    cluster = run("topic a 1\ninit x -> 1/0\ninit y -> 2/0")
    given = cluster.slice("a-0")
    tv2 = TRANSACTIONAL | ADDS_PARTITION
    add_batch(given, count=2, timestamp=7)
    add_batch(given, count=2, timestamp=5)  # same run
    add_batch(given, producer=(1, 0), sequence=0, flags=tv2)
    add_batch(given, producer=(1, 0), sequence=1, flags=tv2)  # same run
    add_batch(given, producer=(1, 0), sequence=9, flags=tv2)  # a gap: rejected, splits the run
    add_batch(given, producer=(1, 0), sequence=2, flags=tv2)
    add_batch(given, producer=(2, 0), sequence=0, flags=tv2)
    add_batch(given, flags=1, timestamp=50)  # LogAppendTime
    add_batch(given, gap=10, flags=1, timestamp=60)  # bytes between
    codes = list(cluster.commit(given).slices[0].error_codes)
    assert codes == [0, 0, 0, 0, 45, 0, 0, 0, 0]
    extents = cluster.found("a-0").extents
    assert list(extents.base_offsets) == [0, 4, 6, 7, 8, 9]
    assert list(extents.next_offsets) == [4, 6, 7, 8, 9, 10]
    assert list(extents.transactions) == [0, 1, 1, 2, 0, 0]
    assert list(extents.producer_ids) == [-1, 1, 1, 2, -1, -1]
    assert list(extents.flags) == [0, 0, 0, 0, 1, 1]
    assert list(extents.max_timestamps) == [7, 0, 0, 0, 50, 60]
    assert list(extents.positions) == [64, 264, 564, 664, 764, 874]
    assert list(extents.sizes) == [200, 200, 100, 100, 100, 100]


def test_s11_a_batch_was_sent_under_the_transactional_id_of_its_producer() -> None:
    """The number above the flags refers to the id. 0 means that the request's id is unknown."""
    cluster = run("topic a 1\ninit x -> 1/0\ninit y -> 2/0")
    tv2 = TRANSACTIONAL | ADDS_PARTITION
    given = cluster.slice("a-0")
    for sequence, number in ((0, 1), (1, 2), (1, 3), (1, 0)):
        add_batch(given, producer=(1, 0), sequence=sequence, flags=tv2 | number << 4)
    add_batch(given, producer=(2, 0), sequence=0, flags=tv2 | 2 << 4)
    verdict = cluster.commit(given, transactional_ids=("x", "y", "nobody")).slices[0]
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert list(verdict.error_codes) == [0, mapping, mapping, 0, 0]
    assert list(verdict.base_offsets) == [0, -1, -1, 1, 2]


def test_a_commit_has_the_transactional_ids_that_its_batches_name() -> None:
    cluster = run("topic a 1\ninit x -> 1/0")
    given = cluster.slice("a-0")
    flags = TRANSACTIONAL | ADDS_PARTITION | 2 << 4
    add_batch(given, producer=(1, 0), sequence=0, flags=flags)
    refused = cluster.commit(given, transactional_ids=("x",))
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    run("see a-0 -> 0..0..0", cluster)


def test_extents_are_at_most_one_mebibyte_unless_one_batch_is_larger() -> None:
    cluster = run("topic a 1")
    given = cluster.slice("a-0")
    for size in (600_000, 448_576, 1, 2_000_000, 1):
        add_batch(given, size=size)
    cluster.commit(given)
    assert list(cluster.found("a-0").extents.sizes) == [1_048_576, 1, 2_000_000, 1]
