"""DescribeProducers v0 (KIP-664): who has produced to a partition with a producer id, and what is open.

Any agent answers for any partition, from the control plane's state. `coordinator_epoch` is -1: there are
no coordinators that change. What does not exist is UNKNOWN_TOPIC_OR_PARTITION.
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.apis.transactions import find_partitions
from controlplane.v1.control_pb2 import Command
from controlplane.v1.transactions_pb2 import DescribeProducers, PartitionProducers

if TYPE_CHECKING:
    from agent.context import AgentContext

NO_COORDINATOR_EPOCH = -1


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command for all that exist."""
    found = await find_partitions(
        context,
        ((topic.name, each) for topic in request.topics for each in topic.partition_indexes),
    )
    known = [each for each in found if each is not None]
    states: list[PartitionProducers] = []
    if known:
        command = Command(describe_producers=DescribeProducers(partitions=known))
        states = list((await context.control.call(command)).producers_described.partitions)
    described = iter(states)
    unknown = PartitionProducers(error_code=int(KafkaError.unknown_topic_or_partition))
    return _answer(request, [unknown if each is None else next(described) for each in found])


def refuse(request: Any, error_code: int) -> Any:
    """The error for every partition."""
    count = sum(len(topic.partition_indexes) for topic in request.topics)
    return _answer(request, [PartitionProducers(error_code=error_code)] * count)


def _answer(request: Any, states: list[PartitionProducers]) -> Any:
    each_state = iter(states)
    return build(
        request,
        "DescribeProducersResponse",
        topics=tuple(
            build(
                request,
                "TopicResponse",
                name=topic.name,
                partitions=tuple(
                    _partition(request, partition, next(each_state))
                    for partition in topic.partition_indexes
                ),
            )
            for topic in request.topics
        ),
    )


def _partition(request: Any, partition: int, state: PartitionProducers) -> Any:
    return build(
        request,
        "PartitionResponse",
        partition_index=partition,
        error_code=state.error_code,
        active_producers=tuple(
            build(
                request,
                "ProducerState",
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=NO_COORDINATOR_EPOCH,
                current_txn_start_offset=producer.current_txn_start_offset,
            )
            for producer in state.producers
        ),
    )


API = Api(
    key=61,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse,
    unavailable=KafkaError.not_leader_or_follower,
)
