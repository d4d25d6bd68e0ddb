"""OffsetDelete. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.wire.layout import Int16, Int32, String, messages


class OffsetDeleteRequestPartition(NamedTuple):
    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(NamedTuple):
    name: String = ""
    partitions: Sequence[OffsetDeleteRequestPartition] = ()


class OffsetDeleteRequest(NamedTuple):
    group_id: String = ""
    topics: Sequence[OffsetDeleteRequestTopic] = ()


class OffsetDeleteResponsePartition(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(NamedTuple):
    name: String = ""
    partitions: Sequence[OffsetDeleteResponsePartition] = ()


class OffsetDeleteResponse(NamedTuple):
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: Sequence[OffsetDeleteResponseTopic] = ()


OFFSET_DELETE_REQUEST, OFFSET_DELETE_RESPONSE = messages(
    OffsetDeleteRequest, OffsetDeleteResponse, api_key=47, versions=(0, 0), first_flexible=None
)
