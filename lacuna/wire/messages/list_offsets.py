"""ListOffsets. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import In, Int8, Int16, Int32, Int64, String, messages


class ListOffsetsPartition(NamedTuple):
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, In(since=4)] = -1
    timestamp: Int64 = 0
    max_num_offsets: Annotated[Int32, In(until=0)] = 1


class ListOffsetsTopic(NamedTuple):
    name: String = ""
    partitions: Sequence[ListOffsetsPartition] = ()


class ListOffsetsRequest(NamedTuple):
    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, In(since=2)] = 0
    topics: Sequence[ListOffsetsTopic] = ()
    timeout_ms: Annotated[Int32, In(since=10)] = 0


class ListOffsetsPartitionResponse(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    old_style_offsets: Annotated[Sequence[Int64], In(until=0)] = ()
    timestamp: Annotated[Int64, In(since=1)] = -1
    offset: Annotated[Int64, In(since=1)] = -1
    leader_epoch: Annotated[Int32, In(since=4)] = -1


class ListOffsetsTopicResponse(NamedTuple):
    name: String = ""
    partitions: Sequence[ListOffsetsPartitionResponse] = ()


class ListOffsetsResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=2)] = 0
    topics: Sequence[ListOffsetsTopicResponse] = ()


LIST_OFFSETS_REQUEST, LIST_OFFSETS_RESPONSE = messages(
    ListOffsetsRequest, ListOffsetsResponse, api_key=2, versions=(0, 11), first_flexible=6
)
