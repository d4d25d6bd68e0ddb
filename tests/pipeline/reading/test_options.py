"""Tests that each invalid option gives one message that names a valid one."""

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lacuna.logstore.objects.store import wall_clock_ms
from lacuna.pipeline.datasource import progress, reading_options
from lacuna.pipeline.datasource.bounds import EARLIEST, LATEST, AtEdge
from lacuna.pipeline.datasource.options import OptionError, Options
from lacuna.pipeline.datasource.reading_options import Topics, read_options
from lacuna.pipeline.errors import PipelineError
from lacuna.testing import Cluster
from tests.pipeline.reading.conftest import Load

_WHERE = {"control": "127.0.0.1:1", "store": "file:///nowhere"}
_HOW = {**_WHERE, "subscribe": "a"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {**_WHERE},
            "one of the options subscribe, subscribePattern, assign says what to read, and",
        ),
        ({**_HOW, "assign": "{}"}, "only one of .*; given are subscribe and assign"),
        ({**_WHERE, "subscribe": " , "}, "option subscribe names no topic"),
        ({**_WHERE, "subscribePattern": " "}, "option subscribePattern is empty"),
        ({**_WHERE, "subscribePattern": "("}, "option subscribePattern=\\(: missing"),
        (
            {**_WHERE, "subscribePattern": r"\Qa\E"},
            "write a regular expression as in Python's re, not as in Java",
        ),
        ({**_WHERE, "subscribePattern": "[a-z&&[^b]]"}, "set intersection .* not as in Java"),
        ({**_WHERE, "assign": "a-0"}, "option assign=a-0: it is not valid JSON"),
        ({**_WHERE, "assign": '{"a":["0"]}'}, 'write a value like {"topicA":\\[0,1\\]'),
        ({**_WHERE, "assign": "{}"}, 'write a value like {"topicA":\\[0,1\\]'),
        ({"subscribe": "a"}, "no bucket is named[^.]*$"),
        (
            {},
            "no bucket is named.*In SQL, a table made with CREATE TABLE .* CREATE TEMPORARY VIEW",
        ),
        (
            {**_HOW, "option.subscribe": "a", "owner": "me", "provider": "lacuna"},
            "^a table made with CREATE TABLE cannot be used",
        ),
        ({**_HOW, "control": ""}, "this needs the control plane"),
        (
            {**_HOW, "startingOffsets": "soon"},
            "startingOffsets=soon: write earliest, latest, or a value like",
        ),
        ({**_HOW, "cut": "yes"}, "cut"),
        (
            {**_HOW, "cut": "transactions", "endingOffsets": "latest"},
            "options cut=transactions and endingOffsets: both set the end",
        ),
        (
            {**_HOW, "cut": "transactions", "isolation": "read_uncommitted"},
            "option cut=transactions: it ends before open transactions",
        ),
        ({**_HOW, "startingOffsets": "{"}, "option startingOffsets={: it is not valid JSON"),
        (
            {**_HOW, "startingOffsets": '{"a":{"0":-3}}'},
            'write a value like {"topicA":{"0":23,"1":-1}',
        ),
        (
            {**_HOW, "startingOffsets": '{"a":{"x":3}}'},
            'write a value like {"topicA":{"0":23,"1":-1}',
        ),
        ({**_HOW, "startingOffsets": '{"a":[0]}'}, 'write a value like {"topicA":{"0":23,"1":-1}'),
        ({**_HOW, "startingTimestamp": "today"}, "startingTimestamp=today: write a whole number"),
        ({**_HOW, "startingOffsetsByTimestamp": '{"a":{"0":-1}}'}, "write a value like"),
        ({**_HOW, "startingOffsetsByTimestampStrategy": "no"}, "choose one of error, latest"),
        ({**_HOW, "failOnDataLoss": "maybe"}, "option failOnDataLoss=maybe: choose one of true, f"),
        ({**_HOW, "includeHeaders": "1"}, "option includeHeaders=1: choose one of true, false"),
        ({**_HOW, "minPartitions": "0"}, "option minPartitions=0: the minimum is 1"),
        ({**_HOW, "minPartitions": "1_0"}, "option minPartitions=1_0: write a whole number"),
        ({**_HOW, "startingTimestamp": "9" * 30}, "write a whole number of at most 18 digits"),
        ({**_HOW, "maxRecordsPerPartition": "0"}, "maxRecordsPerPartition=0: the minimum is 1"),
        ({**_HOW, "maxOffsetsPerTrigger": "-5"}, "maxOffsetsPerTrigger=-5: the minimum is 1"),
        ({**_HOW, "maxTriggerDelay": "soon"}, "maxTriggerDelay=soon: write a duration such as 30s"),
        ({**_HOW, "pin": "1y"}, "option pin=1y: write a duration such as"),
        ({**_HOW, "pin": "9" * 30 + "d"}, "write a duration such as"),
        ({**_HOW, "isolation": "dirty"}, "choose one of read_committed, read_uncommitted"),
        ({**_HOW, "metadata": "elsewhere"}, "choose one of control, bucket"),
        ({**_HOW, "view": "holes"}, "choose one of records, plan"),
        ({**_HOW, "asOf": "yesterday"}, "option asOf=yesterday: write a time such as 2026-"),
        ({**_HOW, "asOf": "2999-01-01"}, "option asOf=2999-01-01: that time is in the future"),
        (
            {**_HOW, "subscribed": "b"},
            "option subscribed: there is no such option; the options are",
        ),
        ({**_HOW, "topic": "b"}, "option topic: it is for writing: to read, use subscribe=TOPIC"),
        (
            {**_HOW, "kafka.bootstrap.servers": "x:1"},
            "kafka.bootstrap.servers: Lacuna reads the bucket directly",
        ),
        ({**_HOW, "kafka.isolation.level": "read_committed"}, "use isolation=read_committed"),
        ({**_HOW, "kafka.auto.offset.reset": "earliest"}, "use startingOffsets=earliest"),
        ({**_HOW, "kafka.fetch.max.bytes": "1"}, "kafka.fetch.max.bytes: it configures a Kafka cl"),
        ({**_HOW, "groupIdPrefix": "x"}, "option groupidprefix: there is no consumer group"),
        ({**_HOW, "kafkaConsumer.pollTimeoutMs": "1"}, "there is no consumer to configure"),
        ({**_HOW, "fetchOffset.numRetries": "1"}, "the control plane's client retries by itself"),
    ],
)
def test_wrong_options(
    options: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LACUNA_DATA", "LACUNA_CONTROL", "LACUNA_STORE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(PipelineError, match=message) as found:
        read_options(Options(options))
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("is_streaming", "options", "message"),
    [
        (False, {"startingOffsets": "latest"}, "a batch cannot begin at latest"),
        (False, {"startingOffsets": '{"a":{"0":-1}}'}, "a batch cannot begin at latest"),
        (False, {"endingOffsets": "earliest"}, "a batch cannot end at earliest"),
        (False, {"endingOffsets": '{"a":{"0":-2}}'}, "a batch cannot end at earliest"),
        (
            False,
            {"startingOffsets": '{"a":{"0":1}}', "endingOffsets": '{"a":{"1":1}}'},
            "starting offsets name the partitions a-0, but the ending offsets a-1",
        ),
        (
            False,
            {"startingOffsets": '{"a":{"0":3}}', "endingOffsets": '{"a":{"0":1}}'},
            "the starting offset 3 of a-0 is greater than its ending offset 1",
        ),
        (
            False,
            {
                "startingOffsetsByTimestamp": '{"a":{"0":3}}',
                "endingOffsetsByTimestamp": '{"a":{"0":1}}',
            },
            "the starting timestamp 3 of a-0 is greater",
        ),
        (
            False,
            {"startingTimestamp": "3", "endingTimestamp": "1"},
            "startingTimestamp \\(3\\) is later than endingTimestamp \\(1\\)",
        ),
        (True, {"endingOffsets": "latest"}, "option endingOffsets: a stream has no end"),
        (True, {"endingTimestamp": "1"}, "option endingTimestamp: a stream has no end"),
        (True, {"endingOffsetsByTimestamp": "{}"}, "write a value like|a stream has no end"),
        (True, {"view": "plan"}, "only a batch has a plan"),
        (True, {"asOf": "-1h"}, "option asOf: a stream shows new records"),
        (
            False,
            {"asOf": "-1h", "endingOffsets": "latest"},
            "options asOf and endingOffsets: both set the end",
        ),
        (False, {"asOf": "-1h", "endingTimestamp": "7"}, "options asOf and endingTimestamp"),
        (
            False,
            {"asOf": "-1h", "isolation": "read_uncommitted"},
            "option asOf: it always shows what a read_committed consumer could see",
        ),
        (
            True,
            {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            "minOffsetsPerTrigger \\(5\\) is greater than maxOffsetsPerTrigger \\(4\\)",
        ),
    ],
)
def test_options_of_the_other_kind(
    is_streaming: bool, options: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        read_options(Options({**_HOW, **options}), is_streaming=is_streaming)


@pytest.mark.parametrize(
    ("missing", "name", "message"),
    [
        ("HAS_LIMITS", "maxOffsetsPerTrigger", "batch of a stream; .* pyspark 4.2 or later"),
        ("HAS_LIMITS", "minOffsetsPerTrigger", "batch of a stream; .* pyspark 4.2 or later"),
        ("HAS_FILTERS", "pushdown", "passes no filters .* pyspark 4.1 or later"),
    ],
)
def test_an_older_pyspark_refuses_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, missing: str, name: str, message: str
) -> None:
    given = {"subscribe": "a", "store": "file:///x", "metadata": "bucket"}
    given[name] = "true" if name == "pushdown" else "5"
    read_options(Options(given), is_streaming=True)
    monkeypatch.setattr(reading_options, missing, False)
    with pytest.raises(OptionError, match=f"option {name}.*: PySpark .*{message}"):
        read_options(Options(given), is_streaming=True)


def test_an_older_pyspark_reports_no_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "HAS_LIMITS", False)
    with pytest.raises(PipelineError, match=r"so the lag is unknown; install pyspark 4\.2"):
        progress.lag({"sources": [{"endOffset": "{}", "latestOffset": None}]})


