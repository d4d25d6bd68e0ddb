"""Partition reassignments. Written by lacuna.wire.generator, not by hand."""

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


class ListPartitionReassignmentsTopics(NamedTuple):
    name: String = ""
    partition_indexes: Sequence[Int32] = ()


class ListPartitionReassignmentsRequest(NamedTuple):
    timeout_ms: Int32 = 60000
    topics: Sequence[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(NamedTuple):
    partition_index: Int32 = 0
    replicas: Sequence[Int32] = ()
    adding_replicas: Sequence[Int32] = ()
    removing_replicas: Sequence[Int32] = ()


class OngoingTopicReassignment(NamedTuple):
    name: String = ""
    partitions: Sequence[OngoingPartitionReassignment] = ()


class ListPartitionReassignmentsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: Sequence[OngoingTopicReassignment] = ()


ALTER_PARTITION_REASSIGNMENTS_REQUEST, ALTER_PARTITION_REASSIGNMENTS_RESPONSE = messages(
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    api_key=45,
    versions=(0, 1),
    first_flexible=0,
)

LIST_PARTITION_REASSIGNMENTS_REQUEST, LIST_PARTITION_REASSIGNMENTS_RESPONSE = messages(
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    api_key=46,
    versions=(0, 0),
    first_flexible=0,
)
