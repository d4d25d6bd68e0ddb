"""Tests `format("lacuna")` on the PySpark versions listed in PYSPARK_VERSIONS, such as "4.0 4.1 4.2".

Each version is installed into its own environment, which uses everything else from this one. Installing it and starting
a JVM takes one to two minutes per version, so the test runs only if the variable is set.
"""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from lacuna.testing import Cluster
from tests.pipeline.conftest import transact
from tests.pipeline.standalone import jobs

VERSIONS = os.environ.get("PYSPARK_VERSIONS", "").split()
SECONDS = 600

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(2 * SECONDS),
    pytest.mark.skipif(not VERSIONS, reason="PYSPARK_VERSIONS is not set: it names versions"),
]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> tuple[int, ...]:
    return tuple(map(int, request.param.split(".")))


@pytest.fixture
def python(version: tuple[int, ...], tmp_path: Path) -> Path:
    """The interpreter of an environment with this version of PySpark and everything else from this one."""
    folder = tmp_path / "venv"
    ran(sys.executable, "-m", "venv", str(folder))
    python = folder / "bin" / "python"
    wanted = ".".join(map(str, version))
    ran(str(python), "-m", "pip", "install", "--quiet", f"pyspark=={wanted}.*")
    (packages,) = folder.glob("lib/python*/site-packages")
    rest = sysconfig.get_path("purelib")
    (packages / "zz_rest.pth").write_text(f"import site; site.addsitedir({rest!r})\n")
    return python


def ran(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_reads_streams_and_writes(
    version: tuple[int, ...], python: Path, cluster: Cluster, tmp_path: Path
) -> None:
    """S14: batches and streams read each committed record once, and the error for a missing feature names it."""
    name = "-".join(map(str, version))
    topic, to = cluster.create_topic(f"from-{name}", 2), cluster.create_topic(f"to-{name}")
    rows: list[list[Any]] = []
    for index in range(2):
        records = [(b"k", b"%d-%d" % (index, number)) for number in range(4)]
        written = transact(
            cluster, topic, [(True, records), (False, records), (True, [(None, b"last")])], index
        )
        found = written.committed.items()
        rows += [[index, at, (value or b"").decode()] for at, (_, value) in found]
    rows.sort()
    data, checkpoints = str(cluster.data), [str(tmp_path / name) for name in "abcd"]
    pipe = ["pipe", data, topic, to]
    wanted: list[list[Any]] = [
        ["read", data, topic],
        ["filtered", data, topic],
        ["write", data, to, "3"],
        ["stream", data, topic, checkpoints[0]],
        ["stream", data, topic, checkpoints[0]],
        [*pipe, checkpoints[1], {"startingOffsets": "earliest"}],
        [*pipe, checkpoints[1], {"startingOffsets": "earliest"}],
        [*pipe, checkpoints[2], {"startingTimestamp": "1"}],
        [*pipe, checkpoints[3], {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"}],
        ["read", data, to],
    ]
    told = ran(str(python), jobs.__file__, "local[2]", json.dumps(wanted))
    read, filtered, _, stream, again, first, repeated, by_time, limited, result = json.loads(
        told.splitlines()[-1]
    )

    assert read == stream == rows
    assert again == []
    assert [first, repeated, by_time] == [None] * 3
    copies = 2
    if version >= (4, 1):
        assert filtered == sorted(offset for _, offset, _ in rows if offset >= 3)
    else:
        assert "option pushdown=true: PySpark 4.0" in filtered
    if version >= (4, 2):
        assert limited is None
        copies = 3
    else:
        assert f"option maxOffsetsPerTrigger: PySpark {'.'.join(map(str, version))}" in limited
    values = [value for _, _, value in rows] * copies + ["0", "1", "2"]
    assert sorted(value for _, _, value in result) == sorted(values)
