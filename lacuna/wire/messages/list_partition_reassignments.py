"""ListPartitionReassignments. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.wire.layout import Int16, Int32, String, messages


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


LIST_PARTITION_REASSIGNMENTS_REQUEST, LIST_PARTITION_REASSIGNMENTS_RESPONSE = messages(
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    api_key=46,
    versions=(0, 0),
    first_flexible=0,
)
