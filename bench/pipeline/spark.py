"""Spark sessions, either to compare Lacuna's source with Spark's own for Apache Kafka, or to run Lacuna's commands.

The sources share the JVM, its two cores, and the Python workers; only `format` differs.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from bench import BenchError, kafka
from bench.lacuna import Lacuna
from bench.target import Target
from lacuna.pipeline.session import spark_session

CORES = 2
HEAP = "2g"
POM = Path(__file__).with_name("pom.xml")


class Source(Protocol):
    """The common interface of `spark.read` and `spark.readStream`."""

    def format(self, source: str) -> Any: ...


def versions() -> dict[str, str]:
    """Returns the versions of Spark, of its Kafka source, and of that source's Kafka clients."""
    import pyspark

    named = dict(re.findall(r"<(\w+)\.version>(.+?)</", POM.read_text()))
    return {
        "spark": pyspark.__version__,
        "spark-sql-kafka": f"{named['source']}, kafka-clients {named['kafka']}",
    }


def jars() -> Path:
    """Returns the folder with the jars of Spark's Kafka source. Downloads missing jars. Raises KafkaMissing."""
    named = re.search(r"<source\.version>(.+?)</", POM.read_text())
    if named is None:
        raise BenchError(f"{POM} names no source.version")
    return kafka.fetch(POM, kafka.JARS / f"spark-kafka-{named.group(1)}")


@dataclass(frozen=True, slots=True)
class Spark:
    """A running Spark session; `pid` is the process id of its JVM."""

    session: SparkSession
    pid: int

    def source(self, source: Source, target: Target, topic: str, **options: Any) -> DataFrame:
        """Returns a topic's committed records. `source` is session.read or session.readStream."""
        if isinstance(target, Lacuna):
            reader = source.format("lacuna").option("data", str(target.data))
        else:
            reader = source.format("kafka").option("kafka.bootstrap.servers", target.bootstrap)
            reader = reader.option("kafka.isolation.level", "read_committed")
        frame: DataFrame = reader.option("subscribe", topic).options(**options).load()
        return frame


@contextmanager
def open_spark(*, compares: bool, with_kafka: bool) -> Iterator[Spark]:
    """Runs a session on local[2] in a new JVM during the block. Raises KafkaMissing.

    With `compares`, the JVM runs with Spark's own settings, which let the Java code of its Kafka source warm up.
    Otherwise, it runs with the settings of Lacuna's commands. `with_kafka` adds the jars of Spark's Kafka source.
    """
    settings = {"spark.driver.memory": HEAP, "spark.sql.shuffle.partitions": str(CORES)}
    if compares:
        settings["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=4"
    if with_kafka:
        settings["spark.driver.extraClassPath"] = f"{jars()}/*"
    try:
        with spark_session("bench", f"local[{CORES}]", settings) as session:
            handle = session.sparkContext._jvm
            if handle is None:
                raise BenchError("Spark has no JVM")
            yield Spark(session, handle.java.lang.ProcessHandle.current().pid())
    finally:
        _end_jvm()


def _end_jvm() -> None:
    """Ends the JVM, which the next session in this process would otherwise reuse."""
    gateway: Any = SparkContext._gateway
    if gateway is not None:
        SparkContext._gateway = SparkContext._jvm = None
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


class WithSpark(Target):
    """A server and the Spark session that reads from it, measured together so that neither counts as other load."""

    def __init__(self, target: Target, spark: Spark) -> None:
        self.label, self.settings = target.label, target.settings
        self._target, self._spark = target, spark

    @property
    def bootstrap(self) -> str:
        return self._target.bootstrap

    @property
    def pids(self) -> tuple[int, ...]:
        return (*self._target.pids, self._spark.pid)

    def start(self) -> None:
        """Does nothing, because both are running."""

    def stop(self) -> None:
        """Does nothing, because both are ended elsewhere."""

    def forget(self) -> bool:
        return self._target.forget()
