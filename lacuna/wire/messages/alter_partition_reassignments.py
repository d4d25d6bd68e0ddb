"""AlterPartitionReassignments. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bool, In, Int16, Int32, String, messages


class ReassignablePartition(NamedTuple):
    partition_index: Int32 = 0
    replicas: Sequence[Int32] | None = None


class ReassignableTopic(NamedTuple):
    name: String = ""
    partitions: Sequence[ReassignablePartition] = ()


class AlterPartitionReassignmentsRequest(NamedTuple):
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Bool, In(since=1)] = True
    topics: Sequence[ReassignableTopic] = ()


class ReassignablePartitionResponse(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ReassignableTopicResponse(NamedTuple):
    name: String = ""
    partitions: Sequence[ReassignablePartitionResponse] = ()


class AlterPartitionReassignmentsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, In(since=1)] = True
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: Sequence[ReassignableTopicResponse] = ()


ALTER_PARTITION_REASSIGNMENTS_REQUEST, ALTER_PARTITION_REASSIGNMENTS_RESPONSE = messages(
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    api_key=45,
    versions=(0, 1),
    first_flexible=0,
)
