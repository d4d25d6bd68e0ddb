"""DescribeProducers v0 (KIP-664): lists the producers that have written to a partition, and their open transactions.

Any agent can answer for any partition, from the control plane's state. Only producers with an id are listed.
`coordinator_epoch` is -1, since coordinators do not change. A partition that does not exist returns
UNKNOWN_TOPIC_OR_PARTITION.
"""

from collections.abc import Iterable
from itertools import repeat

from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.guards.guard import on_each
from lacuna.agent.partitions import find_partitions
from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.transactions_pb2 import DescribeProducers, PartitionProducers
from lacuna.wire.messages import transactions as wire

NO_COORDINATOR_EPOCH = -1


async def handle(
    call: Call, request: wire.DescribeProducersRequest
) -> wire.DescribeProducersResponse:
    asked = [(topic.name, each) for topic in request.topics for each in topic.partition_indexes]
    found = await find_partitions(call.context, asked)
    known = [each for each in found if each is not None]
    states: Iterable[PartitionProducers] = ()
    if known:
        command = Command(describe_producers=DescribeProducers(partitions=known))
        states = (await call.context.control.call(command)).producers_described.partitions
    described = iter(states)
    unknown = PartitionProducers(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _answer(request, [unknown if each is None else next(described) for each in found])


def _answer(
    request: wire.DescribeProducersRequest, states: Iterable[PartitionProducers]
) -> wire.DescribeProducersResponse:
    rest = iter(states)
    return wire.DescribeProducersResponse(
        topics=[
            wire.TopicResponse(
                topic.name, [_partition(each, next(rest)) for each in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _partition(partition: int, state: PartitionProducers) -> wire.PartitionResponse:
    producers = [
        wire.ProducerState(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.last_timestamp,
            coordinator_epoch=NO_COORDINATOR_EPOCH,
            current_txn_start_offset=producer.current_txn_start_offset,
        )
        for producer in state.producers
    ]
    return wire.PartitionResponse(partition, state.error_code, active_producers=producers)


API = Api(
    request=wire.DESCRIBE_PRODUCERS_REQUEST,
    response=wire.DESCRIBE_PRODUCERS_RESPONSE,
    handle=handle,
    refusal=lambda _call, request, code: _answer(
        request, repeat(PartitionProducers(error_code=code))
    ),
    guard=on_each("topics", "topics", Operation.READ, ResourceType.TOPIC, "name"),
    pieces=(Pieces(("topics", "partition_indexes"), ("topics", "partitions")),),
    moved=ErrorCode.NOT_LEADER_OR_FOLLOWER,
    unavailable=ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
