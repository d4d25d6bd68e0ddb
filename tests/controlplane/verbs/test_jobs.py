"""Tests leases and read pins of jobs, which write and read but serve no client."""

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
)
from tests.controlplane.verbs.cluster import Cluster, add_batch
from tests.controlplane.verbs.collecting import collect, collection
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
    cluster = Cluster()
    cluster.create("a")
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
    cluster = Cluster()
    cluster.create("a")
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
    """A renewal that arrived in time but waited in a socket is decided before that tick."""
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
