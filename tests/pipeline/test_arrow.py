"""Tests that `lacuna.read` and `lacuna.follow` return what a read_committed consumer receives."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import astuple
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyarrow import csv, feather

import lacuna
from lacuna.base.errors import UserError
from lacuna.cli.records.saving import FORMATS, point_of, save
from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.logstore.objects.store import wall_clock_ms
from lacuna.operating.moto import CREDENTIALS
from lacuna.operating.points import Kind, Point
from lacuna.pipeline import record_batches
from lacuna.pipeline.decoding import Bounds
from lacuna.pipeline.errors import DamagedDataError, DataLossError, PipelineError
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.reading import Source
from lacuna.pipeline.record_batches import COLUMNS, Span, in_order
from lacuna.pipeline.sql import answer, narrowed
from lacuna.pipeline.stores import shared_store
from lacuna.testing import Cluster
from tests.pipeline.conftest import (
    consumed,
    delete_topic,
    pins_of,
    publish_snapshot,
    transact,
    transactional,
)

PARTITIONS = 3


def write(cluster: Cluster, topic: str, count: int = 30) -> None:
    """Write transactions across all partitions, abort every second one, and leave one more open."""
    producer = transactional(cluster, topic)
    for number in range(count):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(
                topic,
                None if number % 7 == 6 else b"%d of %d" % (number, partition),
                None if number % 5 == 4 else b"key %d" % number,
                partition,
                timestamp=1_000_000 + number,
                headers=[("a", b"1"), ("a", None)] if number % 3 == 1 else None,
            )
        producer.flush(60)
        if number % 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def consume(cluster: Cluster, topic: str) -> list[Any]:
    """Return what a read_committed consumer receives, as rows of `lacuna.read`."""
    return sorted(map(row, consumed(cluster, topic, range(PARTITIONS))), key=place)


def row(message: Any) -> dict[str, Any]:
    kind, timestamp = message.timestamp()
    headers = message.headers()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": datetime.fromtimestamp(timestamp / 1000, UTC),
        "timestamp_type": kind - 1,
        "key": message.key(),
        "value": message.value(),
        "headers": headers and [{"key": key, "value": value} for key, value in headers],
    }


def place(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["offset"]


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    """A cluster as users run it: its newest records are in the journal, and it merges."""
    with Cluster() as cluster:
        for topic in ("orders", "bills"):
            cluster.create_topic(topic, PARTITIONS)
            write(cluster, topic)
        yield cluster


def rows(cluster: Cluster, topics: Any = "orders", **arguments: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        lacuna.read(topics, data=str(cluster.data), **arguments).read_all().to_pylist()
    )
    return found


@pytest.mark.slow
def test_it_reads_what_a_consumer_receives(running: Cluster) -> None:
    expected = consume(running, "orders")
    reader = lacuna.read("orders", data=str(running.data), headers=True)
    assert reader.schema == COLUMNS
    assert reader.read_all().to_pylist() == expected
    both = rows(running, ["orders", "bills"], headers=True)
    assert both == expected + consume(running, "bills")
    assert rows(running, control=None, columns=["value", "offset"]) == [
        {"value": row["value"], "offset": row["offset"]} for row in expected
    ]


@pytest.mark.slow
def test_a_folder_is_read_without_threads_on_one_core(
    running: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = consume(running, "orders")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0}, raising=False)
    monkeypatch.setattr(record_batches, "ThreadPoolExecutor", None)
    assert rows(running, headers=True) == expected


@pytest.mark.slow
def test_duckdb_and_polars_and_pandas_give_the_same_answers(running: Cluster) -> None:
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    expected = consume(running, "orders")
    reader = lacuna.read("orders", data=str(running.data), headers=True)  # noqa: F841 - SQL names it
    by_duckdb = duckdb.sql('SELECT * FROM reader ORDER BY partition, "offset"').to_arrow_table()
    assert by_duckdb.select(["partition", "offset", "key", "value", "headers"]).to_pylist() == [
        {name: row[name] for name in ("partition", "offset", "key", "value", "headers")}
        for row in expected
    ]
    frame = polars.from_arrow(lacuna.read("orders", data=str(running.data), headers=True))
    assert frame.to_dicts() == expected
    pandas = lacuna.read("orders", data=str(running.data)).read_pandas()
    assert pandas["offset"].tolist() == [row["offset"] for row in expected]
    assert pandas["value"].tolist() == [row["value"] for row in expected]


@pytest.mark.slow
def test_parts_of_a_topic(running: Cluster) -> None:
    every = rows(running)
    assert rows(running, partitions=[2, 0]) == [row for row in every if row["partition"] != 1]
    assert rows(running, partitions=1) == [row for row in every if row["partition"] == 1]
    cut = [row for row in every if 8 <= row["offset"] < 20]
    assert rows(running, start=8, end=20) == cut
    assert rows(running, start={0: 8, 1: 8, "2": 8}, end={"orders": {0: 20, 1: 20, 2: 20}}) == cut
    later = [row for row in every if row["timestamp"].timestamp() * 1000 >= 1_000_010]
    assert rows(running, start=datetime.fromtimestamp(1_000.01, UTC)) == later
    assert rows(running, timestamps=(1_000_010, None)) == later
    assert rows(running, timestamps=(1_000_010, 1_000_012)) == [
        row for row in later if row["timestamp"].timestamp() * 1000 < 1_000_012
    ]
    assert rows(running, start="latest") == []
    uncommitted = rows(running, isolation="read_uncommitted")
    assert [
        row for row in uncommitted if row["offset"] in {each["offset"] for each in every}
    ] == every


@pytest.mark.slow
def test_a_past_time_and_a_snapshot_of_the_metadata(running: Cluster) -> None:
    topic = running.create_topic("past", PARTITIONS)
    write(running, topic, 4)
    then = wall_clock_ms() + 1000
    before = rows(running, topic)
    running.advance(2000)
    write(running, topic, 2)
    now = rows(running, topic)
    assert len(before) == 2 * PARTITIONS < len(now)
    assert rows(running, topic, as_of=then) == before
    publish_snapshot(running, later_ms=2000)
    store = running.store_url
    write(running, topic, 2)
    assert lacuna.read(topic, store=store).read_all().to_pylist() == now
    steps = lacuna.follow(topic, store=store)
    assert next(steps).read_all().to_pylist() == now
    count = f"SELECT count(*) FROM {topic}"
    with answer(Source.of(store=store), count) as found:
        assert found.fetchall() == [(len(now),)]
    assert lacuna.read(topic, store=store, as_of=then).read_all().to_pylist() == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"topics": "ordres"}, "there is no topic 'ordres': did you mean 'orders'?"),
        ({"topics": []}, "specify at least one"),
        ({"partitions": 3}, "it has partitions 0 to 2"),
        ({"columns": ["offsets"]}, "'offsets' is not a column; the columns are topic, "),
        ({"columns": []}, "name at least one of topic"),
        ({"columns": ["key", "key"]}, "'key' is named twice"),
        ({"isolation": "none"}, "choose 'read_committed'"),
        ({"start": 10_000}, "but offset 10000 was requested"),
        ({"start": -1}, "an offset cannot be negative"),
        ({"start": "soon"}, "use a time such as"),
        ({"end": 5, "as_of": "-1m"}, "leave one of them out"),
        ({"as_of": "-1m", "isolation": "uncommitted"}, "omit isolation"),
        ({"as_of": "-10d"}, "as_of: the visible part of orders is known only from"),
        ({"data": "no/such/folder"}, "there is no folder no/such/folder: check"),
        ({"data": "."}, "no cluster is running on the data folder .: start it"),
        ({"data": None}, "no bucket is specified: provide the data folder"),
    ],
)
def test_errors_say_what_to_do(
    running: Cluster,
    arguments: dict[str, Any],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"topics": "orders", "data": str(running.data), **arguments}
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError) as caught:
        lacuna.read(**given)
    assert says in str(caught.value)


def test_without_pyarrow_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "lacuna.pipeline.reading")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'lacuna-log\[arrow\]'"):
        lacuna.read("orders")
    with pytest.raises(AttributeError, match="no attribute 'red'"):
        lacuna.red  # noqa: B018


def test_a_damaged_object_is_named(cluster: Cluster) -> None:
    topic = cluster.create_topic("damaged")
    written = transact(cluster, topic, [(True, [(b"k", b"one")]), (True, [(b"k", b"two")])])
    *_, key = sorted(
        info.key for info in shared_store(cluster.store_url).list() if "segments" in info.key
    )
    path = cluster.data / "objects" / key
    path.write_bytes(path.read_bytes().replace(b"two", b"2wo"))
    with pytest.raises(DamagedDataError, match=f"object '{key}' is damaged: .*`lacuna verify`"):
        lacuna.read(topic, data=str(cluster.data)).read_all()
    first = lacuna.read(topic, data=str(cluster.data), end=1).read_all()
    assert first["value"].to_pylist() == [written.committed[0][1]]
    path.unlink()
    with pytest.raises(DataLossError, match=f"object '{key}', which held offsets 1 to 1, is gone"):
        lacuna.read(topic, data=str(cluster.data)).read_all()


def test_a_reader_pins_objects_until_it_ends(cluster: Cluster) -> None:
    topic = cluster.create_topic("pinned")
    transact(cluster, topic, [(True, [(b"k", b"v")])])
    readers = [lacuna.read(topic, data=str(cluster.data)) for _ in range(3)]
    assert len(pins_of(cluster)) == 3
    readers[0].read_all()
    readers.pop()
    assert len(pins_of(cluster)) == 1


@pytest.mark.parametrize(("threads", "ahead"), [(1, 1), (2, 4)])
def test_items_come_in_order_and_at_most_one_ahead_of_each_unit(threads: int, ahead: int) -> None:
    made = [0] * 20

    def unit(number: int) -> Iterator[tuple[int, int]]:
        for index in range(3):
            made[number] += 1
            yield number, index

    def units() -> Iterator[Iterator[tuple[int, int]]]:
        yield from map(unit, range(20))

    items = in_order(units(), threads)
    for number in range(20):
        for index in range(3):
            assert next(items) == (number, index)
            assert sum(made) <= 3 * number + index + ahead
    assert next(items, None) is None


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_in_a_unit_follows_the_items_before_it(threads: int) -> None:
    def unit(number: int) -> Iterator[int]:
        yield number
        if number == 2:
            raise DamagedDataError("damaged")

    items = in_order(map(unit, range(5)), threads)
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(DamagedDataError):
        next(items)


def transfer(producer: Producer, number: int) -> None:
    """Write one record to each topic in a transaction, and leave it open."""
    producer.begin_transaction()
    for topic, amount in (("debits", -number), ("credits", number)):
        producer.produce(topic, b"%d" % amount, b"%d" % number, number % 2)
    producer.flush(60)


@pytest.mark.slow
def test_a_follower_gets_whole_transactions(running: Cluster) -> None:
    """In one of its two topics, the first transfer is behind an open transaction."""
    for topic in ("debits", "credits"):
        running.create_topic(topic, 2)
    producer, blocking = (transactional(running, name) for name in ("transfers", "blocking"))
    blocking.begin_transaction()
    blocking.produce("credits", b"0", b"0", 1)
    blocking.flush(60)
    for number in range(1, 4):
        transfer(producer, number)
        producer.commit_transaction(60)
    topics = ["debits", "credits"]
    arguments: dict[str, Any] = {
        "data": str(running.data),
        "columns": ["topic", "partition", "offset", "key", "value"],
    }
    cut = lacuna.read(topics, cut="transactions", **arguments).read_all().to_pylist()
    assert [row["key"] for row in cut] == [b"2", b"2"]
    assert len(lacuna.read(topics, **arguments).read_all()) == 4
    steps = lacuna.follow(topics, every=0.01, **arguments)
    first = next(steps)
    assert first.read_all().to_pylist() == cut
    assert first.end == {"debits": {0: 1, 1: 0}, "credits": {0: 1, 1: 0}}
    blocking.commit_transaction(60)
    second = pa.table(next(steps)).to_pylist()
    assert sorted(row["key"] for row in second) == [b"0", b"1", b"1", b"3", b"3"]
    transfer(producer, 4)
    producer.abort_transaction(60)
    transfer(producer, 5)
    producer.commit_transaction(60)
    third = next(steps)
    assert [row["key"] for row in third.read_all().to_pylist()] == [b"5", b"5"]
    again = lacuna.follow(topics, every=0.01, start=first.end, **arguments)
    rest = next(again).read_all().to_pylist()
    assert sorted(row["key"] for row in rest) == [b"0", b"1", b"1", b"3", b"3", b"5", b"5"]
    latest = lacuna.follow(topics, every=0.01, start="latest", **arguments)
    transfer(producer, 6)
    producer.commit_transaction(60)
    assert [row["key"] for row in next(latest).read_all().to_pylist()] == [b"6", b"6"]


def test_a_step_that_was_not_read_before_the_next_one_is_over(running: Cluster) -> None:
    topic = running.create_topic("steps")
    producer = Producer({"bootstrap.servers": running.bootstrap})
    steps = lacuna.follow(topic, data=str(running.data), every=0.01)
    found = []
    for value in (b"1", b"2"):
        producer.produce(topic, value)
        producer.flush(60)
        found.append(next(steps))
    with pytest.raises(PipelineError, match="read each step before you request the next one"):
        found[0].read_all()
    assert [batch["value"].to_pylist() for batch in found[1]] == [[b"2"]]


def test_a_topic_that_was_created_again_is_not_followed(cluster: Cluster) -> None:
    topic = cluster.create_topic("again")
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(topic, b"1")
    producer.flush(60)
    steps = lacuna.follow(topic, data=str(cluster.data), every=0.01)
    assert len(next(steps).read_all()) == 1
    delete_topic(cluster, topic)
    cluster.create_topic(topic)
    with pytest.raises(DataLossError, match="topic 'again' was deleted and recreated"):
        next(steps)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_has_the_records(running: Cluster, tmp_path: Path, kind: str) -> None:
    read = {"parquet": pq.read_table, "arrow": feather.read_table, "csv": csv.read_csv}[kind]
    expected = lacuna.read("orders", data=str(running.data)).read_all()
    path = tmp_path / "orders"
    assert save(lacuna.read("orders", data=str(running.data)), kind, path) == len(expected)
    table = read(path)
    assert table["offset"].to_pylist() == expected["offset"].to_pylist()
    times = table["timestamp"].cast(pa.timestamp("ms", "UTC"))
    assert times.to_pylist() == expected["timestamp"].to_pylist()
    values = table["value"].cast(pa.binary()).to_pylist()
    assert [each or None for each in values] == expected["value"].to_pylist()
    assert save(lacuna.read("orders", data=str(running.data)), kind, path, 7) == 7
    assert read(path)["offset"].to_pylist() == expected["offset"].to_pylist()[:7]
    assert list(tmp_path.iterdir()) == [path]


def test_csv_holds_no_bytes(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.create_topic("bytes")
    transact(cluster, topic, [(True, [(b"k", b"\xff")])])
    with pytest.raises(UserError, match="not UTF-8: use --output parquet or --output arrow"):
        save(lacuna.read(topic, data=str(cluster.data)), "csv", tmp_path / "bytes.csv")
    assert not list(tmp_path.iterdir())


def test_the_points_of_consume_are_those_of_read(running: Cluster) -> None:
    every = rows(running, partitions=0)
    assert rows(running, partitions=0, start=point_of(Point(Kind.END, 2))) == every[-1:]
    assert rows(running, partitions=0, start=point_of(Point(Kind.OFFSET, 8))) == [
        row for row in every if row["offset"] >= 8
    ]
    later = rows(running, partitions=0, start=point_of(Point(Kind.TIME, 1_000_010)))
    assert later == [row for row in every if row["timestamp"].timestamp() >= 1_000.01]
    assert rows(running, partitions=0, end=point_of(Point(Kind.NEVER))) == every


def ask(cluster: Cluster, statement: str, **arguments: Any) -> list[tuple[Any, ...]]:
    with answer(Source.of(data=str(cluster.data)), statement, **arguments) as found:
        answers: list[tuple[Any, ...]] = found.fetchall()
        return answers


@pytest.mark.slow
def test_sql_over_topics(running: Cluster) -> None:
    expected = consume(running, "orders")
    everything = ask(running, 'SELECT * FROM orders ORDER BY partition, "offset"')
    assert [each[:3] for each in everything] == [
        place(row)[:1] + place(row)[1:] for row in expected
    ]
    assert [each[5:7] for each in everything] == [(row["key"], row["value"]) for row in expected]
    late = sum(row["offset"] >= 9 and row["partition"] == 1 for row in expected)
    counted = 'SELECT count(*) FROM orders WHERE "offset" >= 9 AND partition = 1'
    assert ask(running, counted) == [(late,)]
    twice = 'SELECT count(*) FROM orders a JOIN orders b USING (partition, "offset")'
    assert ask(running, twice) == [(len(expected),)]
    both = "SELECT topic, count(*) FROM (FROM orders UNION ALL FROM bills) GROUP BY ALL ORDER BY 1"
    assert ask(running, both) == [("bills", 45), ("orders", 45)]
    assert ask(running, "SELECT 1") == [(1,)]
    early = "SELECT count(*) FROM orders WHERE timestamp < '1970-01-01 00:16:40.0085+00'"
    assert ask(running, early) == [(15,)]


def bounds_of(first: int, end: int, since: int, until: int) -> Bounds:
    return Bounds(first_offset=first, end_offset=end, min_timestamp=since, max_timestamp=until)


EMPTY: dict[str, Any] = {
    "topic": "t",
    "topic_id": bytes(16),
    "version": 0,
    "log_start_offset": 0,
    "last_stable_offset": 50,
    "high_watermark": 50,
    "extents": ExtentTable(),
    "dead": DeadRanges(),
}
OFFSET, PARTITION, TIME = map(pc.field, ("offset", "partition", "timestamp"))
BOUNDS = [(0, 5, 50, 0, 1_000), (1, 5, 50, 0, 1_000)]
MOMENT = datetime.fromtimestamp(0.5, UTC)


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        (OFFSET >= 8, [(0, 8, 50, 0, 1_000), (1, 8, 50, 0, 1_000)]),
        ((OFFSET < 8) & (PARTITION == 1), [(1, 5, 9, 0, 1_000)]),
        ((PARTITION > 0) & (OFFSET == 7) & (pc.field("value") == b"x"), [(1, 7, 8, 0, 1_000)]),
        ((TIME >= MOMENT) & (PARTITION <= 0), [(0, 5, 50, 500, 1_000)]),
        ((TIME < MOMENT) & (PARTITION < 1), [(0, 5, 50, 0, 500)]),
        ((OFFSET == 7) | (PARTITION == 1), BOUNDS),
        (~(OFFSET == 7), BOUNDS),
        (OFFSET != 7, BOUNDS),
        (OFFSET.isin([7]), BOUNDS),
        (pc.field("topic") == "(offset < 7)", BOUNDS),
        (pc.field("key").is_null() & (OFFSET == 7), BOUNDS),
        (None, BOUNDS),
    ],
)
def test_a_condition_narrows_what_is_read(condition: Any, left: list[tuple[int, ...]]) -> None:
    logs = [PartitionLog(**{**EMPTY, "partition": number}) for number, *_ in BOUNDS]
    spans = [
        Span(log, bounds_of(*each), is_committed=True)
        for log, (_, *each) in zip(logs, BOUNDS, strict=True)
    ]
    assert [
        (span.log.partition, *astuple(span.bounds)) for span in narrowed(spans, condition)
    ] == left


@pytest.mark.slow
def test_names_that_differ_in_case_only(running: Cluster) -> None:
    running.create_topic("Orders")
    assert ask(running, "SELECT count(*) FROM orders") == [(45,)]
    with pytest.raises(PipelineError, match=r"cannot distinguish the topics '.rders' and '.rders'"):
        ask(running, 'SELECT * FROM orders JOIN "Orders" USING (key)')


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("SELECT * FROM ordres", "there is no topic 'ordres': did you mean 'orders'?"),
        ("SELECT offset FROM orders", 'write "offset" for the column'),
        ("SELECT price FROM orders", "price"),
        ("SELECT CAST(decode(value) AS int) FROM orders", "Could not convert"),
    ],
)
def test_what_sql_cannot_answer(running: Cluster, statement: str, says: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(says)):
        ask(running, statement)


@pytest.mark.slow
def test_sql_reads_topics_as_they_were(running: Cluster) -> None:
    topic = running.create_topic("moved", PARTITIONS)
    write(running, topic, 2)
    then = wall_clock_ms() + 60_000
    running.advance(120_000)
    write(running, topic, 2)
    count = f"SELECT count(*) FROM {topic}"
    assert ask(running, count, as_of=then) == [(PARTITIONS,)]
    assert ask(running, count) == [(2 * PARTITIONS,)]


#: The most memory is that of the process alone: getrusage would count that of the process that started it.
READING = """
import pathlib, re, sys, lacuna
count = sum(batch.num_rows for batch in lacuna.read("large", data=sys.argv[1]))
most = re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())
print(count, int(most[1]) // 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_topic(running: Cluster) -> None:
    """Half a gibibyte that is stored as a few mebibytes: each block is far larger once it is decompressed."""
    running.create_topic("large")
    producer = Producer(
        {
            "bootstrap.servers": running.bootstrap,
            "compression.type": "zstd",
            "linger.ms": 100,
            "batch.size": 1_000_000,
        }
    )
    count = 1 << 19
    for number in range(count):
        producer.produce("large", b"%01024d" % number)
        if number % 50_000 == 0:
            producer.flush(60)
    producer.flush(60)
    command = [sys.executable, "-c", READING, str(running.data)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found, mebibytes = map(int, ran.stdout.split())
    assert found == count
    assert mebibytes <= 300


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["moto"], indirect=True)
def test_it_reads_from_s3(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    cluster.create_topic("orders", PARTITIONS)
    write(cluster, "orders")
    assert rows(cluster, headers=True) == consume(cluster, "orders")
