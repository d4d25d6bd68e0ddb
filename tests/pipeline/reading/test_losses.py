"""Tests how a stream handles changed offsets, and errors while it waits."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from lacuna.controlplane.client.protocol import ControlPlaneUnavailable
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.datasource import pinning
from lacuna.pipeline.datasource import stream as stream_module
from lacuna.pipeline.datasource.connection import Connection
from lacuna.pipeline.datasource.offsets import selected_logs
from lacuna.pipeline.datasource.options import Options
from lacuna.pipeline.datasource.reading_options import read_options
from lacuna.pipeline.datasource.spark_api import UnlimitedReader
from lacuna.pipeline.errors import DataLossError, StaleMetadataError
from lacuna.pipeline.location import find_cluster
from lacuna.pipeline.metadata import CONTROL, MetadataSource
from lacuna.testing import Cluster
from tests.pipeline.conftest import control_of, delete_topic, pins_of, transact
from tests.pipeline.reading.conftest import Planned, options_of, stream_reader, values_of


def test_logs_of_an_unchanged_selection_are_not_read_twice(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.create_topic("stale")
    asked = []

    def refuse(_: JobClient, keys: Iterable[PartitionKey]) -> NoReturn:
        asked.append(list(keys))
        raise StaleMetadataError("it was deleted")

    monkeypatch.setattr(JobClient, "partition_logs", refuse)
    options = read_options(Options(options_of(cluster, topic)))
    with control_of(cluster) as control, pytest.raises(StaleMetadataError):
        selected_logs(control, options, are_read=False)
    assert len(asked) == 1


def _made_anew(cluster: Cluster, topic: str) -> None:
    delete_topic(cluster, topic)
    cluster.create_topic(topic)


@pytest.mark.parametrize(
    ("records", "limit", "ends"),
    [
        pytest.param(3, ReadAllAvailable(), [3], id="fewer"),
        pytest.param(3, ReadMaxRows(2), [2, 3], id="fewer, limited"),
        pytest.param(5, ReadAllAvailable(), [5], id="as many"),
        pytest.param(9, ReadAllAvailable(), [9], id="more"),
        pytest.param(9, ReadMaxRows(7), [7, 9], id="more, limited"),
    ],
)
def test_a_topic_that_was_made_anew(
    cluster: Cluster, records: int, limit: ReadLimit, ends: list[int]
) -> None:
    """It counts as loss, whatever its offsets are. If loss is allowed, the stream reads the whole new topic."""
    topic = cluster.create_topic(f"anew-{records}-{len(ends)}")
    transact(cluster, topic, [(True, [(b"k", b"old")] * 5)])
    with stream_reader(cluster, topic) as reader:
        start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert start[topic]["0"] == 5
    _made_anew(cluster, topic)
    values = [b"%d" % number for number in range(records)]
    transact(cluster, topic, [(True, [(b"k", value) for value in values])])

    with stream_reader(cluster, topic) as failing:
        message = f"topic {topic} has been deleted and recreated"
        with pytest.raises(DataLossError, match=message):
            failing.latestOffset(start, limit)
        with pytest.raises(DataLossError, match=message):
            failing.partitions(start, {topic: {**start[topic], "0": 7}})

    found: list[bytes] = []
    with stream_reader(cluster, topic, failOnDataLoss="false") as reader:
        for offset in ends:
            end = reader.latestOffset(start, limit)
            assert end[topic]["0"] == offset
            found += values_of(reader, start, end)
            start = end
    assert found == values


def test_a_topic_that_is_made_anew_before_its_batch_is_planned(cluster: Cluster) -> None:
    """The batch's offsets belong to the deleted topic, so it contains nothing of the new one."""
    topic = cluster.create_topic("anew-planned")
    transact(cluster, topic, [(True, [(b"k", b"old")] * 3)])
    with stream_reader(cluster, topic, failOnDataLoss="false") as reader:
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        _made_anew(cluster, topic)
        transact(cluster, topic, [(True, [(b"k", b"new")] * 4)])
        assert values_of(reader, start, end) == []
        assert values_of(reader, end, reader.latestOffset(end, ReadAllAvailable())) == [b"new"] * 4


