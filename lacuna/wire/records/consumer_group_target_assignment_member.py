"""ConsumerGroupTargetAssignmentMember. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from lacuna.wire.layout import ZERO_UUID, In, Int32, Message, String, Uuid


class ConsumerGroupTargetAssignmentMemberKey(NamedTuple):
    group_id: Annotated[String, In(until=0)] = ""
    member_id: Annotated[String, In(until=0)] = ""


class TopicPartition(NamedTuple):
    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[Int32] = ()


class ConsumerGroupTargetAssignmentMemberValue(NamedTuple):
    topic_partitions: Sequence[TopicPartition] = ()


CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY: Final = Message(
    ConsumerGroupTargetAssignmentMemberKey, api_key=7, versions=(0, 0), first_flexible=None
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE: Final = Message(
    ConsumerGroupTargetAssignmentMemberValue, api_key=7, versions=(0, 0), first_flexible=0
)
