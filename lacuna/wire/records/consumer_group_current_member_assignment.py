"""ConsumerGroupCurrentMemberAssignment. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from lacuna.wire.layout import ZERO_UUID, In, Int8, Int32, Message, String, Uuid


class ConsumerGroupCurrentMemberAssignmentKey(NamedTuple):
    group_id: Annotated[String, In(until=0)] = ""
    member_id: Annotated[String, In(until=0)] = ""


class TopicPartitions(NamedTuple):
    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[Int32] = ()


class ConsumerGroupCurrentMemberAssignmentValue(NamedTuple):
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: Sequence[TopicPartitions] = ()
    partitions_pending_revocation: Sequence[TopicPartitions] = ()


CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY: Final = Message(
    ConsumerGroupCurrentMemberAssignmentKey, api_key=8, versions=(0, 0), first_flexible=None
)

CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE: Final = Message(
    ConsumerGroupCurrentMemberAssignmentValue, api_key=8, versions=(0, 0), first_flexible=0
)
