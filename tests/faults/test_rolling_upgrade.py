"""Tests that no application sees an error when all processes restart one by one, as in an upgrade (S2-S5, S12, S26)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.clients.librd import COMMITTED, read

from .history import History, log_violations, transaction_violations, violations
from .load import Client, PlainClient, Progress, Tail, TransactionalClient
from .processes import Deployment, Process

PARTITIONS = 4
SECONDS = 60.0
TOPICS = ("plain", "transactions", "copies")


class Copiers:
    """Two processes in one group that copy `plain` to `copies`, exactly once."""

    def __init__(self, bootstrap: str) -> None:
        self.progress = Progress()
        #: Every error that a call returned to them.
        self.errors: list[str] = []
        self.processes = [
            Process(
                f"copier {number}",
                "tests.faults.eos_worker",
                [bootstrap, "copiers", "plain", "copies", f"copier-{number}"],
                heard=self._heard,
            )
            for number in range(2)
        ]

    def _heard(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "committed":
            self.progress.add(int(rest))
        elif word in ("again", "trouble", "rebuild"):
            self.errors.append(f"copier: {line}")


class Clients:
    """An idempotent producer and its readers, transactional producers, and the copiers."""

    def __init__(self, bootstrap: str) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic(name, PARTITIONS) for name in TOPICS]
        for created in admin.create_topics(topics).values():
            created.result(SECONDS)
        self._bootstrap = bootstrap
        self._plain = PlainClient(bootstrap, "plain", Progress(), PARTITIONS)
        self._transactional = [
            TransactionalClient(bootstrap, "transactions", Progress(), PARTITIONS, number)
            for number in range(2)
        ]
        self._tails = [Tail(bootstrap, "plain", Progress(), index) for index in range(PARTITIONS)]
        self._copiers = Copiers(bootstrap)
        self._threads: list[Client] = [self._plain, *self._transactional, *self._tails]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start all clients, and kill the processes at the end."""
        with ExitStack() as stack:
            for client in self._threads:
                client.start()
            for process in self._copiers.processes:
                stack.callback(process.discard)
                process.start()
            self.await_more()
            yield

    def await_more(self) -> None:
        """Wait until each producer and the copiers have made further progress."""
        for progress, more in (
            (self._plain.progress, 200),
            *((client.progress, 20) for client in self._transactional),
            (self._copiers.progress, 50),
        ):
            assert progress.wait_for(progress.count + more, SECONDS), "a client does not go on"

    def end(self) -> None:
        """Let all clients finish their current work."""
        self._plain.stop()
        for client in self._transactional:
            client.stop()
        for tail, rows in zip(self._tails, self._plain.acknowledged.values(), strict=True):
            tail.finish(rows[-1][0] + 1)
        assert self._copiers.progress.wait_for(self._plain.progress.count, SECONDS)
        for process in self._copiers.processes:
            process.stop()

    def errors(self) -> list[str]:
        """Return every error that an application received."""
        return [
            *(error for client in self._threads for error in client.errors),
            *self._copiers.errors,
        ]

    def violations(self) -> list[str]:
        """Return the errors in the records that were written and read."""
        acknowledged = self._plain.acknowledged
        copies = self._rows("copies")
        history = History(
            inputs=acknowledged,
            read=self._rows("plain"),
            outputs={index: [value for _, value in rows] for index, rows in copies.items()},
        )
        found = violations(history)
        for index, tail in enumerate(self._tails):
            found += log_violations(index, acknowledged[index], tail.rows)
        visible = self._rows("transactions")
        for client in self._transactional:
            found += transaction_violations(client.transactions, visible)
        return found

    def _rows(self, topic: str) -> dict[int, list[tuple[int, bytes]]]:
        return {
            index: read(self._bootstrap, topic, COMMITTED, partition=index).records
            for index in range(PARTITIONS)
        }


def await_ready(control: Process) -> None:
    """Wait until a control plane is leading or ready to take over, as an orchestrator does."""
    with grpc.insecure_channel(control.address) as channel:
        watching = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(service="ready"), timeout=SECONDS
        )
        assert any(found.status == health_pb2.HealthCheckResponse.SERVING for found in watching)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_application_sees_an_error(tmp_path: Path, database: str) -> None:
    with Deployment(
        tmp_path / "control",
        2,
        [f"--store=file://{tmp_path / 'objects'}"],
        control_planes=2,
        journal=[f"--journal={database}"],
    ) as cluster:
        clients = Clients(cluster.bootstrap)
        with clients.running():
            for process in cluster.processes:
                process.stop()
                process.start()
                if process in cluster.controls:
                    await_ready(process)
                clients.await_more()
            clients.end()
        assert clients.errors() == []
        assert clients.violations() == []
