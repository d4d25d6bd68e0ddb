"""CreatePartitions. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.wire.layout import Bool, Int16, Int32, String, messages


class CreatePartitionsAssignment(NamedTuple):
    broker_ids: Sequence[Int32] = ()


class CreatePartitionsTopic(NamedTuple):
    name: String = ""
    count_: Int32 = 0
    assignments: Sequence[CreatePartitionsAssignment] | None = ()


class CreatePartitionsRequest(NamedTuple):
    topics: Sequence[CreatePartitionsTopic] = ()
    timeout_ms: Int32 = 0
    validate_only: Bool = False


class CreatePartitionsTopicResult(NamedTuple):
    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None


class CreatePartitionsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    results: Sequence[CreatePartitionsTopicResult] = ()


CREATE_PARTITIONS_REQUEST, CREATE_PARTITIONS_RESPONSE = messages(
    CreatePartitionsRequest, CreatePartitionsResponse, api_key=37, versions=(0, 3), first_flexible=2
)
