"""Runs clients with checked histories: no server failure may lose, duplicate or tear records."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.librd import read

from .foreign import ForeignClient
from .history import log_violations, transaction_violations
from .load import PlainClient, Progress, TransactionalClient
from .processes import Deployment

PARTITIONS = 4
SECONDS = 60.0


class Load:
    """Several transactional producers, an idempotent one, and the final checks of the logs.

    librdkafka's clients always run, and `foreign` lists those in other languages. Each transactional client pauses for
    `pause` seconds between transactions.
    """

    def __init__(
        self, cluster: Deployment, foreign: Sequence[str] = (), pause: float = 0.0
    ) -> None:
        self.progress = Progress()
        self._bootstrap = cluster.bootstrap
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topics = [NewTopic(name, PARTITIONS) for name in ("transactions", "plain")]
        for created in admin.create_topics(topics).values():
            created.result(SECONDS)
        where = (cluster.bootstrap, "transactions", self.progress, PARTITIONS)
        self._transactional: list[TransactionalClient | ForeignClient] = [
            *(TransactionalClient(*where, number, pause) for number in range(2)),
            *(ForeignClient(kind, *where, pause) for kind in foreign),
        ]
        self._plain = PlainClient(cluster.bootstrap, "plain", self.progress, PARTITIONS)
        for client in (*self._transactional, self._plain):
            client.start()
        self.await_more()
        self.await_commits(time.monotonic())

    def await_more(self) -> None:
        """Wait until the clients have received 100 more acknowledgements, which is more than one transaction."""
        count = self.progress.count + 100
        assert self.progress.wait_for(count, SECONDS), "the clients do not go on"

    def await_commits(self, since: float) -> None:
        """Wait until each transactional client has requested a commit after `since` and received an answer."""
        deadline = since + SECONDS
        for client in self._transactional:
            while not client.commits or client.commits[-1][0] < since:
                count = self.progress.count + 1
                left = deadline - time.monotonic()
                assert self.progress.wait_for(count, left), f"{client.kind} does not go on"
                assert client.fatal == [], client.fatal

    def violations(self) -> list[str]:
        """Stop the clients, read everything, and return the violations."""
        for client in (*self._transactional, self._plain):
            client.stop()
        assert [each for client in self._transactional for each in client.fatal] == []
        found = []
        visible = {p: self._read("transactions", p) for p in range(PARTITIONS)}
        for client in self._transactional:
            found += transaction_violations(client.transactions, visible)
        for partition, acknowledged in self._plain.acknowledged.items():
            found += log_violations(partition, acknowledged, self._read("plain", partition))
        return found

    def _read(self, topic: str, partition: int) -> list[tuple[int, bytes]]:
        return read(self._bootstrap, topic, partition=partition).records

    def commits(self) -> dict[str, list[tuple[float, float]]]:
        """Return the monotonic times of each commit's request and answer so far, by kind of client."""
        found: dict[str, list[tuple[float, float]]] = {}
        for client in self._transactional:
            found.setdefault(client.kind, []).extend(client.commits)
        return found
