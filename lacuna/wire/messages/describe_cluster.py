"""DescribeCluster. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT8, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class DescribeClusterRequest(NamedTuple):
    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False


class DescribeClusterBroker(NamedTuple):
    broker_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    is_fenced: bool = False


class DescribeClusterResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1
    brokers: Sequence[DescribeClusterBroker] = ()
    cluster_authorized_operations: int = -2147483648


_DESCRIBE_CLUSTER_REQUEST: Final = Struct(
    DescribeClusterRequest,
    include_cluster_authorized_operations=Field(BOOL),
    endpoint_type=Field(INT8, since=1),
    include_fenced_brokers=Field(BOOL, since=2),
)
DESCRIBE_CLUSTER_REQUEST: Final[Message[DescribeClusterRequest]] = Message(
    _DESCRIBE_CLUSTER_REQUEST, api_key=60, versions=(0, 2), first_flexible=0
)
_DESCRIBE_CLUSTER_BROKER: Final = Struct(
    DescribeClusterBroker,
    broker_id=Field(INT32),
    host=Field(STRING),
    port=Field(INT32),
    rack=Field(STRING, null_since=0),
    is_fenced=Field(BOOL, since=2),
)
_DESCRIBE_CLUSTER_RESPONSE: Final = Struct(
    DescribeClusterResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    endpoint_type=Field(INT8, since=1),
    cluster_id=Field(STRING),
    controller_id=Field(INT32),
    brokers=Field(_DESCRIBE_CLUSTER_BROKER, is_array=True),
    cluster_authorized_operations=Field(INT32),
)
DESCRIBE_CLUSTER_RESPONSE: Final[Message[DescribeClusterResponse]] = Message(
    _DESCRIBE_CLUSTER_RESPONSE, api_key=60, versions=(0, 2), first_flexible=0
)
