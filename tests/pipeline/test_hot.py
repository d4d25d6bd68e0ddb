"""Tests that jobs read the newest records from the journal, and that `lacuna verify` checks them there."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lacuna.agent.hot import is_hot_key
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.controlplane.journal.kinds.sqlite import JOURNAL_NAME
from lacuna.controlplane.service import RunningControlPlane
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import HotRead, HotSegment
from lacuna.logstore.objects import (
    MemoryStore,
    ObjectStore,
    StoreMisconfiguredError,
    open_store,
)
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.segments import SegmentId, parse_segment_key, segment_key
from lacuna.logstore.segments.hot import hot_lease
from lacuna.logstore.segments.paths import key_in_lease
from lacuna.operating.losses import accept_loss
from lacuna.pipeline.audit import AuditOptions, Kind, Report, audit
from lacuna.pipeline.compaction.job import Compaction
from lacuna.pipeline.compaction.settings import CompactionSettings
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.errors import PipelineError, StaleMetadataError
from lacuna.pipeline.export.job import ExportSettings
from lacuna.pipeline.export.report import TopicReport
from lacuna.pipeline.export.running import export_topics
from lacuna.pipeline.hot import HotCopy, HotKey, put_into, with_copies
from lacuna.pipeline.location import ClusterLocation, find_cluster
from lacuna.pipeline.stores import shared_store
from lacuna.pipeline.workers import Workers
from lacuna.testing import Cluster
from tests.doubles.keys import some_keys
from tests.pipeline.audit.conftest import PARTS
from tests.pipeline.conftest import publish_snapshot, transact
from tests.pipeline.reading.conftest import Planned, options_of

HOT = replace(PARTS, produce=ProduceSettings(hot_bytes=65_536, hot_copy_interval_ms=3_600_000))
LATER_MS = 600_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster that neither merges nor collects on its own."""
    with Cluster(parts=HOT) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """A topic with three transactions in the journal; the second one is aborted."""
    name = cluster.create_topic("t")
    transact(cluster, name, [(each, [(b"k", b"v"), (b"l", b"w")]) for each in (True, False, True)])
    assert segments(cluster) == []
    return name


def location_of(cluster: Cluster) -> ClusterLocation:
    return find_cluster(data=str(cluster.data))


def segments(cluster: Cluster) -> list[str]:
    return [i.key for i in shared_store(cluster.store_url).list() if i.key.endswith(".seg")]


def verify(cluster: Cluster, **options: Any) -> Report:
    return audit(location_of(cluster), AuditOptions(**options), None)


def merge(cluster: Cluster) -> None:
    for agent in cluster.embedded.agents:
        assert agent.housekeeping is not None
        cluster.run(agent.housekeeping.merge())


def damage(cluster: Cluster, statement: str) -> None:
    """Change the journal's rows for hot segments while no process holds them in memory."""
    cluster.kill()
    with sqlite3.connect(cluster.data / JOURNAL_NAME) as connection:
        assert connection.execute(statement).rowcount == 1
    connection.close()
    cluster.restart()


def test_a_batch_reads_committed_records_alone_and_copies_only_these(
    cluster: Cluster, topic: str
) -> None:
    assert Planned(options_of(cluster, topic), []).offsets() == [0, 1, 4, 5]
    copies = segments(cluster)
    assert len(copies) == 2
    assert all(map(is_hot_key, copies))
    everything = options_of(cluster, topic, isolation="read_uncommitted")
    assert Planned(everything, []).offsets() == [0, 1, 2, 3, 4, 5]
    assert len(segments(cluster)) == 3


def test_a_batch_from_a_time_reads_the_journal_to_find_the_offset(
    cluster: Cluster, topic: str
) -> None:
    since = options_of(cluster, topic, startingTimestamp="1")
    assert Planned(since, []).offsets() == [0, 1, 4, 5]


