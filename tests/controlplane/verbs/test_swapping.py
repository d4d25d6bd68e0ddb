"""Tests swaps of jobs: a digest as the fence, several segments, retries, and earlier journals."""

from collections.abc import Callable

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.settings import COLLECTION_GRACE_MS
from lacuna.controlplane.v1.cluster_pb2 import OpenLease, ReleaseLease
from lacuna.controlplane.v1.log_pb2 import SegmentId, SwapExtents, SwapPartition
from tests.controlplane.verbs.cluster import Cluster
from tests.controlplane.verbs.collecting import collect
from tests.controlplane.verbs.compacting import plan, swap, swap_of
from tests.controlplane.verbs.script import run

TWO = """
    topic a 2
    init x                                 -> 1/0
    put a-0 x2                             -> 0
    put a-0 x3 1/0@0 tv2                   -> 2
    put a-1 x4 1/0@0 tv2                   -> 0
    end2 x 1/0 abort                       -> 1/1
    put a-0 x2                             -> 5
    put a-1 x2                             -> 4
"""


def test_two_partitions_in_two_segments_fenced_by_digests() -> None:
    cluster = run(TWO)
    cluster.lease_id = cluster.do("open_lease", OpenLease(duration_ms=60_000)).lease_id
    command = swap_of(cluster, *plan(cluster, "a-0", "a-1").ranges)
    assert len(command.segments) == 2
    assert swap(cluster, command) == ["NONE", "NONE"]
    for text, next_offset, size in (("a-0", 7, 200), ("a-1", 6, 100)):
        found = cluster.found(text)
        assert (len(found.extents), len(found.dead), found.size_bytes) == (1, 0, size)
        assert found.extents.next_offsets[-1] == next_offset
    live = {row.key: row.live_extents for row in cluster.state.segments if row.live_extents}
    assert live == {(2, cluster.sequence - 1): 1, (2, cluster.sequence): 1}
    cluster.check()
    version = cluster.found("a-0").version
    assert swap(cluster, command) == ["NONE", "NONE"]  # the answer was lost
    assert cluster.found("a-0").version == version


def test_extents_of_one_partition_in_several_segments() -> None:
    """A skewed partition is split between tasks, each of which writes its own segments."""
    cluster = run("topic a 1\n" + "put a-0 x10\n" * 4)
    (found,) = plan(cluster, "a-0").ranges
    command = swap_of(cluster, found)
    new = command.partitions[0].swap.extents
    first = command.segments[0].segment
    other = SegmentId(lease_id=first.lease_id, sequence=first.sequence + 1)
    command.segments.add(segment=other, object_size=1 << 40)
    for name in new.DESCRIPTOR.fields_by_name:
        column = getattr(new, name)
        column.append(column[0])
    new.sequences[1] = other.sequence
    new.next_offsets[0], new.base_offsets[1] = 20, 20
    new.sizes[:] = [150, 250]
    assert swap(cluster, command) == ["NONE"]
    assert cluster.found("a-0").size_bytes == 400
    assert sorted(row.live_extents for row in cluster.state.segments) == [0, 0, 0, 0, 1, 1]
    cluster.check()
    cluster.now_ms += COLLECTION_GRACE_MS
    assert len(collect(cluster)) == 4


def test_a_wrong_fence_refuses_that_partition_alone_and_a_retry_hears_the_same() -> None:
    cluster = run(TWO)
    command = swap_of(cluster, *plan(cluster, "a-0", "a-1").ranges)
    first, second = (each.segment for each in command.segments)
    run("delete-records a-0 2 -> 2", cluster)
    for _ in range(2):
        assert swap(cluster, command) == ["PLAN_STALE", "NONE"]
        cluster.check()
    assert (first.lease_id, first.sequence) in cluster.state.segments.replaced
    assert (second.lease_id, second.sequence) not in cluster.state.segments.replaced
    cluster.now_ms += COLLECTION_GRACE_MS
    assert first.sequence in collect(cluster)
    assert swap(cluster, command) == ["PLAN_STALE", "NONE"], "one of its segments is still known"
    cluster.check()


def test_what_follows_the_range_does_not_make_the_plan_stale() -> None:
    cluster = run(TWO)
    command = swap_of(cluster, *plan(cluster, "a-0").ranges)
    run("put a-0 x5 -> 7\nput a-0 x5 -> 12", cluster)
    assert swap(cluster, command) == ["NONE"]
    assert list(cluster.found("a-0").extents.base_offsets) == [0, 7, 12]


