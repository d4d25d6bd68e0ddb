"""CreateTopics v0-v1: of clients before 0.11. v0 has no `validate_only` and answers without messages."""

from typing import Final

from kio.schema.create_topics.v2.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.create_topics.v2.response import CreatableTopicResult, CreateTopicsResponse

from agent.apis import create_topics
from agent.apis.registry import Api
from agent.apis.tables import (
    BOOL,
    ERROR_CODE,
    INT16,
    INT32,
    MILLISECONDS,
    NULLABLE_STRING,
    STRING,
    Array,
    Entity,
    reader,
    writer,
)

_ASSIGNMENT: Final = Entity(
    CreatableReplicaAssignment, ("partition_index", INT32), ("broker_ids", Array(INT32))
)
_CONFIG: Final = Entity(CreatableTopicConfig, ("name", STRING), ("value", NULLABLE_STRING))
_TOPIC: Final = Entity(
    CreatableTopic,
    ("name", STRING),
    ("num_partitions", INT32),
    ("replication_factor", INT16),
    ("assignments", Array(_ASSIGNMENT)),
    ("configs", Array(_CONFIG)),
)
_REQUESTS: Final = {
    0: Entity(
        CreateTopicsRequest,
        ("topics", Array(_TOPIC)),
        ("timeout", MILLISECONDS),
        validate_only=False,
    ),
    1: Entity(
        CreateTopicsRequest,
        ("topics", Array(_TOPIC)),
        ("timeout", MILLISECONDS),
        ("validate_only", BOOL),
    ),
}
_RESULT_V0: Final = Entity(CreatableTopicResult, ("name", STRING), ("error_code", ERROR_CODE))
_RESULT_V1: Final = Entity(
    CreatableTopicResult,
    ("name", STRING),
    ("error_code", ERROR_CODE),
    ("error_message", NULLABLE_STRING),
)
_RESPONSES: Final = {
    0: Entity(CreateTopicsResponse, ("topics", Array(_RESULT_V0))),
    1: Entity(CreateTopicsResponse, ("topics", Array(_RESULT_V1))),
}

API = Api(
    key=19,
    min_version=0,
    max_version=1,
    handle=create_topics.handle,
    refuse=create_topics.refuse,
    decode=reader(_REQUESTS),
    encode=writer(_RESPONSES),
    unavailable=create_topics.API.unavailable,
)
