"""AlterReplicaLogDirs. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class AlterReplicaLogDirTopic(NamedTuple):
    name: str = ""
    partitions: Sequence[int] = ()


class AlterReplicaLogDir(NamedTuple):
    path: str = ""
    topics: Sequence[AlterReplicaLogDirTopic] = ()


class AlterReplicaLogDirsRequest(NamedTuple):
    dirs: Sequence[AlterReplicaLogDir] = ()


class AlterReplicaLogDirPartitionResult(NamedTuple):
    partition_index: int = 0
    error_code: int = 0


class AlterReplicaLogDirTopicResult(NamedTuple):
    topic_name: str = ""
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = ()


class AlterReplicaLogDirsResponse(NamedTuple):
    throttle_time_ms: int = 0
    results: Sequence[AlterReplicaLogDirTopicResult] = ()


_ALTER_REPLICA_LOG_DIR_TOPIC: Final = Struct(
    AlterReplicaLogDirTopic,
    name=Field(STRING),
    partitions=Field(INT32, is_array=True),
)
_ALTER_REPLICA_LOG_DIR: Final = Struct(
    AlterReplicaLogDir,
    path=Field(STRING),
    topics=Field(_ALTER_REPLICA_LOG_DIR_TOPIC, is_array=True),
)
_ALTER_REPLICA_LOG_DIRS_REQUEST: Final = Struct(
    AlterReplicaLogDirsRequest,
    dirs=Field(_ALTER_REPLICA_LOG_DIR, is_array=True),
)
ALTER_REPLICA_LOG_DIRS_REQUEST: Final[Message[AlterReplicaLogDirsRequest]] = Message(
    _ALTER_REPLICA_LOG_DIRS_REQUEST, api_key=34, versions=(0, 2), first_flexible=2
)
_ALTER_REPLICA_LOG_DIR_PARTITION_RESULT: Final = Struct(
    AlterReplicaLogDirPartitionResult,
    partition_index=Field(INT32),
    error_code=Field(INT16),
)
_ALTER_REPLICA_LOG_DIR_TOPIC_RESULT: Final = Struct(
    AlterReplicaLogDirTopicResult,
    topic_name=Field(STRING),
    partitions=Field(_ALTER_REPLICA_LOG_DIR_PARTITION_RESULT, is_array=True),
)
_ALTER_REPLICA_LOG_DIRS_RESPONSE: Final = Struct(
    AlterReplicaLogDirsResponse,
    throttle_time_ms=Field(INT32),
    results=Field(_ALTER_REPLICA_LOG_DIR_TOPIC_RESULT, is_array=True),
)
ALTER_REPLICA_LOG_DIRS_RESPONSE: Final[Message[AlterReplicaLogDirsResponse]] = Message(
    _ALTER_REPLICA_LOG_DIRS_RESPONSE, api_key=34, versions=(0, 2), first_flexible=2
)
