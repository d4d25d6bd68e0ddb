"""The wheel, a Spark cluster, a Lacuna cluster run from the wheel, and jobs on them."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lacuna.testing import ProcessCluster
from tests.pipeline.standalone import jobs
from tests.pipeline.standalone.spark import StandaloneSpark
from tests.wheel import install, outside, shared_wheel

JOB_SECONDS = 240


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter for which the wheel is installed."""
    wheel = shared_wheel(tmp_path_factory)
    return install(wheel, tmp_path_factory.mktemp("installed") / "venv", "spark,export")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    """A master and two workers."""
    folder = tmp_path_factory.mktemp("standalone")
    with StandaloneSpark(Path(pyspark.__file__).parent, folder) as running:
        yield running


@pytest.fixture(scope="module")
def served() -> Iterator[ProcessCluster]:
    """`lacuna up` with data in a folder."""
    with ProcessCluster(options=("--partitions", "4")) as running:
        yield running


@pytest.fixture(scope="module")
def run(
    python: Path, master: StandaloneSpark, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., list[Any]]:
    """run([JOB, *ARGUMENTS], ...): returns the results of jobs in jobs.py, run by one application on the cluster."""
    folder = tmp_path_factory.mktemp("jobs")

    def run(*wanted: list[str]) -> list[Any]:
        command = [str(python), jobs.__file__, master.url, json.dumps(wanted)]
        ran = started(command, folder)
        told, errors = ran.communicate(timeout=JOB_SECONDS)
        assert ran.returncode == 0, told + errors
        results: list[Any] = json.loads(told.splitlines()[-1])
        return results

    return run


@pytest.fixture
def command(python: Path, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """command(*ARGUMENTS): starts the wheel's `lacuna`."""

    def start(*arguments: str) -> subprocess.Popen[str]:
        return started([str(python.parent / "lacuna"), *arguments], tmp_path)

    return start


def started(command: list[str], folder: Path) -> subprocess.Popen[str]:
    """Start a command in an empty folder, without the checkout on the path."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=outside(),
    )