def test_options_in_any_case_and_their_defaults() -> None:
    given = {**_WHERE, "SUBSCRIBE": "a, b", "maxtriggerdelay": "2m", "path": "x", "__internal": "y"}
    batch, stream = (read_options(Options(given), is_streaming=each) for each in (False, True))
    assert batch.selection == Topics(frozenset({"a", "b"}))
    assert (batch.starting, batch.ending) == (AtEdge(EARLIEST), AtEdge(LATEST))
    assert stream.starting == AtEdge(LATEST)
    assert stream.max_trigger_delay == 120
    assert batch.is_committed
    assert batch.fail_on_data_loss
    assert batch.pin == 3600


def test_a_past_time_is_resolved_once() -> None:
    found = read_options(Options({**_HOW, "asOf": "1764162000123"}), is_streaming=False)
    assert found.as_of_ms == 1_764_162_000_123
    assert read_options(Options({**_HOW, "asOf": "2025-11-26T13:00+00:00"})).as_of_ms == (
        1_764_162_000_000
    )
    before_ms = wall_clock_ms()
    as_of_ms = read_options(Options({**_HOW, "asOf": "-15m"})).as_of_ms
    assert as_of_ms is not None
    assert before_ms <= as_of_ms + 900_000 <= wall_clock_ms()
    assert read_options(Options(_HOW)).as_of_ms is None


