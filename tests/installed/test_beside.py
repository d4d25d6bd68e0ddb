"""Tests the installed wheel beside user modules with the same names as our folders."""

import json
import shutil
from pathlib import Path

import pytest

from tests.installed import spark_job
from tests.lacuna.test_testing import SCRIPTS, TESTS
from tests.wheel import install, run, shared_wheel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: What users call modules of their own, as we call folders.
NAMES = ("agent", "controlplane", "logstore", "pipeline", "wire")
USERS_CODE = "raise RuntimeError('this is the code of a user')\n"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wheel = shared_wheel(tmp_path_factory)
    folder = tmp_path_factory.mktemp("installed") / "venv"
    return install(
        wheel, folder, "demo,spark", ["aiokafka", "faststream[kafka]", "pytest", "pytest-timeout"]
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The user's folder. Some of the modules are files there and some are packages, which import alike."""
    for number, name in enumerate(NAMES):
        module = tmp_path / f"{name}.py"
        if number % 2:
            module = tmp_path / name / "__init__.py"
            module.parent.mkdir()
        module.write_text(USERS_CODE)
    return tmp_path


def test_the_demo(python: Path, folder: Path) -> None:
    run([python, "-m", "lacuna", "demo"], folder)


def test_the_fixtures(python: Path, folder: Path) -> None:
    for number, text in enumerate(TESTS):
        (folder / f"test_{number}.py").write_text(text)
    said = run([python, "-m", "pytest", "-q", "--timeout=100"], folder)
    assert f"{len(TESTS)} passed" in said


def test_a_script(python: Path, folder: Path) -> None:
    for script in SCRIPTS:
        run([python, "-c", script], folder)


def test_spark_and_its_workers(python: Path, folder: Path) -> None:
    """Python's workers start in the driver's folder, and may find the modules there."""
    job = folder / "job.py"
    shutil.copy(spark_job.__file__, job)
    assert json.loads(run([python, job], folder).splitlines()[-1]) == {
        "written": 100,
        "read": 100,
        "sum": sum(range(100)),
    }
