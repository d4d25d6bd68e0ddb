"""CreatePartitions. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class CreatePartitionsAssignment(NamedTuple):
    broker_ids: Sequence[int] = ()


class CreatePartitionsTopic(NamedTuple):
    name: str = ""
    count_: int = 0
    assignments: Sequence[CreatePartitionsAssignment] | None = ()


class CreatePartitionsRequest(NamedTuple):
    topics: Sequence[CreatePartitionsTopic] = ()
    timeout_ms: int = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(NamedTuple):
    name: str = ""
    error_code: int = 0
    error_message: str | None = None


class CreatePartitionsResponse(NamedTuple):
    throttle_time_ms: int = 0
    results: Sequence[CreatePartitionsTopicResult] = ()


_CREATE_PARTITIONS_ASSIGNMENT: Final = Struct(
    CreatePartitionsAssignment,
    broker_ids=Field(INT32, is_array=True),
)
_CREATE_PARTITIONS_TOPIC: Final = Struct(
    CreatePartitionsTopic,
    name=Field(STRING),
    count_=Field(INT32),
    assignments=Field(_CREATE_PARTITIONS_ASSIGNMENT, is_array=True, null_since=0),
)
_CREATE_PARTITIONS_REQUEST: Final = Struct(
    CreatePartitionsRequest,
    topics=Field(_CREATE_PARTITIONS_TOPIC, is_array=True),
    timeout_ms=Field(INT32),
    validate_only=Field(BOOL),
)
CREATE_PARTITIONS_REQUEST: Final[Message[CreatePartitionsRequest]] = Message(
    _CREATE_PARTITIONS_REQUEST, api_key=37, versions=(0, 3), first_flexible=2
)
_CREATE_PARTITIONS_TOPIC_RESULT: Final = Struct(
    CreatePartitionsTopicResult,
    name=Field(STRING),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
)
_CREATE_PARTITIONS_RESPONSE: Final = Struct(
    CreatePartitionsResponse,
    throttle_time_ms=Field(INT32),
    results=Field(_CREATE_PARTITIONS_TOPIC_RESULT, is_array=True),
)
CREATE_PARTITIONS_RESPONSE: Final[Message[CreatePartitionsResponse]] = Message(
    _CREATE_PARTITIONS_RESPONSE, api_key=37, versions=(0, 3), first_flexible=2
)
