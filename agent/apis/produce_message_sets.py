"""Produce v0-v2: message sets of magic 0 and 1, of clients before 0.11 (S22-S24).

A set becomes one batch of magic 2 and goes the way of every other, with the same checks; such producers have no
id and no transactions. As Kafka, which never looked, all three versions take sets of both magics and single
batches of magic 2. A message that is cut off at the end is left out, and a set that has none is answered without an
offset. v1 answers a throttle time, v2 (KIP-32) the time of a LogAppendTime topic.

Requests of a connection are converted side by side and go on in the order in which they came (S12).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from agent.apis import produce
from agent.apis.registry import Api, Peer
from agent.apis.tables import (
    ERROR_CODE,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    THROTTLE,
    Array,
    Entity,
    Kind,
    reader,
    writer,
)
from agent.conversions import convert
from agent.produce.check import refuse_batch
from agent.produce.codec import (
    PartitionAnswer,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    TopicAnswer,
)
from controlplane.client.errors import CommandRefused
from controlplane.topic_configs import effective
from logstore.records.errors import BatchTooLargeError, RecordsError
from logstore.records.layout import MAGIC, MAGIC_AT
from logstore.records.legacy import to_batch
from logstore.records.legacy.errors import EmptyMessageSetError

if TYPE_CHECKING:
    from agent.context import AgentContext

_NEWEST_SET: Final = 1
# The smallest message takes 26 bytes in a set and 7 in a batch: a set that is larger than so many times
# max.message.bytes cannot become a batch that is not, and is not converted in vain.
LARGEST_SHRINKING: Final = 4
# Of all wrappers of a set together; old producers compress some ten kB at a time, at most about a megabyte.
MAX_DECOMPRESSED_BYTES: Final = 16 << 20


async def handle(
    context: "AgentContext", request: ProduceRequest, peer: Peer
) -> ProduceResponse | None:
    """Convert, produce what could be converted; None where no answer is wanted."""
    turn = peer.turns.take()
    try:
        cluster = context.control.cluster
        if not cluster.is_current:
            await cluster.ready()
        limits = [_max_batch_bytes(context, topic.name) for topic in request.topics]
        outcomes = await convert(_convert_all, request, limits)
        await turn.come()
    finally:
        turn.end()  # who comes next goes on once this one has to wait
    converted = request._replace(
        topics=[
            topic._replace(partitions=[one for one in some if isinstance(one, ProducePartition)])
            for topic, some in zip(request.topics, outcomes, strict=True)
        ]
    )
    response = await produce.handle(context, converted, peer)
    if response is None:
        for answer in (one for some in outcomes for one in some):
            if isinstance(answer, PartitionAnswer) and answer.error_code:
                raise CommandRefused(answer.error_code, f"acks=0: {answer.error_message}")
        return None
    topics = []
    for topic, some in zip(response.topics, outcomes, strict=True):
        rest = iter(topic.partitions)
        whole = [next(rest) if isinstance(one, ProducePartition) else one for one in some]
        topics.append(topic._replace(partitions=whole))
    return ProduceResponse(topics)


def _max_batch_bytes(context: "AgentContext", name: str) -> int | None:
    """max.message.bytes of a topic, None where there is no such topic."""
    topic = context.control.cluster.topics_by_name.get(name)
    return None if topic is None else int(effective(topic.configs, "max.message.bytes"))


def _convert_all(
    request: ProduceRequest, limits: Sequence[int | None]
) -> list[list[ProducePartition | PartitionAnswer]]:
    return [
        [asked if limit is None else _convert(asked, limit) for asked in topic.partitions]
        for topic, limit in zip(request.topics, limits, strict=True)
    ]


def _convert(asked: ProducePartition, max_batch_bytes: int) -> ProducePartition | PartitionAnswer:
    """The partition with a batch of magic 2, or why there is none."""
    records = asked.records
    if records is None or (len(records) > MAGIC_AT and records[MAGIC_AT] == MAGIC):
        return asked
    bound = max_batch_bytes * LARGEST_SHRINKING
    try:
        if len(records) > bound:
            raise BatchTooLargeError("the message set", len(records), bound)
        # The topic's own demands are those of its batches.
        batch = to_batch(
            records,
            max_bytes=max(bound, MAX_DECOMPRESSED_BYTES),
            requires_key=False,
            magic=_NEWEST_SET,
        )
    except EmptyMessageSetError:
        return PartitionAnswer(asked.partition, error_code=0)
    except RecordsError as error:
        return refuse_batch(asked.partition, error)
    return asked._replace(records=memoryview(batch))


_PARTITION: Final = Entity(ProducePartition, ("partition", INT32), ("records", RECORDS))
_TOPIC: Final = Entity(
    ProduceTopic, ("name", STRING), ("partitions", Array(_PARTITION)), topic_id=b""
)


def _request(version: int) -> Entity:
    return Entity(
        ProduceRequest,
        ("acks", INT16),
        ("timeout_ms", INT32),
        ("topics", Array(_TOPIC)),
        version=version,
        transactional_id=None,
    )


def _topics(*more: tuple[str, Kind]) -> tuple[str, Kind]:
    partition = Entity(
        PartitionAnswer,
        ("partition", INT32),
        ("error_code", ERROR_CODE),
        ("base_offset", INT64),
        *more,
    )
    return "topics", Array(Entity(TopicAnswer, ("name", STRING), ("partitions", Array(partition))))


_REQUESTS: Final = {version: _request(version) for version in range(3)}
_RESPONSES: Final = {
    0: Entity(ProduceResponse, _topics()),
    1: Entity(ProduceResponse, _topics(), (None, THROTTLE)),
    2: Entity(ProduceResponse, _topics(("log_append_time_ms", INT64)), (None, THROTTLE)),
}

API = Api(
    key=0,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=produce.refuse,
    decode=reader(_REQUESTS, is_exact=True),
    encode=writer(_RESPONSES),
    pipelined=True,
    notes="message sets (v0 to v2) become batches of magic 2",
    unavailable=produce.API.unavailable,
)
