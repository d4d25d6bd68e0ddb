"""DescribeQuorum. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, INT64, STRING, UINT16, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Message, Struct


class PartitionData(NamedTuple):
    partition_index: int = 0


class TopicData(NamedTuple):
    topic_name: str = ""
    partitions: Sequence[PartitionData] = ()


class DescribeQuorumRequest(NamedTuple):
    topics: Sequence[TopicData] = ()


class ReplicaState(NamedTuple):
    replica_id: int = 0
    replica_directory_id: bytes = ZERO_UUID
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1


class DescribeQuorumResponsePartitionData(NamedTuple):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: Sequence[ReplicaState] = ()
    observers: Sequence[ReplicaState] = ()


class DescribeQuorumResponseTopicData(NamedTuple):
    topic_name: str = ""
    partitions: Sequence[DescribeQuorumResponsePartitionData] = ()


class Listener(NamedTuple):
    name: str = ""
    host: str = ""
    port: int = 0


class Node(NamedTuple):
    node_id: int = 0
    listeners: Sequence[Listener] = ()


class DescribeQuorumResponse(NamedTuple):
    error_code: int = 0
    error_message: str | None = ""
    topics: Sequence[DescribeQuorumResponseTopicData] = ()
    nodes: Sequence[Node] = ()


_PARTITION_DATA: Final = Struct(
    PartitionData,
    partition_index=Field(INT32),
)
_TOPIC_DATA: Final = Struct(
    TopicData,
    topic_name=Field(STRING),
    partitions=Field(_PARTITION_DATA, is_array=True),
)
_DESCRIBE_QUORUM_REQUEST: Final = Struct(
    DescribeQuorumRequest,
    topics=Field(_TOPIC_DATA, is_array=True),
)
DESCRIBE_QUORUM_REQUEST: Final[Message[DescribeQuorumRequest]] = Message(
    _DESCRIBE_QUORUM_REQUEST, api_key=55, versions=(0, 2), first_flexible=0
)
_REPLICA_STATE: Final = Struct(
    ReplicaState,
    replica_id=Field(INT32),
    replica_directory_id=Field(UUID, since=2),
    log_end_offset=Field(INT64),
    last_fetch_timestamp=Field(INT64, since=1),
    last_caught_up_timestamp=Field(INT64, since=1),
)
_DESCRIBE_QUORUM_RESPONSE_PARTITION_DATA: Final = Struct(
    DescribeQuorumResponsePartitionData,
    partition_index=Field(INT32),
    error_code=Field(INT16),
    error_message=Field(STRING, since=2, null_since=2),
    leader_id=Field(INT32),
    leader_epoch=Field(INT32),
    high_watermark=Field(INT64),
    current_voters=Field(_REPLICA_STATE, is_array=True),
    observers=Field(_REPLICA_STATE, is_array=True),
)
_DESCRIBE_QUORUM_RESPONSE_TOPIC_DATA: Final = Struct(
    DescribeQuorumResponseTopicData,
    topic_name=Field(STRING),
    partitions=Field(_DESCRIBE_QUORUM_RESPONSE_PARTITION_DATA, is_array=True),
)
_LISTENER: Final = Struct(
    Listener,
    name=Field(STRING, since=2),
    host=Field(STRING, since=2),
    port=Field(UINT16, since=2),
)
_NODE: Final = Struct(
    Node,
    node_id=Field(INT32, since=2),
    listeners=Field(_LISTENER, is_array=True, since=2),
)
_DESCRIBE_QUORUM_RESPONSE: Final = Struct(
    DescribeQuorumResponse,
    error_code=Field(INT16),
    error_message=Field(STRING, since=2, null_since=2),
    topics=Field(_DESCRIBE_QUORUM_RESPONSE_TOPIC_DATA, is_array=True),
    nodes=Field(_NODE, is_array=True, since=2),
)
DESCRIBE_QUORUM_RESPONSE: Final[Message[DescribeQuorumResponse]] = Message(
    _DESCRIBE_QUORUM_RESPONSE, api_key=55, versions=(0, 2), first_flexible=0
)