def test_all_refused_leaves_garbage_and_nothing_else() -> None:
    cluster = run(TWO)
    plans = plan(cluster, "a-0", "a-1").ranges
    first, second = swap_of(cluster, *plans), swap_of(cluster, *plans)
    assert swap(cluster, first) == ["NONE", "NONE"]
    assert swap(cluster, second) == ["PLAN_STALE", "PLAN_STALE"]
    cluster.now_ms += COLLECTION_GRACE_MS
    gone = collect(cluster)
    assert {each.segment.sequence for each in second.segments} <= set(gone)
    assert not {each.segment.sequence for each in first.segments} & set(gone)
    cluster.check()


def test_a_swap_for_nothing_is_done_once_and_told_again() -> None:
    cluster = run("""
        topic a 1
        init x
        put a-0 x5 1/0@0 tv2                   -> 0
        end2 x 1/0 abort                       -> 1/1
        put a-0 x1                             -> 5
    """)
    (found,) = plan(cluster, "a-0", small_bytes=0).ranges
    assert (found.first_offset, found.end_offset) == (0, 5)
    command = swap_of(cluster, found)
    assert not command.segments
    for _ in range(2):
        assert swap(cluster, command) == ["NONE"]
        left = cluster.found("a-0")
        assert (list(left.extents.base_offsets), len(left.dead)) == ([5], 0)
    cluster.check()


def test_a_swap_for_nothing_where_others_lie_by_now_is_stale() -> None:
    cluster = run(TWO)
    (found,) = plan(cluster, "a-0").ranges
    emptied = SwapPartition(partition=found.partition, fence=found.fence)
    emptied.swap.first_offset, emptied.swap.end_offset = found.first_offset, found.end_offset
    assert swap(cluster, swap_of(cluster, found)) == ["NONE"]
    assert swap(cluster, SwapExtents(partitions=[emptied])) == ["PLAN_STALE"]


def test_a_retry_is_answered_after_the_lease_has_ended() -> None:
    """It changes nothing, and a driver that lost the reply needs the answer."""
    cluster = run(TWO)
    other = cluster.register()
    cluster.lease_id = 1
    plans = plan(cluster, "a-0", "a-1").ranges
    done, late = swap_of(cluster, plans[0]), swap_of(cluster, plans[1])
    assert swap(cluster, done) == ["NONE"]
    cluster.do("release_lease", ReleaseLease(lease_id=1))
    assert swap(cluster, done) == ["NONE"]
    assert cluster.do("swap_extents", late).error_code == ErrorCode.LEASE_EXPIRED
    assert len(cluster.found("a-1").extents) == 2
    cluster.lease_id = other
    cluster.check()


def _fenced_twice(command: SwapExtents) -> None:
    command.partitions[0].replaced.SetInParent()


def _segment_twice(command: SwapExtents) -> None:
    command.segments.append(command.segments[0])


def _compacted_beyond(command: SwapExtents) -> None:
    command.partitions[0].compacted_to = command.partitions[0].swap.end_offset + 1


def _expired_beyond(command: SwapExtents) -> None:
    command.partitions[0].log_start_offset = command.partitions[0].swap.end_offset + 1


def _expired_and_kept(command: SwapExtents) -> None:
    command.partitions[0].log_start_offset = 1


def _another_segment(command: SwapExtents) -> None:
    command.partitions[0].swap.extents.sequences[0] += 1000


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_fenced_twice, "or their digest"),
        (_segment_twice, "each segment only once"),
        (_compacted_beyond, "compacted_to must not"),
        (_expired_beyond, "log_start_offset must not"),
        (_expired_and_kept, "the new extents must be in order"),
        (_another_segment, "segments that the swap names"),
    ],
)
def test_a_command_that_contradicts_itself_is_refused_whole(
    damage: Callable[[SwapExtents], None], words: str
) -> None:
    cluster = run(TWO)
    command = swap_of(cluster, *plan(cluster, "a-0", "a-1").ranges)
    damage(command)
    failure = cluster.do("swap_extents", command)
    assert failure.error_code == ErrorCode.INVALID_REQUEST
    assert words in failure.message


def test_an_unknown_partition_is_told_alone() -> None:
    cluster = Cluster()
    cluster.create("a")
    wanted = SwapPartition(partition=cluster.partition("b-0"), fence=b"x" * 16)
    assert swap(cluster, SwapExtents(partitions=[wanted])) == ["UNKNOWN_TOPIC_OR_PARTITION"]
