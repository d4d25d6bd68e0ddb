"""Runs a single-node Apache Kafka (default: 4.4) from its Maven jars for a `with` block.

Needs `java` (17+) and, the first time, `mvn`. To run it by hand: `python -m tests.golden.broker DIR [--port N]
[--version V]`.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lacuna.testing.ports import lasting_ports

HERE = pathlib.Path(__file__).parent
VERSION = "4.4.0"
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{second}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{second}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL
log.dirs={data}
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.assignment.interval.ms=0
group.consumer.assignor.offload.enable=false
log.cleaner.backoff.ms=200
log.initial.task.delay.ms=500
transaction.abort.timed.out.transaction.cleanup.interval.ms=200
"""


@dataclass(frozen=True, slots=True)
class Secured:
    """A listener for SASL_SSL: its port, its settings, a SCRAM-SHA-512 user, and the allowed URLs for token keys."""

    port: int
    properties: str
    user: str
    password: str
    keys: str


def jars(directory: pathlib.Path, version: str = VERSION) -> pathlib.Path:
    """Return the folder with Kafka's jars. Maven copies them there once."""
    libs = directory / "libs"
    if not libs.is_dir():
        command = ["mvn", "-q", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={libs}", f"-Dkafka.version={version}"]
        subprocess.run(command, check=True)
    return libs


def _await_port(process: subprocess.Popen[bytes], port: int, log: pathlib.Path) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise RuntimeError(f"Kafka did not come up; its log ends: {log.read_text()[-2000:]}")


class Broker:
    """A broker that keeps its data and its address across restarts."""

    def __init__(self, command: Sequence[str], port: int, log: pathlib.Path) -> None:
        self.bootstrap = f"127.0.0.1:{port}"
        self._command = command
        self._port = port
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the broker, and wait until it is listening."""
        self.launch()
        self.await_port()

    def launch(self) -> None:
        """Start the broker. One of several controllers listens only once most of them are running."""
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=subprocess.STDOUT)

    def await_port(self) -> None:
        """Wait until the broker is listening."""
        assert self._process is not None
        _await_port(self._process, self._port, self._log)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the broker with a signal, and wait until it has ended."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=60)
            self._process = None


@contextlib.contextmanager
def kafka(
    directory: pathlib.Path,
    port: int = 0,
    heap: str = "1G",
    version: str = VERSION,
    secured: Secured | None = None,
    extra: str = "",
) -> Iterator[str]:
    """Run the broker with fresh data under `directory`. Yield its bootstrap address.

    Properties in `extra` replace those in PROPERTIES, and may contain the same fields.
    """
    with broker(directory, port, heap, version, secured, extra) as started:
        yield started.bootstrap


@contextlib.contextmanager
def broker(
    directory: pathlib.Path,
    port: int = 0,
    heap: str = "1G",
    version: str = VERSION,
    secured: Secured | None = None,
    extra: str = "",
) -> Iterator[Broker]:
    """Run the broker as `kafka` does. Yield it, so that it can be restarted."""
    directory.mkdir(parents=True, exist_ok=True)
    libs = jars(directory, version)
    free, controller = lasting_ports(2)
    made = _formatted(directory, libs, heap, secured, extra, port or free, controller)
    try:
        made.start()
        yield made
    finally:
        made.end()


@contextlib.contextmanager
def brokers(
    directory: pathlib.Path, libs: pathlib.Path, heap: str, secured: Sequence[Secured]
) -> Iterator[list[Broker]]:
    """Run a cluster whose brokers, one for each secured listener, are all controllers. Yield the brokers in order.

    Each partition has a replica on every broker.
    """
    count = len(secured)
    ports = lasting_ports(2 * count)
    voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in enumerate(ports[count:], 1))
    names = re.findall(r"^(\S+\.replication\.factor)=", PROPERTIES, re.MULTILINE)
    replicas = "".join(f"{name}={count}\n" for name in names)
    made = []
    for node, (port, controller, listener) in enumerate(
        zip(ports[:count], ports[count:], secured, strict=True), 1
    ):
        extra = f"node.id={node}\ncontroller.quorum.voters={voters}\n{replicas}"
        folder = directory / f"broker-{node}"
        folder.mkdir(parents=True)
        made.append(_formatted(folder, libs, heap, listener, extra, port, controller))
    with contextlib.ExitStack() as stack:
        for each in made:
            # The last of several controllers would wait for the others in vain.
            stack.callback(each.end, signal.SIGKILL)
            each.launch()
        for each in made:
            each.await_port()
        yield made


def _formatted(
    directory: pathlib.Path,
    libs: pathlib.Path,
    heap: str,
    secured: Secured | None,
    extra: str,
    port: int,
    controller: int,
) -> Broker:
    """Return a broker with fresh data, which has not been started."""
    data = directory / "data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    properties = directory / "server.properties"
    second = f",SASL_SSL://127.0.0.1:{secured.port}" if secured else ""
    text = (PROPERTIES + extra).format(port=port, controller=controller, data=data, second=second)
    properties.write_text(text + (secured.properties if secured else ""))
    # It lives for minutes: thorough compilation would take more time than it saves.
    java = [
        "java",
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{libs}/*",
    ]
    java.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
    storage = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
    if secured:
        user = f"name={secured.user},password={secured.password}"
        storage += ["--add-scram", f"SCRAM-SHA-512=[{user}]"]
        java.append(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={secured.keys}")
    subprocess.run(storage, check=True, stdout=subprocess.DEVNULL)
    log = directory / "broker.log"
    log.unlink(missing_ok=True)
    return Broker([*java, "kafka.Kafka", str(properties)], port, log)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--version", default=VERSION, help="of Kafka, as Maven knows it")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the broker ends with it
    with kafka(arguments.directory, arguments.port, version=arguments.version) as bootstrap:
        sys.stdout.write(bootstrap + "\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
