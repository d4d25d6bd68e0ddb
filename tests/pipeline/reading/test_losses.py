"""What a stream does with offsets that are no longer what they were, and with mistakes while it waits."""

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from lacuna.controlplane.client.errors import ControlPlaneUnavailable
from lacuna.pipeline.control import ControlPlane
from lacuna.pipeline.datasource import pinning
from lacuna.pipeline.datasource import stream as stream_module
from lacuna.pipeline.datasource.connection import Connection
from lacuna.pipeline.datasource.options import Options
from lacuna.pipeline.datasource.schema import RECORD_COLUMNS
from lacuna.pipeline.datasource.stream import StreamReader
from lacuna.pipeline.errors import DataLossError
from lacuna.pipeline.location import find_cluster
from lacuna.pipeline.metadata import CONTROL, MetadataSource
from lacuna.testing import Cluster
from tests.pipeline.reading.conftest import Planned, options_of


@pytest.mark.parametrize(
    ("limit", "ends"),
    [
        pytest.param(ReadAllAvailable(), [3, 4], id="all"),
        pytest.param(ReadMaxRows(2), [2, 3, 4], id="limited"),
    ],
)
def test_a_topic_that_was_made_anew(
    cluster: Cluster, transact: Any, limit: ReadLimit, ends: list[int]
) -> None:
    """Its offsets begin anew, at fewer than the query has read: loss, and then all that it holds is read."""
    topic, name = f"anew-{len(ends)}", f"anew-{len(ends)}-0"
    cluster.create_topic(topic)
    transact(cluster, topic, [(True, [(b"k", b"old")] * 5)])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics([topic])[topic].result(60)
    cluster.create_topic(topic)
    written = transact(cluster, topic, [(True, [(b"k", b"%d" % n) for n in range(3)])])
    start = {topic: {"0": 5}}

    failing = StreamReader(Options(options_of(cluster, topic)), RECORD_COLUMNS)
    try:
        with pytest.raises(
            DataLossError, match=f"{name} ends at offset 3, but the query has read up"
        ):
            failing.latestOffset(start, limit)
    finally:
        failing.stop()

    options = options_of(cluster, topic, failOnDataLoss="false")
    reader = StreamReader(Options(options), RECORD_COLUMNS)
    found: list[bytes] = []
    try:
        for end in ends:
            if end == 4:
                more = transact(cluster, topic, [(True, [(b"k", b"3")])])
            assert reader.latestOffset(start, limit) == {topic: {"0": end}}
            for task in reader.partitions(start, {topic: {"0": end}}):
                for batch in reader.read(task):
                    found += batch.column("value").to_pylist()
            start = {topic: {"0": end}}
    finally:
        reader.stop()
    assert found == [value for _, value in (*written.committed.values(), *more.committed.values())]


def _deleted_behind_the_look(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, topic: str) -> None:
    """The topic is deleted once it was chosen, before its logs are asked for."""
    ask = ControlPlane.partition_logs
    left = [topic]

    def asking(self: ControlPlane, keys: Any) -> Any:
        while left:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            admin.delete_topics([topic])[left.pop()].result(60)
        return ask(self, keys)

    monkeypatch.setattr(ControlPlane, "partition_logs", asking)


def test_a_topic_that_is_deleted_while_a_batch_is_planned(
    cluster: Cluster, transact: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is as one that was deleted before."""
    for topic in ("planned-1", "planned-2"):
        cluster.create_topic(topic)
        transact(cluster, topic, [(True, [(b"k", topic.encode())])])
    _deleted_behind_the_look(monkeypatch, cluster, "planned-1")
    options = options_of(cluster, "", subscribePattern="planned-.", failOnDataLoss="false")
    assert [row["value"] for row in Planned(options, []).rows()] == [b"planned-2"]


@pytest.mark.parametrize("may_lose", [True, False])
def test_a_topic_that_is_deleted_while_a_micro_batch_is_planned(
    cluster: Cluster, transact: Any, monkeypatch: pytest.MonkeyPatch, may_lose: bool
) -> None:
    """Loss, which the stream survives where it may lose."""
    lost, kept = f"lost-{may_lose}", f"kept-{may_lose}"
    for topic in (lost, kept):
        cluster.create_topic(topic)
        transact(cluster, topic, [(True, [(b"k", topic.encode())])])
    options = options_of(
        cluster, "", subscribe=f"{lost},{kept}", failOnDataLoss=str(not may_lose).lower()
    )
    reader = StreamReader(Options(options), RECORD_COLUMNS)
    start = {topic: {"0": 0} for topic in (lost, kept)}
    try:
        end = reader.latestOffset(start, ReadAllAvailable())
        _deleted_behind_the_look(monkeypatch, cluster, lost)
        if not may_lose:
            with pytest.raises(DataLossError, match=f"{lost}-0 is gone"):
                reader.partitions(start, end)
            return
        (task,) = reader.partitions(start, end)
        (batch,) = reader.read(task)
        assert batch.column("value").to_pylist() == [kept.encode()]
    finally:
        reader.stop()


def test_the_end_of_a_batch_waits_for_nobody(
    cluster: Cluster, transact: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pin that cannot be given back now is given back with the next batch's."""
    topic = cluster.create_topic("unpinned")
    transact(cluster, topic, [(True, [(b"k", b"v")])])
    pins = cluster.embedded.running.plane._state.segments.pins
    before = set(pins)
    asked: list[int] = []

    def away(_: MetadataSource, pin_id: int) -> None:
        asked.append(pin_id)
        raise ControlPlaneUnavailable("away")

    reader = StreamReader(Options(options_of(cluster, topic, pin="1h")), RECORD_COLUMNS)
    start = {topic: {"0": 0}}
    try:
        end = reader.latestOffset(start, ReadAllAvailable())
        for _ in range(2):
            reader.partitions(start, end)
        held = set(pins) - before
        assert len(held) == 2
        monkeypatch.setattr(stream_module, "unpin", away)
        reader.commit(end)
        assert len(asked) == 1  # and not again and again for two minutes
        monkeypatch.setattr(stream_module, "unpin", pinning.unpin)
        reader.commit(end)
        assert set(pins) == before
    finally:
        reader.stop()


def test_a_mistake_is_told_at_once_by_who_waited(cluster: Cluster) -> None:
    """Only the control plane is waited for: what is wrong with the work is wrong again."""
    connection = Connection(lambda: find_cluster(data=str(cluster.data)), CONTROL)
    outcomes: list[Exception] = [ControlPlaneUnavailable("away"), DataLossError("gone")]

    def work(_: MetadataSource) -> None:
        raise outcomes.pop(0)

    try:
        with pytest.raises(DataLossError, match="gone"):
            connection.use(work)
    finally:
        connection.close()
    assert not outcomes
