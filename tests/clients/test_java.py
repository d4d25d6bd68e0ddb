"""Tests the Java 4.4 client, the only one here that speaks TV2 (tests/java). Each scenario is one test.

To run them by hand: `mvn -q compile dependency:copy-dependencies -DoutputDirectory=target/libs` in tests/java, then
`java -cp "target/classes:target/libs/*" lacuna.Main --bootstrap HOST:PORT [--kafka] [scenario ...]`.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest

from lacuna.testing import Cluster as LacunaCluster

from .conftest import Given
from .hurry import hurry
from .jvm import PROJECT, compiled, needs_jdk

SOURCES = sorted((PROJECT / "src/main/java/lacuna").glob("*.java"))
NAMES = [name for path in SOURCES for name in re.findall(r'all\.put\("(\w+)"', path.read_text())]

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    needs_jdk,
]


@pytest.fixture(scope="module")
def verdicts(
    cluster: Given | LacunaCluster, bootstrap: str, is_kafka: bool
) -> dict[str, dict[str, Any]]:
    """Run all scenarios once in one JVM. Return the verdict of each by its name."""
    if isinstance(cluster, LacunaCluster):
        hurry(cluster)
    command = [
        *compiled(),
        "lacuna.Main",
        "--bootstrap",
        bootstrap,
        *(["--kafka"] if is_kafka else []),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert rows, done.stderr[-2000:]
    return {row["scenario"]: row for row in rows}


@pytest.mark.parametrize("name", NAMES)
def test_java_scenario(name: str, verdicts: dict[str, dict[str, Any]]) -> None:
    """S1, S3-S5, S7-S9, S13-S18, S21, S26 with the Java client. The scenario's class names its rules."""
    row = verdicts[name]
    assert row["ok"], row["error"]
