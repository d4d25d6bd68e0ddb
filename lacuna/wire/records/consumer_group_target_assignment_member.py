"""ConsumerGroupTargetAssignmentMember. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT32, STRING, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Message, Struct


class ConsumerGroupTargetAssignmentMemberKey(NamedTuple):
    group_id: str = ""
    member_id: str = ""


class TopicPartition(NamedTuple):
    topic_id: bytes = ZERO_UUID
    partitions: Sequence[int] = ()


class ConsumerGroupTargetAssignmentMemberValue(NamedTuple):
    topic_partitions: Sequence[TopicPartition] = ()


_CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY: Final = Struct(
    ConsumerGroupTargetAssignmentMemberKey,
    group_id=Field(STRING, until=0),
    member_id=Field(STRING, until=0),
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY: Final[
    Message[ConsumerGroupTargetAssignmentMemberKey]
] = Message(
    _CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY, api_key=7, versions=(0, 0), first_flexible=None
)
_TOPIC_PARTITION: Final = Struct(
    TopicPartition,
    topic_id=Field(UUID),
    partitions=Field(INT32, is_array=True),
)
_CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE: Final = Struct(
    ConsumerGroupTargetAssignmentMemberValue,
    topic_partitions=Field(_TOPIC_PARTITION, is_array=True),
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE: Final[
    Message[ConsumerGroupTargetAssignmentMemberValue]
] = Message(
    _CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE, api_key=7, versions=(0, 0), first_flexible=0
)
