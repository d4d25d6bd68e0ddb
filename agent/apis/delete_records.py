"""DeleteRecords v0-v2 (KIP-107): moves the log start offset, -1 to the high watermark.

The answer's low watermark is the log start offset then, -1 with an error. An offset beyond the high watermark or
below -1 is OFFSET_OUT_OF_RANGE; one below the log start offset changes nothing. What does not exist is
UNKNOWN_TOPIC_OR_PARTITION.
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.apis.transactions import find_partitions
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import DeleteRecords, DeleteRecordsPartition, PartitionState

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command for all that exist."""
    asked = [(topic.name, each) for topic in request.topics for each in topic.partitions]
    found = await find_partitions(context, ((name, each.partition_index) for name, each in asked))
    cuts = [
        DeleteRecordsPartition(partition=where, before_offset=each.offset)
        for where, (_, each) in zip(found, asked, strict=True)
        if where is not None
    ]
    states: list[PartitionState] = []
    if cuts:
        command = Command(delete_records=DeleteRecords(partitions=cuts))
        states = list((await context.control.call(command)).records_deleted.partitions)
    cut = iter(states)
    unknown = PartitionState(error_code=int(KafkaError.unknown_topic_or_partition))
    return _answer(request, [unknown if where is None else next(cut) for where in found])


def refuse(request: Any, error_code: int) -> Any:
    """The error for every partition."""
    count = sum(len(topic.partitions) for topic in request.topics)
    return _answer(request, [PartitionState(error_code=error_code)] * count)


def _answer(request: Any, states: list[PartitionState]) -> Any:
    each_state = iter(states)
    return build(
        request,
        "DeleteRecordsResponse",
        topics=tuple(
            build(
                request,
                "DeleteRecordsTopicResult",
                name=topic.name,
                partitions=tuple(
                    _partition(request, each.partition_index, next(each_state))
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _partition(request: Any, partition: int, state: PartitionState) -> Any:
    return build(
        request,
        "DeleteRecordsPartitionResult",
        partition_index=partition,
        low_watermark=-1 if state.error_code else state.log_start_offset,
        error_code=state.error_code,
    )


API = Api(
    key=21,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse,
    unavailable=KafkaError.not_leader_or_follower,
)