def test_sql(spark: SparkSession, cluster: Cluster) -> None:
    """A view works, and a table, which Spark reads without its options, gives an error."""
    topic = cluster.create_topic("sql", partitions=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(topic, b"value")
    assert producer.flush(60) == 0
    options = f"OPTIONS (data '{cluster.data}', subscribe '{topic}', includeHeaders 'true')"
    spark.sql(f"CREATE TEMPORARY VIEW sql_view USING lacuna {options}")
    (row,) = spark.sql("SELECT CAST(value AS STRING), headers FROM sql_view").collect()
    assert tuple(row) == ("value", None)

    with pytest.raises(
        PySparkException, match="OptionError: a table made with CREATE TABLE cannot be"
    ):
        spark.sql(f"CREATE TABLE sql_table USING lacuna {options}")
    spark.sql(f"CREATE TABLE sql_table (value BINARY) USING lacuna {options}")
    try:
        with pytest.raises(
            PySparkException, match="In SQL, a table made with CREATE TABLE cannot be"
        ):
            spark.sql("SELECT * FROM sql_table").collect()
    finally:
        spark.sql("DROP TABLE sql_table")


def test_a_mistake_is_one_line_of_spark(load: Load) -> None:
    """The user's error begins with our message, without a Python traceback."""
    with pytest.raises(PySparkException) as created:
        load("a", isolation="dirty")
    with pytest.raises(PySparkException) as planned:
        load("nowhere").collect()
    for error, message in (
        (created, "OptionError: option isolation=dirty: choose one of"),
        (planned, "PipelineError: there is no topic nowhere"),
    ):
        assert message in str(error.value).splitlines()[0]
        assert "Traceback" not in str(error.value)


@pytest.mark.slow
def test_a_control_plane_that_is_away(load: Load, cluster: Cluster) -> None:
    with pytest.raises(PySparkException) as away:
        load("a", data="", control="127.0.0.1:1", store=cluster.store_url).collect()
    assert "ControlPlaneUnavailable: " in str(away.value).splitlines()[0]
