"""DescribeLogDirs. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bool, In, Int16, Int32, Int64, String, messages


class DescribableLogDirTopic(NamedTuple):
    topic: String = ""
    partitions: Sequence[Int32] = ()


class DescribeLogDirsRequest(NamedTuple):
    topics: Sequence[DescribableLogDirTopic] | None = ()


class DescribeLogDirsPartition(NamedTuple):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


class DescribeLogDirsTopic(NamedTuple):
    name: String = ""
    partitions: Sequence[DescribeLogDirsPartition] = ()


class DescribeLogDirsResult(NamedTuple):
    error_code: Int16 = 0
    log_dir: String = ""
    topics: Sequence[DescribeLogDirsTopic] = ()
    total_bytes: Annotated[Int64, In(since=4)] = -1
    usable_bytes: Annotated[Int64, In(since=4)] = -1
    is_cordoned: Annotated[Bool, In(since=5)] = False


class DescribeLogDirsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, In(since=3)] = 0
    results: Sequence[DescribeLogDirsResult] = ()


DESCRIBE_LOG_DIRS_REQUEST, DESCRIBE_LOG_DIRS_RESPONSE = messages(
    DescribeLogDirsRequest, DescribeLogDirsResponse, api_key=35, versions=(0, 5), first_flexible=2
)
