"""Tests merges: plans, swaps, and metadata that does not grow (S14, S18)."""

from array import array
from dataclasses import dataclass
from typing import Any

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.state.merging import MergeTurn
from lacuna.controlplane.state.settings import COLLECTION_GRACE_MS
from lacuna.controlplane.v1.cluster_pb2 import (
    CreatePartitions,
    CreatePartitionsTopic,
    ReleaseLease,
)
from lacuna.controlplane.v1.log_pb2 import (
    CompactionRange,
    ExtentSwap,
    MergePlan,
    PlanMerge,
    SegmentId,
    SwapExtents,
    SwapPartition,
    SwapSegment,
)
from lacuna.controlplane.verbs import merging
from tests.controlplane.verbs.cluster import Cluster, collect, collection
from tests.controlplane.verbs.compacting import rewritten
from tests.controlplane.verbs.script import VERBS, run
from tests.forms import interpreted


def _plan(cluster: Cluster, **limits: int) -> list[CompactionRange]:
    command = PlanMerge(
        lease_id=cluster.lease_id, max_bytes=1 << 30, small_bytes=1000, min_extents=3
    )
    for name, limit in limits.items():
        setattr(command, name, limit)
    plan: MergePlan = cluster.do("plan_merge", command)
    assert plan.error_code == 0
    return list(plan.partitions)


def _swap(cluster: Cluster, *planned: CompactionRange) -> SwapExtents:
    cluster.sequence += 1
    segment = SegmentId(lease_id=cluster.lease_id, sequence=cluster.sequence)
    partitions = [rewritten(each, segment) for each in planned]
    command = SwapExtents(partitions=partitions)
    if any(each.swap.extents.sizes for each in partitions):
        command.segments.add(segment=segment, object_size=1 << 30)
    return command


def _done(cluster: Cluster, command: SwapExtents) -> list[str]:
    answer = cluster.do("swap_extents", command)
    assert answer.error_code == 0
    return [ErrorCode(code).name for code in answer.error_codes]


def merge(cluster: Cluster, **limits: int) -> None:
    """Plan, merge and swap once."""
    assert set(_done(cluster, _swap(cluster, *_plan(cluster, **limits)))) == {"NONE"}


MIXED = """
    topic a 1
    init x                                 -> 1/0
    put a-0 x2                             -> 0
    put a-0 x3 1/0@0 tv2                   -> 2
    put a-0 x2                             -> 5
    end2 x 1/0 abort                       -> 1/1
    put a-0 x2                             -> 7
    put a-0 x3 1/1@0 tv2                   -> 9
    put a-0 x2                             -> 12
"""


def test_a_plan_ends_at_the_lso_and_names_dead_ranges() -> None:
    cluster = run(MIXED)
    (planned,) = _plan(cluster)
    assert (planned.first_offset, planned.end_offset) == (0, 9)
    assert list(ExtentTable.from_columns(planned.extents).base_offsets) == [0, 2, 5, 7]
    dead = DeadRanges.from_pairs(planned.dead)
    assert (list(dead.firsts), list(dead.ends)) == ([2], [5])


def test_s14_a_swap_takes_dead_extents_and_ranges_away() -> None:
    cluster = run(MIXED)
    command = _swap(cluster, *_plan(cluster))
    assert _done(cluster, command) == ["NONE"]
    found = cluster.found("a-0")
    assert list(found.extents.base_offsets) == [0, 9, 12]
    assert list(found.extents.next_offsets) == [9, 12, 14]
    assert list(found.extents.flags) == [2, 0, 0]
    assert len(found.dead) == 0
    assert found.size_bytes == 300 + 200
    assert _done(cluster, command) == ["NONE"]  # the answer was lost
    cluster.check()


def test_a_wholly_dead_range_is_swapped_for_nothing_without_a_segment() -> None:
    cluster = run("""
        topic a 1
        init x
        put a-0 x5 1/0@0 tv2                   -> 0
        end2 x 1/0 abort                       -> 1/1
    """)
    (planned,) = _plan(cluster, min_extents=99)
    command = _swap(cluster, planned)
    assert not command.segments
    assert _done(cluster, command) == ["NONE"]
    found = cluster.found("a-0")
    assert (len(found.extents), len(found.dead), found.size_bytes) == (0, 0, 0)
    version = found.version
    assert _done(cluster, command) == ["NONE"]  # the answer was lost
    assert found.version == version
    run("see a-0 -> 0..5..5\nput a-0 x1 -> 5", cluster)


