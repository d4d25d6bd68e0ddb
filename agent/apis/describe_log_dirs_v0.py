"""DescribeLogDirs v0: of clients before 2.0; on the wire it is v1."""

from typing import Final

from kio.schema.describe_log_dirs.v1.request import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from kio.schema.describe_log_dirs.v1.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

from agent.apis import describe_log_dirs
from agent.apis.registry import Api
from agent.apis.tables import (
    BOOL,
    ERROR_CODE,
    INT32,
    INT64,
    MILLISECONDS,
    STRING,
    Array,
    Entity,
    reader,
    writer,
)

_TOPIC: Final = Entity(DescribableLogDirTopic, ("topic", STRING), ("partitions", Array(INT32)))
_REQUEST: Final = Entity(DescribeLogDirsRequest, ("topics", Array(_TOPIC, nullable=True)))
_PARTITION_SIZE: Final = Entity(
    DescribeLogDirsPartition,
    ("partition_index", INT32),
    ("partition_size", INT64),
    ("offset_lag", INT64),
    ("is_future_key", BOOL),
)
_TOPIC_SIZES: Final = Entity(
    DescribeLogDirsTopic, ("name", STRING), ("partitions", Array(_PARTITION_SIZE))
)
_RESULT: Final = Entity(
    DescribeLogDirsResult,
    ("error_code", ERROR_CODE),
    ("log_dir", STRING),
    ("topics", Array(_TOPIC_SIZES)),
)
_RESPONSE: Final = Entity(
    DescribeLogDirsResponse, ("throttle_time", MILLISECONDS), ("results", Array(_RESULT))
)

API = Api(
    key=35,
    min_version=0,
    max_version=0,
    handle=describe_log_dirs.handle,
    refuse=describe_log_dirs.refuse,
    decode=reader({0: _REQUEST}),
    encode=writer({0: _RESPONSE}),
    unavailable=describe_log_dirs.API.unavailable,
)
