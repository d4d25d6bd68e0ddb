"""Tests hot segments in the state machine, which never sees their bytes: commits, bounds, merges and removal."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane import machine
from lacuna.controlplane.shared.batches import commit_of
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import ExtentTable
from lacuna.controlplane.state.hot import MAX_HOT_BYTES, HotIntake
from lacuna.controlplane.v1.cluster_pb2 import DescribeLeases, ReleaseLease
from lacuna.controlplane.v1.control_pb2 import Command, Failure
from lacuna.controlplane.v1.log_pb2 import PlanMerge, ReadHot, SegmentId, SwapExtents
from lacuna.controlplane.verbs import merging
from lacuna.controlplane.verbs.losses import leases_of
from lacuna.logstore.segments.hot import (
    HOT,
    MOST_HOT_BYTES,
    hot_lease,
    is_hot,
    lease_of,
    show_segment,
)
from tests.controlplane.verbs.cluster import Cluster, add_batch
from tests.controlplane.verbs.compacting import rewritten
from tests.controlplane.verbs.script import run


def commit_hot(
    cluster: Cluster, partition: str, data: bytes = b"hot", *, sequence: int = 0, follows: int = 0
) -> Any:
    """Commit one batch in a hot segment. Return the answer."""
    cluster.sequence += 1
    segment = SegmentId(lease_id=hot_lease(cluster.lease_id), sequence=sequence or cluster.sequence)
    batches = cluster.slice(partition)
    add_batch(batches, timestamp=cluster.now_ms)
    command = commit_of(segment, 1 << 20, [batches], ())
    command.hot = data
    command.follows = follows
    return cluster.do("commit_segment", command)


def planned(cluster: Cluster, small_bytes: int = 50, min_extents: int = 32) -> list[int]:
    """Return the number of extents from each partition in a merge plan."""
    command = PlanMerge(
        lease_id=cluster.lease_id,
        max_bytes=1 << 30,
        small_bytes=small_bytes,
        min_extents=min_extents,
    )
    plan = cluster.do("plan_merge", command)
    return [len(ExtentTable.from_columns(each.extents)) for each in plan.partitions]


def test_a_hot_commit_is_a_commit_without_its_bytes() -> None:
    cluster = run("topic t 1")
    secret = b"the bytes of the object"
    assert commit_hot(cluster, "t-0", secret).error_code == 0
    assert cluster.put("t-0") == 1
    extents = cluster.found("t-0").extents
    assert [*map(is_hot, extents.lease_ids)] == [True, False]
    assert [*map(lease_of, extents.lease_ids)] == [cluster.lease_id] * 2
    assert all(secret not in record for record in cluster.journal)
    assert secret not in machine.snapshot(cluster.state)
    cluster.check()


def test_sent_again_it_gets_the_same_answer_even_when_no_more_are_taken() -> None:
    cluster = run("topic t 1")
    first = commit_hot(cluster, "t-0", sequence=7)
    cluster.state.hot_intake.max_bytes = 0
    assert commit_hot(cluster, "t-0", sequence=7) == first
    assert commit_hot(cluster, "t-0", sequence=8).error_code == ErrorCode.HOT_REFUSED
    assert cluster.found("t-0").high_watermark == 1


def test_s12_a_commit_is_refused_until_the_one_before_it_is_decided() -> None:
    cluster = run("topic t 1")
    cluster.state.hot_intake.max_bytes = 0
    assert commit_hot(cluster, "t-0", sequence=1).error_code == ErrorCode.HOT_REFUSED
    cluster.state.hot_intake.max_bytes = MAX_HOT_BYTES
    assert commit_hot(cluster, "t-0", sequence=2, follows=1).error_code == ErrorCode.OUT_OF_TURN
    assert commit_hot(cluster, "t-0", sequence=1).error_code == 0
    second = commit_hot(cluster, "t-0", sequence=2, follows=1)
    assert second.error_code == 0
    assert commit_hot(cluster, "t-0", sequence=2, follows=1) == second
    assert cluster.found("t-0").high_watermark == 2
    cluster.check()


def test_a_number_is_given_once_to_a_segment_of_either_kind() -> None:
    cluster = run("topic t 1")
    for sequence in range(1, 100):
        assert commit_hot(cluster, "t-0", sequence=sequence).error_code == 0
    assert commit_hot(cluster, "t-0", sequence=1).error_code == ErrorCode.INVALID_REQUEST
    cluster.sequence = 0
    assert cluster.put("t-0") == "INVALID_REQUEST"
    assert [*leases_of(cluster.state).last_sequences] == [99]
    assert [*cluster.do("describe_leases", DescribeLeases()).last_sequences] == [99]


def test_one_without_bytes_or_with_too_many_is_malformed() -> None:
    cluster = run("topic t 1")
    for data in (b"", bytes(MOST_HOT_BYTES + 1)):
        answer = commit_hot(cluster, "t-0", data)
        assert isinstance(answer, Failure)
        assert f"from 1 to {MOST_HOT_BYTES} bytes long, not {len(data)}" in answer.message
    assert commit_hot(cluster, "t-0", bytes(MOST_HOT_BYTES)).error_code == 0


def test_it_needs_the_lease_under_which_it_was_written() -> None:
    cluster = run("topic t 1")
    cluster.do("release_lease", ReleaseLease(lease_id=cluster.lease_id))
    assert commit_hot(cluster, "t-0").error_code == ErrorCode.LEASE_EXPIRED
    assert all(lease_id < HOT for lease_id in cluster.state.ended_leases)


def test_hot_extents_are_merged_however_few_and_large_they_are() -> None:
    cluster = run("topic t 3")
    cluster.put("t-0")
    commit_hot(cluster, "t-1")
    commit_hot(cluster, "t-1")
    cluster.put("t-2")
    commit_hot(cluster, "t-2")
    cluster.put("t-2")
    assert planned(cluster) == [2, 1]


@pytest.mark.parametrize(("min_extents", "expected"), [(6, [3]), (5, [5])])
def test_a_few_hot_extents_are_merged_without_those_that_were_merged_before(
    min_extents: int, expected: list[int]
) -> None:
    """Otherwise, a partition with a few records per minute would rewrite its last 256 KiB each time."""
    cluster = run("topic t 1")
    cluster.put("t-0")
    commit_hot(cluster, "t-0")
    cluster.put("t-0")
    commit_hot(cluster, "t-0")
    cluster.put("t-0")
    assert planned(cluster, 1 << 20, min_extents) == expected


AGE_MS = 40_000
PAUSE_MS = AGE_MS // 2


def moved_out(cluster: Cluster, max_bytes: int = 1 << 30) -> list[list[int]]:
    """Merge as an agent does, until a plan is empty. Return the number of extents from each partition in each plan."""
    command = PlanMerge(
        lease_id=cluster.lease_id,
        max_bytes=max_bytes,
        small_bytes=150,
        min_extents=2,
        min_age_ms=AGE_MS,
    )
    moved = []
    while plan := cluster.do("plan_merge", command).partitions:
        moved.append([len(ExtentTable.from_columns(each.extents)) for each in plan])
        cluster.sequence += 1
        segment = SegmentId(lease_id=cluster.lease_id, sequence=cluster.sequence)
        swap = SwapExtents(partitions=[rewritten(each, segment) for each in plan])
        swap.segments.add(segment=segment, object_size=1 << 30)
        assert set(cluster.do("swap_extents", swap).error_codes) == {ErrorCode.NONE}
    return moved


def old_enough(cluster: Cluster) -> list[list[int]]:
    """Wait between two rounds until what was committed is old enough. Return what is then moved out."""
    for _ in range(5):
        cluster.now_ms += AGE_MS // 4
        moved = moved_out(cluster)
    return moved


@pytest.mark.slow
def test_a_trickle_is_moved_out_twice_in_the_age_that_records_must_have() -> None:
    """Planning a merge for every partition with a new record would cost a PUT every few seconds."""
    cluster = run("topic t 2")
    waiting: list[int] = []
    moved_at: list[int] = []
    for _ in range(60):
        for partition in ("t-0", "t-1"):
            commit_hot(cluster, partition)
        waiting.append(cluster.now_ms)
        if moved := moved_out(cluster):
            ((first, second),) = moved
            assert first == second
            moved_at.append(cluster.now_ms)
            del waiting[:first]
        oldest = cluster.now_ms - waiting[0]
        assert oldest <= AGE_MS + AGE_MS // 4 + PAUSE_MS + 5_000
        cluster.now_ms += 5_000
    pauses = {later - earlier for earlier, later in itertools.pairwise(moved_at)}
    assert pauses == {PAUSE_MS}


def test_a_round_moves_out_everything() -> None:
    """Larger extents lie between the hot ones, so that each plan can take only one hot extent."""
    cluster = run("topic t 1")
    moved_out(cluster)
    for _ in range(3):
        commit_hot(cluster, "t-0")
        cluster.put("t-0", size=1000)
    assert old_enough(cluster) == []
    cluster.now_ms += AGE_MS // 4
    assert moved_out(cluster) == [[1], [1], [1]]


def test_many_do_not_wait_for_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many means half as many as one plan examines."""
    monkeypatch.setattr(merging, "MERGE_WINDOW", 20)
    for commits, expected in ((9, []), (10, [[10]])):
        cluster = run("topic t 1")
        moved_out(cluster)
        for _ in range(commits):
            commit_hot(cluster, "t-0")
        assert old_enough(cluster) == expected