def test_available_now_leaves_a_topic_that_was_made_anew_to_the_next_run(cluster: Cluster) -> None:
    topic = cluster.create_topic("anew-available")
    transact(cluster, topic, [(True, [(b"k", b"old")] * 9)])
    with stream_reader(cluster, topic, failOnDataLoss="false") as reader:
        reader.prepareForTriggerAvailableNow()
        start = reader.latestOffset(reader.initialOffset(), ReadMaxRows(5))
        _made_anew(cluster, topic)
        transact(cluster, topic, [(True, [(b"k", b"new")] * 4)])
        end = reader.latestOffset(start, ReadMaxRows(5))
        assert values_of(reader, start, end) == []
    with stream_reader(cluster, topic, failOnDataLoss="false") as reader:
        assert values_of(reader, end, reader.latestOffset(end, ReadAllAvailable())) == [b"new"] * 4


def test_a_topic_that_lost_its_newest_records_is_read_on_from_its_end(cluster: Cluster) -> None:
    """A journal whose loss was accepted has the same topic, and the query's position is beyond the topic's end."""
    topic = cluster.create_topic("shortened")
    transact(cluster, topic, [(True, [(b"k", b"before")] * 3)])
    with stream_reader(cluster, topic) as failing:
        first = failing.latestOffset(failing.initialOffset(), ReadAllAvailable())
        start = {topic: {**first[topic], "0": 5}}
        with pytest.raises(DataLossError, match="ends at offset 3, but the query has read up to 5"):
            failing.latestOffset(start, ReadAllAvailable())
    with stream_reader(cluster, topic, failOnDataLoss="false") as reader:
        end = reader.latestOffset(start, ReadAllAvailable())
        assert end == first
        assert values_of(reader, start, end) == []
        transact(cluster, topic, [(True, [(b"k", b"after")])])
        assert values_of(reader, end, reader.latestOffset(end, ReadAllAvailable())) == [b"after"]


@pytest.mark.slow
def test_a_batch_from_the_offsets_of_a_stream(cluster: Cluster) -> None:
    topic = cluster.create_topic("replayed")
    transact(cluster, topic, [(True, [(b"k", b"1")] * 2)])
    with stream_reader(cluster, topic) as reader:
        start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    transact(cluster, topic, [(True, [(b"k", b"2")])])
    options = options_of(cluster, topic, startingOffsets=json.dumps(start))
    assert [row["value"] for row in Planned(options, []).rows()] == [b"2"]
    _made_anew(cluster, topic)
    transact(cluster, topic, [(True, [(b"k", b"3")] * 5)])
    with pytest.raises(DataLossError, match="belong to an earlier topic with this name"):
        Planned(options, [])


def _deleted_behind_the_look(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, topic: str) -> None:
    """Delete the topic after it has been selected and before its logs are requested."""
    ask = JobClient.partition_logs
    left = [topic]

    def asking(self: JobClient, keys: Any) -> Any:
        while left:
            delete_topic(cluster, left.pop())
        return ask(self, keys)

    monkeypatch.setattr(JobClient, "partition_logs", asking)


