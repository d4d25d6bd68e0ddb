"""The demo's two scenarios, which a real client runs, with a description and a check of each step.

In the first, three producers take turns writing to a partition: a transaction that aborts, a plain producer, and a
transaction that commits. In the second, every record is aborted: the consumer receives none, but must still move past
them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lacuna.base.errors import UserError
from lacuna.operating.kafka import Agents

TIMEOUT_SECONDS = 60.0
#: librdkafka logs each closed connection. Anything that matters is also reported as an error.
QUIET = {"log_level": 2}


class DemoFailedError(UserError):
    """A client did not observe what the scenario promises. The message contains the details."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The (offset, value) pairs that a consumer read from partition 0, and its final position."""

    records: tuple[tuple[int, str], ...]
    position: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario on `topic`: its steps, one per line of `story`, and what each isolation level returned."""

    title: str
    topic: str
    story: Sequence[str]
    uncommitted: Reading
    committed: Reading


def isolation_levels(bootstrap: Agents, suffix: str) -> Scenario:
    """Interleaves an aborted transaction, plain records and a committed transaction, and checks what consumers receive.

    `suffix` makes the topic and transactional ids unique. Raises DemoFailedError.
    """
    topic = create_topic(bootstrap, f"demo-isolation-{suffix}")
    aborted = transactional(bootstrap, f"demo-aborted-{suffix}")
    plain = Producer({**bootstrap.librdkafka(), **QUIET})
    committed = transactional(bootstrap, f"demo-committed-{suffix}")
    story = []

    def write(producer: Any, whose: str, value: str) -> None:
        _deliver(producer, topic, value)
        story.append(f"{whose} writes {value!r}")

    aborted.begin_transaction()
    write(aborted, "transaction A", "a1")
    write(plain, "a plain producer", "p1")
    committed.begin_transaction()
    write(committed, "transaction C", "c1")
    write(aborted, "transaction A", "a2")
    write(plain, "a plain producer", "p2")
    write(committed, "transaction C", "c2")
    expect(
        "read_committed before any outcome", read(bootstrap, topic, "read_committed").records, ()
    )
    # Read before the abort. After it, a merge may drop aborted records at any time, even for read_uncommitted (S14).
    uncommitted = read(bootstrap, topic, "read_uncommitted")
    story.append("a read_uncommitted consumer reads everything")
    aborted.abort_transaction(TIMEOUT_SECONDS)
    story.append("transaction A aborts")
    before_commit = read(bootstrap, topic, "read_committed")
    expect("read_committed before C commits", before_commit.records, ((1, "p1"),))
    committed.commit_transaction(TIMEOUT_SECONDS)
    story.append("transaction C commits")
    story.append("a read_committed consumer reads from the start")
    scenario = Scenario(
        "interleaved producers: one aborts, one commits, and one uses no transactions",
        topic,
        story,
        uncommitted,
        read(bootstrap, topic, "read_committed"),
    )
    everything = ("a1", "p1", "c1", "a2", "p2", "c2")
    expect("read_uncommitted", scenario.uncommitted.records, tuple(enumerate(everything)))
    expect(
        "read_committed",
        scenario.committed.records,
        ((1, "p1"), (2, "c1"), (4, "p2"), (5, "c2")),
    )
    return scenario


def wholly_aborted(bootstrap: Agents, suffix: str, count: int = 11) -> Scenario:
    """Writes and aborts `count` records, and checks that a read_committed consumer ends at offset `count`.

    `suffix` makes the topic and transactional id unique. Raises DemoFailedError.
    """
    topic = create_topic(bootstrap, f"demo-aborted-range-{suffix}")
    producer = transactional(bootstrap, f"demo-range-{suffix}")
    producer.begin_transaction()
    for index in range(count):
        producer.produce(topic, f"r{index}".encode(), partition=0)
    flush(producer)
    uncommitted = read(bootstrap, topic, "read_uncommitted")
    producer.abort_transaction(TIMEOUT_SECONDS)
    scenario = Scenario(
        "a range in which every record was aborted",
        topic,
        (
            f"transaction R writes {count} records",
            "a read_uncommitted consumer reads everything",
            "transaction R aborts",
            "a read_committed consumer reads from the start",
        ),
        uncommitted,
        read(bootstrap, topic, "read_committed"),
    )
    expect(
        "records that a read_uncommitted consumer sees", len(scenario.uncommitted.records), count
    )
    expect("records that a read_committed consumer sees", scenario.committed.records, ())
    expect("the position of a read_committed consumer", scenario.committed.position, count)
    return scenario


SCENARIOS: Sequence[Callable[[Agents, str], Scenario]] = (isolation_levels, wholly_aborted)


def create_topic(bootstrap: Agents, topic: str) -> str:
    """Creates a topic with one partition and returns its name. Raises DemoFailedError."""
    admin = AdminClient({**bootstrap.librdkafka(), **QUIET})
    try:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT_SECONDS)
    except (KafkaException, TimeoutError) as error:
        reason = str(error) or f"no answer within {TIMEOUT_SECONDS:.0f} s"
        raise DemoFailedError(f"the topic {topic} could not be created: {reason}") from error
    return topic


def transactional(bootstrap: Agents, transactional_id: str) -> Any:
    """Return a producer for which `init_transactions` has been called."""
    producer = Producer({**bootstrap.librdkafka(), "transactional.id": transactional_id, **QUIET})
    producer.init_transactions(TIMEOUT_SECONDS)
    return producer


def flush(producer: Any) -> None:
    """Waits for all records to be acknowledged. Raises DemoFailedError if that takes too long."""
    if remaining := producer.flush(TIMEOUT_SECONDS):
        raise DemoFailedError(
            f"{remaining} records were not acknowledged within {TIMEOUT_SECONDS:.0f} s"
        )


def _deliver(producer: Any, topic: str, value: str) -> None:
    producer.produce(topic, value.encode(), partition=0)
    flush(producer)


def read(bootstrap: Agents, topic: str, isolation_level: str) -> Reading:
    """Reads partition 0 of a topic from start to end. Raises DemoFailedError."""
    consumer = Consumer(
        {
            **bootstrap.librdkafka(),
            "group.id": "demo",
            **QUIET,
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    partition = TopicPartition(topic, 0, 0)
    records: list[tuple[int, str]] = []
    try:
        consumer.assign([partition])
        while True:
            message = consumer.poll(TIMEOUT_SECONDS)
            if message is None:
                raise DemoFailedError(
                    f"a {isolation_level} consumer did not reach the end of {topic}"
                )
            error = message.error()
            if error is None:
                records.append((int(message.offset() or 0), bytes(message.value() or b"").decode()))
            elif error.code() == KafkaError._PARTITION_EOF:
                return Reading(tuple(records), int(message.offset() or 0))
            else:
                raise DemoFailedError(f"a {isolation_level} consumer failed: {error}")
    finally:
        consumer.close()


def expect(what: str, actual: object, promised: object) -> None:
    """Raises DemoFailedError if `actual` differs from `promised`. The message calls the value `what`."""
    if actual != promised:
        raise DemoFailedError(f"{what}: expected {promised}, but the client got {actual}")
