"""Tests that each invalid option causes one message that names a valid one."""

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


def _given(text: str) -> dict[str, str]:
    """Return the options given in a text such as "pin=1h;cut=transactions"."""
    return dict(each.split("=", 1) for each in text.split(";") if each)


WRONG_PLACES = [
    ("subscribe=a", "no bucket is specified[^.]*$"),
    (
        "",
        "no bucket is specified.*In SQL, a table created with CREATE TABLE .* CREATE TEMPORARY VIEW",
    ),
]
WRONG_SELECTIONS = [
    ("", "exactly one of the options subscribe, subscribePattern, assign must be set; none is set"),
    ("subscribe= , ", "option subscribe names no topic"),
    ("subscribePattern= ", "option subscribePattern is empty"),
    ("subscribePattern=(", "option subscribePattern=\\(: missing"),
    (
        "subscribePattern=\\Qa\\E",
        "specify a regular expression in the syntax of Python's re, not Java's",
    ),
    ("subscribePattern=[a-z&&[^b]]", "set intersection .* not Java's"),
    ("assign=a-0", "option assign=a-0: not valid JSON"),
    ('assign={"a":["0"]}', 'specify a value like {"topicA":\\[0,1\\]'),
    ("assign={}", 'specify a value like {"topicA":\\[0,1\\]'),
]
WRONG = [
    ("assign={}", "exactly one of .*; subscribe and assign are set"),
    (
        "option.subscribe=a;owner=me;provider=lacuna",
        "^a table created with CREATE TABLE cannot be used",
    ),
    ("control=", "this needs the control plane"),
    ("startingOffsets=soon", "startingOffsets=soon: specify earliest, latest, or a value like"),
    ("cut=yes", "cut"),
    (
        "cut=transactions;endingOffsets=latest",
        "options cut=transactions and endingOffsets: both set the end",
    ),
    (
        "cut=transactions;isolation=read_uncommitted",
        "option cut=transactions: a cut ends before open transactions",
    ),
    ("startingOffsets={", "option startingOffsets={: not valid JSON"),
    ('startingOffsets={"a":{"0":-3}}', 'specify a value like {"topicA":{"0":23,"1":-1}'),
    ('startingOffsets={"a":{"x":3}}', 'specify a value like {"topicA":{"0":23,"1":-1}'),
    ('startingOffsets={"a":[0]}', 'specify a value like {"topicA":{"0":23,"1":-1}'),
    ("startingTimestamp=today", "startingTimestamp=today: specify an integer"),
    ('startingOffsetsByTimestamp={"a":{"0":-1}}', "specify a value like"),
    ("startingOffsetsByTimestampStrategy=no", "choose one of error, latest"),
    ("failOnDataLoss=maybe", "option failOnDataLoss=maybe: choose one of true, f"),
    ("includeHeaders=1", "option includeHeaders=1: choose one of true, false"),
    ("minPartitions=0", "option minPartitions=0: the minimum is 1"),
    ("minPartitions=1_0", "option minPartitions=1_0: specify an integer"),
    (
        "startingTimestamp=999999999999999999999999999999",
        "specify an integer of up to 18 digits",
    ),
    ("maxRecordsPerPartition=0", "maxRecordsPerPartition=0: the minimum is 1"),
    ("maxOffsetsPerTrigger=-5", "maxOffsetsPerTrigger=-5: the minimum is 1"),
    ("maxTriggerDelay=soon", "maxTriggerDelay=soon: specify a duration such as 30s"),
    ("pin=1y", "option pin=1y: specify a duration such as"),
    ("pin=999999999999999999999999999999d", "specify a duration such as"),
    ("isolation=dirty", "choose one of read_committed, read_uncommitted"),
    ("metadata=elsewhere", "choose one of control, bucket"),
    ("view=holes", "choose one of records, plan"),
    ("asOf=yesterday", "option asOf=yesterday: use a time such as 2026-"),
    ("asOf=2999-01-01", "option asOf=2999-01-01: that time is in the future"),
    ("subscribed=b", "option subscribed: there is no such option; the options are"),
    ("topic=b", "option topic: it is for writing: to read, use subscribe=TOPIC"),
    ("kafka.bootstrap.servers=x:1", "kafka.bootstrap.servers: Lacuna reads the bucket directly"),
    ("kafka.isolation.level=read_committed", "use isolation=read_committed"),
    ("kafka.auto.offset.reset=earliest", "use startingOffsets=earliest"),
    ("kafka.fetch.max.bytes=1", "kafka.fetch.max.bytes: it configures a Kafka cl"),
    ("groupIdPrefix=x", "option groupidprefix: there is no consumer group"),
    ("kafkaConsumer.pollTimeoutMs=1", "there is no consumer to configure"),
    ("fetchOffset.numRetries=1", "the control plane's client retries by itself"),
]