def test_an_export_writes_the_newest_records(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    settings = ExportSettings(to=str(tmp_path))
    (report,) = export_topics(Workers(), location_of(cluster), settings, [topic])
    assert isinstance(report, TopicReport)
    assert report.records == 4


@pytest.mark.slow
def test_compaction_rewrites_what_is_in_the_journal(cluster: Cluster, topic: str) -> None:
    location = location_of(cluster)
    with JobClient(location.require_control()) as control:
        settings = CompactionSettings(rewrites_all=True)
        report = Compaction(control, location.store, settings, Workers()).run([topic])
        assert report.total.after.extents == 1
        assert not report.failed
    assert Planned(options_of(cluster, topic), []).offsets() == [0, 1, 4, 5]
    assert verify(cluster).is_sound


def test_published_metadata_needs_no_journal(cluster: Cluster, topic: str) -> None:
    publish_snapshot(cluster)
    merge(cluster)
    cluster.kill()
    stored = {"metadata": "bucket", "store": cluster.store_url, "data": ""}
    assert Planned(options_of(cluster, topic, **stored), []).offsets() == [0, 1, 4, 5]
    assert verify(cluster, metadata="bucket").is_sound
    cluster.restart()


def test_merging_between_the_look_and_the_read_costs_a_second_look(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segments are dropped 10 s after the merge, whatever the job has pinned."""
    ask = JobClient.partition_logs
    looks = []

    def asking(self: JobClient, keys: Any) -> Any:
        logs = ask(self, keys)
        looks.append(len(logs[0].extents))
        if len(looks) == 1:
            merge(cluster)
            cluster.advance(60_000)
            drop_all(cluster)
        return logs

    monkeypatch.setattr(JobClient, "partition_logs", asking)
    assert Planned(options_of(cluster, topic), []).offsets() == [0, 1, 4, 5]
    assert looks == [3, 1]
    assert not any(map(is_hot_key, segments(cluster)))


def drop_all(cluster: Cluster) -> None:
    """Let the control plane drop the segments that were merged."""

    async def drop() -> None:
        running = cluster.embedded.running
        assert isinstance(running, RunningControlPlane)
        hot = running.runtime._hot
        if hot._dropping is None:
            runtime = running.runtime
            hot.drop_some(runtime.state, runtime.now_ms(), decided=0, durable=0)
        if hot._dropping is not None:
            await hot._dropping
        assert not hot._journal.hot

    cluster.run(drop())


def test_collection_deletes_the_copies(cluster: Cluster, topic: str) -> None:
    assert len(Planned(options_of(cluster, topic, pin="0s"), []).offsets()) == 4
    merge(cluster)
    assert sum(map(is_hot_key, segments(cluster))) == 2
    cluster.advance(LATER_MS)
    for agent in cluster.embedded.agents:
        assert agent.housekeeping is not None
        cluster.run(agent.housekeeping.collect())
    (left,) = segments(cluster)
    assert not is_hot_key(left)
    assert verify(cluster).findings == []


def test_copies_are_no_sign_of_a_loss(cluster: Cluster, topic: str) -> None:
    """The leases in the copies' keys are higher than any that was issued."""
    Planned(options_of(cluster, topic), [])
    cluster_id, copy = parse_segment_key(segments(cluster)[0])
    forgotten = segment_key(cluster_id, SegmentId(copy.lease_id, copy.sequence + 100))
    shared_store(cluster.store_url).put(forgotten, [b"of a segment that was collected"])
    assert verify(cluster, reads_objects=False).findings == []
    cluster.kill()
    with closing(open_store(cluster.store_url)) as store:
        assert accept_loss(str(cluster.data / JOURNAL_NAME), store) is None
    cluster.restart()


def test_verify_reads_the_journal_and_writes_nothing(cluster: Cluster, topic: str) -> None:
    report = verify(cluster)
    assert report.findings == []
    (found,) = report.partitions
    assert (found.committed_records, found.aborted_records) == (4, 2)
    assert verify(cluster, reads_objects=False).findings == []
    assert segments(cluster) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE hot SET bytes = zeroblob(length(bytes)) WHERE id = (SELECT min(id) FROM hot)",
        "DELETE FROM hot WHERE id = (SELECT min(id) FROM hot)",
    ],
    ids=["damaged", "lost"],
)
def test_verify_names_the_records_that_the_journal_lost(
    cluster: Cluster, topic: str, statement: str
) -> None:
    damage(cluster, statement)
    for reads_objects in (True, False):
        (finding,) = verify(cluster, reads_objects=reads_objects).findings
        assert finding.kind is Kind.MISSING
        assert is_hot_key(finding.key)
        assert "nor intact in the control plane's journal" in finding.reason
        assert [(each.first_offset, each.end_offset) for each in finding.hits] == [(0, 2)]
    tolerant = options_of(cluster, topic, failOnDataLoss="false")
    assert Planned(tolerant, []).offsets() == [4, 5]
    with pytest.raises(PipelineError, match="is gone: it is lost"):
        Planned(options_of(cluster, topic), []).rows()


