"""A distributed worker of Kafka Connect as a process, and its REST interface."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

SETTINGS = """\
bootstrap.servers={bootstrap}
group.id={prefix}-connect
client.id=kafka-connect
config.storage.topic={prefix}-connect-configs
offset.storage.topic={prefix}-connect-offsets
status.storage.topic={prefix}-connect-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=2
status.storage.partitions=1
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
header.converter=org.apache.kafka.connect.converters.ByteArrayConverter
exactly.once.source.support=enabled
plugin.discovery=service_load
listeners=http://127.0.0.1:{port}
offset.flush.interval.ms=500
session.timeout.ms=6000
heartbeat.interval.ms=1000
scheduled.rebalance.max.delay.ms=0
metadata.max.age.ms=5000
"""
START_SECONDS = 90.0


class Refused(Exception):
    """The worker's answer is an error; its text is the message."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class Worker:
    """`start`, `kill`, `start` again; `ask` speaks to it."""

    def __init__(self, bootstrap: str, prefix: str, classpath: str, folder: Path) -> None:
        self._port = free_port()
        self._properties = folder / "worker.properties"
        self._properties.write_text(
            SETTINGS.format(bootstrap=bootstrap, prefix=prefix, port=self._port)
        )
        self._classpath = classpath
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Raises TimeoutError where it does not answer, RuntimeError where it ended."""
        java = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        java += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", self._classpath]
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self._process = subprocess.Popen(
            [*java, main, str(self._properties)], stdout=sys.stderr, stdin=subprocess.DEVNULL
        )
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None:
                raise RuntimeError(f"the worker ended with {self._process.returncode}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"the worker does not answer after {START_SECONDS:.0f} s")
            time.sleep(0.2)

    def _is_ready(self) -> bool:
        try:
            self.ask("GET", "/connectors")
        except (Refused, OSError):
            return False
        return True

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON; None where it is empty. Raises Refused and OSError."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                said = answer.read()
        except urllib.error.HTTPError as error:
            raise Refused(f"{error.code}: {error.read().decode()}") from error
        return json.loads(said) if said else None

    def kill(self) -> None:
        """As by kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
