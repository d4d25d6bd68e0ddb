"""DeleteRecords v0-v2 (KIP-107): moves the log start offset. An offset of -1 stands for the high watermark.

The low watermark in the answer is the new log start offset, or -1 if there was an error. An offset above the high
watermark or below -1 returns OFFSET_OUT_OF_RANGE. An offset below the log start offset changes nothing. A partition
that does not exist returns UNKNOWN_TOPIC_OR_PARTITION, and a partition of an internal topic returns
INVALID_TOPIC_EXCEPTION, as in Kafka. If a request names a partition twice, the last offset applies and the answer names
the partition once.
"""

from collections.abc import Iterable

from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.guards.guard import on_each
from lacuna.agent.internal import is_internal
from lacuna.agent.partitions import find_partitions
from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1 import log_pb2
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import DeleteRecords, PartitionState
from lacuna.wire.messages import topics as wire


async def handle(call: Call, request: wire.DeleteRecordsRequest) -> wire.DeleteRecordsResponse:
    asked = {
        (topic.name, each.partition_index): each.offset
        for topic in request.topics
        for each in topic.partitions
    }
    found = await find_partitions(call.context, asked)
    cuts = [
        log_pb2.DeleteRecordsPartition(partition=where, before_offset=offset)
        for where, offset in zip(found, asked.values(), strict=True)
        if where is not None and not is_internal(where.topic_id)
    ]
    states: Iterable[PartitionState] = ()
    if cuts:
        command = Command(delete_records=DeleteRecords(partitions=cuts))
        states = (await call.context.control.call(command)).records_deleted.partitions
    cut = iter(states)
    unknown = PartitionState(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    internal = PartitionState(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION)
    states = [
        unknown if where is None else internal if is_internal(where.topic_id) else next(cut)
        for where in found
    ]
    return _answer(zip(asked, states, strict=True))


def _answer(states: Iterable[tuple[tuple[str, int], PartitionState]]) -> wire.DeleteRecordsResponse:
    topics: dict[str, list[wire.DeleteRecordsPartitionResult]] = {}
    for (name, partition), state in states:
        topics.setdefault(name, []).append(_partition(partition, state))
    return wire.DeleteRecordsResponse(
        topics=[wire.DeleteRecordsTopicResult(*each) for each in topics.items()]
    )


def _partition(partition: int, state: PartitionState) -> wire.DeleteRecordsPartitionResult:
    low_watermark = -1 if state.error_code else state.log_start_offset
    return wire.DeleteRecordsPartitionResult(partition, low_watermark, state.error_code)


API = Api(
    request=wire.DELETE_RECORDS_REQUEST,
    response=wire.DELETE_RECORDS_RESPONSE,
    handle=handle,
    refusal=lambda _call, request, code: _answer(
        ((topic.name, each.partition_index), PartitionState(error_code=code))
        for topic in request.topics
        for each in topic.partitions
    ),
    guard=on_each("topics", "topics", Operation.DELETE, ResourceType.TOPIC, "name"),
    pieces=(Pieces(("topics", "partitions"), ("topics", "partitions")),),
    moved=ErrorCode.NOT_LEADER_OR_FOLLOWER,
    unavailable=ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
