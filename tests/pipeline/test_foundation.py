"""Tests the way from a cluster's data folder to the checked bytes of committed records."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lacuna.logstore.records.batch import read_batches
from lacuna.pipeline.control import ControlPlane
from lacuna.pipeline.errors import DamagedDataError, DataLossError, PipelineError
from lacuna.pipeline.loading import load_blocks
from lacuna.pipeline.location import find_cluster
from lacuna.pipeline.stores import check_store, shared_store
from lacuna.testing import Cluster

pytestmark = pytest.mark.parametrize("cluster", ["directory", "moto"], indirect=True)

_TRANSACTIONS = [
    (True, [(b"a", b"1"), (b"b", b"2")]),
    (False, [(b"c", b"x" * 100)] * 50),
    (True, [(b"d", None)]),
    (False, [(b"e", b"y")]),
]


def test_s14_the_pieces_of_a_partition_hold_its_committed_records(
    cluster: Cluster, transact: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests rules S14 and S16."""
    from lacuna.operating.moto import CREDENTIALS

    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    topic = cluster.create_topic("foundation")
    written = transact(cluster, topic, _TRANSACTIONS)
    location = find_cluster(data=str(cluster.data))
    assert location.store == cluster.store_url
    with ControlPlane(location.require_control()) as control:
        topic_id = control.topics()[topic].topic_id
        (log,) = control.partition_logs([(topic_id, 0)])
        assert check_store(location.store, control.cluster_id) == control.cluster_id
        cluster_id = control.cluster_id
    assert log.log_start_offset == 0
    assert log.last_stable_offset == log.high_watermark > 53
    store = shared_store(location.store)
    before = store.metrics.bytes_read
    found = {
        record.offset: (record.key, record.value)
        for block in load_blocks(store, cluster_id, log.pieces(0, log.last_stable_offset))
        for batch in read_batches(block.data)
        if not batch.header.is_control
        for record in batch.records()
    }
    assert found == written.committed  # type: ignore[attr-defined]
    assert store.metrics.bytes_read - before < 1000  # the aborted ones were not read


def test_errors_name_the_object(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.create_topic("errors")
    with ControlPlane(find_cluster(data=str(cluster.data)).require_control()) as control:
        (log,) = control.partition_logs([(control.topics()[topic].topic_id, 0)])
        assert list(log.pieces(0, 1 << 60)) == []
    with pytest.raises(PipelineError, match="no cluster is running on the data folder"):
        find_cluster(data=str(tmp_path))
    with pytest.raises(PipelineError, match="no bucket is named"):
        find_cluster(control="127.0.0.1:1", environment={})
    with pytest.raises(PipelineError, match="there is no folder"):
        check_store(f"file://{tmp_path}/nothing")
    with pytest.raises(PipelineError, match="there is no cluster in the bucket"):
        check_store(f"file://{tmp_path}")
    assert issubclass(DamagedDataError, PipelineError)
    assert issubclass(DataLossError, PipelineError)
