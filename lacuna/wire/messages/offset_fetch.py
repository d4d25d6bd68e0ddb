"""OffsetFetch. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import ZERO_UUID, Bool, In, Int16, Int32, Int64, String, Uuid, messages


class OffsetFetchRequestTopic(NamedTuple):
    name: Annotated[String, In(until=7)] = ""
    partition_indexes: Annotated[Sequence[Int32], In(until=7)] = ()


class OffsetFetchRequestTopics(NamedTuple):
    name: Annotated[String, In(since=8, until=9)] = ""
    topic_id: Annotated[Uuid, In(since=10)] = ZERO_UUID
    partition_indexes: Annotated[Sequence[Int32], In(since=8)] = ()


class OffsetFetchRequestGroup(NamedTuple):
    group_id: Annotated[String, In(since=8)] = ""
    member_id: Annotated[String | None, In(since=9)] = None
    member_epoch: Annotated[Int32, In(since=9)] = -1
    topics: Annotated[Sequence[OffsetFetchRequestTopics] | None, In(since=8)] = ()


class OffsetFetchRequest(NamedTuple):
    group_id: Annotated[String, In(until=7)] = ""
    topics: Annotated[Sequence[OffsetFetchRequestTopic] | None, In(until=7, null_since=2)] = ()
    groups: Annotated[Sequence[OffsetFetchRequestGroup], In(since=8)] = ()
    require_stable: Annotated[Bool, In(since=7)] = False


class OffsetFetchResponsePartition(NamedTuple):
    partition_index: Annotated[Int32, In(until=7)] = 0
    committed_offset: Annotated[Int64, In(until=7)] = 0
    committed_leader_epoch: Annotated[Int32, In(since=5, until=7)] = -1
    metadata: Annotated[String | None, In(until=7)] = ""
    error_code: Annotated[Int16, In(until=7)] = 0


class OffsetFetchResponseTopic(NamedTuple):
    name: Annotated[String, In(until=7)] = ""
    partitions: Annotated[Sequence[OffsetFetchResponsePartition], In(until=7)] = ()


class OffsetFetchResponsePartitions(NamedTuple):
    partition_index: Annotated[Int32, In(since=8)] = 0
    committed_offset: Annotated[Int64, In(since=8)] = 0
    committed_leader_epoch: Annotated[Int32, In(since=8)] = -1
    metadata: Annotated[String | None, In(since=8)] = ""
    error_code: Annotated[Int16, In(since=8)] = 0


class OffsetFetchResponseTopics(NamedTuple):
    name: Annotated[String, In(since=8, until=9)] = ""
    topic_id: Annotated[Uuid, In(since=10)] = ZERO_UUID
    partitions: Annotated[Sequence[OffsetFetchResponsePartitions], In(since=8)] = ()


class OffsetFetchResponseGroup(NamedTuple):
    group_id: Annotated[String, In(since=8)] = ""
    topics: Annotated[Sequence[OffsetFetchResponseTopics], In(since=8)] = ()
    error_code: Annotated[Int16, In(since=8)] = 0


class OffsetFetchResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=3)] = 0
    topics: Annotated[Sequence[OffsetFetchResponseTopic], In(until=7)] = ()
    error_code: Annotated[Int16, In(since=2, until=7)] = 0
    groups: Annotated[Sequence[OffsetFetchResponseGroup], In(since=8)] = ()


OFFSET_FETCH_REQUEST, OFFSET_FETCH_RESPONSE = messages(
    OffsetFetchRequest, OffsetFetchResponse, api_key=9, versions=(0, 10), first_flexible=6
)
