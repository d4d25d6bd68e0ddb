"""CreateTopics. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT8, INT16, INT32, STRING, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Message, Struct


class CreatableReplicaAssignment(NamedTuple):
    partition_index: int = 0
    broker_ids: Sequence[int] = ()


class CreatableTopicConfig(NamedTuple):
    name: str = ""
    value: str | None = ""


class CreatableTopic(NamedTuple):
    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: Sequence[CreatableReplicaAssignment] = ()
    configs: Sequence[CreatableTopicConfig] = ()


class CreateTopicsRequest(NamedTuple):
    topics: Sequence[CreatableTopic] = ()
    timeout_ms: int = 60000
    validate_only: bool = False


class CreatableTopicConfigs(NamedTuple):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


class CreatableTopicResult(NamedTuple):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    error_code: int = 0
    error_message: str | None = ""
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Sequence[CreatableTopicConfigs] | None = ()


class CreateTopicsResponse(NamedTuple):
    throttle_time_ms: int = 0
    topics: Sequence[CreatableTopicResult] = ()


_CREATABLE_REPLICA_ASSIGNMENT: Final = Struct(
    CreatableReplicaAssignment,
    partition_index=Field(INT32),
    broker_ids=Field(INT32, is_array=True),
)
_CREATABLE_TOPIC_CONFIG: Final = Struct(
    CreatableTopicConfig,
    name=Field(STRING),
    value=Field(STRING, null_since=0),
)
_CREATABLE_TOPIC: Final = Struct(
    CreatableTopic,
    name=Field(STRING),
    num_partitions=Field(INT32),
    replication_factor=Field(INT16),
    assignments=Field(_CREATABLE_REPLICA_ASSIGNMENT, is_array=True),
    configs=Field(_CREATABLE_TOPIC_CONFIG, is_array=True),
)
_CREATE_TOPICS_REQUEST: Final = Struct(
    CreateTopicsRequest,
    topics=Field(_CREATABLE_TOPIC, is_array=True),
    timeout_ms=Field(INT32),
    validate_only=Field(BOOL, since=1),
)
CREATE_TOPICS_REQUEST: Final[Message[CreateTopicsRequest]] = Message(
    _CREATE_TOPICS_REQUEST, api_key=19, versions=(0, 7), first_flexible=5
)
_CREATABLE_TOPIC_CONFIGS: Final = Struct(
    CreatableTopicConfigs,
    name=Field(STRING, since=5),
    value=Field(STRING, since=5, null_since=5),
    read_only=Field(BOOL, since=5),
    config_source=Field(INT8, since=5),
    is_sensitive=Field(BOOL, since=5),
)
_CREATABLE_TOPIC_RESULT: Final = Struct(
    CreatableTopicResult,
    name=Field(STRING),
    topic_id=Field(UUID, since=7),
    error_code=Field(INT16),
    error_message=Field(STRING, since=1, null_since=0),
    topic_config_error_code=Field(INT16, since=5, tag=0),
    num_partitions=Field(INT32, since=5),
    replication_factor=Field(INT16, since=5),
    configs=Field(_CREATABLE_TOPIC_CONFIGS, is_array=True, since=5, null_since=5),
)
_CREATE_TOPICS_RESPONSE: Final = Struct(
    CreateTopicsResponse,
    throttle_time_ms=Field(INT32, since=2),
    topics=Field(_CREATABLE_TOPIC_RESULT, is_array=True),
)
CREATE_TOPICS_RESPONSE: Final[Message[CreateTopicsResponse]] = Message(
    _CREATE_TOPICS_RESPONSE, api_key=19, versions=(0, 7), first_flexible=5
)
