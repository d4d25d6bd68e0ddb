"""The measured servers, and the topics that a run creates on them."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench import BenchError
from bench.processes import Process

PARTITIONS = 4
TIMEOUT_SECONDS = 30.0


class Target(ABC):
    """A server, as a context manager that starts it on entry, and on exit stops it and deletes its data.

    `label` names it in tables, and `settings` describes how it runs. `warms_slowly` means that it keeps getting faster
    for a long time, as a JVM does. `authority` is the path of the certificate that clients trust, if they connect over
    TLS.
    """

    label: str
    settings: str = ""
    warms_slowly: bool = False
    authority: str = ""

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """The HOST:PORT for clients, which `forget` does not change."""

    @property
    @abstractmethod
    def pids(self) -> tuple[int, ...]:
        """The ids of the server's processes, which `forget` may change. Their descendants are counted as well."""

    @property
    def client(self) -> Mapping[str, str]:
        tls = {"security.protocol": "SSL", "ssl.ca.location": self.authority}
        return {"bootstrap.servers": self.bootstrap, **(tls if self.authority else {})}

    def counts(self) -> Mapping[str, float]:
        """Returns the server's own counts since it started, by name. `Meter` computes the difference."""
        return {}

    @abstractmethod
    def start(self) -> None:
        """Starts the server, and waits until clients can connect."""

    @abstractmethod
    def stop(self) -> None:
        """Ends the server and deletes its data."""

    def forget(self) -> bool:
        """Empties the server's own cache of records, if it has one, so that the next read goes to its store.

        Returns whether this required a restart. The operating system's page cache stays warm for all targets.
        """
        return False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


class Foreign(Target):
    warms_slowly = True

    def __init__(self, bootstrap: str, pid: int, label: str) -> None:
        self.label = label
        self.settings = "started by another process"
        self._bootstrap = bootstrap
        self._pid = pid

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._pid,) if self._pid else ()

    def start(self) -> None:
        """Does nothing, because the server is running."""

    def stop(self) -> None:
        """Does nothing, so the server keeps running."""


def is_foreign(target: Target) -> bool:
    return isinstance(target, Foreign)


class Topics:
    def __init__(self, target: Target) -> None:
        self._admin = AdminClient({**target.client, "log_level": 2})
        self._count = 0
        self._stem = f"{time.time_ns():x}"

    def create(self, name: str, partitions: int = PARTITIONS) -> str:
        """Creates a topic with a unique name, waits until it is writable, and returns the name. Raises BenchError."""
        self._count += 1
        topic = f"bench-{name}-{self._stem}-{self._count}"
        made = self._admin.create_topics([NewTopic(topic, partitions, 1)])
        made[topic].result(TIMEOUT_SECONDS)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            found = self._admin.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
            leaders = [each.leader for each in found.partitions.values()]
            if found.error is None and len(leaders) == partitions and min(leaders) >= 0:
                return topic
        raise BenchError(f"topic {topic} did not become ready")

    def drop(self, topic: str) -> None:
        try:
            self._admin.delete_topics([topic])[topic].result(TIMEOUT_SECONDS)
        except KafkaException as error:
            raise BenchError(f"topic {topic} cannot be deleted: {error}") from error


class Bare(Target):
    """`bench.bare_server`, whose rates are the highest that this client and a server in Python can achieve."""

    label = "bare"
    settings = "a server in Python that answers at once: no disk, no checks, no transactions"

    @property
    def bootstrap(self) -> str:
        return self._process.value

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._process.pid,)

    def start(self) -> None:
        self._process = Process([], "bootstrap: ", module="bench.bare_server")

    def stop(self) -> None:
        self._process.stop()
