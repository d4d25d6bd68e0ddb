"""Tests several kafka-clients versions over a long aborted tail, and while one of two agents is killed (S3, S5, S10,
S16).
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.compat.java.build import HERE
from tests.compat.java.build import main as build
from tests.faults.processes import Deployment

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        not (shutil.which("java") and shutil.which("mvn")), reason="needs a JDK and Maven"
    ),
]

VERSIONS = ("2.8.2", "3.9.1", "4.1.0", "4.4.0")
ABORTED = 10_000
TRANSACTIONS = 150
KILL_AT = 50
JAVA_SECONDS = 120
Java = subprocess.Popen[str]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Builds the program, and runs a control plane and two agents on one folder."""
    assert build() == 0
    folder = tmp_path_factory.mktemp("outage")
    with Deployment(folder / "data", 2, [f"--objects={folder / 'objects'}"]) as running:
        yield running


def java(version: str, main: str, bootstrap: str, count: int, log: Path) -> Java:
    """Start one of our Java classes with this kafka-clients version. It prints to stdout."""
    libs = f"target/versions/{version}/target/libs/*"
    command = ["java", "@jvm.options", "-cp", f"target/classes:{libs}", f"lacuna.compat.{main}"]
    prefix = f"{main}-{version}"
    with log.open("wb") as stderr:
        return subprocess.Popen(
            [*command, bootstrap, prefix, str(count)],
            cwd=HERE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )


def last_line(process: Java, log: Path) -> dict[str, Any]:
    """Return the last line of its output. Raises an error with its stderr if there is none."""
    said, _ = process.communicate(timeout=JAVA_SECONDS)
    assert process.returncode == 0, log.read_text()[-4000:]
    told: dict[str, Any] = json.loads(said.splitlines()[-1])
    return told


@pytest.mark.parametrize("version", VERSIONS)
def test_no_lag_over_an_aborted_tail(version: str, deployment: Deployment, tmp_path: Path) -> None:
    """S16: the position passes 10,000 aborted records at once, and every lag query returns 0."""
    log = tmp_path / "java.err"
    process = java(version, "Tail", deployment.bootstrap, ABORTED, log)
    try:
        told = last_line(process, log)
    finally:
        process.kill()
    unknown_before_3 = -1 if version.startswith("2.") else 0
    assert told == {
        "records": 10,
        "end": 10 + ABORTED,
        "lag_of_position": 0,
        "current_lag": unknown_before_3,
        "admin_lag_read_uncommitted": 0,
        "admin_lag_read_committed": 0,
    }


def await_progress(process: Java) -> bool:
    """Read its output until it reports this many transactions. Return False if it ended before."""
    assert process.stdout is not None
    return any(line == f"at {KILL_AT}\n" for line in process.stdout)


def test_transactions_survive_the_kill_of_an_agent(deployment: Deployment, tmp_path: Path) -> None:
    """S3, S5, S10: a writer and an exactly-once copier of each version lose and repeat nothing."""
    logs = {version: tmp_path / f"{version}.err" for version in VERSIONS}
    running = {
        version: java(version, "Failover", deployment.bootstrap, TRANSACTIONS, log)
        for version, log in logs.items()
    }
    try:
        with ThreadPoolExecutor(len(VERSIONS)) as pool:
            assert all(pool.map(await_progress, running.values()))
        deployment.agents[1].kill()
        for version, process in running.items():
            told = last_line(process, logs[version])
            assert not {name for name in told if name.endswith("_error")}, (version, told)
            assert (told["source_right"], told["copy_right"]) == (True, True), (version, told)
            assert told["source_records"] == told["written_records"] > 0
    finally:
        for process in running.values():
            process.kill()
        deployment.agents[1].start()
