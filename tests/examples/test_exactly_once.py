"""Tests that each example is killed in mid-run and still writes exactly one invoice per order."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lacuna.testing import ProcessCluster
from tests.examples.invoices import Invoices, create_topics, expected, order

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HALF = 300
SECONDS = 120.0
LIMIT = 2 * SECONDS + 180.0

#: Builds an example where it needs to be, and returns its command for a cluster and a folder of its own.
Make = Callable[[ProcessCluster, Path], list[str]]


def python(cluster: ProcessCluster, _folder: Path) -> list[str]:
    return [sys.executable, str(EXAMPLES / "python" / "exactly_once.py"), cluster.bootstrap]


def go(cluster: ProcessCluster, folder: Path) -> list[str]:
    program = str(folder / "invoices")
    subprocess.run(["go", "build", "-o", program, "."], cwd=EXAMPLES / "go", check=True)
    return [program, cluster.bootstrap]


def maven(name: str, main: str) -> list[str]:
    project = EXAMPLES / name
    goals = ["compile", "dependency:copy-dependencies", "-DincludeScope=runtime"]
    subprocess.run(["mvn", "-q", "-B", *goals], cwd=project, check=True)
    classes = f"{project / 'target/classes'}:{project / 'target/dependency'}/*"
    return ["java", "-Xmx256m", "-cp", classes, main]


def java(cluster: ProcessCluster, _folder: Path) -> list[str]:
    return [*maven("java", "ExactlyOnce"), cluster.bootstrap]


def streams(cluster: ProcessCluster, folder: Path) -> list[str]:
    return [*maven("kafka-streams", "Invoices"), cluster.bootstrap, str(folder / "state")]


def spark(cluster: ProcessCluster, folder: Path) -> list[str]:
    script = str(EXAMPLES / "spark" / "streaming.py")
    return [sys.executable, script, str(cluster.data), str(folder / "checkpoint")]


def example(make: Make, *tools: str, marks: list[pytest.MarkDecorator]) -> object:
    missing = [each for each in tools if shutil.which(each) is None]
    skip = pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")
    return pytest.param(make, id=make.__name__, marks=[*marks, skip, pytest.mark.timeout(LIMIT)])


JAVA = [pytest.mark.java, pytest.mark.slow]
SLOW = [pytest.mark.slow]


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "make",
    [
        example(python, marks=SLOW),
        example(go, "go", marks=SLOW),
        example(java, "java", "mvn", marks=JAVA),
        example(streams, "java", "mvn", marks=JAVA),
        example(spark, "java", marks=SLOW),
    ],
)
def test_each_order_has_one_invoice_although_it_is_killed(tmp_path: Path, make: Make) -> None:
    log = tmp_path / "said"
    with ProcessCluster(tmp_path / "data") as cluster:
        create_topics(cluster.bootstrap)
        command = make(cluster, tmp_path)
        order(cluster.bootstrap, range(HALF))
        invoices = Invoices(cluster.bootstrap)
        with running(command, log):  # and then killed
            invoices.await_count(HALF // 3, SECONDS)
            order(cluster.bootstrap, range(HALF, 2 * HALF))
        with running(command, log) as process:
            invoices.await_count(2 * HALF, SECONDS)
            invoices.take_rest()
            process.send_signal(signal.SIGTERM)
            process.wait(SECONDS)
        invoices.close()
        assert sorted(invoices.read) == expected(range(2 * HALF)), log.read_text()[-4000:]
