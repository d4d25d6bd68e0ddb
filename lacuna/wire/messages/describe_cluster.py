"""DescribeCluster. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bool, In, Int8, Int16, Int32, String, messages


class DescribeClusterRequest(NamedTuple):
    include_cluster_authorized_operations: Bool = False
    endpoint_type: Annotated[Int8, In(since=1)] = 1
    include_fenced_brokers: Annotated[Bool, In(since=2)] = False


class DescribeClusterBroker(NamedTuple):
    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Annotated[Bool, In(since=2)] = False


class DescribeClusterResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Annotated[Int8, In(since=1)] = 1
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: Sequence[DescribeClusterBroker] = ()
    cluster_authorized_operations: Int32 = -2147483648


DESCRIBE_CLUSTER_REQUEST, DESCRIBE_CLUSTER_RESPONSE = messages(
    DescribeClusterRequest, DescribeClusterResponse, api_key=60, versions=(0, 2), first_flexible=0
)
