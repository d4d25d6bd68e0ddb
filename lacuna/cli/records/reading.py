"""Reads records, either from one point of a partition to another, or as a member of a group."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from lacuna.base.errors import UserError
from lacuna.cli.records.finding import NEVER, OffsetRange
from lacuna.cli.records.librdkafka_errors import explain_error
from lacuna.operating.kafka import Agents

#: Records in a portion: enough to make the cost of each portion negligible.
_PORTION: Final = 10_000
#: The delay until Ctrl-C, or the loss of the process that reads the output, is noticed.
_WAIT_SECONDS: Final = 0.2
#: How long an agent waits for more records at the end of a partition before it returns an empty answer.
_END_MS: Final = 50

_CONFIG: Final = {
    "client.id": "lacuna-cli",
    "group.id": "lacuna-consume",  # librdkafka needs one, although no group is joined
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",  # the next records were deleted during the read
    # By default, the client pauses for a second once 100,000 records are waiting. Printing them takes less time.
    "queued.min.messages": 1_000_000,
    "fetch.queue.backoff.ms": 20,
    "log_level": 0,  # our own message is one line
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The agents to read from, and the filters and limits to apply.

    `tell` receives a line when no agent answers; `pass_over` receives the number of offsets read or skipped.
    """

    bootstrap: Agents
    committed: bool
    most: int | None
    keep: Callable[[Message], bool] | None
    tell: Callable[[str], None]
    pass_over: Callable[[int], None] = lambda _: None

    def consumer(self, **config: Any) -> Consumer:
        def hear(error: KafkaError) -> None:
            if error.code() == KafkaError._ALL_BROKERS_DOWN:
                self.tell(f"no agent answers at {self.bootstrap}; waiting for an agent")

        level = "read_committed" if self.committed else "read_uncommitted"
        own = {"isolation.level": level, "error_cb": hear}
        return Consumer({**_CONFIG, **self.bootstrap.librdkafka(), **own, **config})

    def kept(self, records: Iterable[Any]) -> list[Any]:
        return list(records) if self.keep is None else list(filter(self.keep, records))


def read(reading: Reading, wanted: Sequence[OffsetRange]) -> Iterator[list[Message]]:
    """Yields portions of records until each partition has reached its stop, or enough records have been read.

    While there is nothing to read, portions are empty. Raises UserError.
    """
    left = {
        (each.topic, each.partition): each
        for each in wanted
        if max(each.start, each.first) < each.stop
    }
    if not left:
        return
    at = {place: max(each.start, each.first) for place, each in left.items()}
    remaining = NEVER if reading.most is None else reading.most
    waits = 500 if any(each.stop == NEVER for each in wanted) else _END_MS
    consumer = reading.consumer(**{"fetch.wait.max.ms": waits})
    try:
        consumer.assign(
            [TopicPartition(each.topic, each.partition, each.start) for each in left.values()]
        )
        while left and remaining:
            portion = _next_portion(consumer)
            records = [each for each in portion if each.error() is None]
            kept = reading.kept(
                each
                for each in records
                if (bounds := left.get(_place(each))) is not None
                and bounds.first <= each.offset() < bounds.stop
            )[:remaining]
            remaining -= len(kept)
            yield kept
            # The next offset of each partition. The end of a partition is reported as an error, after aborted records
            # and holes.
            reached = {_place(each): each.offset() + 1 for each in records}
            if len(records) < len(portion):
                for each, end in _ends(portion):
                    reached[each] = max(reached.get(each, 0), end)
            for each in reached.keys() & left.keys():
                passed = min(reached[each], left[each].stop)
                reading.pass_over(max(passed - at[each], 0))
                at[each] = max(passed, at[each])
            ended = [each for each in reached if each in left and reached[each] >= left[each].stop]
            for each in ended:
                del left[each]
            if ended and left:
                consumer.pause([TopicPartition(*each) for each in ended])
    finally:
        consumer.close()


def read_as_member(
    reading: Reading, group: str, topics: Sequence[str], reset: str
) -> Iterator[list[Message]]:
    """Yields portions of records as a group member, starting at the group's committed offsets.

    A group without committed offsets starts at `reset`: earliest or latest. Requesting the next portion commits the
    previous one, which has been printed by then. Raises UserError.
    """
    remaining = NEVER if reading.most is None else reading.most
    consumer = reading.consumer(**{"group.id": group, "auto.offset.reset": reset})
    try:
        consumer.subscribe(list(topics))
        while remaining:
            portion = _next_portion(consumer)
            for _ in _ends(portion, group):
                continue  # the end of a partition; other errors are raised
            records = [each for each in portion if each.error() is None]
            kept: list[Any] = []
            taken = 0
            for each in records:
                taken += 1
                kept += reading.kept((each,))
                if len(kept) == remaining:
                    break
            remaining -= len(kept)
            yield kept
            if taken:
                _commit(consumer, group, records[:taken])
    finally:
        consumer.close()


def _commit(consumer: Consumer, group: str, records: Sequence[Any]) -> None:
    """Commit the offsets after these records. Raises UserError."""
    after = {_place(each): each.offset() + 1 for each in records}
    try:
        consumer.commit(
            offsets=[TopicPartition(*place, offset) for place, offset in after.items()],
            asynchronous=False,
        )
    except KafkaException as error:
        raise UserError(f"group {group}: {explain_error(error.args[0])}") from error


def _place(record: Any) -> tuple[str, int]:
    return record.topic(), record.partition()


def _next_portion(consumer: Any) -> list[Any]:
    """Return the records that have arrived or, if there are none, wait a moment for one record.

    `consume` with a timeout would hold records back until the portion is full.
    """
    portion: list[Any] = consumer.consume(_PORTION, 0)
    if not portion and (message := consumer.poll(_WAIT_SECONDS)) is not None:
        portion = [message]
    return portion


def _ends(portion: Sequence[Any], group: str = "") -> Iterator[tuple[tuple[str, int], int]]:
    """Yield each partition whose end the portion reached, and that end. Raises UserError if it contains an error."""
    for each in portion:
        error = each.error()
        # librdkafka looks for a coordinator even if no group is joined, so a missing right does no harm.
        if error is None or (not group and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED):
            continue
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise UserError(
                f"topic {each.topic()} was deleted; `lacuna topics list` lists the topics"
            )
        if error.code() != KafkaError._PARTITION_EOF:
            where = (
                f"partition {each.partition()} of {each.topic()}"
                if each.topic()
                else f"group {group}"
            )
            raise UserError(f"{where}: {explain_error(error)}")
        yield _place(each), each.offset()
