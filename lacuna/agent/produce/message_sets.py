"""Handles Produce v0-v2: message sets of magic 0 and 1, which clients before 0.11 produce (S22-S24).

A message set is converted to one batch of magic 2, and is then checked and handled like any other batch. Such producers
use neither producer ids nor transactions. All three versions accept sets of both magics and single batches of magic 2,
since Kafka never checked this. A message that is cut off at the end is dropped, and the answer for a set without
messages has no offset. v1 adds a throttle time to the answer, and v2 (KIP-32) adds the append time in topics with
LogAppendTime.

Requests on one connection are converted concurrently, and then proceed in the order of their arrival (S12).
"""

from collections.abc import Sequence
from typing import Final

from lacuna.agent.arrival_order import ArrivalOrder
from lacuna.agent.produce.check import failed, refuse_batch
from lacuna.agent.produce.service import ProduceService
from lacuna.agent.threads import convert
from lacuna.controlplane.client import ClusterView
from lacuna.controlplane.shared.topic_configs import effective
from lacuna.logstore.records.errors import BatchTooLargeError, EmptyMessageSetError, RecordsError
from lacuna.logstore.records.layout import MAGIC, MAGIC_AT
from lacuna.logstore.records.legacy import to_batch
from lacuna.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)

# The smallest message takes 26 bytes in a set and 7 in a batch. A set larger than max.message.bytes by more than this
# factor cannot become a valid batch, so it is not converted.
LARGEST_SHRINKING: Final = 4
# The bound on all wrappers of a set together. Old producers compress about 10 kB at a time, and no more than about a
# megabyte.
MAX_DECOMPRESSED_BYTES: Final = 16 << 20


async def produce_message_sets(
    service: ProduceService, request: ProduceRequest, version: int, order: ArrivalOrder
) -> ProduceResponse:
    """Convert the message sets, and produce the batches. `order` is the order of the connection's requests."""
    arrival = order.add()
    try:
        cluster = service.control.cluster
        if not cluster.is_current:
            await cluster.ready()
        limits = [_max_batch_bytes(cluster, topic.name) for topic in request.topic_data]
        outcomes = await convert(_convert_all, request, limits)
        await arrival.is_next()
    finally:
        arrival.end()  # later requests proceed as soon as this one has to wait
    topics = [
        topic._replace(
            partition_data=[one for one in some if isinstance(one, PartitionProduceData)]
        )
        for topic, some in zip(request.topic_data, outcomes, strict=True)
    ]
    response = await service.produce(request._replace(topic_data=topics), version)
    return ProduceResponse(
        [
            topic._replace(partition_responses=_whole(some, topic.partition_responses))
            for topic, some in zip(response.responses, outcomes, strict=True)
        ]
    )


def _whole(
    outcomes: "list[PartitionProduceData | PartitionProduceResponse]",
    produced: Sequence[PartitionProduceResponse],
) -> list[PartitionProduceResponse]:
    rest = iter(produced)
    return [next(rest) if isinstance(one, PartitionProduceData) else one for one in outcomes]


def _max_batch_bytes(cluster: ClusterView, name: str) -> int | None:
    topic = cluster.topics_by_name.get(name)
    return None if topic is None else int(effective(topic.configs, "max.message.bytes"))


def _convert_all(
    request: ProduceRequest, limits: Sequence[int | None]
) -> list[list[PartitionProduceData | PartitionProduceResponse]]:
    return [
        [asked if limit is None else _convert(asked, limit) for asked in topic.partition_data]
        for topic, limit in zip(request.topic_data, limits, strict=True)
    ]


def _convert(
    asked: PartitionProduceData, max_batch_bytes: int
) -> PartitionProduceData | PartitionProduceResponse:
    """Return the partition's data with a batch of magic 2, or an error answer if it cannot be converted."""
    records = asked.records
    if records is None or (len(records) > MAGIC_AT and records[MAGIC_AT] == MAGIC):
        return asked
    bound = max_batch_bytes * LARGEST_SHRINKING
    try:
        if len(records) > bound:
            raise BatchTooLargeError("the message set", len(records), bound)
        # The topic's own requirements apply to its batches.
        batch = to_batch(records, max_bytes=max(bound, MAX_DECOMPRESSED_BYTES))
    except EmptyMessageSetError:
        return failed(asked.index_, 0)
    except RecordsError as error:
        return refuse_batch(asked.index_, error)
    return asked._replace(records=memoryview(batch))
