"""DescribeLogDirs. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class DescribableLogDirTopic(NamedTuple):
    topic: str = ""
    partitions: Sequence[int] = ()


class DescribeLogDirsRequest(NamedTuple):
    topics: Sequence[DescribableLogDirTopic] | None = ()


class DescribeLogDirsPartition(NamedTuple):
    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(NamedTuple):
    name: str = ""
    partitions: Sequence[DescribeLogDirsPartition] = ()


class DescribeLogDirsResult(NamedTuple):
    error_code: int = 0
    log_dir: str = ""
    topics: Sequence[DescribeLogDirsTopic] = ()
    total_bytes: int = -1
    usable_bytes: int = -1


class DescribeLogDirsResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    results: Sequence[DescribeLogDirsResult] = ()


_DESCRIBABLE_LOG_DIR_TOPIC: Final = Struct(
    DescribableLogDirTopic,
    topic=Field(STRING),
    partitions=Field(INT32, is_array=True),
)
_DESCRIBE_LOG_DIRS_REQUEST: Final = Struct(
    DescribeLogDirsRequest,
    topics=Field(_DESCRIBABLE_LOG_DIR_TOPIC, is_array=True, null_since=0),
)
DESCRIBE_LOG_DIRS_REQUEST: Final[Message[DescribeLogDirsRequest]] = Message(
    _DESCRIBE_LOG_DIRS_REQUEST, api_key=35, versions=(0, 4), first_flexible=2
)
_DESCRIBE_LOG_DIRS_PARTITION: Final = Struct(
    DescribeLogDirsPartition,
    partition_index=Field(INT32),
    partition_size=Field(INT64),
    offset_lag=Field(INT64),
    is_future_key=Field(BOOL),
)
_DESCRIBE_LOG_DIRS_TOPIC: Final = Struct(
    DescribeLogDirsTopic,
    name=Field(STRING),
    partitions=Field(_DESCRIBE_LOG_DIRS_PARTITION, is_array=True),
)
_DESCRIBE_LOG_DIRS_RESULT: Final = Struct(
    DescribeLogDirsResult,
    error_code=Field(INT16),
    log_dir=Field(STRING),
    topics=Field(_DESCRIBE_LOG_DIRS_TOPIC, is_array=True),
    total_bytes=Field(INT64, since=4),
    usable_bytes=Field(INT64, since=4),
)
_DESCRIBE_LOG_DIRS_RESPONSE: Final = Struct(
    DescribeLogDirsResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16, since=3),
    results=Field(_DESCRIBE_LOG_DIRS_RESULT, is_array=True),
)
DESCRIBE_LOG_DIRS_RESPONSE: Final[Message[DescribeLogDirsResponse]] = Message(
    _DESCRIBE_LOG_DIRS_RESPONSE, api_key=35, versions=(0, 4), first_flexible=2
)
