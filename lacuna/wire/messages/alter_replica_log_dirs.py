"""AlterReplicaLogDirs. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.wire.layout import Int16, Int32, String, messages


class AlterReplicaLogDirTopic(NamedTuple):
    name: String = ""
    partitions: Sequence[Int32] = ()


class AlterReplicaLogDir(NamedTuple):
    path: String = ""
    topics: Sequence[AlterReplicaLogDirTopic] = ()


class AlterReplicaLogDirsRequest(NamedTuple):
    dirs: Sequence[AlterReplicaLogDir] = ()


class AlterReplicaLogDirPartitionResult(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(NamedTuple):
    topic_name: String = ""
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = ()


class AlterReplicaLogDirsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    results: Sequence[AlterReplicaLogDirTopicResult] = ()


ALTER_REPLICA_LOG_DIRS_REQUEST, ALTER_REPLICA_LOG_DIRS_RESPONSE = messages(
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    api_key=34,
    versions=(0, 2),
    first_flexible=2,
)
