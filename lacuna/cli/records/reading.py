"""Reads partitions from one point until another, without a group and without committing anything."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from lacuna.cli.answers import check
from lacuna.cli.errors import print_error
from lacuna.cli.records.points import Kind, Point
from lacuna.cli.records.told import told
from lacuna.cli.sizes import show_count
from lacuna.cli.topics import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    list_offsets,
    topic_metadata,
    topic_offsets,
)
from lacuna.controlplane.client import not_known
from lacuna.controlplane.client.times import show_time
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.errors import UserError
from lacuna.kafka import Agents, KafkaConnection

#: A stop that no offset reaches.
NEVER: Final = (1 << 63) - 1
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """The offsets to print of a partition, from `first` to before `stop`, read from `start` on."""

    partition: int
    start: int
    first: int
    stop: int


async def find(
    bootstrap: Agents,
    topic: str,
    partitions: Sequence[int],
    begin: Point,
    until: Point,
    *,
    committed: bool,
) -> list[Wanted]:
    """Turns points into offsets, as of now or of the past time `until`; without `partitions`, of all of them.

    Raises UserError for a topic or partition that does not exist, a time that is not known, and an offset that none of
    the partitions has reached.
    """
    isolation = READ_COMMITTED if committed else READ_UNCOMMITTED
    async with KafkaConnection(bootstrap) as connection:
        (found,) = await topic_metadata(connection, topic)
        check(found.error_code, f"topic {topic}")
        existing = sorted(each.partition_index for each in found.partitions)
        for each in partitions:
            check_partition(topic, each, len(existing))
        indexes = sorted(set(partitions)) or existing

        async def offsets(timestamp: int) -> dict[int, int]:
            return await topic_offsets(connection, topic, indexes, timestamp, isolation)

        starts = await offsets(EARLIEST)
        ends, written = await _bounds(connection, topic, indexes, isolation, until)

        async def resolve(point: Point) -> dict[int, int]:
            match point.kind:
                case Kind.EARLIEST:
                    return starts
                case Kind.END:
                    return {each: max(ends[each] - point.value, 0) for each in indexes}
                case Kind.OFFSET:
                    return dict.fromkeys(indexes, point.value)
                case Kind.TIME:
                    at = await offsets(point.value)
                    return {each: ends[each] if at[each] < 0 else at[each] for each in indexes}
                case Kind.PAST:
                    return ends
                case Kind.NEVER:
                    return dict.fromkeys(indexes, NEVER)

        firsts, stops = await resolve(begin), await resolve(until)
    _check_reached(topic, begin, firsts, written)
    return [
        Wanted(
            each,
            start=min(max(firsts[each], starts[each]), written[each]),
            first=firsts[each],
            stop=stops[each],
        )
        for each in indexes
    ]


async def _bounds(
    connection: KafkaConnection, topic: str, indexes: list[int], isolation: int, until: Point
) -> tuple[dict[int, int], dict[int, int]]:
    """Where the partitions end for readers, and for writers; at a past time, both are where readers got to."""
    if until.kind is Kind.PAST:
        then = await _ends_at(connection, topic, indexes, until.value)
        return then, then
    ends = await topic_offsets(connection, topic, indexes, LATEST, isolation)
    return ends, await topic_offsets(connection, topic, indexes, LATEST, READ_UNCOMMITTED)


async def _ends_at(
    connection: KafkaConnection, topic: str, indexes: list[int], at_ms: int
) -> dict[int, int]:
    """Where the partitions ended at that time, or at the last before it that is known, which is then told.

    Raises UserError.
    """
    answers = await list_offsets(connection, topic, indexes, -at_ms, READ_COMMITTED)
    for each in answers:
        if each.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise UserError(not_known(topic, each.timestamp))
        check(each.error_code, f"partition {each.partition_index} of {topic}")
    as_of_ms = answers[0].timestamp
    if as_of_ms // 1000 < at_ms // 1000:
        shown = show_time(as_of_ms)
        print_error(f"{topic} is shown as of {shown}: of times that long ago only some are known")
    return {each.partition_index: each.offset for each in answers}


def _check_reached(topic: str, begin: Point, firsts: dict[int, int], ends: dict[int, int]) -> None:
    if all(firsts[each] > ends[each] for each in ends):
        raise UserError(
            f"--from {begin.value}: {topic} ends before, at {max(ends.values())}; `lacuna topics describe {topic}` "
            "shows its offsets"
        )


def check_partition(topic: str, partition: int, count: int) -> None:
    """Raises UserError if the topic, which has `count` partitions, does not have this one."""
    if partition >= count:
        given = "give 0" if count == 1 else f"give 0 to {count - 1}"
        raise UserError(
            f"--partition {partition}: {topic} has {show_count(count, 'partition')}; {given}"
        )


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
