"""Tests the wheel, including next to modules that have the same names as its parts."""

import importlib.metadata
import json
import shutil
import subprocess
import sys
import venv
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from tests.installed import spark_job
from tests.lacuna.test_testing import APART, SCRIPTS, TESTS
from tests.wheel import (
    PACKAGES,
    ROOT,
    build_wheel,
    copy_sources,
    distributions,
    install,
    install_editable,
    outside,
    run,
    shared_wheel,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SUFFIXES = {".py", ".pyi", ".pxd", ".json", ".typed"}
#: Only users who request an extra need one of these.
NOT_IN_THE_CORE = {
    "boto3", "botocore", "cython", "flask", "moto", "numpy", "pandas", "pyarrow", "pyspark", "setuptools",
    "zstandard",
}  # fmt: skip
MOST_DISTRIBUTIONS = 19
MOST_BYTES = 80e6  # of which grpcio takes 18


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_wheel(tmp_path_factory)


def contents(wheel: Path) -> dict[str, str]:
    """Return the digest of each file that is neither compiled nor contains a version."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if Path(name).suffix in SUFFIXES
        }


def test_everything_lives_under_two_import_names(wheel: Path) -> None:
    expected = {
        str(path.relative_to(ROOT))
        for top in PACKAGES
        for path in (ROOT / top).rglob("*")
        if path.suffix in SUFFIXES
    }
    assert set(contents(wheel)) == expected
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    (metadata,) = (top for top in tops if top.endswith(".dist-info"))
    assert tops == {*PACKAGES, metadata}


def test_a_wheel_of_the_sdist_is_the_same(wheel: Path, tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    build = "import setuptools.build_meta as build; build.build_sdist('..')"
    subprocess.run(
        [sys.executable, "-c", build], cwd=copy_sources(sources), check=True, capture_output=True
    )
    (sdist,) = tmp_path.glob("lacuna_log-*.tar.gz")
    # Without a compiler, since only its output could differ.
    assert contents(build_wheel(sdist, tmp_path, CC="false")) == contents(wheel)


def size(name: str) -> int:
    """Return the size in bytes of a distribution's existing files."""
    files = [each.locate() for each in importlib.metadata.files(name) or ()]
    return sum(Path(str(file)).stat().st_size for file in files if Path(str(file)).exists())


def size_of(wheel: Path) -> int:
    """Return the size in bytes of a wheel's unpacked files."""
    with zipfile.ZipFile(wheel) as archive:
        return sum(each.file_size for each in archive.infolist())


def test_the_core_is_small(wheel: Path, tmp_path: Path) -> None:
    """Without the extras, `lacuna up` and `lacuna verify` print what to install."""
    python = install(wheel, tmp_path / "venv")
    found = distributions(python)
    assert not found & NOT_IN_THE_CORE
    assert len(found) <= MOST_DISTRIBUTIONS
    assert sum(map(size, found - {"lacuna-log"})) + size_of(wheel) < MOST_BYTES
    lacuna = python.parent / "lacuna"
    assert run([lacuna, "--version"], tmp_path).startswith("lacuna ")
    for options, extra in ((["--moto"], "moto"), (["--bucket", "b"], "s3")):
        ran = subprocess.run(
            [lacuna, "up", *options], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert ran.returncode == 1
        assert f"pip install 'lacuna-log[{extra}]'" in ran.stderr
    audited = (
        "import subprocess, sys; from lacuna.testing import Cluster\n"
        "with Cluster() as cluster:\n"
        "    cluster.create_topic('orders')\n"
        "    subprocess.run([sys.argv[1], 'verify', '--data', cluster.data], check=True)\n"
    )
    assert "all is sound" in run([python, "-c", audited, lacuna], tmp_path)


def test_an_editable_install_is_found_by_whoever_looks_for_files(tmp_path: Path) -> None:
    """mypy and Spark search the folders of sys.path and ignore import hooks."""
    sources, users = tmp_path / "sources", tmp_path / "users"
    sources.mkdir()
    users.mkdir()
    python = install_editable(copy_sources(sources), tmp_path / "venv")
    look = (
        "import pkgutil, lacuna.agent\n"
        "print('pyspark_lacuna' in [each.name for each in pkgutil.iter_modules()])\n"
        "print(lacuna.agent.__file__)\n"
    )
    agent = sources / "lacuna" / "agent" / "__init__.py"
    assert run([python, "-c", look], users).splitlines() == ["True", str(agent)]
    (users / "own.py").write_text(
        "from lacuna.agent.clock import WallClock\nown: int = WallClock\n"
    )
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--python-executable", str(python), "own.py"],
        capture_output=True, text=True, cwd=users, env=outside(), check=False,
    )  # fmt: skip
    assert (
        'own.py:2: error: Incompatible types in assignment (expression has type "type[WallClock]"'
        in (checked.stdout)
    )


#: Names that users give to their own modules, and we to folders.
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
    """The user's folder. It contains some modules as files and some as packages, which are imported the same way."""
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


def test_the_examples_of_libraries_with_other_versions(wheel: Path, tmp_path: Path) -> None:
    """Quix Streams allows no recent confluent-kafka, so pip resolves the dependencies as in its users' environments."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    wanted = [f"{wheel}[demo]", "quixstreams", "celery", "pytest", "pytest-timeout"]
    run([python, "-m", "pip", "install", "--quiet", *wanted], tmp_path)
    for number, text in enumerate(APART):
        (tmp_path / f"test_{number}.py").write_text(text)
    tests = sorted(tmp_path.glob("test_*.py"))
    assert "2 passed" in run([python, "-m", "pytest", "-q", "--timeout=100", *tests], tmp_path)


def test_a_script(python: Path, folder: Path) -> None:
    for script in SCRIPTS:
        run([python, "-c", script], folder)


def test_spark_and_its_workers(python: Path, folder: Path) -> None:
    """Python workers start in the driver's folder, and may find the modules there."""
    job = folder / "job.py"
    shutil.copy(spark_job.__file__, job)
    assert json.loads(run([python, job], folder).splitlines()[-1]) == {
        "written": 100,
        "read": 100,
        "sum": sum(range(100)),
    }
