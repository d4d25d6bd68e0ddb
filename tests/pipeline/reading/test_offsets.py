"""Tests where reading begins and ends, for all such options of Spark's Kafka source."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from lacuna.pipeline.errors import DataLossError, PipelineError
from lacuna.testing import Cluster
from tests.pipeline.conftest import transact, transactional
from tests.pipeline.reading.conftest import Load, Planned

Plan = Callable[..., Planned]

TOPIC = "bounds"
#: Of the record at offset i, in ms.
_TIME = 1_600_000_000_000


@pytest.fixture(scope="module")
def bounds(cluster: Cluster) -> str:
    """Two partitions with ten one-record transactions a second apart. Offsets 4 and 5 of partition 0 are aborted."""
    cluster.create_topic(TOPIC, 2, {"retention.ms": "-1"})
    for partition in range(2):
        producer = transactional(cluster, f"bounds-{partition}")
        for offset in range(10):
            producer.begin_transaction()
            value = b"%d" % offset + b"." * 100
            producer.produce(TOPIC, value, partition=partition, timestamp=_TIME + 1000 * offset)
            producer.flush(60)
            is_aborted = partition == 0 and offset in (4, 5)
            (producer.abort_transaction if is_aborted else producer.commit_transaction)(60)
    return TOPIC


_ALL = ([0, 1, 2, 3, 6, 7, 8, 9], list(range(10)))


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        pytest.param({}, *_ALL, id="all"),
        pytest.param({"startingOffsets": "earliest", "endingOffsets": "latest"}, *_ALL, id="edges"),
        pytest.param(
            {
                "startingOffsets": '{"bounds":{"0":4,"1":-2}}',
                "endingOffsets": '{"bounds":{"0":-1,"1":2}}',
            },
            [6, 7, 8, 9],
            [0, 1],
            id="offsets",
        ),
        pytest.param({"startingOffsets": '{"bounds":{"0":10,"1":10}}'}, [], [], id="at the end"),
        pytest.param(
            {"startingTimestamp": _TIME + 7000, "startingOffsets": "earliest"},
            [7, 8, 9],
            [7, 8, 9],
            id="one time",
        ),
        pytest.param(
            {"startingTimestamp": _TIME + 3001, "endingTimestamp": _TIME + 7000},
            [6],
            [4, 5, 6],
            id="between two times",
        ),
        pytest.param(
            {
                "startingOffsetsByTimestamp": f'{{"bounds":{{"0":{_TIME},"1":{_TIME + 8500}}}}}',
                "endingOffsetsByTimestamp": f'{{"bounds":{{"0":{_TIME + 1},"1":{_TIME + 99999}}}}}',
            },
            [0],
            [9],
            id="times",
        ),
        pytest.param(
            {
                "startingTimestamp": _TIME + 99999,
                "startingOffsetsByTimestampStrategy": "LATEST",
            },
            [],
            [],
            id="a time beyond the end",
        ),
    ],
)
def test_bounds(
    bounds: str, plan: Plan, options: dict[str, Any], first: list[int], second: list[int]
) -> None:
    found = [(row["partition"], row["offset"]) for row in plan(bounds, **options).rows()]
    assert found == [(0, each) for each in first] + [(1, each) for each in second]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"startingOffsets": '{"bounds":{"0":4}}'},
            "offsets were given for bounds-0, but the partitions to read are bounds-0, bounds-1",
        ),
        ({"startingTimestamp": _TIME + 99999}, "bounds-0 has no record at or after timestamp"),
        (
            {"endingOffsets": '{"bounds":{"0":11,"1":-1}}'},
            "ends at offset 10, but offset 11 was requested",
        ),
        (
            {"startingOffsets": '{"bounds":{"0":-2,"1":12}}'},
            "ends at offset 10, but offset 12 was requested",
        ),
        (
            {"startingTimestamp": _TIME + 3000, "endingOffsets": '{"bounds":{"0":-1,"1":2}}'},
            "bounds-1 was requested from offset 3, but ends earlier, at 2",
        ),
        ({"subscribe": "bounds,nowhere"}, "there is no topic nowhere"),
        ({"assign": '{"bounds":[0,2]}'}, "there is no partition bounds-2"),
    ],
)
def test_bounds_that_are_not_there(
    bounds: str, plan: Plan, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(PipelineError, match=message):
        plan(bounds, **options)


def test_beyond_the_end_where_loss_is_allowed(bounds: str, plan: Plan) -> None:
    ending = {"endingOffsets": '{"bounds":{"0":11,"1":-1}}', "failOnDataLoss": "false"}
    assert plan(bounds, **ending).offsets() == [*_ALL[0], *_ALL[1]]


def _at(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=_TIME / 1000 + seconds)


@pytest.mark.parametrize(
    ("filters", "first", "second", "left"),
    [
        ([EqualTo(("partition",), 1)], [], range(10), 0),
        ([In(("partition",), (0, 7)), LessThan(("offset",), 3)], [0, 1, 2], [], 0),
        ([Not(EqualTo(("partition",), 1)), GreaterThan(("offset",), 7)], [8, 9], [], 0),
        ([GreaterThanOrEqual(("offset",), 3), LessThanOrEqual(("offset",), 6)], [3, 6], range(3, 7), 0),
        ([EqualTo(("offset",), 5)], [], [5], 0),
        ([In(("offset",), (2, 4))], [2, 3], [2, 3, 4], 1),
        ([GreaterThan(("timestamp",), _at(7))], [8, 9], [8, 9], 0),
        ([GreaterThanOrEqual(("timestamp",), _at(7))], [7, 8, 9], [7, 8, 9], 0),
        ([LessThan(("timestamp",), _at(1.0005))], [0, 1], [0, 1], 0),
        ([EqualTo(("timestamp",), _at(3))], [3], [3], 0),
        ([EqualTo(("timestamp",), _at(3.0005))], [], [], 0),
        ([IsNotNull(("offset",)), EqualTo(("topic",), TOPIC)], *_ALL, 0),
        ([StringStartsWith(("topic",), "other")], [], [], 0),
        ([EqualTo(("value",), b"1"), IsNotNull(("key",))], *_ALL, 2),
        ([Not(EqualTo(("offset",), 5))], *_ALL, 1),
    ],
)  # fmt: skip
def test_filters(
    bounds: str, plan: Plan, filters: list[Filter], first: list[int], second: list[int], left: int
) -> None:
    """Pushed filters are applied exactly, and the rest is returned to Spark."""
    planned = plan(bounds, *filters)
    found = [(row["partition"], row["offset"]) for row in planned.rows()]
    assert found == [(0, each) for each in first] + [(1, each) for each in second]
    assert len(planned.left) == left


def test_filters_read_less(bounds: str, plan: Plan) -> None:
    everything = plan(bounds).stored_bytes
    for filters, share in {
        (EqualTo(("partition",), 1),): 10 / 18,
        (GreaterThanOrEqual(("offset",), 9),): 2 / 18,
        (GreaterThan(("timestamp",), _at(7)),): 4 / 18,
        (EqualTo(("topic",), "other"),): 0,
    }.items():
        assert plan(bounds, *filters).stored_bytes == everything * share


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns"])
def test_filters_of_a_query(bounds: str, load: Load, spark: Any, zone: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = load(bounds, pushdown="true").filter(
            f"partition = 1 and offset in (1, 2, 8) and timestamp > timestamp_millis({_TIME + 1000})"
        )
        assert sorted(row.offset for row in frame.collect()) == [2, 8]
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert "offset" in plan
        assert "timestamp" not in plan.split("Filter")[1].split("\n")[0]
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


def test_one_frame_with_several_filters(bounds: str, load: Load, spark: Any) -> None:
    """Each use gets its own rows. With pushed filters, Spark 4.3 would mix them up."""
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    frame = load(bounds)
    late, early = frame.filter("offset >= 8"), frame.filter("offset < 3")
    assert [late.count(), frame.count(), early.count(), frame.count()] == [4, 18, 6, 18]
    assert late.union(early).count() == 10


def test_retention_took_the_beginning(cluster: Cluster, plan: Plan) -> None:
    topic = cluster.create_topic("trimmed", configs={"retention.ms": "60000"})
    transact(cluster, topic, [(True, [(b"k", b"old")] * 3)])
    cluster.advance(3_600_000)
    assert plan(topic).rows() == []
    with pytest.raises(
        DataLossError, match="trimmed-0 begins at offset 3, but offset 1 was requested"
    ):
        plan(topic, startingOffsets='{"trimmed":{"0":1}}')
    tolerant = {"startingOffsets": '{"trimmed":{"0":1}}', "failOnDataLoss": "false"}
    assert plan(topic, **tolerant).rows() == []
