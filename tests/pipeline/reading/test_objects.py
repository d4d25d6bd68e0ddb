"""Tests the plan view, and tasks whose objects are missing, damaged or replaced."""

import pickle
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lacuna.controlplane.client import ControlPlace, ControlPlaneUnavailable
from lacuna.logstore.objects.store import wall_clock_ms
from lacuna.logstore.segments.merge import PASS_THROUGH_SIZE
from lacuna.pipeline.datasource.batch import BatchReader
from lacuna.pipeline.datasource.options import Options
from lacuna.pipeline.datasource.pinning import Hold
from lacuna.pipeline.datasource.plan_view import ViewTask
from lacuna.pipeline.datasource.schema import PLAN_COLUMNS
from lacuna.pipeline.errors import DamagedDataError, DataLossError
from lacuna.pipeline.holding import HOLD_SECONDS
from lacuna.pipeline.metadata.publish import publish_metadata
from lacuna.pipeline.stores import shared_store
from lacuna.testing import Cluster
from tests.pipeline.conftest import (
    MERGING,
    control_of,
    housekeeping_of,
    pins_of,
    transact,
    transactional,
)
from tests.pipeline.reading.conftest import Load, Planned, options_of

Plan = Callable[..., Planned]
Pins = Mapping[int, Any]

HOLD_MS = int(HOLD_SECONDS * 1000)


def test_s14_the_plan_view_shows_holes(cluster: Cluster, load: Load) -> None:
    """S13, S14: each offset up to the high watermark is in exactly one row."""
    topic = cluster.create_topic("shown")
    records = [(b"k", b"v")] * 10
    transact(cluster, topic, [(True, records), (False, records), (True, records)])
    producer = transactional(cluster, "open")
    producer.begin_transaction()
    producer.produce(topic, b"v")
    producer.flush(60)
    rows = load(topic, view="plan").orderBy("first_offset").collect()
    ranges = [(row.first_offset, row.end_offset, row.what) for row in rows]
    assert ranges == [
        (0, 10, "delivered"),
        (10, 20, "dropped"),
        (20, 30, "delivered"),
        (30, 31, "undecided"),
    ]
    assert len({row.transaction for row in rows}) == 4
    assert all(row.bytes > 0 and row.position > 0 and row.segment for row in rows)
    everything = load(topic, view="plan", isolation="read_uncommitted").collect()
    assert {row.what for row in everything} == {"delivered"}
    some = load(topic, view="plan", startingOffsets='{"shown":{"0":15}}').collect()
    assert [row.first_offset for row in some] == [15, 20, 30]
    counted = load(topic, "what string, bytes long", view="plan").groupBy("what").count()
    assert dict(counted.collect()) == {"delivered": 2, "dropped": 1, "undecided": 1}
    producer.abort_transaction(60)


def _planned(cluster: Cluster, topic: str, **options: Any) -> Planned:
    return Planned(options_of(cluster, topic, **options), [])


def _rewrite_and_collect(cluster: Cluster) -> None:
    housekeeping = housekeeping_of(cluster)
    cluster.run(housekeeping.merge())
    cluster.advance(30 * 60_000)
    cluster.run(housekeeping.collect())


def test_a_pin_keeps_what_a_plan_needs() -> None:
    """S14, S19: segments are merged and the old ones are collected, and the older plan can still be read."""
    with Cluster(parts=MERGING) as cluster:
        topic = cluster.create_topic("pinned")
        records = [(b"k", b"v" * 100)] * 5
        written = transact(cluster, topic, [(True, records), (False, records)] * 5)
        pinned = _planned(cluster, topic)
        _rewrite_and_collect(cluster)
        assert pinned.records() == written.committed
        merged = _planned(cluster, topic, pin="1h")
        assert len(merged.tasks[0].pieces) == 1
        assert merged.records() == written.committed
        view = BatchReader(Options(options_of(cluster, topic, view="plan")), PLAN_COLUMNS)
        (task,) = view.partitions()
        assert isinstance(task, ViewTask)
        shown = [(row.first_offset, row.end_offset, row.what) for row in task.rows]
        assert shown == [(0, 50, "delivered")]  # holes inside an extent are not in the metadata


def _hold_of(planned: Planned) -> Hold:
    hold = planned.tasks[0].hold
    assert hold is not None
    return hold


