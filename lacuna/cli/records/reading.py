"""Reads partitions from one point until another, without a group and without committing anything."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from lacuna.base.errors import UserError
from lacuna.cli.records.finding import NEVER, Wanted
from lacuna.cli.records.told import told
from lacuna.operating.kafka import Agents

#: Records at a time: enough that what is done once for each portion costs nothing.
_PORTION: Final = 10_000
#: How soon Ctrl-C and a reader of the output that went away are noticed.
_WAIT_SECONDS: Final = 0.2
#: How long an agent waits for more records before it says that there are none, where that is the end.
_END_MS: Final = 50

_CONFIG: Final = {
    "client.id": "lacuna-cli",
    "group.id": "lacuna-consume",  # librdkafka wants one, though none is joined
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",  # what is next was deleted while it was read
    # By default it fetches nothing for a second once 100 000 records are waiting, which are printed in less.
    "queued.min.messages": 1_000_000,
    "fetch.queue.backoff.ms": 20,
    "log_level": 0,  # what matters is said in one line
}


def read(
    bootstrap: Agents,
    topic: str,
    wanted: Sequence[Wanted],
    *,
    committed: bool,
    most: int | None,
    tell: Callable[[str], None],
) -> Iterator[list[Message]]:
    """Yields portions of records until each partition has reached its stop, or `most` records in all.

    A portion is empty while there is nothing to read. `tell` is called with a line when no agent answers. Raises
    UserError.
    """
    left = {each.partition: each for each in wanted if max(each.start, each.first) < each.stop}
    if not left:
        return
    remaining = NEVER if most is None else most

    def hear(error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            tell(f"no agent answers at {bootstrap}; waiting for one")

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
            # The next offset of each partition: the end, which comes as an error, is behind aborted records and holes.
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
    """What has arrived; if that is nothing, waits a moment for the first record and returns it by itself.

    `consume` with a timeout would wait for a whole portion, and keep back what has arrived.
    """
    portion: list[Any] = consumer.consume(_PORTION, 0)
    if not portion and (message := consumer.poll(_WAIT_SECONDS)) is not None:
        portion = [message]
    return portion


def _ends(topic: str, portion: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Each partition that ended in a portion, and its end. Raises UserError for any other error."""
    for each in portion:
        error = each.error()
        # librdkafka looks for the coordinator of a group that is never joined, and needs no right to.
        if error is None or error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            continue
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise UserError(
                f"topic {topic} was deleted; `lacuna topics list` shows the topics that exist"
            )
        if error.code() != KafkaError._PARTITION_EOF:
            raise UserError(f"partition {each.partition()} of {topic}: {told(error)}")
        yield each.partition(), each.offset()
