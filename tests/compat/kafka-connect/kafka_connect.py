"""Tests Kafka Connect's distributed worker with exactly-once sources, a sink, MirrorMaker 2, and kills in mid-copy."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from worker import Worker

from tests.compat.harness.tools import Refused, Said, parser, tell, until

FEEDS = ("start", "middle", "end", "all", "mixed")
LINES = 100


def text(value: bytes | None) -> str:
    """Return a key or value as the matrix prints it."""
    return "~" if value is None else value.decode()


class Committed:
    """A partition 0 as read_committed consumers see it, read as it grows."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self.lines: list[str] = []

    def read_to_end(self) -> list[str]:
        """Return all lines up to the current end of the partition, or none if the topic does not exist yet."""
        while True:
            message = self._consumer.poll(10)
            error = message.error() if message else None
            if message is None or (error and error.code() == KafkaError._PARTITION_EOF):
                return self.lines
            if error:
                continue
            pairs: list[tuple[str, bytes | None]] = list(message.headers() or ())  # type: ignore[arg-type]
            headers = ",".join(f"{name}:{text(value)}" for name, value in pairs)
            line = f"{text(message.key())}={text(message.value())}"
            self.lines.append(line + (f"|{headers}" if headers else ""))

    def await_lines(self, count: int) -> list[str]:
        """Wait for at least this many lines. Raises TimeoutError."""
        until(
            lambda: len(self.read_to_end()) >= count,
            lambda: f"{len(self.lines)} lines, not {count}",
        )
        return self.lines


