"""Tests that removing live records from the front of a log always moves the log start."""

from typing import Any

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.shared.invariants import InvariantBroken
from lacuna.controlplane.v1.cluster_pb2 import AlterTopicConfigs, ConfigChange
from lacuna.controlplane.v1.journal_pb2 import ExtentsReplaced, JournalRecord, PartitionSwap
from lacuna.controlplane.v1.log_pb2 import (
    PartitionDelta,
    SwapExtents,
)
from tests.controlplane.verbs.cluster import Cluster
from tests.controlplane.verbs.compacting import plan, swap, swap_of
from tests.controlplane.verbs.script import run

#: Ten records past their retention, an aborted transaction as old, and ten that are fresh. No tick yet.
OLD_AND_FRESH = """
    topic a 1 retention.ms=5000 {configs}
    init x                                 -> 1/0
    put a-0 x10 lat=1                      -> 0
    put a-0 x5 1/0@0 tv2 lat=1             -> 10
    end2 x 1/0 abort                       -> 1/1
    put a-0 x10 lat=1000000                -> 15
"""


def _old_and_fresh(configs: str = "") -> Cluster:
    return run(OLD_AND_FRESH.format(configs=configs))


def _without_old(cluster: Cluster, keeps_from: int = 15, **marks: Any) -> SwapExtents:
    return swap_of(cluster, *plan(cluster, "a-0").ranges, keeps_from=keeps_from, **marks)


def _seen(cluster: Cluster) -> tuple[int, list[int], int]:
    found = cluster.found("a-0")
    return found.log_start_offset, list(found.extents.base_offsets), found.vacated_to


def test_s13_a_swap_that_takes_expired_records_moves_the_log_start_in_its_record() -> None:
    cluster = _old_and_fresh()
    found = cluster.found("a-0")
    cluster.state.watch(found.key)
    command = _without_old(cluster, log_start_offset=15)
    before = len(cluster.journal)
    assert swap(cluster, command) == ["NONE"]
    assert len(cluster.journal) == before + 1
    assert _seen(cluster) == (15, [15], 0)
    *_, delta = cluster.state.take_changes()
    assert isinstance(delta, PartitionDelta)
    assert (delta.log_start_offset, delta.dropped_below) == (15, 15)
    assert swap(cluster, command) == ["NONE"], "the answer was lost"
    assert len(cluster.journal) == before + 1
    cluster.check()


def test_all_may_expire() -> None:
    cluster = _old_and_fresh()
    command = _without_old(cluster, keeps_from=25, log_start_offset=25)
    assert swap(cluster, command) == ["PLAN_STALE"], "ten are fresh"
    cluster.now_ms += 5_001
    command = _without_old(cluster, keeps_from=25, log_start_offset=25)
    for _ in range(2):
        assert swap(cluster, command) == ["NONE"]
        assert _seen(cluster) == (25, [], 0)
    run("put a-0 x1 -> 25", cluster)
    cluster.check()


def test_records_without_a_timestamp_expire_by_the_time_of_their_commit() -> None:
    cluster = run("topic a 1 retention.ms=5000\nput a-0 x10 lat=-1 -> 0\nput a-0 x10 lat=1 -> 10")
    cluster.now_ms += 4_000
    command = _without_old(cluster, keeps_from=20, log_start_offset=20)
    assert swap(cluster, command) == ["PLAN_STALE"]
    cluster.now_ms += 2_000
    assert swap(cluster, command) == ["NONE"]
    assert _seen(cluster) == (20, [], 0)
    cluster.check()


def test_a_plan_from_before_retention_was_given_up_is_stale() -> None:
    cluster = _old_and_fresh()
    command = _without_old(cluster, log_start_offset=15)
    change = ConfigChange(name="retention.ms", value="-1")
    cluster.do("alter_topic_configs", AlterTopicConfigs(name="a", changes=[change]))
    assert swap(cluster, command) == ["PLAN_STALE"]
    assert _seen(cluster) == (0, [0, 10, 15], 0)


