"""The scenarios of a monitor that reports the lag of consumer groups, also over aborted transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)

from tests.compat.harness.tools import Said, until

#: The feeds whose lag is looked at; of `all` nothing was committed, and `end` ends with what was aborted.
FEEDS = ("mixed", "end", "all")
FIRST, OPEN = 5, 3


class Monitor(Protocol):
    """The queries that the scenarios send to a monitor. Nothing is cached."""

    def lag(self, group: str, topic: str) -> int | None:
        """Return the lag in partition 0, or None while the monitor does not know the group there."""
        ...

    def members(self, group: str) -> int | None:
        """Return the number of members, or None while the monitor does not know the group."""
        ...


class Lag:
    """The scenarios on one cluster. Each one continues from the state that the previous one left."""

    def __init__(self, monitor: Monitor, bootstrap: str, prefix: str) -> None:
        self._monitor, self._bootstrap, self._prefix = monitor, bootstrap, prefix
        self._group = f"{prefix}-watched"

    def scenarios(self) -> dict[str, Callable[[], Said]]:
        """Return the scenarios by name, in their order."""
        return {
            "lag": self.lag,
            "aborted": self.aborted,
            "open transaction": self.open_transaction,
            "members": self.members,
        }

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self._group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )

    def _read(self, name: str, most: int | None = None) -> int:
        """Read a topic with read_committed to its end, or `count` records of it, and commit. Return the committed
        offset.
        """
        topic = f"{self._prefix}-{name}"
        consumer = self._consumer()
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        count = 0
        while True:
            message = consumer.poll(30)
            if message is None:
                raise RuntimeError(f"{topic} does not end")
            error = message.error()
            if error and error.code() != KafkaError._PARTITION_EOF:
                raise RuntimeError(str(error))
            count += 0 if error else 1
            if error or count == most:
                break
        # At the end this is where read_committed consumers go on, behind all that was aborted.
        at = message.offset()
        assert at is not None
        offset = at + (0 if error else 1)
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        consumer.close()
        return offset

    def _end(self, name: str) -> int:
        """Return the high watermark."""
        consumer = self._consumer()
        _, high = consumer.get_watermark_offsets(TopicPartition(f"{self._prefix}-{name}", 0), 30)
        consumer.close()
        return int(high)

    def _says(self, name: str, wanted: int) -> int:
        """Wait until the monitor reports this lag. Raises TimeoutError with the reported one."""
        topic = f"{self._prefix}-{name}"

        def what() -> str:
            return f"it says {self._monitor.lag(self._group, topic)} of {topic}, not {wanted}"

        until(lambda: self._monitor.lag(self._group, topic) == wanted, what)
        return wanted

    def lag(self) -> Said:
        """In the middle of a topic, the lag is the distance to its end."""
        committed = self._read("mixed", FIRST)
        said = self._says("mixed", self._end("mixed") - committed)
        return {}, {"is behind": said > 0}

    def aborted(self) -> Said:
        """A group that has read everything has no lag, even if the last records were aborted."""
        for name in FEEDS:
            self._read(name)
        return {}, {name: self._says(name, 0) for name in FEEDS}

    def open_transaction(self) -> Said:
        """Records of an open transaction count as lag until it ends."""
        settings = {"bootstrap.servers": self._bootstrap}
        producer = Producer({**settings, "transactional.id": f"{self._prefix}-watched"})
        producer.init_transactions(30)
        found = {}
        for name, end in (
            ("committed", producer.commit_transaction),
            ("aborted", producer.abort_transaction),
        ):
            self._read("output")
            producer.begin_transaction()
            for number in range(OPEN):
                producer.produce(f"{self._prefix}-output", str(number).encode(), partition=0)
            producer.flush(30)
            found[f"open, then {name}"] = self._says("output", OPEN)
            end(30)
            self._read("output")
            found[f"then {name}"] = self._says("output", 0)
        return {}, found

    def members(self) -> Said:
        """The number of members is right while the group has one and after it leaves."""
        consumer = self._consumer()
        consumer.subscribe([f"{self._prefix}-mixed"])
        group, asked = self._group, self._monitor.members

        def has(wanted: int) -> Callable[[], bool]:
            def is_so() -> bool:
                consumer.poll(0)
                return asked(group) == wanted

            return is_so

        until(has(1), lambda: f"it says {asked(group)} members, not 1")
        consumer.unsubscribe()
        until(has(0), lambda: f"it says {asked(group)} members, not 0")
        consumer.close()
        return {}, {"members": [1, 0]}
