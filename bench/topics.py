"""Creates and drops the topics of a run."""

import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench import BenchError
from bench.target import Target

PARTITIONS = 4
TIMEOUT_SECONDS = 30.0


class Topics:
    """Creates and drops topics on one target."""

    def __init__(self, target: Target) -> None:
        self._admin = AdminClient({**target.client, "log_level": 2})
        self._count = 0
        self._stem = f"{time.time_ns():x}"

    def create(self, name: str, partitions: int = PARTITIONS) -> str:
        """Creates a topic with a unique name, waits until it can be written, and returns its name.

        Raises BenchError.
        """
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
        """Deletes a topic. Raises BenchError."""
        try:
            self._admin.delete_topics([topic])[topic].result(TIMEOUT_SECONDS)
        except KafkaException as error:
            raise BenchError(f"topic {topic} cannot be deleted: {error}") from error
