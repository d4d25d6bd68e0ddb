"""ElectLeaders. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import In, Int8, Int16, Int32, String, messages


class TopicPartitions(NamedTuple):
    topic: String = ""
    partitions: Sequence[Int32] = ()


class ElectLeadersRequest(NamedTuple):
    election_type: Annotated[Int8, In(since=1)] = 0
    topic_partitions: Sequence[TopicPartitions] | None = ()
    timeout_ms: Int32 = 60000


class PartitionResult(NamedTuple):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ReplicaElectionResult(NamedTuple):
    topic: String = ""
    partition_result: Sequence[PartitionResult] = ()


class ElectLeadersResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, In(since=1)] = 0
    replica_election_results: Sequence[ReplicaElectionResult] = ()


ELECT_LEADERS_REQUEST, ELECT_LEADERS_RESPONSE = messages(
    ElectLeadersRequest, ElectLeadersResponse, api_key=43, versions=(0, 2), first_flexible=2
)
