"""Tests jobs: their leases, plans and swaps."""

from collections.abc import Callable

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.settings import (
    COLLECTION_GRACE_MS,
    LEASE_DURATION_MS,
    LONGEST_JOB_LEASE_MS,
    LONGEST_PIN_MS,
)
from lacuna.controlplane.v1.cluster_pb2 import LeaseOpened, OpenLease, ReleaseLease, RenewLease
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, PinTaken
from lacuna.controlplane.v1.log_pb2 import (
    ConfirmCollection,
    FilterUncommitted,
    PinReads,
    SegmentId,
    SwapExtents,
    SwapPartition,
)
from tests.controlplane.verbs.cluster import Cluster, add_batch, collect, collection
from tests.controlplane.verbs.compacting import plan, swap, swap_of
from tests.controlplane.verbs.script import run

HOUR_MS = 3_600_000


def open_lease(cluster: Cluster, duration_ms: int = 0) -> LeaseOpened:
    answer: LeaseOpened = cluster.do("open_lease", OpenLease(duration_ms=duration_ms))
    return answer


def keep(cluster: Cluster, lease_id: int) -> int:
    code: int = cluster.do("renew_lease", RenewLease(lease_id=lease_id)).error_code
    return code


def give_back(cluster: Cluster, lease_id: int) -> int:
    code: int = cluster.do("release_lease", ReleaseLease(lease_id=lease_id)).error_code
    return code


def test_a_job_has_a_lease_and_no_place_in_metadata() -> None:
    cluster = Cluster()
    cluster.state.take_changes()
    before = cluster.state.cluster_snapshot()
    opened = open_lease(cluster)
    assert (opened.lease_id, opened.lease_duration_ms) == (2, LEASE_DURATION_MS)
    assert opened.cluster_id == "cluster"
    assert cluster.state.cluster_snapshot() == before
    assert cluster.do("release_lease", ReleaseLease(lease_id=2)).error_code == ErrorCode.NONE
    assert cluster.state.take_changes() == []
    assert open_lease(cluster).lease_id == cluster.register() - 1, "no lease id is given twice"
    cluster.check()


def test_a_renewal_is_for_the_duration_of_the_lease() -> None:
    cluster = Cluster(agents=0)
    opened = open_lease(cluster, HOUR_MS)
    assert opened.lease_duration_ms == HOUR_MS
    cluster.tick()
    assert cluster.tick(HOUR_MS - 1) == []
    assert keep(cluster, opened.lease_id) == ErrorCode.NONE
    assert cluster.tick(HOUR_MS - 1) == []
    cluster.check()
    assert cluster.tick(1) == ["leases_ended"]
    assert keep(cluster, opened.lease_id) == ErrorCode.LEASE_EXPIRED
    cluster.check()


def test_after_a_restart_a_job_has_its_full_duration() -> None:
    cluster = Cluster(agents=0)
    open_lease(cluster, HOUR_MS)
    cluster.tick(HOUR_MS - 1)
    cluster.state = machine.restore((machine.snapshot(cluster.state),))
    assert cluster.tick(HOUR_MS) == []
    assert cluster.tick(HOUR_MS - 1) == []
    assert cluster.tick(1) == ["leases_ended"]


@pytest.mark.parametrize("duration_ms", [-1, LONGEST_JOB_LEASE_MS + 1])
def test_a_lease_for_ever_is_refused(duration_ms: int) -> None:
    failure = Cluster().do("open_lease", OpenLease(duration_ms=duration_ms))
    assert failure.error_code == ErrorCode.INVALID_REQUEST
    assert str(LONGEST_JOB_LEASE_MS) in failure.message


def test_a_job_commits_segments_and_what_it_left_behind_is_swept() -> None:
    cluster = run("topic a 1")
    lease_id = open_lease(cluster, HOUR_MS).lease_id
    given = cluster.slice("a-0")
    add_batch(given, count=3)
    verdicts = cluster.commit(given, lease_id=lease_id)
    assert list(verdicts.slices[0].base_offsets) == [0]
    cluster.tick()
    cluster.now_ms += HOUR_MS
    keep(cluster, cluster.lease_id)
    assert cluster.tick() == ["leases_ended"]
    assert cluster.commit(given, lease_id=lease_id).error_code == ErrorCode.LEASE_EXPIRED
    stray = SegmentId(lease_id=lease_id, sequence=99)
    known = SegmentId(lease_id=lease_id, sequence=1)
    command = FilterUncommitted(segments=[stray, known])
    assert list(cluster.do("filter_uncommitted", command).segments) == [stray]
    cluster.now_ms += COLLECTION_GRACE_MS
    assert list(collection(cluster).swept_lease_ids) == [lease_id]
    collect(cluster)
    assert len(cluster.found("a-0").extents) == 1
    cluster.check()


