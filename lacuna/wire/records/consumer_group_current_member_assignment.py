"""ConsumerGroupCurrentMemberAssignment. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT8, INT32, STRING, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Message, Struct


class ConsumerGroupCurrentMemberAssignmentKey(NamedTuple):
    group_id: str = ""
    member_id: str = ""


class TopicPartitions(NamedTuple):
    topic_id: bytes = ZERO_UUID
    partitions: Sequence[int] = ()


class ConsumerGroupCurrentMemberAssignmentValue(NamedTuple):
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: Sequence[TopicPartitions] = ()
    partitions_pending_revocation: Sequence[TopicPartitions] = ()


_CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY: Final = Struct(
    ConsumerGroupCurrentMemberAssignmentKey,
    group_id=Field(STRING, until=0),
    member_id=Field(STRING, until=0),
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY: Final[
    Message[ConsumerGroupCurrentMemberAssignmentKey]
] = Message(
    _CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY, api_key=8, versions=(0, 0), first_flexible=None
)
_TOPIC_PARTITIONS: Final = Struct(
    TopicPartitions,
    topic_id=Field(UUID),
    partitions=Field(INT32, is_array=True),
)
_CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE: Final = Struct(
    ConsumerGroupCurrentMemberAssignmentValue,
    member_epoch=Field(INT32),
    previous_member_epoch=Field(INT32),
    state=Field(INT8),
    assigned_partitions=Field(_TOPIC_PARTITIONS, is_array=True),
    partitions_pending_revocation=Field(_TOPIC_PARTITIONS, is_array=True),
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE: Final[
    Message[ConsumerGroupCurrentMemberAssignmentValue]
] = Message(
    _CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE, api_key=8, versions=(0, 0), first_flexible=0
)