@pytest.mark.slow
def test_a_topic_that_is_deleted_while_a_batch_is_planned(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is the same as for a topic that was deleted earlier."""
    for topic in ("planned-1", "planned-2"):
        cluster.create_topic(topic)
        transact(cluster, topic, [(True, [(b"k", topic.encode())])])
    _deleted_behind_the_look(monkeypatch, cluster, "planned-1")
    options = options_of(cluster, "", subscribePattern="planned-.", failOnDataLoss="false")
    assert [row["value"] for row in Planned(options, []).rows()] == [b"planned-2"]


@pytest.mark.parametrize("may_lose", [True, False])
def test_a_topic_that_is_deleted_while_a_micro_batch_is_planned(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, may_lose: bool
) -> None:
    """It counts as loss, and a stream that allows loss continues."""
    lost, kept = f"lost-{may_lose}", f"kept-{may_lose}"
    for topic in (lost, kept):
        cluster.create_topic(topic)
        transact(cluster, topic, [(True, [(b"k", topic.encode())])])
    options = {"subscribe": f"{lost},{kept}", "failOnDataLoss": str(not may_lose).lower()}
    start = {topic: {"0": 0} for topic in (lost, kept)}
    with stream_reader(cluster, "", **options) as reader:
        end = reader.latestOffset(start, ReadAllAvailable())
        _deleted_behind_the_look(monkeypatch, cluster, lost)
        if not may_lose:
            with pytest.raises(DataLossError, match=f"{lost}-0 is gone"):
                reader.partitions(start, end)
            return
        (task,) = reader.partitions(start, end)
        (batch,) = reader.read(task)
        assert batch.column("value").to_pylist() == [kept.encode()]


def test_the_end_of_a_batch_waits_for_nobody(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pin that cannot be released is released together with the next batch's pin."""
    topic = cluster.create_topic("unpinned")
    transact(cluster, topic, [(True, [(b"k", b"v")])])
    pins = pins_of(cluster)
    before = set(pins)
    asked: list[int] = []

    def away(_: MetadataSource, pin_id: int) -> None:
        asked.append(pin_id)
        raise ControlPlaneUnavailable("away")

    start = {topic: {"0": 0}}
    with stream_reader(cluster, topic, pin="1h") as reader:
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


def test_a_mistake_is_told_at_once_by_who_waited(cluster: Cluster) -> None:
    """Only an outage of the control plane is retried, because other errors would recur."""
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


@contextmanager
def _old_reader(cluster: Cluster, topic: str, **options: Any) -> Iterator[UnlimitedReader]:
    """Yield a reader as PySpark 4.0 and 4.1 use it: they request the latest offsets without the batch's start."""
    with stream_reader(cluster, topic, **options) as reader:
        yield UnlimitedReader(reader)


def test_an_old_spark_reads_a_first_batch_again_after_a_crash(cluster: Cluster) -> None:
    """The batch already has records, so its start may not move."""
    topic = cluster.create_topic("old-first")
    written = transact(cluster, topic, [(True, [(b"k", b"%d" % each) for each in range(5)])])
    values = [value for _, value in written.committed.values()]
    with _old_reader(cluster, topic, startingTimestamp="1") as reader:
        end = reader.latestOffset()
        assert values_of(reader, reader.initialOffset(), end) == values
    with _old_reader(cluster, topic, startingTimestamp="1") as restarted:
        assert values_of(restarted, restarted.initialOffset(), end) == values


def test_an_old_spark_begins_at_the_latest_offset(cluster: Cluster) -> None:
    topic = cluster.create_topic("old-latest")
    transact(cluster, topic, [(True, [(b"k", b"before")])])
    with _old_reader(cluster, topic, startingOffsets="latest") as reader:
        first = reader.latestOffset()
        assert values_of(reader, reader.initialOffset(), first) == []
        transact(cluster, topic, [(True, [(b"k", b"after")])])
        assert values_of(reader, first, reader.latestOffset()) == [b"after"]


@pytest.mark.parametrize("is_made_anew", [True, False])
def test_an_old_spark_learns_of_losses_when_its_batch_is_planned(
    cluster: Cluster, is_made_anew: bool
) -> None:
    topic, other = (cluster.create_topic(f"old-{each}-{is_made_anew}") for each in ("a", "b"))
    given = {"subscribe": f"{topic},{other}"}
    for each in (topic, other):
        transact(cluster, each, [(True, [(b"k", b"old")] * 3)])
    with _old_reader(cluster, "", **given) as reader:
        start = reader.latestOffset()
    (_made_anew if is_made_anew else delete_topic)(cluster, topic)
    transact(cluster, other, [(True, [(b"k", b"new")])])
    with _old_reader(cluster, "", **given) as failing:
        end = failing.latestOffset()
        with pytest.raises(DataLossError, match=f"{topic} has been deleted|{topic}-0 is gone"):
            failing.partitions(start, end)
    with _old_reader(cluster, "", failOnDataLoss="false", **given) as tolerant:
        assert values_of(tolerant, start, tolerant.latestOffset()) == [b"new"]