def test_what_fills_half_of_a_plan_or_of_the_journal_does_not_wait() -> None:
    for max_bytes, kept_bytes in ((600, 0), (1 << 30, MAX_HOT_BYTES // 2 + 1)):
        cluster = run("topic t 1")
        moved_out(cluster)
        for _ in range(3):
            commit_hot(cluster, "t-0")
        assert old_enough(cluster) == []
        cluster.state.hot_intake.kept_bytes = kept_bytes
        assert moved_out(cluster, max_bytes) == [[3]]


def test_others_do_not_wait_for_hot_extents() -> None:
    cluster = run("topic t 2")
    moved_out(cluster)
    commit_hot(cluster, "t-0")
    for _ in range(2):
        cluster.put("t-1")
    assert old_enough(cluster) == [[2]]


def test_a_read_waits_for_the_journal_and_changes_nothing() -> None:
    cluster = Cluster()
    command = Command(read_hot=ReadHot(segments=[SegmentId(lease_id=HOT | 1, sequence=1)]))
    decision = machine.handle(cluster.state, command, cluster.context())
    assert decision.reply is None
    assert not decision.records


@given(
    st.lists(
        st.tuples(st.integers(0, 3_000), st.integers(1, 400), st.integers(0, 700)), max_size=50
    )
)
def test_the_intake_keeps_its_bounds(commits: list[tuple[int, int, int]]) -> None:
    """Commits are (ms since the last one, size, bytes dropped before). At most 4 s worth are admitted at once."""
    intake = HotIntake()
    intake.bytes_per_second, intake.max_bytes = 250, 2_000
    now_ms, admitted = 10_000_000, []
    for passed_ms, size, dropped in commits:
        now_ms += passed_ms
        intake.kept_bytes = max(0, intake.kept_bytes - dropped)
        if intake.admits(size, now_ms):
            intake.kept_bytes += size
            admitted.append((now_ms, size))
        assert intake.kept_bytes <= intake.max_bytes
        for begin_ms, _ in admitted:
            taken = sum(size for at_ms, size in admitted if begin_ms <= at_ms)
            assert taken <= 1_000 + (now_ms - begin_ms) / 4 + 1
    assert intake.refused == len(commits) - len(admitted)


def test_the_id_of_a_hot_segment_is_shown_with_its_lease() -> None:
    assert show_segment(0x1F, 0x2A) == "1f-2a"
    assert show_segment(hot_lease(0x1F), 0x2A) == "hot:1f-2a"
