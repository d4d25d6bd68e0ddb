"""Installed, beside modules of a user that are called as our folders are: everything is one import name away."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.installed import spark_job
from tests.lacuna.test_testing import SCRIPTS, TESTS
from tests.wheel import ROOMS, install, run, shared_wheel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

USERS_CODE = "raise RuntimeError('this is the code of a user')\n"


def modules(folder: Path) -> None:
    for name in ROOMS:
        (folder / f"{name}.py").write_text(USERS_CODE)


def packages(folder: Path) -> None:
    for name in ROOMS:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(USERS_CODE)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wheel = shared_wheel(tmp_path_factory)
    folder = tmp_path_factory.mktemp("installed") / "venv"
    return install(wheel, folder, "demo,spark", ["pytest", "pytest-timeout"])


@pytest.fixture(params=[modules, packages])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where a user works."""
    make: Callable[[Path], None] = request.param
    make(tmp_path)
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
    """Python's workers start in the folder of the driver, and may find there what stands beside it."""
    job = folder / "job.py"
    shutil.copy(spark_job.__file__, job)
    assert json.loads(run([python, job], folder).splitlines()[-1]) == {
        "written": 100,
        "read": 100,
        "sum": sum(range(100)),
    }