def test_what_is_written_under_a_lease_after_its_sweep_is_swept_later() -> None:
    """A suspended agent's PUT may arrive between the listing of the objects and the confirmation."""
    cluster = run("topic a 1")
    lease_id = open_lease(cluster, HOUR_MS).lease_id
    given = cluster.slice("a-0")
    add_batch(given, count=3)
    cluster.tick()
    cluster.now_ms += HOUR_MS
    keep(cluster, cluster.lease_id)
    cluster.tick()
    cluster.now_ms += COLLECTION_GRACE_MS
    planned = list(collection(cluster).swept_lease_ids)
    assert planned == [lease_id]
    assert cluster.commit(given, lease_id=lease_id).error_code == ErrorCode.LEASE_EXPIRED
    cluster.do("confirm_collection", ConfirmCollection(swept_lease_ids=planned))
    assert list(collection(cluster).swept_lease_ids) == []
    cluster.now_ms += COLLECTION_GRACE_MS
    for use in (None, keep, give_back):
        if use is not None:
            assert use(cluster, lease_id) == ErrorCode.LEASE_EXPIRED
            assert use(cluster, lease_id) == ErrorCode.LEASE_EXPIRED
            cluster.now_ms += COLLECTION_GRACE_MS
        assert list(collection(cluster).swept_lease_ids) == [lease_id]
        collect(cluster)
        assert list(collection(cluster).swept_lease_ids) == []
    cluster.check()


# Pins that go on


def pin(cluster: Cluster, duration_ms: int, pin_id: int = 0) -> tuple[int, int]:
    answer = cluster.do("pin_reads", PinReads(duration_ms=duration_ms, pin_id=pin_id))
    return answer.pin_id, answer.error_code


def test_a_pin_that_goes_on_holds_what_was_alive_at_its_start() -> None:
    cluster = run("topic a 1\nput a-0 x1\nput a-0 x1")
    pin_id, _ = pin(cluster, HOUR_MS)
    cluster.now_ms += 1
    run("delete-records a-0 1 -> 1", cluster)
    for _ in range(3):
        cluster.now_ms += HOUR_MS - 2
        assert pin(cluster, HOUR_MS, pin_id) == (pin_id, ErrorCode.NONE)
        assert collect(cluster) == []
        cluster.state = machine.restore((machine.snapshot(cluster.state),))
    cluster.check()
    assert collect(cluster) == []
    assert cluster.tick(HOUR_MS) == ["pins_ended"]
    assert collect(cluster) == [1]


def test_a_pin_does_not_become_shorter() -> None:
    cluster = run("topic a 1\nput a-0 x1")
    pin_id, _ = pin(cluster, HOUR_MS)
    assert pin(cluster, 1, pin_id) == (pin_id, ErrorCode.NONE)
    assert cluster.tick(HOUR_MS - 1).count("pins_ended") == 0
    assert cluster.tick(1).count("pins_ended") == 1


def test_a_pin_holds_until_the_tick_that_ends_it() -> None:
    """A renewal that arrived in time but waited in a socket is handled before that tick."""
    cluster = run("topic a 1\nput a-0 x1")
    pin_id, _ = pin(cluster, HOUR_MS)
    run("delete-records a-0 1 -> 1", cluster)
    cluster.now_ms += HOUR_MS
    assert collect(cluster) == []
    assert pin(cluster, HOUR_MS, pin_id) == (pin_id, ErrorCode.NONE)
    assert cluster.tick() == []


def test_a_pin_that_has_ended_does_not_come_back() -> None:
    cluster = Cluster()
    pin_id, _ = pin(cluster, HOUR_MS)
    assert cluster.tick(HOUR_MS) == ["pins_ended"]
    assert pin(cluster, HOUR_MS, pin_id) == (pin_id, ErrorCode.PIN_EXPIRED)
    assert pin(cluster, HOUR_MS, 77) == (77, ErrorCode.PIN_EXPIRED)
    failure = cluster.do("pin_reads", PinReads(duration_ms=LONGEST_PIN_MS + 1, pin_id=pin_id))
    assert failure.error_code == ErrorCode.INVALID_REQUEST
    cluster.check()


def test_a_pin_of_an_older_journal_goes_on() -> None:
    cluster = Cluster()
    taken = PinTaken(pin_id=1, ends_ms=cluster.now_ms + 10)
    machine.replay(cluster.state, JournalRecord(now_ms=cluster.now_ms, pin_taken=taken))
    assert pin(cluster, HOUR_MS, 1) == (1, ErrorCode.NONE)
    assert cluster.state.segments.pins[1].starts_ms == cluster.now_ms


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
    """A skewed partition is split among tasks, each of which writes its own segments."""
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
    """The retry changes nothing, and a driver that lost the reply needs the answer."""
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
    cluster = run("topic a 1")
    wanted = SwapPartition(partition=cluster.partition("b-0"), fence=b"x" * 16)
    assert swap(cluster, SwapExtents(partitions=[wanted])) == ["UNKNOWN_TOPIC_OR_PARTITION"]
