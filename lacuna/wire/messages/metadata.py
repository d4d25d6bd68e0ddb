"""Metadata. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import ZERO_UUID, Bool, In, Int16, Int32, String, Uuid, messages


class MetadataRequestTopic(NamedTuple):
    topic_id: Annotated[Uuid, In(since=10)] = ZERO_UUID
    name: Annotated[String | None, In(null_since=10)] = ""


class MetadataRequest(NamedTuple):
    topics: Annotated[Sequence[MetadataRequestTopic] | None, In(null_since=1)] = ()
    allow_auto_topic_creation: Annotated[Bool, In(since=4)] = True
    include_cluster_authorized_operations: Annotated[Bool, In(since=8, until=10)] = False
    include_topic_authorized_operations: Annotated[Bool, In(since=8)] = False


class MetadataResponseBroker(NamedTuple):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: Annotated[String | None, In(since=1)] = None


class MetadataResponsePartition(NamedTuple):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, In(since=7)] = -1
    replica_nodes: Sequence[Int32] = ()
    isr_nodes: Sequence[Int32] = ()
    offline_replicas: Annotated[Sequence[Int32], In(since=5)] = ()


class MetadataResponseTopic(NamedTuple):
    error_code: Int16 = 0
    name: Annotated[String | None, In(null_since=12)] = ""
    topic_id: Annotated[Uuid, In(since=10)] = ZERO_UUID
    is_internal: Annotated[Bool, In(since=1)] = False
    partitions: Sequence[MetadataResponsePartition] = ()
    topic_authorized_operations: Annotated[Int32, In(since=8)] = -2147483648


class MetadataResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=3)] = 0
    brokers: Sequence[MetadataResponseBroker] = ()
    cluster_id: Annotated[String | None, In(since=2)] = None
    controller_id: Annotated[Int32, In(since=1)] = -1
    topics: Sequence[MetadataResponseTopic] = ()
    cluster_authorized_operations: Annotated[Int32, In(since=8, until=10)] = -2147483648
    error_code: Annotated[Int16, In(since=13)] = 0


METADATA_REQUEST, METADATA_RESPONSE = messages(
    MetadataRequest, MetadataResponse, api_key=3, versions=(0, 13), first_flexible=9
)