def test_an_aborted_extent_that_reaches_over_the_log_start_stays_dead_in_a_merge() -> None:
    cluster = run("""
        topic a 1
        init x
        put a-0 x3 1/0@0 tv2                   -> 0
        put a-0 x3                             -> 3
        end2 x 1/0 abort                       -> 1/1
        delete-records a-0 1                   -> 1
        see a-0                                -> 1..6..6 [0,3)
    """)
    (planned,) = _plan(cluster, min_extents=1)
    assert _done(cluster, _swap(cluster, planned)) == ["NONE"]
    assert list(cluster.found("a-0").extents.base_offsets) == [3]
    run("see a-0 -> 1..6..6", cluster)


def test_a_plan_is_a_run_of_small_neighbours() -> None:
    cluster = run("topic a 1\ntopic b 1")
    for size in (10, 10, 5000, 10, 10, 10, 5000, 10, 10, 10, 10):
        cluster.put("a-0", size=size)
    (planned,) = _plan(cluster)
    assert (planned.first_offset, planned.end_offset) == (3, 6)
    assert _plan(cluster, min_extents=5) == []
    (planned,) = _plan(cluster, min_extents=4)
    assert (planned.first_offset, planned.end_offset) == (7, 11)
    (planned,) = _plan(cluster, small_bytes=6000, min_extents=0)
    assert (planned.first_offset, planned.end_offset) == (0, 11)
    assert _plan(cluster, max_bytes=0) == []
    (planned,) = _plan(cluster, small_bytes=6000, max_bytes=40, min_extents=3)
    assert (planned.first_offset, planned.end_offset) == (3, 6)


def test_a_plan_takes_partitions_in_turn() -> None:
    cluster = run("topic a 3")
    for index in range(3):
        for _ in range(3):
            cluster.put(f"a-{index}", size=10)
    seen = [_plan(cluster, max_bytes=30)[0].partition.partition for _ in range(4)]
    assert seen == [0, 1, 2, 0]
    assert len(_plan(cluster)) == 3


def test_a_round_has_the_order_of_keys_whatever_was_created_first() -> None:
    cluster = run("\n".join(f"topic {name} 2" for name in "abcdef"))
    for key in (f"{name}-{index}" for name in "fbdace" for index in (1, 0)):
        for _ in range(3):
            cluster.put(key, size=10)
    planned = [key_of(each.partition) for each in _plan(cluster)]
    assert planned == sorted(cluster.state.partitions)
    seen = [key_of(each.partition) for _ in range(4) for each in _plan(cluster, max_bytes=90)]
    assert seen == planned


def test_a_plan_has_a_partition_once_although_another_one_was_created() -> None:
    cluster = run("topic a 3")
    for _ in range(3):
        for index in range(3):
            cluster.put(f"a-{index}", size=10)
    assert [each.partition.partition for each in _plan(cluster, max_bytes=30)] == [0]
    grown = [CreatePartitionsTopic(name="a", partition_count=4)]
    cluster.do("create_partitions", CreatePartitions(topics=grown))
    for _ in range(3):
        cluster.put("a-3", size=10)
    plans = [[each.partition.partition for each in _plan(cluster)] for _ in range(2)]
    assert plans == [[1, 2, 0], [2, 3, 0, 1]]


def test_runs_are_as_long_as_a_round_needs_them() -> None:
    turn, keys = MergeTurn(), [(b"a", index) for index in range(100)]
    assert [turn.next(keys) for _ in range(100)] == keys
    assert turn.most(32, 1000, 16_384) == 163  # all may be worth merging
    for _ in range(1000):
        turn.found(40, 40 * 20)
    # Not enough for an extent of 1000 bytes, if half of the bytes are aborted.
    assert turn.most(32, 1000, 16_384) == 64
    assert turn.next(keys) == keys[0]
    assert turn.most(32, 500, 16_384) == 51
    assert turn.most(32, 300, 16_384) == 32
    assert [turn.next(keys[::2]) for _ in range(49)] == keys[2::2]
    assert [turn.next(keys) for _ in range(2)] == [keys[99], keys[0]]
    assert turn.most(32, 500, 16_384) == 16_384  # nothing was found in a whole round


