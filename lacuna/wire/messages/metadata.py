"""Metadata. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT16, INT32, STRING, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Message, Struct


class MetadataRequestTopic(NamedTuple):
    topic_id: bytes = ZERO_UUID
    name: str | None = ""


class MetadataRequest(NamedTuple):
    topics: Sequence[MetadataRequestTopic] | None = ()
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


class MetadataResponseBroker(NamedTuple):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class MetadataResponsePartition(NamedTuple):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: Sequence[int] = ()
    isr_nodes: Sequence[int] = ()
    offline_replicas: Sequence[int] = ()


class MetadataResponseTopic(NamedTuple):
    error_code: int = 0
    name: str | None = ""
    topic_id: bytes = ZERO_UUID
    is_internal: bool = False
    partitions: Sequence[MetadataResponsePartition] = ()
    topic_authorized_operations: int = -2147483648


class MetadataResponse(NamedTuple):
    throttle_time_ms: int = 0
    brokers: Sequence[MetadataResponseBroker] = ()
    cluster_id: str | None = None
    controller_id: int = -1
    topics: Sequence[MetadataResponseTopic] = ()
    cluster_authorized_operations: int = -2147483648
    error_code: int = 0


_METADATA_REQUEST_TOPIC: Final = Struct(
    MetadataRequestTopic,
    topic_id=Field(UUID, since=10),
    name=Field(STRING, null_since=10),
)
_METADATA_REQUEST: Final = Struct(
    MetadataRequest,
    topics=Field(_METADATA_REQUEST_TOPIC, is_array=True, null_since=1),
    allow_auto_topic_creation=Field(BOOL, since=4),
    include_cluster_authorized_operations=Field(BOOL, since=8, until=10),
    include_topic_authorized_operations=Field(BOOL, since=8),
)
METADATA_REQUEST: Final[Message[MetadataRequest]] = Message(
    _METADATA_REQUEST, api_key=3, versions=(0, 13), first_flexible=9
)
_METADATA_RESPONSE_BROKER: Final = Struct(
    MetadataResponseBroker,
    node_id=Field(INT32),
    host=Field(STRING),
    port=Field(INT32),
    rack=Field(STRING, since=1, null_since=1),
)
_METADATA_RESPONSE_PARTITION: Final = Struct(
    MetadataResponsePartition,
    error_code=Field(INT16),
    partition_index=Field(INT32),
    leader_id=Field(INT32),
    leader_epoch=Field(INT32, since=7),
    replica_nodes=Field(INT32, is_array=True),
    isr_nodes=Field(INT32, is_array=True),
    offline_replicas=Field(INT32, is_array=True, since=5),
)
_METADATA_RESPONSE_TOPIC: Final = Struct(
    MetadataResponseTopic,
    error_code=Field(INT16),
    name=Field(STRING, null_since=12),
    topic_id=Field(UUID, since=10),
    is_internal=Field(BOOL, since=1),
    partitions=Field(_METADATA_RESPONSE_PARTITION, is_array=True),
    topic_authorized_operations=Field(INT32, since=8),
)
_METADATA_RESPONSE: Final = Struct(
    MetadataResponse,
    throttle_time_ms=Field(INT32, since=3),
    brokers=Field(_METADATA_RESPONSE_BROKER, is_array=True),
    cluster_id=Field(STRING, since=2, null_since=2),
    controller_id=Field(INT32, since=1),
    topics=Field(_METADATA_RESPONSE_TOPIC, is_array=True),
    cluster_authorized_operations=Field(INT32, since=8, until=10),
    error_code=Field(INT16, since=13),
)
METADATA_RESPONSE: Final[Message[MetadataResponse]] = Message(
    _METADATA_RESPONSE, api_key=3, versions=(0, 13), first_flexible=9
)
