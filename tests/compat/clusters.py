"""Starts the clusters of a run: Lacuna with two agents, and an Apache Kafka of each version that a row needs."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.compat.clients import KAFKAS, jars
from tests.compat.security import PASSWORD, USER, Security
from tests.golden.broker import Secured, kafka
from tests.golden.broker import jars as copy_jars

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_READY = "bootstrap: "
_HEAP = "512m"
PROCESS_SHAPE = "two agents, one control plane, records in a folder"


_FETCHING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a cluster, as HOST:PORT,…. `secured` is its SASL_SSL listener, or "" if unknown."""

    bootstrap: str
    secured: str = ""


class Kafkas:
    """A context manager that starts each Kafka at its first use, and stops all of them at its end."""

    def __init__(self, folder: Path, security: Security, given: str = "") -> None:
        self._folder = folder
        self._security = security
        self._given = given
        self._started: dict[str, Address] = {}
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Kafkas:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def address(self, version: str) -> Address:
        """Return the address of the Kafka with this name in KAFKAS. Starts it if necessary."""
        if self._given:
            return Address(self._given)
        with self._lock:
            if version not in self._started:
                self._started[version] = self._start(version)
            return self._started[version]

    def _start(self, version: str) -> Address:
        folder = self._folder / f"kafka-{version}"
        folder.mkdir(parents=True)
        (folder / "libs").symlink_to(fetch(version))
        (port,) = free_ports(1)
        security = self._security
        properties = security.properties(version)
        secured = Secured(port, properties, USER, PASSWORD, security.keys)
        started = kafka(folder, heap=_HEAP, version=KAFKAS[version], secured=secured)
        return Address(self._stack.enter_context(started), f"127.0.0.1:{port}")


def fetch(version: str) -> Path:
    """Return the folder of a Kafka's jars. Maven downloads them at the first call. An interrupted download leaves no
    partial folder.
    """
    libs = jars(version)
    with _FETCHING:
        if not libs.is_dir():
            coming = libs.with_name(f"{libs.name}.coming")
            copy_jars(coming, KAFKAS[version])
            (coming / "libs").rename(libs)
            coming.rmdir()
    return libs


@contextlib.contextmanager
def lacuna(folder: Path, security: Security | None = None) -> Iterator[Address]:
    """Run `lacuna up` and a second agent on the same folder as processes. Yield the addresses of both."""
    data = folder / "lacuna"
    ports = free_ports(2) if security else []
    given = [f",SASL_SSL://127.0.0.1:{port}" for port in ports] or ["", ""]
    listen = [["--listen", f"PLAINTEXT://127.0.0.1:0{each}"] for each in given]
    environment = {"LACUNA_CONFIG": str(security.config)} if security else {}
    with contextlib.ExitStack() as stack:
        up = ["up", "--no-console", "--data", str(data), *listen[0]]
        first = stack.enter_context(_command(up, folder / "up.log", environment))
        control = (data / "control.address").read_text().strip()
        agent = ["agent", "--control", control, "--objects", str(data / "objects"), *listen[1]]
        second = stack.enter_context(_command(agent, folder / "agent.log", environment))
        yield Address(f"{first},{second}", ",".join(f"127.0.0.1:{port}" for port in ports))


def free_ports(count: int) -> list[int]:
    """Return ports on which nothing listens yet."""
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def _command(arguments: list[str], log: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run a `lacuna` command for the block. Yield the address that it reports."""
    with log.open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "lacuna", *arguments],
            env={**os.environ, **environment},
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
