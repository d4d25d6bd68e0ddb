"""ConsumerGroupDescribe. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT8, INT16, INT32, STRING, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Message, Struct


class ConsumerGroupDescribeRequest(NamedTuple):
    group_ids: Sequence[str] = ()
    include_authorized_operations: bool = False


class TopicPartitions(NamedTuple):
    topic_id: bytes = ZERO_UUID
    topic_name: str = ""
    partitions: Sequence[int] = ()


class Assignment(NamedTuple):
    topic_partitions: Sequence[TopicPartitions] = ()


class Member(NamedTuple):
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: Sequence[str] = ()
    subscribed_topic_regex: str | None = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: int = -1


class DescribedGroup(NamedTuple):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: Sequence[Member] = ()
    authorized_operations: int = -2147483648


class ConsumerGroupDescribeResponse(NamedTuple):
    throttle_time_ms: int = 0
    groups: Sequence[DescribedGroup] = ()


_CONSUMER_GROUP_DESCRIBE_REQUEST: Final = Struct(
    ConsumerGroupDescribeRequest,
    group_ids=Field(STRING, is_array=True),
    include_authorized_operations=Field(BOOL),
)
CONSUMER_GROUP_DESCRIBE_REQUEST: Final[Message[ConsumerGroupDescribeRequest]] = Message(
    _CONSUMER_GROUP_DESCRIBE_REQUEST, api_key=69, versions=(0, 1), first_flexible=0
)
_TOPIC_PARTITIONS: Final = Struct(
    TopicPartitions,
    topic_id=Field(UUID),
    topic_name=Field(STRING),
    partitions=Field(INT32, is_array=True),
)
_ASSIGNMENT: Final = Struct(
    Assignment,
    topic_partitions=Field(_TOPIC_PARTITIONS, is_array=True),
)
_MEMBER: Final = Struct(
    Member,
    member_id=Field(STRING),
    instance_id=Field(STRING, null_since=0),
    rack_id=Field(STRING, null_since=0),
    member_epoch=Field(INT32),
    client_id=Field(STRING),
    client_host=Field(STRING),
    subscribed_topic_names=Field(STRING, is_array=True),
    subscribed_topic_regex=Field(STRING, null_since=0),
    assignment=Field(_ASSIGNMENT),
    target_assignment=Field(_ASSIGNMENT),
    member_type=Field(INT8, since=1),
)
_DESCRIBED_GROUP: Final = Struct(
    DescribedGroup,
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    group_id=Field(STRING),
    group_state=Field(STRING),
    group_epoch=Field(INT32),
    assignment_epoch=Field(INT32),
    assignor_name=Field(STRING),
    members=Field(_MEMBER, is_array=True),
    authorized_operations=Field(INT32),
)
_CONSUMER_GROUP_DESCRIBE_RESPONSE: Final = Struct(
    ConsumerGroupDescribeResponse,
    throttle_time_ms=Field(INT32),
    groups=Field(_DESCRIBED_GROUP, is_array=True),
)
CONSUMER_GROUP_DESCRIBE_RESPONSE: Final[Message[ConsumerGroupDescribeResponse]] = Message(
    _CONSUMER_GROUP_DESCRIBE_RESPONSE, api_key=69, versions=(0, 1), first_flexible=0
)