class Connect:
    """The scenarios on one cluster. Each one continues from the state that the previous one left."""

    def __init__(self, worker: Worker, bootstrap: str, prefix: str, folder: Path) -> None:
        self._worker, self._bootstrap, self._prefix = worker, bootstrap, prefix
        self._file, self._sunk = folder / "source.txt", folder / "sink.txt"
        self._from_file = Committed(bootstrap, f"{prefix}-from-file")
        self._mirrored = {
            name: Committed(bootstrap, f"here.{prefix}-{name}") for name in (*FEEDS, "input")
        }
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": f"{prefix}-connect-feed"}
        )

    def _run(self, name: str, **settings: str) -> None:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        self._worker.ask("PUT", f"/connectors/{name}/config", named)
        self._await_running(name)

    def _await_running(self, name: str) -> None:
        def is_running() -> bool:
            try:
                status = self._worker.ask("GET", f"/connectors/{name}/status")
            except Refused:
                return False  # not there yet, or a rebalance
            states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
            if "FAILED" in states:
                raise RuntimeError(json.dumps(status))
            return len(states) > 1 and set(states) == {"RUNNING"}

        until(is_running, lambda: f"{name} does not run")

    def _append(self, name: str) -> None:
        with self._file.open("a") as file:
            file.writelines(f"{name}{number}\n" for number in range(LINES))

    def file_source(self) -> Said:
        """A source turns lines of a file into records, exactly once."""
        self._append("a")
        self._run(
            "file-source",
            connector_class="org.apache.kafka.connect.file.FileStreamSourceConnector",
            tasks_max="1",
            topic=f"{self._prefix}-from-file",
            file=str(self._file),
            exactly_once_support="required",
        )
        return {"from-file/0": list(self._from_file.await_lines(LINES))}, {}

    def file_sink(self) -> Said:
        """A sink turns the committed records of a topic into lines."""
        self._run(
            "file-sink",
            **{
                "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
                "tasks.max": "1",
                "topics": f"{self._prefix}-input",
                "file": str(self._sunk),
                "consumer.override.isolation.level": "read_committed",
                "consumer.override.auto.offset.reset": "earliest",
            },
        )

        def lines() -> list[str]:
            return self._sunk.read_text().splitlines() if self._sunk.exists() else []

        until(lambda: len(lines()) >= 50, lambda: f"{len(lines())} lines, not 50")
        return {"sink": lines()}, {}

    def mirror(self) -> Said:
        """MirrorMaker 2 copies the committed records of topics with holes in transactions."""
        bytes_as_they_are = "org.apache.kafka.connect.converters.ByteArrayConverter"
        self._run(
            "mirror",
            **{
                "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
                "tasks.max": "2",
                "source.cluster.alias": "here",
                "target.cluster.alias": "there",
                "source.cluster.bootstrap.servers": self._bootstrap,
                "target.cluster.bootstrap.servers": self._bootstrap,
                "topics": ",".join(f"{self._prefix}-{name}" for name in (*FEEDS, "input")),
                "source.consumer.isolation.level": "read_committed",
                "key.converter": bytes_as_they_are,
                "value.converter": bytes_as_they_are,
                "exactly.once.support": "required",
                "offset-syncs.topic.location": "target",
                "offset-syncs.topic.replication.factor": "1",
                "replication.factor": "1",
                "sync.topic.acls.enabled": "false",
            },
        )
        found: dict[str, list[str]] = {}
        for name in FEEDS:
            original = Committed(self._bootstrap, f"{self._prefix}-{name}").read_to_end()
            found[f"mirrored-{name}/0"] = list(self._mirrored[name].await_lines(len(original)))
        return found, {}

    def kill(self) -> Said:
        """A kill in mid-copy loses and duplicates nothing."""
        self._mirrored["input"].await_lines(50)
        self._producer.init_transactions()
        self._append("b")
        self._feed(True)
        self._feed(False)
        self._from_file.await_lines(LINES + 1)
        self._append("c")
        self._worker.kill()
        self._feed(True)
        self._append("d")
        self._worker.start()
        for name in ("file-source", "mirror", "file-sink"):
            self._await_running(name)
        copied = self._from_file.await_lines(4 * LINES)
        mirrored = self._mirrored["input"].await_lines(50 + 2 * LINES)
        return {"from-file/0": list(copied), "mirrored-input/0": list(mirrored)}, {}

    def _feed(self, kept: bool) -> None:
        self._producer.begin_transaction()
        for number in range(LINES):
            value = f"{'kept' if kept else 'gone'}{number}".encode()
            self._producer.produce(f"{self._prefix}-input", value, b"k", partition=0)
        self._producer.flush()
        if kept:
            self._producer.commit_transaction()
        else:
            self._producer.abort_transaction()

    def offsets(self) -> Said:
        """A compacted topic stores the source's offsets. A connector is stopped, reset and deleted."""
        self._worker.ask("PUT", "/connectors/file-source/stop")

        def is_stopped() -> bool:
            status = self._worker.ask("GET", "/connectors/file-source/status")
            return bool(status["connector"]["state"] == "STOPPED" and not status["tasks"])

        until(is_stopped, lambda: "it does not stop")
        before = self._worker.ask("GET", "/connectors/file-source/offsets")["offsets"]
        self._worker.ask("DELETE", "/connectors/file-source/offsets")
        after = self._worker.ask("GET", "/connectors/file-source/offsets")["offsets"]
        self._worker.ask("DELETE", "/connectors/mirror")
        self._worker.ask("DELETE", "/connectors/file-source")
        left = ["file-sink"]
        until(lambda: bool(self._worker.ask("GET", "/connectors") == left), lambda: "still there")
        said = [str(offset["offset"]) for offset in before]
        return {}, {"before": said, "after": len(after)}

    def scenarios(self) -> dict[str, Callable[[], Said]]:
        """Return the scenarios by name, in their order."""
        return {
            "file source": self.file_source,
            "file sink": self.file_sink,
            "MirrorMaker 2": self.mirror,
            "kill": self.kill,
            "offsets": self.offsets,
        }


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--jars", required=True)
    made.add_argument("--kafka-jars", required=True)
    arguments = made.parse_args()
    classpath = f"{arguments.jars}/*:{arguments.kafka_jars}/*"
    with tempfile.TemporaryDirectory(prefix="kafka-connect-") as name:
        folder = Path(name)
        worker = Worker(arguments.bootstrap, arguments.prefix, classpath, folder)
        try:
            worker.start()
            connect = Connect(worker, arguments.bootstrap, arguments.prefix, folder)
            tell(connect.scenarios())
        finally:
            worker.kill()


if __name__ == "__main__":
    main()
