"""A librdkafka consumer as a program, with the interface described in `foreign.py`."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

POLL_SECONDS = 0.1
#: Of the members of classic groups, in each language: less than an outage.
SESSION_MS = 20_000


def tell(what: str, value: object) -> None:
    """Print a line."""
    sys.stdout.write(f"{json.dumps({what: value})}\n")
    sys.stdout.flush()


class Follow:
    """The consumer, which runs until standard input ends."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: str, group: str, protocol: str
    ) -> None:
        self._topic = topic
        self._group = group
        self._partitions = [TopicPartition(topic, p, 0) for p in range(int(partitions))]
        self._seen: set[int | None] = set()
        self._is_paused = False
        self._is_told_to_go = threading.Event()
        self._is_told_to_stop = threading.Event()
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group or "none",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        if group:
            settings["group.protocol"] = protocol
            if protocol == "classic":
                settings["session.timeout.ms"] = SESSION_MS
        else:
            settings |= {
                "auto.offset.reset": "error",
                "fetch.message.max.bytes": 4096,
                "queued.min.messages": 1,
                "fetch.queue.backoff.ms": 10,
            }
        self._consumer = Consumer(settings)

    def run(self) -> None:
        """Read records. Raises KafkaException for a permanent error."""
        threading.Thread(target=self._listen, daemon=True).start()
        if self._group:
            told = {
                "on_assign": self._told("assigned"),
                "on_revoke": self._told("revoked"),
                "on_lost": self._told("lost"),
            }
            self._consumer.subscribe([self._topic], **told)
        else:
            self._consumer.assign(self._partitions)
        while not self._is_told_to_stop.is_set():
            self._step()
        self._consumer.close()

    def _step(self) -> None:
        message = self._consumer.poll(POLL_SECONDS)
        if message is not None:
            error = message.error()
            if error is None:
                self._seen.add(message.partition())
                value = (message.value() or b"").decode()
                tell("record", [message.partition(), message.offset(), value])
                if self._group:
                    self._commit()
            elif error.code() != KafkaError._ALL_BROKERS_DOWN and not error.retriable():
                raise KafkaException(error)
        if not self._group:
            self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        """Read the beginning of each partition, then wait for a line on standard input."""
        is_due = len(self._seen) == len(self._partitions) and not self._is_told_to_go.is_set()
        if is_due != self._is_paused:
            self._is_paused = is_due
            change = self._consumer.pause if is_due else self._consumer.resume
            change(self._partitions)

    def _commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            sys.stderr.write(f"the next commit covers it: {error}\n")

    def _told(self, what: str) -> Any:
        return lambda _, partitions: tell(what, sorted(each.partition for each in partitions))

    def _listen(self) -> None:
        for _ in sys.stdin:
            self._is_told_to_go.set()
        self._is_told_to_stop.set()


def main(arguments: list[str]) -> int:
    """Run the consumer. Return the exit code."""
    try:
        Follow(*arguments).run()
    except KafkaException as error:
        tell("fatal", str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
