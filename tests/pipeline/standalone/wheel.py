"""The wheel of this repository, installed where nothing else of the checkout can be imported."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
#: What the wheel is made of.
_SOURCES = ("agent", "controlplane", "lacuna", "logstore", "pipeline", "pyspark_lacuna")
_FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")


def install_wheel(folder: Path) -> Path:
    """Builds the wheel from a copy of the sources, installs it into a fresh environment; its Python.

    Other packages are those of the environment that runs the tests.
    """
    sources = folder / "sources"
    for name in _SOURCES:
        ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.c")
        shutil.copytree(ROOT / name, sources / name, ignore=ignored)
    for name in _FILES:
        shutil.copy(ROOT / name, sources)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), "."]
    # How fast it is made counts here, how fast it is does not.
    _run([*pip, *build], sources, CFLAGS="-O0")
    (wheel,) = folder.glob("lacuna-*.whl")
    environment = folder / "venv"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    _run([*pip, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)], folder)
    (packages,) = environment.glob("lib/python*/site-packages")
    # Its own packages come first; hooks of editable installations are not run for a folder named so.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    shutil.rmtree(sources)
    return python


def _run(command: list[str], folder: Path, **environment: str) -> None:
    ran = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
