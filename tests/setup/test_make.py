"""Tests `make`, the virtual environment, and runs that hang."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
THIS = f"{sys.version_info.major}.{sys.version_info.minor}"


def program(path: Path, *lines: str) -> Path:
    """Write a shell script that acts as a certain version of Python."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return path


def environment(folder: Path, made_with: str, runs: str) -> Path:
    """Create a folder like the one `python -m venv` leaves, whose Python reports the version `runs`."""
    program(folder / "bin" / "python", f"echo {runs}")
    (folder / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {made_with}.1\n")
    return folder


def unasked() -> dict[str, str]:
    """Return the environment without the variables of the running `make`. Skips the test if there is no `make`."""
    if shutil.which("make") is None:
        pytest.skip("no make here")
    handed_on = (
        "MAKEFLAGS",
        "MAKEOVERRIDES",
        "MFLAGS",
        "PYTHON",
        "VENV",
        "LINTED",
        "WORKERS",
        "MOST_EXAMPLES",
        "COVERED_APART",
    )
    return {name: value for name, value in os.environ.items() if name not in handed_on}


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `make venv`, on which all other targets depend, with the environment in `folder`."""
    command = [
        "make",
        "--no-print-directory",
        "-C",
        str(ROOT),
        "venv",
        f"VENV={folder}",
        *arguments,
    ]
    return subprocess.run(command, env=unasked(), capture_output=True, text=True, timeout=280)


def refusal(folder: Path, *arguments: str) -> str:
    """Return what `make venv` prints about an environment that it rejects."""
    done = make(folder, *arguments)
    assert done.returncode == 2
    return done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made_with", "runs", "expected"),
    [
        ("3.9", "3.9", "has Python 3.9; 3.11 or newer is needed"),
        ("3.10", "3.10", "has Python 3.10; 3.11 or newer is needed"),
        ("3.11", "3.13", "was made with Python 3.11, and "),
    ],
    ids=["too_old", "ten_is_more_than_nine_and_too_old", "its_python_was_replaced"],
)
def test_an_environment_that_cannot_be_used_is_named(
    tmp_path: Path, made_with: str, runs: str, expected: str
) -> None:
    folder = environment(tmp_path / "env", made_with, runs)
    said = refusal(folder)
    assert f"make: {folder} {expected}" in said
    assert f"rm -rf {folder}" in said


@pytest.mark.slow
def test_an_environment_whose_python_is_gone(tmp_path: Path) -> None:
    folder = environment(tmp_path / "env", "3.12", "3.12")
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").symlink_to(tmp_path / "removed")
    said = refusal(folder)
    assert f"{folder}/bin/python does not run: was the Python that made" in said
    assert f"rm -rf {folder}" in said


@pytest.mark.slow
def test_an_environment_that_was_not_finished(tmp_path: Path) -> None:
    folder = environment(tmp_path / "env", THIS, THIS)
    program(folder / "bin" / "python", f'case "$2" in "import pip") exit 1;; *) echo {THIS};; esac')
    assert f"{folder} has no pip" in refusal(folder)


@pytest.mark.slow
def test_another_version_is_wrong_where_one_was_asked_for(tmp_path: Path) -> None:
    folder = environment(tmp_path / "env", "3.12", "3.12")
    assert make(folder).returncode == 0
    python = program(tmp_path / "python3.13", "echo 3.13")
    said = refusal(folder, f"PYTHON={python}")
    assert f"{folder} has Python 3.12, and {python} is Python 3.13" in said
    assert f"VENV=.venv-3.13 PYTHON={python}" in said


@pytest.mark.parametrize(
    ("says", "expected"),
    [("echo 3.9", "is Python 3.9; 3.11 or newer is needed"), ("exit 1", "does not run")],
    ids=["too_old", "broken"],
)
def test_no_environment_is_made_with_a_python_that_will_not_do(
    tmp_path: Path, says: str, expected: str
) -> None:
    python = program(tmp_path / "python", says)
    assert f"{python} {expected}" in refusal(tmp_path / "env", f"PYTHON={python}")
    assert not (tmp_path / "env").exists()


def recipes(folder: Path, *arguments: str) -> str:
    """Return the commands that `make` would run with its environment in `folder`."""
    named = (f"VENV={folder}", f"PYTHON={sys.executable}")
    command = ["make", "-n", "-C", str(ROOT), *named, *arguments]
    done = subprocess.run(
        command, env=unasked(), capture_output=True, text=True, timeout=280, check=True
    )
    return done.stdout


@pytest.mark.parametrize("target", ["run", "demo"])
def test_what_a_run_needs_is_installed_at_once(tmp_path: Path, target: str) -> None:
    """On a new machine, a run installs neither Spark nor linters, and compiles only what agents use."""
    done = recipes(tmp_path / "env", target, "PORT=19092")
    assert done.count("pip install") == 1
    assert "'.[console,demo,security]'" in done
    assert done.count("build_kernel") == (target == "run")
    if target == "run":
        assert "build_kernel --serving" in done
        assert "lacuna up --data data --listen 127.0.0.1:19092\n" in done


def test_set_up_compiles_the_whole_kernel_and_a_run_what_is_older(tmp_path: Path) -> None:
    done = recipes(tmp_path, "setup")
    assert done.count("pip install") == 1
    assert "build_kernel\n" in done
    for ready in (".run-ready", ".ready", ".kernel-ready", ".serving-ready"):
        (tmp_path / ready).touch()
    assert "build_kernel" not in recipes(tmp_path, "setup", "run")
    os.utime(tmp_path / ".serving-ready", (0, 0))  # the sources are newer
    for target in ("run", "demo"):
        assert "build_kernel" in recipes(tmp_path, target)


def beside(first: str, second: str) -> tuple[int, list[str], str]:
    """Return the exit code of two concurrent commands, their output, and the final message."""
    command = [str(ROOT / ".ci" / "beside.sh"), first, "sh", "-c", second]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    return done.returncode, done.stdout.split(), done.stderr


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 3), (1, 0), (1, 3)])
def test_of_two_commands_at_a_time_each_can_fail(tmp_path: Path, first: int, second: int) -> None:
    """The linters run in parallel with the tests. All of the first one's output precedes the final message."""
    there = tmp_path / "there"
    os.mkfifo(there)
    code, printed, told = beside(
        f"echo one; cat {there}; echo two; exit {first}",
        f"echo begins; echo between > {there}; exit {second}",
    )
    assert code == (1 if first else second)
    assert printed == ["begins", "one", "between", "two"]
    assert told.startswith("failed: echo one;") == bool(first)
    assert told.endswith("what it said is above\n") == bool(first)


def test_linters_run_beside_the_tests_where_nobody_ran_them(tmp_path: Path) -> None:
    assert ".ci/beside.sh 'make --no-print-directory lint' " in recipes(tmp_path, "test")
    for already in ("LINTED=yes", "COVERED_APART=yes"):
        assert "beside.sh" not in recipes(tmp_path, "test", already)
        assert " -m pytest -n 5 " in recipes(tmp_path, "test", already)


@pytest.mark.parametrize(
    ("given", "free_kib", "is_in_memory"),
    [("", 4 << 20, True), ("", 1 << 20, False), ("elsewhere", 4 << 20, False)],
    ids=["room", "a_container", "given"],
)
def test_temporary_files_are_in_memory_where_there_is_room(
    tmp_path: Path, given: str, free_kib: int, is_in_memory: bool
) -> None:
    program(tmp_path / "df", "echo head", f"echo tmpfs 1 1 {free_kib} 1% /dev/shm")
    environment = {**os.environ, "TMPDIR": given, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [str(ROOT / ".ci" / "in-memory.sh"), "sh", "-c", "echo $TMPDIR"],
        env=environment, capture_output=True, text=True, timeout=280, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("/dev/shm/") == (is_in_memory and os.access("/dev/shm", os.W_OK))
    assert is_in_memory or done.stdout.strip() == given


CONFTEST = """
from tests.stalled import Watch

def pytest_configure(config):
    config.pluginmanager.register(Watch(config, grace=10, silence=30))
"""
#: Python's handlers of signals wait for the call to return.
DEAF = """
import ctypes

def test_deaf():
    ctypes.PyDLL(None).sleep(200)
"""
AT_ITS_END = """
import pytest, threading

@pytest.fixture
def waits():
    yield
    threading.Event().wait(200)

def test_fails(waits):
    assert False
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tests", "where"),
    [(DEAF, "in test_deaf"), (AT_ITS_END, "in waits")],
    ids=["in a call", "at the end of one that failed"],
)
def test_a_test_that_stands_still(pytester: pytest.Pytester, tests: str, where: str) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(tests)
    ran = pytester.runpytest_subprocess("--timeout=0", "-o", "timeout=1", "-p", "no:cacheprovider")
    assert ran.ret == 1
    ran.stderr.fnmatch_lines(["Timeout (0:00:11)!", f"*{where}"])


@pytest.mark.slow
def test_a_worker_that_stands_still_before_its_tests(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile("import time\ntime.sleep(200)")
    ran = pytester.runpytest_subprocess("-n1", "-o", "timeout=1", "-p", "no:cacheprovider")
    assert ran.ret == 1
    ran.stderr.fnmatch_lines(["Timeout (0:00:30)!", "*in loop_once"])
