"""Tests that Parquet files contain what a read_committed consumer receives, each record once, over several runs."""

from datetime import UTC, datetime
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from lacuna.pipeline.export.layout import Layout
from lacuna.pipeline.export.opening import open_destination
from lacuna.pipeline.export.runs import committed_files
from tests.pipeline.conftest import pins_of, transactional
from tests.pipeline.export.conftest import Lake

_MIXED = [
    (True, [(b"a", b"1"), (None, b"2"), (b"c", None)]),
    (False, [(b"x", b"never" * 20)] * 40),
    (True, [(b"d", b"")]),
    (False, [(b"y", b"never")]),
]


@pytest.mark.slow
def test_s14_three_runs_hold_what_a_consumer_gets(lake: Lake, place: Any) -> None:
    """S13, S14, S16: the next run exports records that were produced between two runs."""
    name = lake.topic(2)
    offsets = []
    for _ in range(3):
        lake.write(name, _MIXED)
        lake.write(name, _MIXED[2:], partition=1)
        report = lake.export(name, to=place.url)
        assert report.records == 5
        assert place.rows(name) == lake.consume(name, 2)
        offsets.append(report.offsets)
    assert offsets == [{0: (n * 45, n * 45 + 45), 1: (n * 2, n * 2 + 2)} for n in range(3)]
    assert len(place.rows(name)) == 15
    again = lake.export(name, to=place.url)
    assert (again.run, again.records, again.offsets) == (None, 0, {})
    assert place.names("_staging") == []


def test_spark_reads_what_a_consumer_gets(
    lake: Lake, spark: SparkSession, export_on_spark: Any, tmp_path: Any
) -> None:
    name = lake.topic(retention_ms="-1")
    producer = Producer({"bootstrap.servers": lake.cluster.bootstrap})
    moments = [1, 1_700_000_000_000, 1_700_000_000_001, 1_700_080_000_000, -86_400_001]
    for number, moment in enumerate(moments):
        headers: Any = [("h", b"1"), ("h", None)] if number == 1 else None
        producer.produce(name, b"v%d" % number, b"k", 0, timestamp=moment, headers=headers)
        assert producer.flush(60) == 0
    report = export_on_spark(name, to=str(tmp_path), layout=Layout(partition_by="day"))
    assert report.files == 4
    found = spark.read.parquet(str(tmp_path)).orderBy("offset").collect()
    assert [row.key for row in found] == [b"k"] * 5
    assert [
        (row.offset, row.timestamp_type, row.value, tuple(map(tuple, row.headers or ())))
        for row in found
    ] == [(row[1], 0, row[4], row[5]) for row in lake.consume(name)]
    assert [row.topic for row in found] == [name] * 5
    assert [str(row.day) for row in found] == [
        str(datetime.fromtimestamp(moment / 1000, UTC).date()) for moment in moments
    ]
    columns = spark.read.parquet(str(tmp_path)).selectExpr("unix_millis(timestamp) AS ms", "offset")
    assert [row.ms for row in columns.orderBy("offset").collect()] == moments


def test_s3_an_open_transaction_holds_the_export_back(lake: Lake, place: Any) -> None:
    """S3, S13: a run exports up to the last stable offset, and the next run continues."""
    name = lake.topic()
    plain = Producer({"bootstrap.servers": lake.cluster.bootstrap})
    open_one = transactional(lake.cluster, f"{name}-open")
    plain.produce(name, b"before")
    assert plain.flush(60) == 0
    open_one.begin_transaction()
    open_one.produce(name, b"open")
    open_one.flush(60)
    plain.produce(name, b"behind")
    assert plain.flush(60) == 0
    assert lake.export(name, to=place.url).offsets == {0: (0, 1)}
    assert [row[4] for row in place.rows(name)] == [b"before"]
    open_one.commit_transaction(60)
    assert lake.export(name, to=place.url).offsets == {0: (1, 3)}
    assert place.rows(name) == lake.consume(name)
    assert [row[4] for row in place.rows(name)] == [b"before", b"open", b"behind"]


def test_a_huge_partition_is_split_in_tasks_and_files(lake: Lake, tmp_path: Any) -> None:
    name = lake.topic()
    producer = Producer({"bootstrap.servers": lake.cluster.bootstrap, "linger.ms": 50})
    for number in range(300):
        producer.produce(name, bytes([number % 256]) * 1000)
        if number % 50 == 49:
            assert producer.flush(60) == 0
    split = lake.export(name, task_bytes=50_000)
    assert split.files >= 5
    files = committed_files(str(tmp_path), name)
    assert len(files) == split.files
    spans = sorted(tuple(map(int, file.removesuffix(".parquet").split("-")[-2:])) for file in files)
    ends = [(-1, -1), *spans]
    assert all(first == end + 1 for (_, end), (first, _) in zip(ends, spans, strict=False))
    rows = sum(pq.ParquetFile(file).metadata.num_rows for file in files)
    assert rows == 300 == len(lake.consume(name))


def test_a_task_that_fails_is_done_again_without_traces(lake: Lake, place: Any) -> None:
    """Two attempts at every task have written files, and readers see one of them."""
    from lacuna.pipeline.control import JobClient
    from lacuna.pipeline.export.job import Export, ExportSettings
    from lacuna.pipeline.export.report import TopicReport
    from lacuna.pipeline.export.running import run_export
    from lacuna.pipeline.export.tasks import run_task
    from lacuna.pipeline.location import find_cluster
    from lacuna.pipeline.workers import Workers

    name = lake.written(_MIXED)

    class Twice(Export):
        """Replaces workers, which cannot be made to fail."""

        def run(self, settings: Any, tasks: Any) -> Any:
            for task in tasks:
                run_task(settings, task, 0)  # its answer is lost
            return [run_task(settings, task, 1) for task in tasks]

    location = find_cluster(data=str(lake.cluster.data))
    with JobClient(location.require_control()) as control:
        settings = ExportSettings(to=place.url)
        twice = Twice(workers=Workers(), control=control, store=location.store, settings=settings)
        (report,) = run_export(twice, [name])
        assert isinstance(report, TopicReport)
        assert report.files == 1
    assert place.rows(name) == lake.consume(name)
    assert place.names("_staging") == []


@pytest.mark.parametrize("place", ["folder"], indirect=True)
def test_an_aborted_topic_moves_on_without_files(lake: Lake, place: Any) -> None:
    name = lake.written(_MIXED[1:2])
    report = lake.export(name, to=place.url)
    assert (report.run, report.files, report.offsets) == (1, 0, {0: (0, 40)})
    assert lake.export(name, to=place.url).run is None
    assert open_destination(place.url).names(f"topic={name}") == []


def test_what_is_read_is_pinned(lake: Lake, monkeypatch: Any) -> None:
    """Replaced objects stay in the bucket only while tasks are running."""
    from lacuna.pipeline.export.job import Export

    name = lake.written(_MIXED)
    pins = pins_of(lake.cluster)
    seen = []
    run = Export.run

    def looking(self: Export, *arguments: Any) -> Any:
        seen.append(len(pins))
        return run(self, *arguments)

    before = len(pins)
    monkeypatch.setattr(Export, "run", looking)
    lake.export(name)
    assert (seen, len(pins)) == ([before + 1], before)
