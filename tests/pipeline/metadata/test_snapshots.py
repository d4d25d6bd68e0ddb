"""Tests metadata snapshots in the bucket: their content, validity and errors."""

import subprocess
import time
from pathlib import Path

import pytest

from lacuna.cli.metadata import publish
from lacuna.cli.options import JobPlace
from lacuna.controlplane.v1.cluster_pb2 import DeleteTopics
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.logstore.objects import DirectoryStore
from lacuna.logstore.objects.store import wall_clock_ms
from lacuna.logstore.segments import metadata_prefix
from lacuna.operating.moto import CREDENTIALS
from lacuna.pipeline.errors import DamagedDataError, PipelineError, StaleMetadataError
from lacuna.pipeline.metadata.publish import publish_metadata
from lacuna.pipeline.metadata.stored import StoredMetadata
from lacuna.pipeline.stores import shared_store
from lacuna.testing import Cluster
from tests.pipeline.conftest import control_of, housekeeping_of, transact

HOUR_MS = 3_600_000


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["directory", "moto"], indirect=True)
def test_a_snapshot_says_what_the_control_plane_says(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    topic = cluster.create_topic("snapshot", partitions=3)
    transact(cluster, topic, [(True, [(b"k", b"v")]), (False, [(b"k", b"w")] * 20)], 1)
    with control_of(cluster) as control:
        done = publish_metadata(
            control, shared_store(cluster.store_url), keep_ms=HOUR_MS, now_ms=wall_clock_ms()
        )
        topic_id = control.topics()[topic].topic_id
        expected = control.partition_logs([(topic_id, partition) for partition in range(3)])
    assert done.partitions >= 3
    stored = StoredMetadata(cluster.store_url)
    assert stored.topics()[topic].partition_count == 3
    found = stored.partition_logs([(topic_id, partition) for partition in range(3)])
    for log, wanted in zip(found, expected, strict=True):
        assert log.topic == topic
        assert (log.version, log.last_stable_offset) == (wanted.version, wanted.last_stable_offset)
        assert log.extents.columns() == wanted.extents.columns()
        assert log.dead.pairs() == wanted.dead.pairs()
    assert [
        found[1].extents.transactions[start] > 0
        for start, _ in found[1].slices(0, 100, is_committed=True)
    ] == [True]
    with pytest.raises(StaleMetadataError, match="is not in the metadata snapshot"):
        stored.partition_logs([(b"\1" * 16, 0)])


def test_what_lacuna_never_wrote_stands_in_nobodys_way(lacuna_private_cluster: Cluster) -> None:
    """A foreign object next to the snapshots is skipped and kept."""
    cluster = lacuna_private_cluster
    store = shared_store(cluster.store_url)
    with control_of(cluster) as control:
        stray = metadata_prefix(control.cluster_id) + "notes.txt"
        store.put(stray, [b"not ours"])
        publish_metadata(control, store, keep_ms=HOUR_MS, now_ms=wall_clock_ms())
    assert StoredMetadata(cluster.store_url).topics() == {}
    assert bytes(store.get_all(stray)) == b"not ours"


def test_the_newest_valid_snapshot_counts_and_old_ones_are_removed(
    lacuna_private_cluster: Cluster,
) -> None:
    cluster = lacuna_private_cluster
    cluster.create_topic("early")
    store = shared_store(cluster.store_url)
    now_ms = wall_clock_ms()
    with pytest.raises(PipelineError, match="no metadata snapshot in the bucket: publish one"):
        StoredMetadata(cluster.store_url)
    with control_of(cluster) as control:
        publish_metadata(control, store, keep_ms=1000, now_ms=now_ms - 5000)
        with pytest.raises(PipelineError, match="has expired"):
            StoredMetadata(cluster.store_url)
        first = publish_metadata(control, store, keep_ms=HOUR_MS, now_ms=now_ms)
        assert first.removed == 1
        reader = StoredMetadata(cluster.store_url, lambda: now_ms)
        assert set(reader.topics()) == {"early"}
        cluster.create_topic("late")
        publish_metadata(control, store, keep_ms=HOUR_MS, now_ms=now_ms + 1)
        cluster_id = control.cluster_id
    assert set(reader.topics()) == {"early", "late"}
    assert len({info.key.split("/")[2] for info in store.list(metadata_prefix(cluster_id))}) == 2


def test_nobody_goes_back_to_an_older_snapshot(lacuna_private_cluster: Cluster) -> None:
    """With an older snapshot, a stream would mistake its topics for others or read records again."""
    cluster = lacuna_private_cluster
    store = shared_store(cluster.store_url)
    now_ms = wall_clock_ms()
    with control_of(cluster) as control:
        publish_metadata(control, store, keep_ms=HOUR_MS, now_ms=now_ms - 2000)
        publish_metadata(control, store, keep_ms=3000, now_ms=now_ms - 1000)
    moments = iter([now_ms, now_ms + 5000])
    reader = StoredMetadata(cluster.store_url, lambda: next(moments))
    with pytest.raises(PipelineError, match="has expired"):
        reader.topics()


def test_what_a_valid_snapshot_speaks_of_is_not_collected(lacuna_private_cluster: Cluster) -> None:
    cluster = lacuna_private_cluster
    topic = cluster.create_topic("kept")
    transact(cluster, topic, [(True, [(b"k", b"v")])])
    with control_of(cluster) as control:
        store = shared_store(cluster.store_url)
        publish_metadata(control, store, keep_ms=HOUR_MS, now_ms=wall_clock_ms())
        topic_id = control.topics()[topic].topic_id
        (log,) = control.partition_logs([(topic_id, 0)])
        key = log.piece(0).key(control.cluster_id)
    cluster.run(cluster.embedded.control.call(_delete_topic(topic_id)))
    cluster.advance(20 * 60_000)  # far beyond the grace period
    _collect(cluster)
    assert store.size(key) > 0
    cluster.advance(HOUR_MS)
    _collect(cluster)
    assert key not in {info.key for info in store.list()}


@pytest.mark.slow
def test_each_flipped_byte_is_found(lacuna_private_cluster: Cluster) -> None:
    cluster = lacuna_private_cluster
    cluster.create_topic("flipped", partitions=2)
    with control_of(cluster) as control:
        store = shared_store(cluster.store_url)
        assert isinstance(store, DirectoryStore)
        done = publish_metadata(control, store, keep_ms=HOUR_MS, now_ms=wall_clock_ms())
        topic_id = control.topics()["flipped"].topic_id
        cluster_id = control.cluster_id
    for key in (done.name.index_key(cluster_id), done.name.part_key(cluster_id, 0)):
        (path,) = [each for each in Path(cluster.data / "objects").rglob("*") if _is(each, key)]
        sound = path.read_bytes()
        for position in range(len(sound)):
            path.write_bytes(_flip(sound, position))
            with pytest.raises(DamagedDataError, match=key):
                StoredMetadata(cluster.store_url).partition_logs([(topic_id, 0), (topic_id, 1)])
        path.write_bytes(sound)


def test_the_command_publishes_and_shows(
    lacuna_private_cluster: Cluster, quick_python: str
) -> None:
    cluster = lacuna_private_cluster
    cluster.create_topic("shown", partitions=2)
    run = [quick_python, "-m", "lacuna", "metadata"]
    data = f"--data={cluster.data}"
    published = subprocess.run(
        [*run, "publish", "--keep", "1h", data], capture_output=True, text=True, check=False
    )
    assert published.returncode == 0, published.stderr
    assert "published 2 partitions" in published.stdout
    cluster.stop()
    shown = subprocess.run([*run, "show", data], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "shown\t1\t0\t0" in shown.stdout
    wrong = subprocess.run(
        [*run, "publish", "--keep", "soon", data], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 1
    assert "use a duration such as 30s" in wrong.stderr


@pytest.mark.slow
def test_publishing_goes_on_behind_an_outage(
    lacuna_private_cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = lacuna_private_cluster
    works = [cluster.stop, cluster.start]
    said = ""

    def pause(seconds: float) -> None:
        nonlocal said
        assert seconds == 600
        said += capsys.readouterr().out
        if works:
            works.pop(0)()
        elif said.count("published") > 1:
            raise KeyboardInterrupt
        else:
            time.sleep(0.05)  # the client may not have found it again

    monkeypatch.setattr("lacuna.cli.metadata.sleep", pause)
    monkeypatch.setattr("lacuna.pipeline.control._GIVE_UP_AFTER", 1.0)  # in real time
    with pytest.raises(KeyboardInterrupt):  # which ends the command with 130
        publish(JobPlace(data=cluster.data), keep="1h", watch="10m")
    assert said.count("published") > 1


def _is(path: Path, key: str) -> bool:
    return path.is_file() and str(path).endswith(key)


def _flip(data: bytes, position: int) -> bytes:
    return data[:position] + bytes((data[position] ^ 1,)) + data[position + 1 :]


def _collect(cluster: Cluster) -> None:
    cluster.run(housekeeping_of(cluster).collect())


def _delete_topic(topic_id: bytes) -> Command:
    return Command(delete_topics=DeleteTopics(topic_ids=[topic_id]))
