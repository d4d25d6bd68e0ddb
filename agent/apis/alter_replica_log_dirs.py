"""AlterReplicaLogDirs v1-v2: there is one directory, and everything is in it already.

To name it changes nothing and succeeds; another path is LOG_DIR_NOT_FOUND. A partition that does not exist is
UNKNOWN_TOPIC_OR_PARTITION.
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.log_dirs import LOG_DIR
from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.apis.transactions import find_topic
from agent.views import view_with

if TYPE_CHECKING:
    from agent.context import AgentContext

#: (topic, partition) -> error code
_Errors = dict[tuple[str, int], int]


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """From the view of the cluster."""
    await view_with(context)
    errors: _Errors = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                errors[topic.name, index] = _error(context, directory.path, topic.name, index)
    return _answer(request, errors)


def refuse(request: Any, error_code: int) -> Any:
    """The error for every partition."""
    return _answer(
        request,
        {
            (topic.name, index): error_code
            for directory in request.dirs
            for topic in directory.topics
            for index in topic.partitions
        },
    )


def _error(context: "AgentContext", path: str, name: str, index: int) -> int:
    if path.rstrip("/") != LOG_DIR:
        return KafkaError.log_dir_not_found
    if find_topic(context, name, index) is None:
        return KafkaError.unknown_topic_or_partition
    return KafkaError.none


def _answer(request: Any, errors: _Errors) -> Any:
    topics: dict[str, list[Any]] = {}
    for (name, index), error_code in errors.items():
        result = build(
            request,
            "AlterReplicaLogDirPartitionResult",
            partition_index=index,
            error_code=error_code,
        )
        topics.setdefault(name, []).append(result)
    return build(
        request,
        "AlterReplicaLogDirsResponse",
        results=tuple(
            build(
                request,
                "AlterReplicaLogDirTopicResult",
                topic_name=name,
                partitions=tuple(partitions),
            )
            for name, partitions in topics.items()
        ),
    )


API = Api(
    key=34,
    min_version=1,
    max_version=2,
    handle=handle,
    refuse=refuse,
    notes="there is one directory: another one is LOG_DIR_NOT_FOUND",
)