@pytest.mark.parametrize(
    ("base", "options", "message"),
    [
        *(({}, *each) for each in WRONG_PLACES),
        *((_WHERE, *each) for each in WRONG_SELECTIONS),
        *((_HOW, *each) for each in WRONG),
    ],
)
def test_wrong_options(
    base: dict[str, str], options: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LACUNA_DATA", "LACUNA_CONTROL", "LACUNA_STORE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(PipelineError, match=message) as found:
        read_options(Options({**base, **_given(options)}))
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("is_streaming", "options", "message"),
    [
        (False, "startingOffsets=latest", "a batch cannot begin at latest"),
        (False, 'startingOffsets={"a":{"0":-1}}', "a batch cannot begin at latest"),
        (False, "endingOffsets=earliest", "a batch cannot end at earliest"),
        (False, 'endingOffsets={"a":{"0":-2}}', "a batch cannot end at earliest"),
        (
            False,
            'startingOffsets={"a":{"0":1}};endingOffsets={"a":{"1":1}}',
            "starting offsets name the partitions a-0, but the ending offsets name a-1",
        ),
        (
            False,
            'startingOffsets={"a":{"0":3}};endingOffsets={"a":{"0":1}}',
            "the starting offset 3 of a-0 is greater than its ending offset 1",
        ),
        (
            False,
            'startingOffsetsByTimestamp={"a":{"0":3}};endingOffsetsByTimestamp={"a":{"0":1}}',
            "the starting timestamp 3 of a-0 is greater",
        ),
        (
            False,
            "startingTimestamp=3;endingTimestamp=1",
            "startingTimestamp \\(3\\) is later than endingTimestamp \\(1\\)",
        ),
        (True, "endingOffsets=latest", "option endingOffsets: a stream has no end"),
        (True, "endingTimestamp=1", "option endingTimestamp: a stream has no end"),
        (True, "endingOffsetsByTimestamp={}", "specify a value like|a stream has no end"),
        (True, "view=plan", "only a batch has a plan"),
        (True, "asOf=-1h", "option asOf: a stream reads new records"),
        (
            False,
            "asOf=-1h;endingOffsets=latest",
            "options asOf and endingOffsets: both set the end",
        ),
        (False, "asOf=-1h;endingTimestamp=7", "options asOf and endingTimestamp"),
        (
            False,
            "asOf=-1h;isolation=read_uncommitted",
            "option asOf: it always shows what a read_committed consumer could see",
        ),
        (
            True,
            "minOffsetsPerTrigger=5;maxOffsetsPerTrigger=4",
            "minOffsetsPerTrigger \\(5\\) is greater than maxOffsetsPerTrigger \\(4\\)",
        ),
    ],
)
def test_options_of_the_other_kind(is_streaming: bool, options: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_options(Options({**_HOW, **_given(options)}), is_streaming=is_streaming)


@pytest.mark.parametrize(
    ("missing", "name", "message"),
    [
        ("HAS_LIMITS", "maxOffsetsPerTrigger", "reads in each batch; .* pyspark 4.2 or later"),
        ("HAS_LIMITS", "minOffsetsPerTrigger", "reads in each batch; .* pyspark 4.2 or later"),
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
    """A view works. A table, which Spark reads without its options, causes an error."""
    topic = cluster.create_topic("sql", partitions=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(topic, b"value")
    assert producer.flush(60) == 0
    options = f"OPTIONS (data '{cluster.data}', subscribe '{topic}', includeHeaders 'true')"
    spark.sql(f"CREATE TEMPORARY VIEW sql_view USING lacuna {options}")
    (row,) = spark.sql("SELECT CAST(value AS STRING), headers FROM sql_view").collect()
    assert tuple(row) == ("value", None)

    with pytest.raises(
        PySparkException, match="OptionError: a table created with CREATE TABLE cannot be"
    ):
        spark.sql(f"CREATE TABLE sql_table USING lacuna {options}")
    spark.sql(f"CREATE TABLE sql_table (value BINARY) USING lacuna {options}")
    try:
        with pytest.raises(
            PySparkException, match="In SQL, a table created with CREATE TABLE cannot be"
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