@pytest.mark.parametrize("log_start_offset", [5, 11])
def test_a_log_start_that_is_no_extents_end_is_refused(log_start_offset: int) -> None:
    cluster = _old_and_fresh()
    command = _without_old(cluster, log_start_offset=log_start_offset)
    assert swap(cluster, command) == ["PLAN_STALE"]


def test_s13_live_records_do_not_go_from_the_front_without_a_word() -> None:
    """In version 0.1, a job removed expired records like this."""
    cluster = _old_and_fresh()
    assert swap(cluster, _without_old(cluster)) == ["PLAN_STALE"]
    assert swap(cluster, _without_old(cluster, keeps_from=10, log_start_offset=10)) == ["NONE"]
    assert _seen(cluster) == (10, [15], 15), "five of what is left were aborted"
    cluster.check()


def test_what_was_deleted_meanwhile_is_not_asked_for_again() -> None:
    cluster = _old_and_fresh()
    run("delete-records a-0 15 -> 15", cluster)
    (found,) = plan(cluster, "a-0", rewrites_all=True).ranges
    assert swap(cluster, swap_of(cluster, found, log_start_offset=10)) == ["NONE"]
    assert _seen(cluster) == (15, [15], 0)
    cluster.check()


def test_superseded_records_leave_the_log_start_and_expired_ones_move_it() -> None:
    cluster = _old_and_fresh("cleanup.policy=compact,delete")
    command = _without_old(cluster, compacted_to=25)
    assert swap(cluster, command) == ["NONE"]
    assert _seen(cluster)[0] == 0
    cluster.check()
    cluster = _old_and_fresh("cleanup.policy=compact,delete")
    assert swap(cluster, _without_old(cluster, log_start_offset=10, compacted_to=25)) == ["NONE"]
    assert _seen(cluster)[0] == 10
    cluster.check()


def test_aborted_records_go_from_the_front_and_the_log_start_stays() -> None:
    """In Kafka, too, only retention removes aborted records."""
    cluster = run("""
        topic a 1
        init x                                 -> 1/0
        put a-0 x5 1/0@0 tv2                   -> 0
        end2 x 1/0 abort                       -> 1/1
        put a-0 x5                             -> 5
        put a-0 x5 1/1@0 tv2                   -> 10
        end2 x 1/1 abort                       -> 1/2
        put a-0 x5                             -> 15
    """)
    for found in plan(cluster, "a-0").ranges:
        assert swap(cluster, swap_of(cluster, found, joins=False)) == ["NONE"]
    assert _seen(cluster) == (0, [5, 15], 5)
    cluster.check()
    run("delete-records a-0 7 -> 7\nsee a-0 -> 7..20..20", cluster)
    assert _seen(cluster) == (7, [5, 15], 0)
    run("delete-records a-0 12 -> 12", cluster)
    assert _seen(cluster) == (12, [15], 15), "a hole in the middle is now one at the front"
    run("delete-records a-0 20 -> 20\nput a-0 x1 -> 20", cluster)
    assert _seen(cluster) == (20, [20], 0)
    cluster.check()


def test_a_swap_that_takes_live_records_silently_breaks_an_invariant() -> None:
    """No command can do this, so the test applies a journal record."""
    cluster = _old_and_fresh()
    (wanted,) = _without_old(cluster).partitions
    record = ExtentsReplaced(
        segments=_without_old(cluster).segments,
        partitions=[PartitionSwap(partition=wanted.partition, swap=wanted.swap)],
    )
    with pytest.raises(InvariantBroken, match="the log begins at 15, but only records below 0"):
        machine.replay(cluster.state, JournalRecord(now_ms=cluster.now_ms, extents_replaced=record))


def test_watchers_hear_how_far_the_front_is_accounted_for() -> None:
    cluster = _old_and_fresh("cleanup.policy=compact")
    assert swap(cluster, _without_old(cluster, compacted_to=25)) == ["NONE"]
    assert cluster.found("a-0").snapshot_delta().vacated_to == 25