def test_examining_large_extents_takes_no_time_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan visits as many partitions as `_EXAMINED_AT_ONCE` allows, and searches each of them once."""
    cluster = run("topic a 1")
    for _ in range(100):
        cluster.put("a-0", size=5000)
    searched: list[int] = []

    class Kinds(bytearray):
        def __getitem__(self, at: Any) -> Any:
            searched.append(1)
            return super().__getitem__(at)

    module = interpreted("lacuna.controlplane.shared.log.choosing")
    sizes = array("q", [5000] * 100)
    assert module.find_run(Kinds(100), sizes, 3, 10, 1 << 20, False) == (100, 100)
    assert len(searched) == 100
    assert _plan(cluster) == []


def test_a_plan_looks_at_a_bounded_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MERGE_WINDOW", 4)
    monkeypatch.setattr(merging, "MERGE_EXTENTS", 5)
    cluster = run("topic a 2\ntopic b 1")
    for _ in range(10):
        cluster.put("a-0", size=10)
        cluster.put("a-1", size=10)
    (planned,) = _plan(cluster)
    assert (planned.partition.partition, planned.first_offset, planned.end_offset) == (0, 6, 9)
    (planned,) = _plan(cluster)
    assert planned.partition.partition == 1
    assert [each.partition.partition for each in _plan(cluster)] == [0]


def test_no_plan_without_partitions_or_under_an_ended_lease() -> None:
    cluster = Cluster()
    assert _plan(cluster) == []
    ended = PlanMerge(lease_id=99)
    assert cluster.do("plan_merge", ended).error_code == ErrorCode.LEASE_EXPIRED


STALE = {
    "records were deleted": "delete-records a-0 2 -> 2",
    "the topic was recreated": "delete-topic a\ntopic a 1",
}


@pytest.mark.parametrize("what", STALE)
def test_a_swap_of_what_is_not_there_any_more_changes_nothing(what: str) -> None:
    cluster = run(MIXED)
    command = _swap(cluster, *_plan(cluster))
    run(STALE[what], cluster)
    expected = "PLAN_STALE" if "records" in what else "UNKNOWN_TOPIC_OR_PARTITION"
    before = [list(each.extents.base_offsets) for each in cluster.state.partitions.values()]
    assert _done(cluster, command) == [expected]
    after = [list(each.extents.base_offsets) for each in cluster.state.partitions.values()]
    assert after == before
    cluster.now_ms += COLLECTION_GRACE_MS
    plan = collection(cluster)
    assert command.segments[0].segment in plan.segments  # the merged object is garbage
    assert _done(cluster, command) == [expected]
    cluster.check()


def test_what_one_agent_is_merging_is_planned_for_no_other() -> None:
    cluster = run("topic a 1")
    for _ in range(3):
        cluster.put("a-0", size=10)
    first, plan = cluster.lease_id, _plan(cluster)
    assert len(plan) == 1
    second = cluster.register(9093)
    assert _plan(cluster) == []
    cluster.lease_id = first
    assert _plan(cluster) == plan  # it asks again
    cluster.lease_id = second
    cluster.now_ms += 30_000
    assert _plan(cluster) == plan  # the first has given up
    assert _done(cluster, _swap(cluster, *plan)) == ["NONE"]
    for _ in range(3):
        cluster.put("a-0", size=10)
    cluster.lease_id = first
    assert len(_plan(cluster)) == 1  # what was swapped is nobody's any more
    cluster.do("release_lease", ReleaseLease(lease_id=first))
    cluster.lease_id = second
    assert len(_plan(cluster)) == 1


def test_two_merges_of_one_plan_only_the_first_counts() -> None:
    cluster = run(MIXED)
    plans = _plan(cluster)
    first, second = _swap(cluster, *plans), _swap(cluster, *plans)
    assert _done(cluster, first) == ["NONE"]
    assert _done(cluster, second) == ["PLAN_STALE"]
    cluster.check()


def test_a_swap_is_all_or_nothing_per_partition() -> None:
    cluster = run("topic a 2\n" + "put a-0 x1\nput a-1 x1\n" * 3)
    plans = _plan(cluster)
    assert len(plans) == 2
    command = _swap(cluster, *plans)
    run("delete-records a-0 1 -> 1", cluster)
    assert _done(cluster, command) == ["PLAN_STALE", "NONE"]
    assert len(cluster.found("a-0").extents) == 2
    assert len(cluster.found("a-1").extents) == 1
    assert _done(cluster, command) == ["PLAN_STALE", "NONE"]
    cluster.check()


def test_a_swap_beyond_the_lso_or_that_cuts_an_extent_is_stale() -> None:
    cluster = run(MIXED)
    found = cluster.found("a-0")
    for first, end, start, stop in [(7, 12, 3, 5), (1, 5, 1, 2), (0, 4, 0, 2), (9, 10, 0, 0)]:
        segment = SegmentId(lease_id=1, sequence=500 + first)
        wanted = SwapPartition(
            partition=cluster.partition("a-0"),
            fence=found.extents.fence(start, stop),
            swap=ExtentSwap(first_offset=first, end_offset=end),
        )
        new = SwapSegment(segment=segment, object_size=10)
        command = SwapExtents(segments=[new], partitions=[wanted])
        assert _done(cluster, command) == ["PLAN_STALE"], (first, end)


def test_a_swap_under_an_ended_lease_is_refused() -> None:
    cluster = run(MIXED)
    command = _swap(cluster, *_plan(cluster))
    cluster.do("release_lease", ReleaseLease(lease_id=1))
    assert cluster.do("swap_extents", command).error_code == ErrorCode.LEASE_EXPIRED


@dataclass(frozen=True, slots=True)
class Malformed:
    words: str
    column: str
    values: list[int]


@pytest.mark.parametrize(
    "case",
    [
        Malformed("differ in length", "sizes", [1, 2]),
        Malformed("segments that the swap names", "sequences", [77]),
        Malformed("in order", "base_offsets", [-1]),
        Malformed("in order", "next_offsets", [0]),
        Malformed("within the range", "next_offsets", [99]),
        Malformed("not belong to a transaction", "producer_ids", [1]),
        Malformed("not belong to a transaction", "producer_epochs", [1 << 20]),
        Malformed("not belong to a transaction", "transactions", [1]),
        Malformed("true-offsets", "flags", [0]),
        Malformed("true-offsets", "flags", [256]),
        Malformed("outside its object", "sizes", [1 << 31]),
        Malformed("outside its object", "positions", [-5]),
    ],
)
def test_a_malformed_swap_is_refused_whole(case: Malformed) -> None:
    cluster = run(MIXED)
    command = _swap(cluster, *_plan(cluster))
    column = getattr(command.partitions[0].swap.extents, case.column)
    del column[:]
    column.extend(case.values)
    failure = cluster.do("swap_extents", command)
    assert failure.error_code == ErrorCode.INVALID_REQUEST
    assert case.words in failure.message


def test_new_extents_without_a_segment_to_lie_in_are_malformed() -> None:
    """After a replay, nothing could ever release them."""
    cluster = run(MIXED)
    command = _swap(cluster, *_plan(cluster))
    command.ClearField("segments")
    for swapped in command.partitions:
        for name in ("lease_ids", "sequences"):
            column = getattr(swapped.swap.extents, name)
            column[:] = [0] * len(column)
    failure = cluster.do("swap_extents", command)
    assert failure.error_code == ErrorCode.INVALID_REQUEST
    assert "segments that the swap names" in failure.message


def test_a_swap_that_names_a_partition_twice_is_malformed() -> None:
    cluster = run(MIXED)
    planned = _plan(cluster)[0]
    failure = cluster.do("swap_extents", _swap(cluster, planned, planned))
    assert "once" in failure.message


@pytest.mark.slow
def test_metadata_does_not_grow_with_aborted_transactions_nor_with_flushes() -> None:
    cluster = run("topic a 1\ninit x")
    sizes = []
    for _ in range(4):
        for _ in range(50):
            epoch = cluster.state.producers[1].producer_epoch
            run_quiet(cluster, f"put a-0 x10 1/{epoch}@0 tv2", f"end2 x 1/{epoch} abort")
            cluster.put("a-0", size=10)
        while plans := _plan(cluster, small_bytes=100_000, min_extents=2):
            assert set(_done(cluster, _swap(cluster, *plans))) == {"NONE"}
        cluster.now_ms += COLLECTION_GRACE_MS
        while collect(cluster):
            pass
        sizes.append(len(machine.snapshot(cluster.state)))
        found = cluster.found("a-0")
        assert (len(found.extents), len(found.dead)) == (1, 0)
        assert len(cluster.state.segments) == 1
    answers = len(cluster.state.leases[1].recent)
    assert answers == 64
    assert max(sizes[1:]) - min(sizes[1:]) < 64, sizes
    cluster.check()


def run_quiet(cluster: Cluster, *lines: str) -> None:
    """Run lines without the final check, which replays the whole journal."""
    for line in lines:
        verb, *words = line.split()
        VERBS[verb](cluster, *words)


def test_what_became_stable_a_moment_ago_is_left_alone() -> None:
    """S14: a read_uncommitted consumer can see aborted records for at least the age that a merge requests."""
    cluster = run("""
        topic a 1
        put a-0 x10
        put a-0 x10
        put a-0 x10
    """)
    assert _plan(cluster, min_age_ms=1000) == []
    cluster.now_ms += 999
    assert _plan(cluster, min_age_ms=1000) == []
    cluster.now_ms += 1
    (planned,) = _plan(cluster, min_age_ms=1000)
    assert (planned.first_offset, planned.end_offset) == (0, 30)
    run("put a-0 x10\nput a-0 x10\nput a-0 x10", cluster)
    (planned,) = _plan(cluster, min_age_ms=1000)
    assert planned.end_offset == 30
    (planned,) = _plan(cluster)
    assert planned.end_offset == 60


def test_what_is_old_enough_waits_for_no_more_than_a_quarter_of_its_age() -> None:
    """Aborted records thus disappear soon after their age, rather than after twice the age."""
    cluster = run("topic a 1")
    assert _plan(cluster, min_age_ms=1000) == []
    cluster.now_ms += 10
    run("put a-0 x10\nput a-0 x10\nput a-0 x10", cluster)
    waited_ms = 0
    while not _plan(cluster, min_age_ms=1000):
        cluster.now_ms += 50
        waited_ms += 50
    assert 1000 <= waited_ms <= 1250
