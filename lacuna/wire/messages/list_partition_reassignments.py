"""ListPartitionReassignments. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class ListPartitionReassignmentsTopics(NamedTuple):
    name: str = ""
    partition_indexes: Sequence[int] = ()


class ListPartitionReassignmentsRequest(NamedTuple):
    timeout_ms: int = 60000
    topics: Sequence[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(NamedTuple):
    partition_index: int = 0
    replicas: Sequence[int] = ()
    adding_replicas: Sequence[int] = ()
    removing_replicas: Sequence[int] = ()


class OngoingTopicReassignment(NamedTuple):
    name: str = ""
    partitions: Sequence[OngoingPartitionReassignment] = ()


class ListPartitionReassignmentsResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    topics: Sequence[OngoingTopicReassignment] = ()


_LIST_PARTITION_REASSIGNMENTS_TOPICS: Final = Struct(
    ListPartitionReassignmentsTopics,
    name=Field(STRING),
    partition_indexes=Field(INT32, is_array=True),
)
_LIST_PARTITION_REASSIGNMENTS_REQUEST: Final = Struct(
    ListPartitionReassignmentsRequest,
    timeout_ms=Field(INT32),
    topics=Field(_LIST_PARTITION_REASSIGNMENTS_TOPICS, is_array=True, null_since=0),
)
LIST_PARTITION_REASSIGNMENTS_REQUEST: Final[Message[ListPartitionReassignmentsRequest]] = Message(
    _LIST_PARTITION_REASSIGNMENTS_REQUEST, api_key=46, versions=(0, 0), first_flexible=0
)
_ONGOING_PARTITION_REASSIGNMENT: Final = Struct(
    OngoingPartitionReassignment,
    partition_index=Field(INT32),
    replicas=Field(INT32, is_array=True),
    adding_replicas=Field(INT32, is_array=True),
    removing_replicas=Field(INT32, is_array=True),
)
_ONGOING_TOPIC_REASSIGNMENT: Final = Struct(
    OngoingTopicReassignment,
    name=Field(STRING),
    partitions=Field(_ONGOING_PARTITION_REASSIGNMENT, is_array=True),
)
_LIST_PARTITION_REASSIGNMENTS_RESPONSE: Final = Struct(
    ListPartitionReassignmentsResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    topics=Field(_ONGOING_TOPIC_REASSIGNMENT, is_array=True),
)
LIST_PARTITION_REASSIGNMENTS_RESPONSE: Final[Message[ListPartitionReassignmentsResponse]] = Message(
    _LIST_PARTITION_REASSIGNMENTS_RESPONSE, api_key=46, versions=(0, 0), first_flexible=0
)
