"""CreateTopics. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import ZERO_UUID, Bool, In, Int8, Int16, Int32, String, Uuid, messages


class CreatableReplicaAssignment(NamedTuple):
    partition_index: Int32 = 0
    broker_ids: Sequence[Int32] = ()


class CreatableTopicConfig(NamedTuple):
    name: String = ""
    value: String | None = ""


class CreatableTopic(NamedTuple):
    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: Sequence[CreatableReplicaAssignment] = ()
    configs: Sequence[CreatableTopicConfig] = ()


class CreateTopicsRequest(NamedTuple):
    topics: Sequence[CreatableTopic] = ()
    timeout_ms: Int32 = 60000
    validate_only: Annotated[Bool, In(since=1)] = False


class CreatableTopicConfigs(NamedTuple):
    name: Annotated[String, In(since=5)] = ""
    value: Annotated[String | None, In(since=5)] = ""
    read_only: Annotated[Bool, In(since=5)] = False
    config_source: Annotated[Int8, In(since=5)] = -1
    is_sensitive: Annotated[Bool, In(since=5)] = False


class CreatableTopicResult(NamedTuple):
    name: String = ""
    topic_id: Annotated[Uuid, In(since=7)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, In(since=1)] = ""
    topic_config_error_code: Annotated[Int16, In(since=5, tag=0)] = 0
    num_partitions: Annotated[Int32, In(since=5)] = -1
    replication_factor: Annotated[Int16, In(since=5)] = -1
    configs: Annotated[Sequence[CreatableTopicConfigs] | None, In(since=5)] = ()


class CreateTopicsResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=2)] = 0
    topics: Sequence[CreatableTopicResult] = ()


CREATE_TOPICS_REQUEST, CREATE_TOPICS_RESPONSE = messages(
    CreateTopicsRequest, CreateTopicsResponse, api_key=19, versions=(0, 7), first_flexible=5
)