@pytest.fixture
def held() -> Iterator[tuple[Cluster, Planned, Pins]]:
    """A batch of one task without the `pin` option, and all pins of its cluster, by id."""
    with Cluster(parts=MERGING) as cluster:
        topic = cluster.create_topic("held")
        transact(cluster, topic, [(True, [(b"k", b"v" * 100)] * 5)])
        yield (
            cluster,
            _planned(cluster, topic),
            pins_of(cluster),
        )


def test_a_driver_that_was_killed_holds_nothing_for_long(
    held: tuple[Cluster, Planned, Pins], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a task reads, the pin lasts as long as the tasks, plus ten minutes."""
    cluster, planned, pins = held
    hold = _hold_of(planned)
    prolong, prolonged = Hold.prolong, threading.Event()

    def prolong_and_say(self: Hold) -> None:
        prolong(self)
        prolonged.set()

    monkeypatch.setattr(Hold, "prolong", prolong_and_say)
    reading = planned.batches()
    next(reading)
    assert prolonged.wait(60)
    assert hold.full not in pins
    for _ in range(6):
        cluster.advance(HOLD_MS // 5)
        hold.prolong()  # as that thread does
    assert hold.brief in pins
    list(reading)
    cluster.advance(HOLD_MS + 1_000)
    assert hold.brief not in pins


def test_tasks_that_cannot_prolong_a_pin_leave_the_long_one(
    held: tuple[Cluster, Planned, Pins], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They start too late, or reach another cluster or none at all."""
    cluster, planned, pins = held
    hold = _hold_of(planned)
    replace(hold, cluster_id="another").prolong()
    with monkeypatch.context() as hurried:
        hurried.setattr("lacuna.pipeline.control._GIVE_UP_AFTER", 0.1)
        with pytest.raises(ControlPlaneUnavailable):
            replace(hold, place=ControlPlace("127.0.0.1:1")).prolong()
    assert hold.full in pins
    cluster.advance(HOLD_MS + 1_000)
    hold.prolong()
    assert hold.brief not in pins
    assert hold.full in pins


def test_a_pin_that_was_asked_for_lasts_whatever_tasks_do() -> None:
    with Cluster(parts=MERGING) as cluster:
        topic = cluster.create_topic("asked")
        transact(cluster, topic, [(True, [(b"k", b"v")])])
        pins = pins_of(cluster)
        before = set(pins)
        planned = _planned(cluster, topic, pin="2h")
        assert [task.hold for task in planned.tasks] == [None]
        assert len(set(pins) - before) == 1
        cluster.advance(119 * 60_000)
        assert len(set(pins) - before) == 1
        cluster.advance(2 * 60_000)
        assert set(pins) <= before


def test_what_was_collected_is_data_loss() -> None:
    """Without a pin, reading fails with an error that names the object, or warns if loss is allowed."""
    with Cluster(parts=MERGING) as cluster:
        topic = cluster.create_topic("collected")
        transact(cluster, topic, [(True, [(b"k", b"v" * 100)] * 5)] * 4)
        strict = _planned(cluster, topic, pin="0s")
        tolerant = _planned(cluster, topic, pin="0s", failOnDataLoss="false")
        _rewrite_and_collect(cluster)
        with pytest.raises(DataLossError, match="which held offsets 0 to 4, is gone"):
            strict.rows()
        assert tolerant.rows() == []


def test_a_tolerant_reader_keeps_what_is_there() -> None:
    with Cluster(parts=MERGING) as cluster:
        topic = cluster.create_topic("partly")
        written = transact(cluster, topic, [(True, [(b"k", b"v" * 100)] * 5)] * 4)
        planned = _planned(cluster, topic, failOnDataLoss="false")
        task = planned.tasks[0]
        gone = list(task.pieces)[1]
        store = shared_store(task.bucket.store_url)
        store.delete([gone.key(task.bucket.cluster_id)])
        kept = {offset: each for offset, each in written.committed.items() if not 5 <= offset < 10}
        assert planned.records() == kept


@pytest.mark.parametrize("bounds", [{}, {"startingTimestamp": "1"}])
def test_a_tolerant_reader_keeps_what_is_beside_damaged_bytes(
    tmp_path: Path, bounds: dict[str, str]
) -> None:
    """The middle one of the three batches in an extent is damaged."""
    with Cluster(tmp_path, parts=MERGING) as cluster:
        topic = cluster.create_topic("damaged-partly")
        values = [b"before" * 20_000, b"damage" * 20_000, b"after" * 20_000]
        assert all(len(value) > PASS_THROUGH_SIZE for value in values)  # else they become one batch
        transact(cluster, topic, [(True, [(b"k", value)]) for value in values])
        housekeeping = housekeeping_of(cluster)
        cluster.run(housekeeping.merge())
        strict = _planned(cluster, topic)
        (piece,) = strict.tasks[0].pieces
        path = next(tmp_path.rglob(f"*{piece.key(strict.tasks[0].bucket.cluster_id)[-20:]}"))
        path.write_bytes(path.read_bytes().replace(b"damage", b"damagE", 1))
        with pytest.raises(DamagedDataError, match="is damaged"):
            strict.rows()
        tolerant = _planned(cluster, topic, failOnDataLoss="false", **bounds)
        assert [row["value"] for row in tolerant.rows()] == [values[0], values[2]]


def test_a_beginning_by_time_passes_over_what_is_gone() -> None:
    with Cluster(parts=MERGING) as cluster:
        topic = cluster.create_topic("begun-by-time")
        written = transact(cluster, topic, [(True, [(b"k", b"v" * 100)] * 5)] * 2)
        task = _planned(cluster, topic).tasks[0]
        store = shared_store(task.bucket.store_url)
        store.delete([next(iter(task.pieces)).key(task.bucket.cluster_id)])
        with pytest.raises(DataLossError, match="is gone"):
            _planned(cluster, topic, startingTimestamp="1")
        found = _planned(cluster, topic, startingTimestamp="1", failOnDataLoss="false")
        assert found.records() == {at: each for at, each in written.committed.items() if at >= 5}


def test_a_damaged_byte_is_named(tmp_path: Path, spark: SparkSession) -> None:
    with Cluster(tmp_path, parts=MERGING) as cluster:
        topic = cluster.create_topic("damaged")
        transact(cluster, topic, [(True, [(b"k", bytes(range(256)) * 3000)])])
        planned = _planned(cluster, topic)
        (piece,) = planned.tasks[0].pieces
        path = next(tmp_path.rglob(f"*{piece.key(planned.tasks[0].bucket.cluster_id)[-20:]}"))
        data = bytearray(path.read_bytes())
        data[piece.position + piece.size // 2] ^= 1
        path.write_bytes(data)
        with pytest.raises(DamagedDataError, match=r"segment .*position .*offsets 0 to 0"):
            planned.rows()
        frame = spark.read.format("lacuna").options(**options_of(cluster, topic)).load()
        with pytest.raises(PySparkException, match=r"DamagedDataError: object '.*' is dam") as told:
            frame.count()
        assert "Traceback" not in str(told.value)


@pytest.mark.slow
def test_a_task_is_small(cluster: Cluster, plan: Plan) -> None:
    """A task takes sixty bytes per extent, regardless of everything else."""
    topic = cluster.create_topic("many")
    transact(cluster, topic, [(True, [(b"k", b"v")])] * 200)
    (task,) = plan(topic).tasks
    assert len(pickle.dumps(task)) < 2000 + 70 * 200
    assert list(pickle.loads(pickle.dumps(task)).pieces) == list(task.pieces)


def test_metadata_from_the_bucket_alone(cluster: Cluster, load: Load) -> None:
    """Without a server, the reader uses exactly the newest snapshot."""
    topic = cluster.create_topic("serverless")
    written = transact(cluster, topic, [(True, [(b"k", b"1")] * 3), (False, [(b"k", b"2")] * 3)])
    store = shared_store(cluster.store_url)
    with control_of(cluster) as control:
        publish_metadata(control, store, keep_ms=3_600_000, now_ms=wall_clock_ms())
    transact(cluster, topic, [(True, [(b"k", b"3")])])
    where = {"metadata": "bucket", "store": cluster.store_url, "subscribe": topic}
    planned = Planned(where, [])
    assert planned.records() == written.committed
    assert Planned({**where, "isolation": "read_uncommitted"}, []).offsets() == list(range(6))
    found = load(topic, "offset long", data="", metadata="bucket", store=cluster.store_url)
    assert sorted(row.offset for row in found.collect()) == list(written.committed)
