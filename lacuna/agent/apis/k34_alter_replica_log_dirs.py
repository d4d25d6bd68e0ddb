"""AlterReplicaLogDirs v0-v2: accepts only the one directory that contains all partitions.

Moving a partition to that directory succeeds and changes nothing. Any other path returns LOG_DIR_NOT_FOUND. A partition
that does not exist returns UNKNOWN_TOPIC_OR_PARTITION.
"""

from lacuna.agent.api import Api, Call
from lacuna.agent.context import AgentContext
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.partitions import find_topic
from lacuna.agent.views import view_with
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.broker_configs import LOG_DIR
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages import cluster as wire

#: (topic, partition) -> error code
_Errors = dict[tuple[str, int], int]


async def handle(
    call: Call, request: wire.AlterReplicaLogDirsRequest
) -> wire.AlterReplicaLogDirsResponse:
    await view_with(call.context)
    errors: _Errors = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                errors[topic.name, index] = _error(call.context, directory.path, topic.name, index)
    return _answer(errors)


def refuse(
    _call: Call, request: wire.AlterReplicaLogDirsRequest, error_code: int
) -> wire.AlterReplicaLogDirsResponse:
    return _answer(
        {
            (topic.name, index): error_code
            for directory in request.dirs
            for topic in directory.topics
            for index in topic.partitions
        }
    )


def _error(context: AgentContext, path: str, name: str, index: int) -> int:
    if path.rstrip("/") != LOG_DIR:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if find_topic(context, name, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _answer(errors: _Errors) -> wire.AlterReplicaLogDirsResponse:
    topics: dict[str, list[wire.AlterReplicaLogDirPartitionResult]] = {}
    for (name, index), error_code in errors.items():
        result = wire.AlterReplicaLogDirPartitionResult(index, error_code)
        topics.setdefault(name, []).append(result)
    return wire.AlterReplicaLogDirsResponse(
        results=[wire.AlterReplicaLogDirTopicResult(*each) for each in topics.items()]
    )


API = Api(
    request=wire.ALTER_REPLICA_LOG_DIRS_REQUEST,
    response=wire.ALTER_REPLICA_LOG_DIRS_RESPONSE,
    advertised=(1, 2),
    handle=handle,
    refusal=refuse,
    guard=on_cluster(Operation.ALTER),
    notes="accepts only one directory; any other returns LOG_DIR_NOT_FOUND",
)
