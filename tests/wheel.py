"""Builds the wheel of this repository, and environments that contain only it and its dependencies."""

import fcntl
import importlib.metadata
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lacuna", "pyspark_lacuna")
_FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")
#: What an environment of a developer says of where Python looks.
_HIDDEN = ("PYTHONPATH", "PYSPARK_PYTHON", "VIRTUAL_ENV")


def copy_sources(folder: Path) -> Path:
    """Copy all sources that a wheel needs, as a checkout has them."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.c")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in _FILES:
        shutil.copy(ROOT / name, folder)
    return folder


def build_wheel(sources: Path, folder: Path, **environment: str) -> Path:
    """Build the wheel from a folder or an sdist."""
    build = ["wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}", str(sources)]
    # How fast it is made counts here, how fast it is does not.
    run(_pip(*build), folder, **{"CC": str(ROOT / ".ci" / "quick-cc"), **environment})
    (wheel,) = folder.glob("lacuna_log-*.whl")
    return wheel


def shared_wheel(factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this repository, which the first process of a test run that needs it builds."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder /= "wheel"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (built := list(folder.glob("*.whl"))):
            sources = folder / "sources"
            sources.mkdir()
            built = [build_wheel(copy_sources(sources), folder)]
        return built[0]


def install(wheel: Path, folder: Path, extras: str = "", beside: Sequence[str] = ()) -> Path:
    """Create an environment with the wheel, its dependencies, and the distributions in `beside`. Return its Python.

    Nothing is downloaded: the dependencies are links to those in the environment that runs the tests, and pip finds
    them installed.
    """
    wanted = [Requirement(each) for each in beside]
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        ours = PathDistribution(zipfile.Path(archive, metadata.removesuffix("METADATA")))
        wanted += _requirements(ours, {"", *filter(None, extras.split(","))})
    python = _environment(folder, wanted)
    requirement = f"{wheel}[{extras}]" if extras else str(wheel)
    run(_pip("--python", str(python), "install", "--no-index", requirement), folder)
    return python


def install_editable(sources: Path, folder: Path) -> Path:
    """Create an environment with sources installed in place, uncompiled, without dependencies. Return its Python."""
    python = _environment(folder, [Requirement("setuptools"), Requirement("cython")])
    options = ["--no-index", "--no-deps", "--no-build-isolation", "--editable", str(sources)]
    run(_pip("--python", str(python), "install", *options), folder, CC="false")
    return python


def distributions(python: Path) -> set[str]:
    """Return the names of all distributions installed for a Python."""
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    found = importlib.metadata.distributions(path=[str(packages)])
    return {canonicalize_name(each.name) for each in found}


def outside() -> dict[str, str]:
    """Return the environment of a process without any path to this checkout."""
    kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1"}


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """Run a command in a folder with the environment from `outside`. It must succeed. Return its output."""
    ran = subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env={**outside(), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def _environment(folder: Path, wanted: Iterable[Requirement]) -> Path:
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for distribution in _closure(wanted):
        _link(distribution, packages)
    return folder / "bin" / "python"


def _pip(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]


def _closure(wanted: Iterable[Requirement]) -> Iterable[Distribution]:
    found: dict[str, Distribution] = {}
    left = list(wanted)
    seen: set[str] = set()
    while left:
        requirement = left.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        distribution = importlib.metadata.distribution(requirement.name)
        found[canonicalize_name(requirement.name)] = distribution
        left += _requirements(distribution, {"", *requirement.extras})
    return found.values()


def _requirements(distribution: Distribution, extras: Iterable[str]) -> list[Requirement]:
    every = [Requirement(each) for each in distribution.requires or ()]
    return [
        each
        for each in every
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras)
    ]


def _link(distribution: Distribution, packages: Path) -> None:
    tops = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
    for top in tops:
        target = packages / top
        if not target.is_symlink():  # of a namespace several have parts
            target.symlink_to(str(distribution.locate_file(top)))
