"""Tests PlanCompaction: what is worth rewriting, what bounds a range, and when a compacted topic is due.

Also tests PlanCleaning, PlanCleaningRange and FinishCleaning, which agents use to compact topics by key.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane import machine
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import COLUMNS, DeadRanges, ExtentTable, fence_of
from lacuna.controlplane.state.settings import COMPACTION_EXTENTS
from lacuna.controlplane.v1.log_pb2 import (
    CleaningPlan,
    CompactionRange,
    FinishCleaning,
    PlanCleaning,
    PlanCleaningRange,
    PlanCompaction,
    PlanMerge,
)
from lacuna.controlplane.v1.snapshot_pb2 import StateSnapshot
from tests.controlplane.verbs.cluster import ADDS_PARTITION, LOG_APPEND_TIME, TRANSACTIONAL, Cluster
from tests.controlplane.verbs.compacting import plan, swap, swap_of
from tests.controlplane.verbs.script import VERBS, run

LARGE = 500_000


def put(cluster: Cluster, sizes: str, text: str = "a-0") -> Cluster:
    """Commit one record per extent: s is small and L is large; t and l are the same with LogAppendTime."""
    for kind in sizes:
        flags = LOG_APPEND_TIME if kind in "lt" else 0
        cluster.put(text, size=LARGE if kind in "Ll" else 100, flags=flags)
    return cluster


def ranges(cluster: Cluster, text: str = "a-0", **wanted: Any) -> list[tuple[int, int]]:
    """Return (first, end) for the planned ranges in one partition."""
    found = plan(cluster, text, **wanted).ranges
    return [(each.first_offset, each.end_offset) for each in found]


# What is worth it


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ("", []),
        ("s", []),
        ("LsL", []),
        ("sLs", []),
        ("ss", [(0, 2)]),
        ("LssL", [(1, 3)]),
        ("LssLLssL", [(1, 7)]),
        ("sLssLs", [(2, 4)]),
        ("LstL", []),  # of two timestamp types: they cannot be one extent
        ("LsttL", [(1, 4)]),
    ],
)
def test_small_neighbours_are_worth_joining(sizes: str, expected: list[tuple[int, int]]) -> None:
    cluster = put(run("topic a 1"), sizes)
    assert ranges(cluster) == expected


def test_neighbours_that_are_no_extent_together_are_not_worth_it() -> None:
    cluster = put(run("topic a 1"), "LL")
    assert ranges(cluster, small_bytes=LARGE + 1) == [(0, 2)]
    bigger = run("topic b 1")
    for _ in range(2):
        bigger.put("b-0", size=600_000)
    assert ranges(bigger, "b-0", small_bytes=1 << 20) == []


def test_dead_extents_are_worth_it_and_take_a_small_neighbour_along() -> None:
    cluster = put(run("topic a 1\ninit x"), "LsL")
    run("put a-0 x2 1/0@0 tv2 -> 3\nend2 x 1/0 abort", cluster)
    assert ranges(put(cluster, "LL")) == [(3, 5)]
    run("put a-0 x1 1/1@0 tv2 -> 7\nend2 x 1/1 abort", cluster)
    assert ranges(put(cluster, "sL")) == [(3, 9)]
    assert swap(cluster, swap_of(cluster, *plan(cluster, "a-0").ranges)) == ["NONE"]
    assert ranges(cluster) == []
    cluster.check()


def test_all_is_rewritten_where_that_is_asked_for() -> None:
    cluster = put(run("topic a 1"), "LLL")
    assert ranges(cluster, rewrites_all=True) == [(0, 3)]
    assert ranges(run("topic b 1"), "b-0", rewrites_all=True) == []


def test_all_is_rewritten_plan_by_plan() -> None:
    """A plan ends when it is full, and the next one continues from there."""
    cluster = put(run("topic a 1"), "LLLLL")
    found: list[tuple[int, int]] = []
    while some := ranges(
        cluster, rewrites_all=True, max_extents=2, from_offsets=[found[-1][1] if found else 0]
    ):
        found += some
    assert found == [(0, 2), (2, 4), (4, 5)]
    wrong = PlanCompaction(partitions=[cluster.partition("a-0")], from_offsets=[1, 2])
    assert "one for each partition" in cluster.do("plan_compaction", wrong).message


class Extent(NamedTuple):
    size: int
    flags: int
    is_dead: bool


EXTENTS = st.lists(
    st.builds(
        Extent, st.sampled_from([100, 100, 900, 600_000]), st.sampled_from([0, 0, 1]), st.booleans()
    ),
    max_size=12,
)


def _expected(extents: list[Extent], small_bytes: int) -> list[tuple[int, int]]:
    """Return the expected plan, computed according to the definition, extent by extent. Each extent has one record."""
    worth = {index for index, each in enumerate(extents) if each.is_dead}
    for index, (one, next_one) in enumerate(pairwise(extents)):
        are_small = max(one.size, next_one.size) < small_bytes
        if one.is_dead or next_one.is_dead:
            continue
        if are_small and one.size + next_one.size <= 1 << 20 and one.flags == next_one.flags:
            worth |= {index, index + 1}
    if not worth:
        return []
    first, last = min(worth), max(worth)
    if first and extents[first - 1].size < small_bytes:
        first -= 1
    if last + 1 < len(extents) and extents[last + 1].size < small_bytes:
        last += 1
    return [(first, last + 1)]


@given(
    extents=EXTENTS,
    small_bytes=st.sampled_from([0, 101, 1000, 700_000]),
    passed=st.integers(0, 13),
)
def test_what_is_worth_it_is_what_one_after_the_other_says(
    extents: list[Extent], small_bytes: int, passed: int
) -> None:
    """This also holds when the first ones are skipped."""
    cluster = run("topic a 1\ninit x")
    for number, each in enumerate(extents):
        if each.is_dead:
            flags = each.flags | TRANSACTIONAL | ADDS_PARTITION
            producer = (1, cluster.state.producers[1].producer_epoch)
            cluster.put("a-0", producer=producer, sequence=0, flags=flags, size=each.size)
            VERBS["end2"](cluster, "x", f"{producer[0]}/{producer[1]}", "abort")
        else:
            assert cluster.put("a-0", flags=each.flags, size=each.size) == number
    assert ranges(cluster, small_bytes=small_bytes) == _expected(extents, small_bytes)
    behind = _expected(extents[passed:], small_bytes)
    expected = [(first + passed, end + passed) for first, end in behind]
    assert ranges(cluster, small_bytes=small_bytes, from_offsets=[passed]) == expected


# Bounds


def test_a_range_ends_below_the_last_stable_offset() -> None:
    """S3: it has nothing from an open transaction or after its first record, and no extent that spans that record."""
    cluster = run("""
        topic a 1
        init x                                 -> 1/0
        put a-0 x3                             -> 0
        put a-0 x2                             -> 3
        put a-0 x2 1/0@0 tv2                   -> 5
        put a-0 x9                             -> 7
        put a-0 x9                             -> 16
    """)
    (found,) = plan(cluster, "a-0", rewrites_all=True).ranges
    assert (found.first_offset, found.end_offset, found.last_stable_offset) == (0, 5, 5)
    run("end2 x 1/0 abort", cluster)
    assert ranges(cluster) == [(0, 25)]


def test_what_a_range_says() -> None:
    cluster = run("""
        topic a 1 retention.ms=5000000
        init x
        put a-0 x3                             -> 0
        put a-0 x2 1/0@0 tv2                   -> 3
        end2 x 1/0 abort
        put a-0 x4                             -> 5
        delete-records a-0 1                   -> 1
    """)
    found = cluster.found("a-0")
    answer = plan(cluster, "a-0")
    assert (answer.planned_at_ms, list(answer.left_out)) == (cluster.now_ms, [])
    (planned,) = answer.ranges
    assert planned == CompactionRange(
        partition=cluster.partition("a-0"),
        version=found.version,
        first_offset=0,
        end_offset=9,
        extents=found.extents.columns(),
        dead=found.dead.pairs(),
        fence=fence_of(found.extents.columns()),
        log_start_offset=1,
        last_stable_offset=9,
        cleanup_policy="delete",
        retention_ms=5_000_000,
        delete_retention_ms=86_400_000,
    )


def test_a_range_from_the_first_extent_on_begins_at_the_log_start() -> None:
    """This tells a job that nothing precedes the range, so that it may drop tombstones."""
    cluster = run("topic a 1\ninit x\nput a-0 x2 1/0@0 tv2\nend2 x 1/0 abort")
    assert swap(cluster, swap_of(cluster, *plan(cluster, "a-0").ranges)) == ["NONE"]
    assert ranges(put(cluster, "ss")) == [(0, 4)]
    assert ranges(put(run("topic b 1"), "Lss", "b-0"), "b-0") == [(1, 3)]


def test_a_plan_is_bounded_and_names_what_it_did_not_look_at() -> None:
    cluster = run("topic a 1\ntopic b 2\n" + "put a-0 x1\nput b-0 x1\nput b-1 x1\n" * 4)
    answer = plan(cluster, "a-0", "b-0", "b-1", max_extents=6)
    shown = [(each.first_offset, each.end_offset, each.has_more) for each in answer.ranges]
    assert shown == [(0, 4, False), (0, 2, True)]
    assert list(answer.left_out) == [cluster.partition("b-1")]
    assert swap(cluster, swap_of(cluster, *answer.ranges)) == ["NONE", "NONE"]
    assert ranges(cluster, "b-0") == [(0, 4)]


def test_a_partition_that_is_not_there_has_no_range() -> None:
    cluster = put(run("topic a 1"), "ss")
    answer = plan(cluster, "gone-0", "a-0", "a-7")
    assert [each.partition.partition for each in answer.ranges] == [0]


def test_what_became_stable_a_moment_ago_is_left_alone() -> None:
    """S14: a read_uncommitted consumer can see aborted records for at least the requested age."""
    cluster = put(run("topic a 1"), "ss")
    assert ranges(cluster, min_age_ms=1000) == []
    put(cluster, "ss")
    cluster.now_ms += 1000
    assert ranges(cluster, min_age_ms=1000) == [(0, 2)]
    assert ranges(cluster) == [(0, 4)]
    assert ranges(cluster, min_age_ms=500) == [(0, 2)], "a younger note was not made"
    cluster.now_ms += 1
    assert ranges(cluster, min_age_ms=5000) == [], "no note is as old as this"


def test_what_was_aborted_a_moment_ago_is_left_alone() -> None:
    cluster = put(run("topic a 1\ninit x"), "L")
    assert ranges(cluster, min_age_ms=1000) == []
    run("put a-0 x2 1/0@0 tv2\nend2 x 1/0 abort", cluster)
    cluster.now_ms += 1000
    assert ranges(cluster, min_age_ms=1000) == []
    cluster.now_ms += 1000
    assert ranges(cluster, min_age_ms=1000) == [(1, 3)]


@pytest.mark.parametrize(
    "fields", [{"small_bytes": -1}, {"max_extents": -1}, {"min_age_ms": -1}, {"partitions": []}]
)
def test_a_malformed_plan_is_refused(fields: dict[str, Any]) -> None:
    cluster = run("topic a 1")
    wanted: dict[str, Any] = {"partitions": [cluster.partition("a-0")]} | fields
    command = PlanCompaction(**wanted)
    assert cluster.do("plan_compaction", command).error_code == ErrorCode.INVALID_REQUEST


def test_a_plan_that_names_a_partition_twice_is_refused() -> None:
    cluster = put(run("topic a 1"), "ss")
    failure = cluster.do(
        "plan_compaction", PlanCompaction(partitions=[cluster.partition("a-0")] * 2)
    )
    assert "each partition only once" in failure.message


def test_nobody_gets_more_than_a_message_holds() -> None:
    assert COMPACTION_EXTENTS * 75 < 20 << 20


# Compacted topics

COMPACTED = "topic a 1 cleanup.policy=compact min.compaction.lag.ms=0\n"


def compact(cluster: Cluster, text: str = "a-0", again_ms: int = 0, **wanted: int) -> bool:
    """Plan and swap one range. Return whether there was one to swap."""
    for found in plan(cluster, text, **wanted).ranges:
        command = swap_of(cluster, found, compacted_to=found.end_offset, compact_again_ms=again_ms)
        assert swap(cluster, command) == ["NONE"]
        return True
    return False


def test_whatever_is_new_makes_all_of_a_compacted_partition_worth_it() -> None:
    cluster = put(run(COMPACTED), "LL")
    (found,) = plan(cluster, "a-0").ranges
    assert (found.first_offset, found.end_offset, found.compacted_to) == (0, 2, 0)
    assert found.cleanup_policy == "compact"
    assert compact(cluster)
    assert ranges(cluster) == []
    put(cluster, "L")
    (found,) = plan(cluster, "a-0").ranges
    assert (found.first_offset, found.end_offset, found.compacted_to) == (0, 3, 2)
    assert compact(cluster)
    assert ranges(cluster) == []
    cluster.check()


def test_what_was_compacted_is_known_after_a_restart_and_to_older_snapshots_is_nothing() -> None:
    cluster = put(run(COMPACTED), "LL")
    compact(cluster, again_ms=77)
    message = StateSnapshot.FromString(machine.snapshot(cluster.state))
    cluster.state = machine.restore((message.SerializeToString(),))
    found = cluster.found("a-0")
    assert (found.compacted_to, found.compact_again_ms) == (2, 77)
    message.topics[0].partitions[0].ClearField("compacted_to")
    message.topics[0].partitions[0].ClearField("compact_again_ms")
    cluster.state = machine.restore((message.SerializeToString(),))
    assert ranges(cluster) == [(0, 2)]


def test_a_merge_leaves_it_compacted() -> None:
    """A merge drops no live records and joins extents that have already been compacted."""
    cluster = put(run(COMPACTED), "ss")
    assert compact(cluster)
    put(cluster, "s")
    command = swap_of(cluster, *plan(cluster, "a-0", rewrites_all=True).ranges)
    assert swap(cluster, command) == ["NONE"]
    assert cluster.found("a-0").compacted_to == 2
    assert ranges(cluster) == [(0, 3)], "what came later is not compacted"


def test_what_waits_for_its_tombstones_is_due_when_they_are() -> None:
    cluster = put(run(COMPACTED), "L")
    assert compact(cluster, again_ms=cluster.now_ms + 1000)
    cluster.now_ms += 999
    assert ranges(cluster) == []
    cluster.now_ms += 1
    assert ranges(cluster) == [(0, 1)]
    assert compact(cluster)
    assert ranges(cluster) == []


def test_min_compaction_lag_ends_the_range_before_what_is_young() -> None:
    cluster = run("topic a 1 cleanup.policy=compact,delete min.compaction.lag.ms=5000")
    for age_ms in (9000, 5000, 4999, 9000):
        cluster.put("a-0", timestamp=cluster.now_ms - age_ms)
    (found,) = plan(cluster, "a-0").ranges
    assert (found.end_offset, found.min_compaction_lag_ms, found.has_more) == (2, 5000, False)
    assert compact(cluster)
    assert ranges(cluster) == []
    cluster.now_ms += 1
    assert ranges(cluster) == [(0, 4)]


def test_min_compaction_lag_of_records_without_a_timestamp_counts_from_their_commit() -> None:
    cluster = run("topic a 1 cleanup.policy=compact min.compaction.lag.ms=5000")
    cluster.put("a-0", timestamp=-1)
    cluster.now_ms += 3_000
    cluster.put("a-0", timestamp=-1)
    assert ranges(cluster) == []
    cluster.now_ms += 3_000
    assert ranges(cluster) == [(0, 1)]
    cluster.now_ms += 3_000
    assert ranges(cluster) == [(0, 2)]


def test_a_long_compacted_partition_is_cut_and_goes_on_behind() -> None:
    """In any range, it is correct to drop values that are superseded by a newer value in that range."""
    cluster = put(run(COMPACTED), "LLLLL")
    answer = plan(cluster, "a-0", max_extents=2)
    assert [(each.end_offset, each.has_more) for each in answer.ranges] == [(2, True)]
    assert compact(cluster, max_extents=2)
    assert compact(cluster, max_extents=2)
    (found,) = plan(cluster, "a-0", max_extents=2).ranges
    assert (found.first_offset, found.end_offset) == (0, 4), "it is smaller now"
    while compact(cluster, max_extents=2):
        assert cluster.found("a-0").compacted_to <= 5
    assert cluster.found("a-0").compacted_to == 5
    cluster.check()


def _compact_one_to_one(cluster: Cluster) -> None:
    """Compact a partition in which no key has two values, so that the number of extents stays the same."""
    (found,) = plan(cluster, "a-0", rewrites_all=True).ranges
    command = swap_of(cluster, found, joins=False, compacted_to=found.end_offset)
    assert swap(cluster, command) == ["NONE"]


def test_what_was_compacted_and_fills_a_plan_is_not_rewritten_for_ever() -> None:
    cluster = put(run(COMPACTED), "LLL")
    _compact_one_to_one(cluster)
    put(cluster, "LL")
    assert ranges(cluster, max_extents=4) == [(0, 4)]
    (found,) = plan(cluster, "a-0", max_extents=3).ranges
    assert (found.first_offset, found.end_offset, found.compacted_to) == (3, 5, 3)
    assert compact(cluster, max_extents=3)
    assert ranges(cluster) == []
    cluster.check()


def test_small_neighbours_are_joined_in_what_was_compacted_too() -> None:
    cluster = put(run(COMPACTED), "LssL")
    _compact_one_to_one(cluster)
    (found,) = plan(cluster, "a-0").ranges
    assert (found.first_offset, found.end_offset, found.compacted_to) == (1, 3, 3)


# Columns and fences


def test_a_fence_is_of_what_lies_there_and_of_all_of_it() -> None:
    cluster = put(run("topic a 1"), "ssL")
    table: ExtentTable = cluster.found("a-0").extents
    assert table.fence(0, 3) == fence_of(table.columns())
    assert (
        len({table.fence(start, stop) for start in range(3) for stop in range(start + 1, 4)}) == 6
    )
    before = table.fence(0, 3)
    for name in COLUMNS:
        column = getattr(table, name)
        column[1] += 1
        assert table.fence(0, 3) != before, name
        column[1] -= 1
    assert table.fence(0, 3) == before


@pytest.mark.parametrize(
    ("first", "end", "expected"),
    [
        (0, 100, [(10, 20), (30, 40)]),
        (15, 35, [(15, 20), (30, 35)]),
        (12, 18, [(12, 18)]),
        (20, 30, []),
        (50, 60, []),
        (0, 10, []),
    ],
)
def test_dead_ranges_within_are_cut_at_the_edges(
    first: int, end: int, expected: list[tuple[int, int]]
) -> None:
    dead = DeadRanges()
    dead.add(10, 20)
    dead.add(30, 40)
    found = dead.within(first, end)
    assert list(zip(found.firsts, found.ends, strict=True)) == expected
    assert len(dead) == 2


# Cleaning by agents.


def _cleaning(cluster: Cluster, **wanted: Any) -> CleaningPlan:
    command = PlanCleaning(lease_id=cluster.lease_id, **wanted)
    found: CleaningPlan = cluster.do("plan_cleaning", command)
    return found


def _next(cluster: Cluster, from_offset: int, end_offset: int, **wanted: Any) -> Any:
    given = {"lease_id": cluster.lease_id, "max_bytes": 1 << 30} | wanted
    partition = given.pop("partition", None) or cluster.partition("a-0")
    command = PlanCleaningRange(
        partition=partition, from_offset=from_offset, end_offset=end_offset, **given
    )
    return cluster.do("plan_cleaning_range", command)


def _offsets(cluster: Cluster, from_offset: int, end_offset: int, **wanted: Any) -> list[int]:
    answer = _next(cluster, from_offset, end_offset, **wanted)
    assert answer.error_code == 0
    return [*ExtentTable.from_columns(answer.range.extents).base_offsets]


def _finish(cluster: Cluster, cleaned_to: int, again_ms: int = 0) -> int:
    command = FinishCleaning(
        lease_id=cluster.lease_id,
        partition=cluster.partition("a-0"),
        cleaned_to=cleaned_to,
        clean_again_ms=again_ms,
    )
    code: int = cluster.do("finish_cleaning", command).error_code
    return code


def _compacted(**configs: str) -> Cluster:
    cluster = Cluster()
    cluster.create("a", 1, cleanup_policy="compact", **configs)
    return cluster


def test_a_pass_covers_what_is_stable_and_not_clean() -> None:
    cluster = put(_compacted(), "sss")
    cluster.create("b")
    put(cluster, "ssss", "b-0")
    plan = _cleaning(cluster)
    assert plan.partition == cluster.partition("a-0")
    assert (plan.first_dirty_offset, plan.end_offset, plan.dirty_bytes) == (0, 3, 300)
    assert plan.delete_retention_ms == 86_400_000
    assert _finish(cluster, 3) == 0
    assert not _cleaning(cluster).HasField("partition")
    put(cluster, "ssss")
    again = _cleaning(cluster)
    assert (again.first_dirty_offset, again.end_offset, again.dirty_bytes) == (3, 7, 400)
    cluster.check()


@pytest.mark.parametrize(
    ("configs", "dirty", "min_bytes", "is_worth"),
    [
        ({}, "ss", 0, False),  # half of it is not more than half
        ({}, "sss", 0, True),
        ({}, "sss", 301, False),
        ({"min_cleanable_dirty_ratio": "0"}, "s", 0, True),
        ({"min_cleanable_dirty_ratio": "0.9"}, "sss", 0, False),
        ({"min_cleanable_dirty_ratio": "0.9", "max_compaction_lag_ms": "999"}, "s", 301, True),
        ({"min_cleanable_dirty_ratio": "0.9", "max_compaction_lag_ms": "1000"}, "s", 301, False),
        ({"min_cleanable_dirty_ratio": "0", "min_compaction_lag_ms": "1000"}, "s", 0, True),
        ({"min_cleanable_dirty_ratio": "0", "min_compaction_lag_ms": "1001"}, "s", 0, False),
    ],
)
def test_when_a_pass_is_worth_it(
    configs: dict[str, str], dirty: str, min_bytes: int, is_worth: bool
) -> None:
    cluster = put(_compacted(**configs), "ss")
    _finish(cluster, 2)
    put(cluster, dirty)
    cluster.now_ms += 1000
    assert _cleaning(cluster, min_bytes=min_bytes).HasField("partition") == is_worth
    cluster.is_time_doubtful = True
    assert not _cleaning(cluster, min_bytes=min_bytes).HasField("partition")


def test_tombstones_that_can_go_are_worth_a_pass() -> None:
    cluster = put(_compacted(), "ss")
    _finish(cluster, 2, cluster.now_ms + 50)
    assert not _cleaning(cluster).HasField("partition")
    cluster.now_ms += 50
    plan = _cleaning(cluster)
    assert (plan.first_dirty_offset, plan.end_offset) == (2, 2)
    assert _offsets(cluster, 0, 2) == [0, 1]


def test_the_dirtiest_partition_is_first_and_one_agent_cleans_it() -> None:
    cluster = put(_compacted(), "ss")
    _finish(cluster, 1)
    cluster.create("b", 1, cleanup_policy="compact", min_cleanable_dirty_ratio="0")
    put(cluster, "sssss", "b-0")
    b = cluster.partition("b-0")
    assert _cleaning(cluster, avoided=[b]).partition != b
    assert _cleaning(cluster).partition == b
    first, second = cluster.lease_id, cluster.register(9999)
    assert _cleaning(cluster).partition != b
    cluster.lease_id = first
    assert _cleaning(cluster).partition == b
    cluster.lease_id, cluster.now_ms = second, cluster.now_ms + 60_000
    assert _cleaning(cluster).partition == b, "the first one has given up"


def test_a_merge_leaves_alone_what_a_pass_rewrites() -> None:
    cluster = put(_compacted(), "sss")
    merge = PlanMerge(lease_id=cluster.lease_id, max_bytes=1 << 30, small_bytes=1000, min_extents=2)
    _cleaning(cluster)
    put(cluster, "ss")
    (planned,) = cluster.do("plan_merge", merge).partitions
    assert (planned.first_offset, planned.end_offset, planned.superseded_to) == (3, 5, 5)
    _finish(cluster, 3)
    (planned,) = cluster.do("plan_merge", merge).partitions
    assert (planned.first_offset, planned.end_offset, planned.superseded_to) == (0, 5, 5)


def test_ranges_follow_each_other_up_to_the_end_of_the_pass() -> None:
    cluster = Cluster()
    cluster.create("a", 1, cleanup_policy="compact,delete")
    put(cluster, "LLsLs")
    assert _offsets(cluster, 0, 5) == [0, 1, 2, 3, 4]
    assert _offsets(cluster, 0, 5, max_bytes=LARGE * 2 + 150) == [0, 1, 2]
    assert _offsets(cluster, 3, 5, max_bytes=1) == [3]
    assert _offsets(cluster, 4, 4) == []
    run("delete-records a-0 2 -> 2", cluster)
    assert _offsets(cluster, 0, 3) == [2]


def test_an_extent_that_reaches_over_the_end_is_a_range_of_its_own() -> None:
    cluster = _compacted()
    for _ in range(2):
        cluster.put("a-0", 3)
    assert _offsets(cluster, 0, 4) == [0]
    assert _offsets(cluster, 3, 4) == [3]
    assert _offsets(cluster, 6, 6) == []


def test_who_may_go_on() -> None:
    cluster = put(_compacted(), "ss")
    gone = cluster.partition("nothing-0")
    assert _next(cluster, 0, 2, partition=gone).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for answer in (_next(cluster, 0, 2, lease_id=99), _cleaning_under(cluster, 99)):
        assert answer.error_code == ErrorCode.LEASE_EXPIRED
    assert _finish(cluster, 1) == 0
    assert _finish(cluster, 0) == 0
    assert cluster.found("a-0").compacted_to == 1, "what was clean stays so"
    assert _finish(cluster, 99) == 0
    assert cluster.found("a-0").compacted_to == 2
    cluster.create("b")
    put(cluster, "ss", "b-0")
    other = cluster.partition("b-0")
    assert _next(cluster, 0, 2, partition=other).error_code == ErrorCode.PLAN_STALE
    cluster.lease_id = 99
    assert _finish(cluster, 2) == ErrorCode.LEASE_EXPIRED
    cluster.check()


def _cleaning_under(cluster: Cluster, lease_id: int) -> CleaningPlan:
    found: CleaningPlan = cluster.do("plan_cleaning", PlanCleaning(lease_id=lease_id))
    return found


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        ("plan_cleaning", PlanCleaning(min_bytes=-1)),
        ("plan_cleaning_range", PlanCleaningRange(from_offset=2, end_offset=1, max_bytes=1)),
        ("plan_cleaning_range", PlanCleaningRange(end_offset=1)),
        ("finish_cleaning", FinishCleaning(cleaned_to=-1)),
    ],
)
def test_what_makes_no_sense_is_refused(verb: str, message: Any) -> None:
    cluster = _compacted()
    message.lease_id = cluster.lease_id
    assert cluster.do(verb, message).error_code == ErrorCode.INVALID_REQUEST


def test_a_swap_may_drop_what_is_superseded_at_the_front_of_a_compacted_topic_only() -> None:
    for policy, outcome in (("compact", "NONE"), ("delete", "PLAN_STALE")):
        cluster = Cluster()
        cluster.create("a", 1, cleanup_policy=policy)
        put(cluster, "sss")
        (found,) = plan(cluster, "a-0", rewrites_all=True).ranges
        command = swap_of(cluster, found, keeps_from=2, is_superseding=True)
        assert swap(cluster, command) == [outcome]
        cluster.check()
    assert cluster.found("a-0").log_start_offset == 0