@pytest.mark.slow
def test_a_copy_in_the_bucket_is_no_stray_and_is_checked(cluster: Cluster, topic: str) -> None:
    Planned(options_of(cluster, topic), [])
    assert verify(cluster).findings == []
    store, key = shared_store(cluster.store_url), segments(cluster)[0]
    whole = store.get_all(key)
    for data in (whole[:100] + bytes([whole[100] ^ 1]) + whole[101:], whole):
        store.delete([key])
        store.put(key, [data])
        findings = verify(cluster).findings
        assert {each.key for each in findings} == (set() if data is whole else {key})
    merge(cluster)
    # Nothing refers to the copies any more, and they wait for collection.
    assert verify(cluster).findings == []


# Without a cluster.


class Journal:
    """The journal as seen by jobs. `call` answers ReadHot."""

    cluster_id = "c"

    def __init__(self, segments: dict[HotKey, HotSegment]) -> None:
        self.segments = segments
        self.asked: list[HotKey] = []

    def call(self, command: Command) -> Reply:
        keys = [(each.lease_id, each.sequence) for each in command.read_hot.segments]
        self.asked += keys
        gone = HotSegment(is_gone=True)
        return Reply(hot_read=HotRead(segments=[self.segments.get(key, gone) for key in keys]))


KEYS = [(hot_lease(1), number) for number in range(200)]


def copied(journal: Journal, *plans: list[HotKey]) -> tuple[list[HotKey], dict[str, bytes]]:
    """Make copies for a job that reads these plans one after another. Return the plan that was used, and the copies."""
    found: dict[str, bytes] = {}
    coming = iter(plans)
    plan = with_copies(
        journal, lambda copy: found.update([copy]), lambda: next(coming), lambda plan: plan
    )
    return plan, found


def test_each_segment_is_copied_once() -> None:
    journal = Journal({key: HotSegment(data=b"%d" % key[1]) for key in KEYS})
    plan, found = copied(journal, KEYS + KEYS)
    assert plan == KEYS + KEYS
    assert found == {key_in_lease("c", *key): b"%d" % key[1] for key in KEYS}
    assert journal.asked == KEYS


def test_what_is_gone_and_still_named_is_left_to_its_reader() -> None:
    journal = Journal({KEYS[1]: HotSegment(is_damaged=True), KEYS[2]: HotSegment(data=b"2")})
    plan, found = copied(journal, KEYS[:3], KEYS[:3])
    assert plan == KEYS[:3]
    assert found == {key_in_lease("c", *KEYS[2]): b"2"}
    assert journal.asked == KEYS[:3]


def test_a_job_that_is_always_late_gives_up() -> None:
    with pytest.raises(StaleMetadataError, match="faster than this job"):
        copied(Journal({}), *([key] for key in KEYS))


class Refusing(MemoryStore):
    """A bucket that rejects every PUT."""

    def put(self, key: str, parts: Any) -> None:
        raise StoreMisconfiguredError("the bucket rejects the credentials")


def test_a_job_that_may_not_write_learns_what_to_do() -> None:
    with pytest.raises(PipelineError, match=r"rejects the credentials\. Allow the job to put"):
        put_into(Refusing())(HotCopy("c/x", b"data"))


def test_copies_of_encrypted_segments_are_put_as_they_are() -> None:
    beneath, from_ = MemoryStore(), MemoryStore()
    keys = some_keys()
    EncryptedStore(from_, keys).put("c/x", [b"plaintext"])
    store: ObjectStore = EncryptedStore(beneath, keys)
    sealed = bytes(from_.get_all("c/x"))
    for _ in range(2):  # another job has put it
        put_into(store)(HotCopy("c/x", sealed))
    assert beneath.get_all("c/x") == sealed
    assert store.get_all("c/x") == b"plaintext"
