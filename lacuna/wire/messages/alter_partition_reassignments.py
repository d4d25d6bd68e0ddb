"""AlterPartitionReassignments. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class ReassignablePartition(NamedTuple):
    partition_index: int = 0
    replicas: Sequence[int] | None = None


class ReassignableTopic(NamedTuple):
    name: str = ""
    partitions: Sequence[ReassignablePartition] = ()


class AlterPartitionReassignmentsRequest(NamedTuple):
    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True
    topics: Sequence[ReassignableTopic] = ()


class ReassignablePartitionResponse(NamedTuple):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""


class ReassignableTopicResponse(NamedTuple):
    name: str = ""
    partitions: Sequence[ReassignablePartitionResponse] = ()


class AlterPartitionReassignmentsResponse(NamedTuple):
    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True
    error_code: int = 0
    error_message: str | None = ""
    responses: Sequence[ReassignableTopicResponse] = ()


_REASSIGNABLE_PARTITION: Final = Struct(
    ReassignablePartition,
    partition_index=Field(INT32),
    replicas=Field(INT32, is_array=True, null_since=0),
)
_REASSIGNABLE_TOPIC: Final = Struct(
    ReassignableTopic,
    name=Field(STRING),
    partitions=Field(_REASSIGNABLE_PARTITION, is_array=True),
)
_ALTER_PARTITION_REASSIGNMENTS_REQUEST: Final = Struct(
    AlterPartitionReassignmentsRequest,
    timeout_ms=Field(INT32),
    allow_replication_factor_change=Field(BOOL, since=1),
    topics=Field(_REASSIGNABLE_TOPIC, is_array=True),
)
ALTER_PARTITION_REASSIGNMENTS_REQUEST: Final[Message[AlterPartitionReassignmentsRequest]] = Message(
    _ALTER_PARTITION_REASSIGNMENTS_REQUEST, api_key=45, versions=(0, 1), first_flexible=0
)
_REASSIGNABLE_PARTITION_RESPONSE: Final = Struct(
    ReassignablePartitionResponse,
    partition_index=Field(INT32),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
)
_REASSIGNABLE_TOPIC_RESPONSE: Final = Struct(
    ReassignableTopicResponse,
    name=Field(STRING),
    partitions=Field(_REASSIGNABLE_PARTITION_RESPONSE, is_array=True),
)
_ALTER_PARTITION_REASSIGNMENTS_RESPONSE: Final = Struct(
    AlterPartitionReassignmentsResponse,
    throttle_time_ms=Field(INT32),
    allow_replication_factor_change=Field(BOOL, since=1),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    responses=Field(_REASSIGNABLE_TOPIC_RESPONSE, is_array=True),
)
ALTER_PARTITION_REASSIGNMENTS_RESPONSE: Final[Message[AlterPartitionReassignmentsResponse]] = (
    Message(_ALTER_PARTITION_REASSIGNMENTS_RESPONSE, api_key=45, versions=(0, 1), first_flexible=0)
)
