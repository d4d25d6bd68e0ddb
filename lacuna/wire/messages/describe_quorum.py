"""DescribeQuorum. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import ZERO_UUID, In, Int16, Int32, Int64, String, Uint16, Uuid, messages


class PartitionData(NamedTuple):
    partition_index: Int32 = 0


class TopicData(NamedTuple):
    topic_name: String = ""
    partitions: Sequence[PartitionData] = ()


class DescribeQuorumRequest(NamedTuple):
    topics: Sequence[TopicData] = ()


class ReplicaState(NamedTuple):
    replica_id: Int32 = 0
    replica_directory_id: Annotated[Uuid, In(since=2)] = ZERO_UUID
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, In(since=1)] = -1
    last_caught_up_timestamp: Annotated[Int64, In(since=1)] = -1


class DescribeQuorumResponsePartitionData(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, In(since=2)] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: Sequence[ReplicaState] = ()
    observers: Sequence[ReplicaState] = ()


class DescribeQuorumResponseTopicData(NamedTuple):
    topic_name: String = ""
    partitions: Sequence[DescribeQuorumResponsePartitionData] = ()


class Listener(NamedTuple):
    name: Annotated[String, In(since=2)] = ""
    host: Annotated[String, In(since=2)] = ""
    port: Annotated[Uint16, In(since=2)] = 0


class Node(NamedTuple):
    node_id: Annotated[Int32, In(since=2)] = 0
    listeners: Annotated[Sequence[Listener], In(since=2)] = ()


class DescribeQuorumResponse(NamedTuple):
    error_code: Int16 = 0
    error_message: Annotated[String | None, In(since=2)] = ""
    topics: Sequence[DescribeQuorumResponseTopicData] = ()
    nodes: Annotated[Sequence[Node], In(since=2)] = ()


DESCRIBE_QUORUM_REQUEST, DESCRIBE_QUORUM_RESPONSE = messages(
    DescribeQuorumRequest, DescribeQuorumResponse, api_key=55, versions=(0, 2), first_flexible=0
)
