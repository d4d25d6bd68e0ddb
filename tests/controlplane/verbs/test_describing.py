"""Tests DescribeCluster and DescribeMerges: the agents' reports and the rewritten objects."""

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.state.settings import COLLECTION_GRACE_MS, MAX_REPORT_BYTES
from lacuna.controlplane.v1.cluster_pb2 import (
    AgentReport,
    ClusterDescribed,
    DeleteTopics,
    DescribeCluster,
    ImportReport,
    OpenLease,
    RegisterAgent,
    ReleaseLease,
    RenewLease,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import DescribeMerges, MergesDescribed
from lacuna.controlplane.verbs import agents, describing
from tests.controlplane.verbs.cluster import Cluster, collect
from tests.controlplane.verbs.script import run
from tests.controlplane.verbs.test_merging import MIXED, merge


def _described(cluster: Cluster) -> ClusterDescribed:
    found: ClusterDescribed = cluster.do("describe_cluster", DescribeCluster())
    return found


def _merges(cluster: Cluster, *topic_ids: bytes) -> MergesDescribed:
    found: MergesDescribed = cluster.do("describe_merges", DescribeMerges(topic_ids=topic_ids))
    return found


def _report(cluster: Cluster, lease_id: int, report: AgentReport) -> None:
    cluster.do("renew_lease", RenewLease(lease_id=lease_id, report=report))


def test_each_worker_has_the_report_that_it_sent_last() -> None:
    cluster = Cluster(agents=0)
    for _ in range(2):  # two workers of one agent
        cluster.do("register_agent", RegisterAgent(host="a", port=1))
    records = len(cluster.journal)
    _report(cluster, 2, AgentReport(connections=1))
    _report(cluster, 2, AgentReport(connections=7))
    assert len(cluster.journal) == records
    one, two = _described(cluster).agents
    assert [one.agent.node_id, two.agent.node_id] == [1, 1]
    assert not one.HasField("report")
    assert two.report == AgentReport(connections=7)
    cluster.do("release_lease", ReleaseLease(lease_id=2))
    assert [each.lease_id for each in _described(cluster).agents] == [1]
    assert cluster.state.reports == {}


def test_a_report_that_is_too_large_is_dropped_and_the_lease_renewed() -> None:
    cluster = Cluster()
    large = AgentReport()
    large.merges.last_failure = "x" * MAX_REPORT_BYTES
    command = RenewLease(lease_id=cluster.lease_id, report=large)
    assert cluster.do("renew_lease", command).error_code == 0
    assert not _described(cluster).agents[0].HasField("report")


def test_importers_of_a_source_learn_of_each_other_when_they_report() -> None:
    cluster = Cluster(agents=0)
    leases = [cluster.do("open_lease", OpenLease()).lease_id for _ in range(3)]
    records = len(cluster.journal)

    def report(
        lease_id: int, source: str, lag: int, topics: str = "", session: int = 7
    ) -> list[int]:
        told = ImportReport(source=source, lag=lag, topics=topics)
        command = Command(renew_lease=RenewLease(lease_id=lease_id, import_report=told))
        context = cluster.context()._replace(session=session)
        reply = machine.handle(cluster.state, command, context).reply
        assert reply is not None
        return list(reply.lease_renewed.workers)

    one, two, other = leases
    assert report(two, "a", 1) == [two]
    assert report(one, "a", 2) == [one, two]
    assert report(other, "a", 3, "logs-*") == [other], "it copies other topics"
    assert report(other, "b", 3) == [other]
    assert report(two, "a", 4) == [one, two]
    assert len(cluster.journal) == records
    found = [(each.lease_id, each.report.lag) for each in _described(cluster).importers]
    assert found == [(one, 2), (two, 4), (other, 3)]
    cluster.do("release_lease", ReleaseLease(lease_id=one))
    assert report(two, "a", 5) == [two]
    assert report(other, "a", 5, session=8) == [two, other]
    assert report(two, "a", 6, session=9) == [two, other]
    for ended, left in ((7, [two, other]), (8, [two]), (9, [])):
        machine.end_session(cluster.state, ended, cluster.now_ms)
        assert [each.lease_id for each in _described(cluster).importers] == left


def test_importers_beyond_the_bound_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "MOST_IMPORTERS", 1)
    cluster = Cluster(agents=0)
    first, second = (cluster.do("open_lease", OpenLease()).lease_id for _ in range(2))
    for lease_id in (first, second, first):
        renewal = RenewLease(lease_id=lease_id, import_report=ImportReport(source="a"))
        assert list(cluster.do("renew_lease", renewal).workers) == [first]


def test_sums_over_the_partitions() -> None:
    cluster = run(MIXED)
    found = _described(cluster)
    assert (found.extents, found.objects, found.dead_ranges) == (6, 6, 1)
    assert found.partitions_blocked == 1  # its transaction still goes on
    cluster.now_ms += 500
    assert _described(cluster).oldest_transaction_ms == 500


def test_what_waits_is_told_and_then_what_was_reclaimed() -> None:
    cluster = run(MIXED)
    topic_id = cluster.state.topics_by_name["a"].topic_id
    cluster.tick()
    merge(cluster, small_bytes=1, min_extents=99)
    found = _merges(cluster, topic_id)
    assert found.since_ms == cluster.now_ms
    assert found.merged.swaps == 1
    (topic,) = found.topics
    assert topic.merged.aborted_offsets == 3
    assert topic.merged.bytes_before - topic.merged.bytes_after == 100
    (told,) = found.runs
    assert (told.partitions, told.refused, told.is_compaction) == (1, 0, False)
    assert told.rewritten == topic.merged == found.merged
    assert found.objects_replaced == 1
    cluster.now_ms += COLLECTION_GRACE_MS
    assert len(collect(cluster)) == 1
    found = _merges(cluster)
    assert (found.objects_deleted, found.bytes_deleted, found.objects_replaced) == (1, 1 << 40, 0)
    cluster.do("delete_topics", DeleteTopics(topic_ids=[topic_id]))
    assert not _merges(cluster, topic_id).topics
    assert cluster.state.rewriting.topics == {}


def test_aborted_records_and_small_extents_wait() -> None:
    cluster = run(MIXED)
    cluster.state.rewriting.small_bytes = 1000
    (topic,) = _merges(cluster, cluster.state.topics_by_name["a"].topic_id, b"missing").topics
    assert (topic.small_extents, topic.small_bytes) == (4, 400)
    assert (topic.aborted_offsets, topic.aborted_bytes) == (3, 100)


def test_what_is_too_much_to_look_at_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = run("""
        topic a 3
        put a-0 x2                             -> 0
        put a-1 x2                             -> 0
    """)
    monkeypatch.setattr(describing, "DESCRIBED_EXTENTS", 2)
    cluster.state.rewriting.small_bytes = 1000
    (topic,) = _merges(cluster, cluster.state.topics_by_name["a"].topic_id).topics
    assert (topic.small_extents, topic.partitions_left_out) == (1, 2)
