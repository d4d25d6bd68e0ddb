"""The clusters of a run: Lacuna with two agents, and an Apache Kafka of each version that a row needs."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tests.compat.clients import KAFKAS, jars
from tests.golden.broker import jars as copy_jars
from tests.golden.broker import kafka

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_READY = "bootstrap: "
_HEAP = "512m"
PROCESS_SHAPE = "two agents, one control plane, records in a folder"


_FETCHING = threading.Lock()


class Kafkas:
    """A context manager that starts each Kafka when it is first needed, and ends all of them at its end."""

    def __init__(self, folder: Path, given: str = "") -> None:
        self._folder = folder
        self._given = given
        self._started: dict[str, str] = {}
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Kafkas:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def bootstrap(self, version: str) -> str:
        """The HOST:PORT of the Kafka with this name in KAFKAS, which is started first if necessary."""
        if self._given:
            return self._given
        with self._lock:
            if version not in self._started:
                self._started[version] = self._start(version)
            return self._started[version]

    def _start(self, version: str) -> str:
        folder = self._folder / f"kafka-{version}"
        folder.mkdir(parents=True)
        (folder / "libs").symlink_to(fetch(version))
        return self._stack.enter_context(kafka(folder, heap=_HEAP, version=KAFKAS[version]))


def fetch(version: str) -> Path:
    """The folder of a Kafka's jars, fetched by Maven the first time; an interrupted fetch leaves no partial folder."""
    libs = jars(version)
    with _FETCHING:
        if not libs.is_dir():
            coming = libs.with_name(f"{libs.name}.coming")
            copy_jars(coming, KAFKAS[version])
            (coming / "libs").rename(libs)
            coming.rmdir()
    return libs


@contextlib.contextmanager
def lacuna(folder: Path) -> Iterator[str]:
    """Runs `lacuna up` and a second agent on the same folder, as processes; yields both addresses."""
    data = folder / "lacuna"
    listen = ["--listen", "127.0.0.1:0"]
    with contextlib.ExitStack() as stack:
        up = ["up", "--no-console", "--data", str(data), *listen]
        first = stack.enter_context(_command(up, folder / "up.log"))
        control = (data / "control.address").read_text().strip()
        agent = ["agent", "--control", control, "--objects", str(data / "objects"), *listen]
        second = stack.enter_context(_command(agent, folder / "agent.log"))
        yield f"{first},{second}"


@contextlib.contextmanager
def _command(arguments: list[str], log: Path) -> Iterator[str]:
    """Runs a `lacuna` command for the block; yields the address on which it says that it listens."""
    with log.open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "lacuna", *arguments],
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        )
    assert process.stdout is not None
    try:
        yield _address(process.stdout, log)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _address(stdout: IO[str], log: Path) -> str:
    deadline = time.monotonic() + _START_SECONDS
    for line in stdout:
        if line.startswith(_READY):
            return line.removeprefix(_READY).strip()
        if time.monotonic() > deadline:
            break
    raise RuntimeError(f"Lacuna did not start; its log ends: {log.read_text()[-2000:]}")
