"""Reads partitions from one point until another, without a group and without commits."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from lacuna.base.errors import UserError
from lacuna.cli.records.finding import NEVER, OffsetRange
from lacuna.cli.records.librdkafka_errors import explain_error
from lacuna.operating.kafka import Agents

#: Records in a portion: enough to make the cost of each portion negligible.
_PORTION: Final = 10_000
#: The delay until Ctrl-C, or the loss of the output's reader, is noticed.
_WAIT_SECONDS: Final = 0.2
#: How long an agent waits for more records at the end before it returns an empty answer.
_END_MS: Final = 50

_CONFIG: Final = {
    "client.id": "lacuna-cli",
    "group.id": "lacuna-consume",  # librdkafka needs one, although no group is joined
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",  # the next records were deleted during the read
    # By default, it pauses for a second once 100,000 records wait. Printing them takes less time.
    "queued.min.messages": 1_000_000,
    "fetch.queue.backoff.ms": 20,
    "log_level": 0,  # our own message is one line
}


def read(
    bootstrap: Agents,
    topic: str,
    wanted: Sequence[OffsetRange],
    *,
    committed: bool,
    most: int | None,
    tell: Callable[[str], None],
) -> Iterator[list[Message]]:
    """Yields portions of records until each partition has reached its stop, or `most` records in all.

    A portion is empty while there is nothing to read. `tell` receives a line when no agent answers. Raises UserError.
    """
    left = {each.partition: each for each in wanted if max(each.start, each.first) < each.stop}
    if not left:
        return
    remaining = NEVER if most is None else most

    def hear(error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            tell(f"no agent answers at {bootstrap}; waiting for an agent")

    config: dict[str, Any] = {
        **_CONFIG,
        **bootstrap.librdkafka(),
        "fetch.wait.max.ms": 500 if any(each.stop == NEVER for each in wanted) else _END_MS,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "error_cb": hear,
    }
    consumer = Consumer(config)
    try:
        consumer.assign(
            [TopicPartition(topic, each.partition, each.start) for each in left.values()]
        )
        while left and remaining:
            portion = _next_portion(consumer)
            records = [each for each in portion if each.error() is None]
            kept = [
                each
                for each in records
                if (bounds := left.get(each.partition())) is not None
                and bounds.first <= each.offset() < bounds.stop
            ][:remaining]
            remaining -= len(kept)
            yield kept
            # The next offset of each partition. The end arrives as an error, behind aborted records and holes.
            reached = {each.partition(): each.offset() + 1 for each in records}
            if len(records) < len(portion):
                for each, end in _ends(topic, portion):
                    reached[each] = max(reached.get(each, 0), end)
            ended = [each for each in reached if each in left and reached[each] >= left[each].stop]
            for each in ended:
                del left[each]
            if ended and left:
                consumer.pause([TopicPartition(topic, each) for each in ended])
    finally:
        consumer.close()


def _next_portion(consumer: Any) -> list[Any]:
    """Return the records that have arrived. If there are none, wait a moment for the first one and return it alone.

    `consume` with a timeout would wait for a whole portion, and withhold the records that have arrived.
    """
    portion: list[Any] = consumer.consume(_PORTION, 0)
    if not portion and (message := consumer.poll(_WAIT_SECONDS)) is not None:
        portion = [message]
    return portion


def _ends(topic: str, portion: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Yield each partition that ended in a portion, and its end. Raises UserError for any other error."""
    for each in portion:
        error = each.error()
        # librdkafka looks for the coordinator of a group that is never joined, so a missing right does no harm.
        if error is None or error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            continue
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise UserError(
                f"topic {topic} was deleted; `lacuna topics list` shows the existing topics"
            )
        if error.code() != KafkaError._PARTITION_EOF:
            raise UserError(f"partition {each.partition()} of {topic}: {explain_error(error)}")
        yield each.partition(), each.offset()
