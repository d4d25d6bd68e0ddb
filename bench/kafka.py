"""Apache Kafka as a target: one KRaft node, run from the jars that bench/pom.xml names.

Maven downloads the jars once into bench/out/kafka-VERSION; the data is in a temporary folder. By default, Kafka lets
the operating system decide when to write to disk. With `FSYNC`, it syncs every append before acknowledging it, as
Lacuna always does.
"""

import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bench import BenchError
from bench.target import Target
from tests.certificates import Authority

HERE = Path(__file__).resolve().parent
POM = HERE / "pom.xml"
JARS = HERE / "out"
FSYNC = {"log.flush.interval.messages": "1"}
HEAP = "1G"  # the options of its own start script
JVM = (f"-Xms{HEAP}", f"-Xmx{HEAP}", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
CLUSTER_ID = "bGFjdW5hLWJlbmNoLS0tLQ"
START_SECONDS = 90.0
STOP_SECONDS = 60.0
FETCH_SECONDS = 480.0

#: A single node cannot replicate. The other lines keep the node from waiting for group members and from creating topics
#: automatically.
SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
}


class KafkaMissing(Exception):
    """Kafka cannot run on this machine. The message says what to install."""


def version() -> str:
    """Returns the Kafka version in pom.xml. Raises BenchError."""
    found = re.search(r"<kafka\.version>(.+?)</kafka\.version>", POM.read_text())
    if found is None:
        raise BenchError(f"{POM} names no kafka.version")
    return found.group(1)


def jars(release: str = "") -> Path:
    """Returns the folder of this version's jars (default: pom.xml's). Downloads missing jars. Raises KafkaMissing."""
    release = release or version()
    return fetch(POM, JARS / f"kafka-{release}", f"-Dkafka.version={release}")


def fetch(pom: Path, folder: Path, *options: str) -> Path:
    """Returns `folder`. If it does not exist, Maven first downloads the jars listed in `pom` into it. Raises
    KafkaMissing.
    """
    if shutil.which("java") is None:
        raise KafkaMissing("Java is not installed: install a JRE, version 17 or later")
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaMissing("Maven, which downloads Kafka's jars, is not installed")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as fetching:
        command = [maven, "--batch-mode", "--quiet", f"--file={pom}"]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={fetching}/jars", *options]
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise KafkaMissing(
                f"Maven did not download the jars within {FETCH_SECONDS:.0f} s"
            ) from None
        if ran.returncode:
            raise KafkaMissing(
                f"Maven could not download the jars:\n{ran.stdout}{ran.stderr}"[:2000]
            )
        Path(fetching, "jars").rename(folder)
    return folder


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Kafka(Target):
    """A single broker. `properties` are added to its server.properties."""

    warms_slowly = True

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        label: str = "kafka",
        release: str = "",
    ) -> None:
        self.label = label
        self._release = release or version()
        self._properties = dict(properties or {})
        added = ", ".join(f"{name}={value}" for name, value in self._properties.items())
        self.settings = f"Apache Kafka {self._release}, {added or 'its defaults'}; {' '.join(JVM)}"
        self._bootstrap = ""
        self._protocol = "PLAINTEXT"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    @property
    def pids(self) -> tuple[int, ...]:
        return () if self._process is None else (self._process.pid,)

    def start(self) -> None:
        """Starts the broker, and waits until clients can connect. Raises KafkaMissing, BenchError."""
        libraries = f"{jars(self._release)}/*"
        self._folder = tempfile.TemporaryDirectory(
            prefix="kafka-bench-", ignore_cleanup_errors=True
        )
        folder = Path(self._folder.name)
        client, controller = _free_ports(2)
        properties = folder / "server.properties"
        lines = {
            **SINGLE_NODE,
            "listeners": f"{self._protocol}://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"{self._protocol}://127.0.0.1:{client}",
            "inter.broker.listener.name": self._protocol,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(folder / "data"),
            **self._properties,
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        java = ["java", "-cp", libraries, QUIET]
        tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
        ran = subprocess.run([*java, *tool], capture_output=True, text=True, check=False)
        if ran.returncode:
            raise BenchError(f"Kafka's folder could not be formatted:\n{ran.stdout}{ran.stderr}")
        with (folder / "broker.log").open("wb") as log:
            command = [*java, *JVM, "kafka.Kafka", str(properties)]
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self._wait(client, folder / "broker.log")
        self._bootstrap = f"127.0.0.1:{client}"

    def _wait(self, port: int, log: Path) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1.0).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        told = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        self.stop()
        raise BenchError(f"Kafka did not start:\n{told}")

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.cleanup()


class KafkaTls(Kafka):
    def __init__(self, label: str = "kafka tls") -> None:
        super().__init__(label=label)
        self.settings = f"{self.settings}, over TLS 1.3"
        self._protocol = "SSL"

    def start(self) -> None:
        self._certificates = tempfile.TemporaryDirectory(prefix="kafka-bench-tls-")
        folder = Path(self._certificates.name)
        authority = Authority(folder)
        self.authority = authority.path
        own = authority.issue("kafka")
        keystore = folder / "keystore.pem"
        keystore.write_text(Path(own.key).read_text() + Path(own.certificate).read_text())
        stores = {"keystore": keystore, "truststore": self.authority}
        for store, path in stores.items():
            self._properties |= {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": str(path)}
        super().start()

    def stop(self) -> None:
        super().stop()
        self._certificates.cleanup()
