"""Tests agents and leases, and their entries in ClusterDelta."""

from lacuna.controlplane import machine
from lacuna.controlplane.shared.batches import commit_of, verdicts_of
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.settings import LEASE_DURATION_MS
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta, RegisterAgent, ReleaseLease, RenewLease
from lacuna.controlplane.v1.log_pb2 import SegmentId
from tests.controlplane.verbs.cluster import Cluster, add_batch


def _agents(cluster: Cluster) -> list[list[int]]:
    changes = cluster.state.take_changes()
    assert all(isinstance(change, ClusterDelta) for change in changes)
    return [
        [agent.node_id for agent in change.agents]
        for change in changes
        if isinstance(change, ClusterDelta) and change.has_agents
    ]


def _renew(cluster: Cluster, lease_id: int) -> int:
    code: int = cluster.do("renew_lease", RenewLease(lease_id=lease_id)).error_code
    return code


def test_one_address_has_one_node_id_for_ever_and_each_registration_a_lease() -> None:
    cluster = Cluster(agents=0)
    answers = [
        cluster.do("register_agent", RegisterAgent(host=host, port=port, zone="z"))
        for host, port in [("a", 1), ("a", 1), ("b", 1), ("a", 2)]
    ]
    assert [answer.node_id for answer in answers] == [1, 1, 2, 3]
    assert [answer.lease_id for answer in answers] == [1, 2, 3, 4]
    assert {answer.lease_duration_ms for answer in answers} == {LEASE_DURATION_MS}
    assert {answer.cluster_id for answer in answers} == {"cluster"}
    assert _agents(cluster) == [[1], [1, 2], [1, 2, 3]]
    cluster.do("release_lease", ReleaseLease(lease_id=1))
    assert _agents(cluster) == []  # the other worker still lives
    cluster.do("release_lease", ReleaseLease(lease_id=2))
    assert _agents(cluster) == [[2, 3]]
    assert cluster.do("release_lease", ReleaseLease(lease_id=2)).error_code == (
        ErrorCode.LEASE_EXPIRED
    )
    again = cluster.do("register_agent", RegisterAgent(host="a", port=1, zone="other"))
    assert (again.node_id, again.lease_id) == (1, 5)
    snapshot = cluster.state.cluster_snapshot()
    assert [(agent.node_id, agent.zone) for agent in snapshot.agents] == [
        (1, "other"),
        (2, "z"),
        (3, "z"),
    ]
    assert snapshot.is_snapshot
    assert snapshot.cluster_id == "cluster"
    cluster.check()


def test_a_lease_that_is_not_renewed_ends_and_never_comes_back() -> None:
    cluster = Cluster(agents=2)
    assert cluster.tick() == []
    assert cluster.tick(LEASE_DURATION_MS - 1) == []
    assert _renew(cluster, 2) == ErrorCode.NONE
    assert cluster.tick(1) == ["leases_ended"]
    assert _renew(cluster, 1) == ErrorCode.LEASE_EXPIRED
    assert cluster.do("release_lease", ReleaseLease(lease_id=1)).error_code == (
        ErrorCode.LEASE_EXPIRED
    )
    assert cluster.tick(LEASE_DURATION_MS - 1) == ["leases_ended"]
    assert cluster.state.leases == {}
    cluster.check()


def test_after_a_restart_every_lease_has_its_full_duration() -> None:
    cluster = Cluster()
    cluster.tick()
    cluster.tick(LEASE_DURATION_MS - 1)
    cluster.state = machine.restore((machine.snapshot(cluster.state),))
    assert cluster.tick(LEASE_DURATION_MS) == []
    assert cluster.tick(LEASE_DURATION_MS - 1) == []
    assert cluster.tick(1) == ["leases_ended"]


def test_a_commit_under_an_ended_lease_changes_nothing() -> None:
    cluster = Cluster()
    cluster.create("a")
    assert cluster.put("a-0") == 0
    cluster.do("release_lease", ReleaseLease(lease_id=1))
    before = machine.snapshot(cluster.state)
    assert cluster.put("a-0") == "LEASE_EXPIRED"
    assert machine.snapshot(cluster.state) == before


def test_a_commit_again_gets_the_same_verdicts_and_an_old_one_an_error() -> None:
    cluster = Cluster()
    cluster.create("a")
    given = cluster.slice("a-0")
    add_batch(given, count=3)
    unknown = cluster.slice("nowhere-0")
    command = commit_of(SegmentId(lease_id=1, sequence=1), 1000, [given, unknown])
    first = cluster.do("commit_segment", command)
    assert verdicts_of(first)[1].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    cluster.sequence = 1
    for _ in range(63):
        cluster.put("a-0")
    assert cluster.do("commit_segment", command) == first
    cluster.state = machine.restore((machine.snapshot(cluster.state),))
    assert cluster.do("commit_segment", command) == first
    cluster.put("a-0")
    before = machine.snapshot(cluster.state)
    assert cluster.do("commit_segment", command).error_code == ErrorCode.INVALID_REQUEST
    assert machine.snapshot(cluster.state) == before
    cluster.check()


def test_an_agent_without_an_address_is_refused() -> None:
    cluster = Cluster()
    for host, port in [("", 9092), ("h", 0), ("h", 65536)]:
        failure = cluster.do("register_agent", RegisterAgent(host=host, port=port))
        assert failure.error_code == ErrorCode.INVALID_REQUEST
        assert "host and port" in failure.message
