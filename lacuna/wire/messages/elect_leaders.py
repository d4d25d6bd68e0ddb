"""ElectLeaders. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT8, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class TopicPartitions(NamedTuple):
    topic: str = ""
    partitions: Sequence[int] = ()


class ElectLeadersRequest(NamedTuple):
    election_type: int = 0
    topic_partitions: Sequence[TopicPartitions] | None = ()
    timeout_ms: int = 60000


class PartitionResult(NamedTuple):
    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = ""


class ReplicaElectionResult(NamedTuple):
    topic: str = ""
    partition_result: Sequence[PartitionResult] = ()


class ElectLeadersResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: Sequence[ReplicaElectionResult] = ()


_TOPIC_PARTITIONS: Final = Struct(
    TopicPartitions,
    topic=Field(STRING),
    partitions=Field(INT32, is_array=True),
)
_ELECT_LEADERS_REQUEST: Final = Struct(
    ElectLeadersRequest,
    election_type=Field(INT8, since=1),
    topic_partitions=Field(_TOPIC_PARTITIONS, is_array=True, null_since=0),
    timeout_ms=Field(INT32),
)
ELECT_LEADERS_REQUEST: Final[Message[ElectLeadersRequest]] = Message(
    _ELECT_LEADERS_REQUEST, api_key=43, versions=(0, 2), first_flexible=2
)
_PARTITION_RESULT: Final = Struct(
    PartitionResult,
    partition_id=Field(INT32),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
)
_REPLICA_ELECTION_RESULT: Final = Struct(
    ReplicaElectionResult,
    topic=Field(STRING),
    partition_result=Field(_PARTITION_RESULT, is_array=True),
)
_ELECT_LEADERS_RESPONSE: Final = Struct(
    ElectLeadersResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16, since=1),
    replica_election_results=Field(_REPLICA_ELECTION_RESULT, is_array=True),
)
ELECT_LEADERS_RESPONSE: Final[Message[ElectLeadersResponse]] = Message(
    _ELECT_LEADERS_RESPONSE, api_key=43, versions=(0, 2), first_flexible=2
)
