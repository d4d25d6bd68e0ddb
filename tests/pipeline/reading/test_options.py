"""Options that do not fit: one message each, which says what would."""

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lacuna.testing import Cluster
from pipeline.datasource.bounds import EARLIEST, LATEST, AtEdge
from pipeline.datasource.options import OptionError, Options
from pipeline.datasource.reading_options import Topics, read_options
from pipeline.errors import PipelineError
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
        ({**_WHERE, "subscribePattern": r"\Qa\E"}, "it is a pattern of Python's re, not of Java's"),
        ({**_WHERE, "subscribePattern": "[a-z&&[^b]]"}, "set intersection .* not of Java's"),
        ({**_WHERE, "assign": "a-0"}, "option assign=a-0: it is no JSON"),
        ({**_WHERE, "assign": '{"a":["0"]}'}, 'it looks like {"topicA":\\[0,1\\]'),
        ({**_WHERE, "assign": "{}"}, 'it looks like {"topicA":\\[0,1\\]'),
        ({"subscribe": "a"}, "no bucket was named[^.]*$"),
        ({}, "no bucket was named.*In SQL, a table of CREATE TABLE .* CREATE TEMPORARY VIEW"),
        (
            {**_HOW, "option.subscribe": "a", "owner": "me", "provider": "lacuna"},
            "^a table of CREATE TABLE cannot be used",
        ),
        ({**_HOW, "control": ""}, "this needs the control plane"),
        (
            {**_HOW, "startingOffsets": "soon"},
            "startingOffsets=soon: it is earliest, latest, or wh",
        ),
        ({**_HOW, "startingOffsets": "{"}, "option startingOffsets={: it is no JSON"),
        ({**_HOW, "startingOffsets": '{"a":{"0":-3}}'}, 'it looks like {"topicA":{"0":23,"1":-1}'),
        ({**_HOW, "startingOffsets": '{"a":{"x":3}}'}, 'it looks like {"topicA":{"0":23,"1":-1}'),
        ({**_HOW, "startingOffsets": '{"a":[0]}'}, 'it looks like {"topicA":{"0":23,"1":-1}'),
        ({**_HOW, "startingTimestamp": "today"}, "startingTimestamp=today: it is a whole number"),
        ({**_HOW, "startingOffsetsByTimestamp": '{"a":{"0":-1}}'}, "it looks like"),
        ({**_HOW, "startingOffsetsByTimestampStrategy": "no"}, "it is one of error, latest"),
        ({**_HOW, "failOnDataLoss": "maybe"}, "option failOnDataLoss=maybe: it is one of true, f"),
        ({**_HOW, "includeHeaders": "1"}, "option includeHeaders=1: it is one of true, false"),
        ({**_HOW, "minPartitions": "0"}, "option minPartitions=0: it is at least 1"),
        ({**_HOW, "minPartitions": "1_0"}, "option minPartitions=1_0: it is a whole number"),
        ({**_HOW, "startingTimestamp": "9" * 30}, "it is a whole number, of 18 digits at most"),
        ({**_HOW, "maxRecordsPerPartition": "0"}, "maxRecordsPerPartition=0: it is at least 1"),
        ({**_HOW, "maxOffsetsPerTrigger": "-5"}, "maxOffsetsPerTrigger=-5: it is at least 1"),
        ({**_HOW, "maxTriggerDelay": "soon"}, "maxTriggerDelay=soon: it is a duration such as 30s"),
        ({**_HOW, "pin": "1y"}, "option pin=1y: it is a duration such as"),
        ({**_HOW, "pin": "9" * 30 + "d"}, "it is a duration such as"),
        ({**_HOW, "isolation": "dirty"}, "it is one of read_committed, read_uncommitted"),
        ({**_HOW, "metadata": "elsewhere"}, "it is one of control, bucket"),
        ({**_HOW, "view": "holes"}, "it is one of records, plan"),
        (
            {**_HOW, "subscribed": "b"},
            "option subscribed: there is no such option; the options are",
        ),
        ({**_HOW, "topic": "b"}, "option topic: it is for writing: say subscribe=TOPIC"),
        ({**_HOW, "kafka.bootstrap.servers": "x:1"}, "kafka.bootstrap.servers: no broker is asked"),
        ({**_HOW, "kafka.isolation.level": "read_committed"}, "say isolation=read_committed"),
        ({**_HOW, "kafka.auto.offset.reset": "earliest"}, "say startingOffsets=earliest"),
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
            "starting offsets are of the partitions a-0, the ending offsets of a-1",
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
        (True, {"endingOffsets": "latest"}, "option endingOffsets: a stream does not end"),
        (True, {"endingTimestamp": "1"}, "option endingTimestamp: a stream does not end"),
        (True, {"endingOffsetsByTimestamp": "{}"}, "it looks like|a stream does not end"),
        (True, {"view": "plan"}, "the plan is a batch's"),
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


def test_sql(spark: SparkSession, cluster: Cluster) -> None:
    """A view works, and a table, which Spark reads without its options, says so."""
    topic = cluster.create_topic("sql", partitions=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(topic, b"value")
    assert producer.flush(60) == 0
    options = f"OPTIONS (data '{cluster.data}', subscribe '{topic}', includeHeaders 'true')"
    spark.sql(f"CREATE TEMPORARY VIEW sql_view USING lacuna {options}")
    (row,) = spark.sql("SELECT CAST(value AS STRING), headers FROM sql_view").collect()
    assert tuple(row) == ("value", None)

    with pytest.raises(PySparkException, match="OptionError: a table of CREATE TABLE cannot be"):
        spark.sql(f"CREATE TABLE sql_table USING lacuna {options}")
    spark.sql(f"CREATE TABLE sql_table (value BINARY) USING lacuna {options}")
    try:
        with pytest.raises(PySparkException, match="In SQL, a table of CREATE TABLE cannot be"):
            spark.sql("SELECT * FROM sql_table").collect()
    finally:
        spark.sql("DROP TABLE sql_table")


def test_a_mistake_is_one_line_of_spark(load: Load) -> None:
    """What the user sees begins with our message, without a traceback of a Python process."""
    with pytest.raises(PySparkException) as created:
        load("a", isolation="dirty")
    with pytest.raises(PySparkException) as planned:
        load("nowhere").collect()
    for error, message in (
        (created, "OptionError: option isolation=dirty: it is one of"),
        (planned, "PipelineError: there is no topic nowhere"),
    ):
        assert message in str(error.value).splitlines()[0]
        assert "Traceback" not in str(error.value)


@pytest.mark.slow
def test_a_control_plane_that_is_away(load: Load, cluster: Cluster) -> None:
    with pytest.raises(PySparkException) as away:
        load("a", data="", control="127.0.0.1:1", store=cluster.store_url).collect()
    assert "ControlPlaneUnavailable: " in str(away.value).splitlines()[0]
