"""Tests that the image installs on a base without a C compiler and works with the interpreted kernel.

NO_COMPILER_IMAGE names that base (`. .ci/docker.sh` builds one).
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD_SECONDS = 900
SECONDS = 300

pytestmark = [pytest.mark.docker, pytest.mark.timeout(BUILD_SECONDS + SECONDS)]

#: Runs in a container: the compilers that are found, and what the kernel was loaded from.
WHAT_IS_THERE = """
import shutil
import lacuna.logstore.records.kernel as kernel
print([name for name in ("cc", "gcc", "c++", "g++", "clang") if shutil.which(name)], kernel.__file__)
"""


def docker(*arguments: str, seconds: float = SECONDS) -> str:
    """Return the command's output. Fails the test with that output if the exit code is not 0."""
    done = subprocess.run(
        ["docker", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    if done.returncode:
        pytest.fail(
            f"docker {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout[-8000:]}"
        )
    return done.stdout


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """The project's image on that base."""
    if shutil.which("docker") is None:
        pytest.skip("no docker here")
    if "NO_COMPILER_IMAGE" not in os.environ:
        pytest.skip("NO_COMPILER_IMAGE is not set: `. .ci/docker.sh` makes one and sets it")
    name = f"lacuna:no-compiler-{os.getpid()}"
    base = os.environ["NO_COMPILER_IMAGE"]
    bases = [f"--build-arg={each}={base}" for each in ("BASE_IMAGE", "RUNTIME_IMAGE")]
    docker("build", *bases, "--tag", name, ".", seconds=BUILD_SECONDS)
    yield name
    docker("rmi", name)


def test_without_a_compiler_the_kernel_is_interpreted(image: str) -> None:
    printed = docker("run", "--rm", "--entrypoint", "python", image, "-c", WHAT_IS_THERE)
    compilers, kernel = printed.split(maxsplit=1)
    assert compilers == "[]"
    assert kernel.strip().endswith("/kernel.py")


def test_without_a_compiler_the_demo_holds(image: str) -> None:
    assert "Every claim above was checked" in docker("run", "--rm", image, "demo")
