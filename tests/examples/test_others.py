"""Tests the examples without invoices (Kafka Connect, the notebook) and the outputs that the pages show."""

import ast
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from lacuna.testing import Cluster
from lacuna.testing.ports import lasting_ports
from tests.examples.test_exactly_once import EXAMPLES, running
from tests.forked import ForkedCluster

SECONDS = 120.0
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


def test_the_notebook(tmp_path: Path) -> None:
    """Runs its cells in order in a separate process, which prints the cells' output."""
    cells = json.loads((EXAMPLES / "notebook" / "aborted.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] for cell in cells if cell["cell_type"] == "code")
    shown = "for cell in {!r}:\n    exec(compile(cell, 'cell', 'single'))\n"
    separate = [part for cell in code for part in statements(cell)]
    done = subprocess.run(
        [sys.executable, "-c", shown.format(separate)],
        capture_output=True, text=True, cwd=tmp_path, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == [
        "(1, b'happened')",
        "[(0, 1, 'dropped'), (1, 2, 'delivered')]",
    ]


def statements(cell: str) -> list[str]:
    """Return a cell's statements, split as an interactive interpreter splits them."""
    return [ast.unparse(each) for each in ast.parse(cell).body]


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
