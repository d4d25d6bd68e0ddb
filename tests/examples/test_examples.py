"""Tests every example the way a user runs it."""

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from lacuna.testing import Cluster, ProcessCluster
from lacuna.testing.ports import lasting_ports
from tests.examples.invoices import Invoices, create_topics, expected, order
from tests.forked import ForkedCluster

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HALF = 300
SECONDS = 120.0
# An example that ends too early is noticed at once. One that is still running is merely slow: on a busy machine, Spark
# needed 120 seconds to produce its first invoice.
PATIENCE = 400.0
LIMIT = 2 * PATIENCE + 180.0

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
        with running(command, log) as process:  # and then killed
            invoices.await_count(HALF // 3, PATIENCE, process)
            assert process.poll() is None, log.read_text()[-4000:]
            order(cluster.bootstrap, range(HALF, 2 * HALF))
        with running(command, log) as process:
            invoices.await_count(2 * HALF, PATIENCE, process)
            invoices.take_rest()
            process.send_signal(signal.SIGTERM)
            process.wait(SECONDS)
        invoices.close()
        assert sorted(invoices.read) == expected(range(2 * HALF)), log.read_text()[-4000:]


DOCS = EXAMPLES.parent / "docs"
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("java") and shutil.which("mvn")), reason="needs Java, Maven")
def test_connect_copies_lines_and_leaves_out_what_was_aborted(tmp_path: Path) -> None:
    project = EXAMPLES / "kafka-connect"
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    subprocess.run(["mvn", "-q", "-B", *goal], cwd=project, check=True)
    names = ("worker.properties", "source.properties", "sink.properties")
    (port,) = lasting_ports(1)
    lines = [f"line {number}" for number in range(100)]
    with Cluster() as cluster:
        cluster.create_topic("lines")
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "other"})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.produce("lines", b"never happened")
        producer.flush(SECONDS)
        producer.abort_transaction(SECONDS)
        for name in names:
            text = (project / name).read_text()
            text = text.replace("127.0.0.1:9092", cluster.bootstrap).replace(":8083", f":{port}")
            for file in ("lines.txt", "copy.txt", "connect.offsets"):
                text = text.replace(f"={file}", f"={tmp_path / file}")
            (tmp_path / name).write_text(text)
        (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in lines))
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        command = ["java", "-Xmx256m", "-cp", f"{project / 'target/dependency'}/*", main]
        copy = tmp_path / "copy.txt"
        deadline = time.monotonic() + SECONDS
        with running([*command, *(str(tmp_path / name) for name in names)], tmp_path / "said"):
            while not copy.exists() or len(copy.read_text().splitlines()) < len(lines):
                assert time.monotonic() < deadline, (tmp_path / "said").read_text()[-4000:]
                time.sleep(0.1)
        assert copy.read_text().splitlines() == lines


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("aborted", ["(1, b'happened')", "[(0, 1, 'dropped'), (1, 2, 'delivered')]"]),
        ("cafe", ["1268.9"]),
    ],
)
def test_a_notebook(tmp_path: Path, name: str, last: list[str]) -> None:
    """Runs its cells in order in a separate process, which prints their output."""
    cells = json.loads((EXAMPLES / "notebook" / f"{name}.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] for cell in cells if cell["cell_type"] == "code")
    shown = "for cell in {!r}:\n    exec(compile(cell, 'cell', 'single'))\n"
    separate = [part for cell in code for part in statements(cell)]
    done = subprocess.run(
        [sys.executable, "-c", shown.format(separate)],
        capture_output=True, text=True, cwd=tmp_path, timeout=SECONDS, check=False,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-len(last) :] == last


def statements(cell: str) -> list[str]:
    """Return the statements in a cell, split as an interactive interpreter would split them."""
    return [ast.unparse(each) for each in ast.parse(cell).body]


@pytest.mark.slow
def test_the_first_steps_are_as_the_page_says(tmp_path: Path) -> None:
    programs = PROGRAM.findall((DOCS / "start.md").read_text())
    assert len(programs) == 2
    with ForkedCluster(tmp_path / "data") as cluster:
        printed = [
            subprocess.run(
                [sys.executable, "-c", program.replace("127.0.0.1:9092", cluster.bootstrap)],
                capture_output=True, text=True, timeout=SECONDS, check=True,
            ).stdout
            for program in programs
        ]  # fmt: skip
    assert printed == ["", "0 b'one'\n2 b'two'\n"]
