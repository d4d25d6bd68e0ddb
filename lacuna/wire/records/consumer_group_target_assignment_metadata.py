"""ConsumerGroupTargetAssignmentMetadata. Written by lacuna.wire.generator, not by hand."""

from typing import Annotated, Final, NamedTuple

from lacuna.wire.layout import In, Int32, Message, String


class ConsumerGroupTargetAssignmentMetadataKey(NamedTuple):
    group_id: Annotated[String, In(until=0)] = ""


class ConsumerGroupTargetAssignmentMetadataValue(NamedTuple):
    assignment_epoch: Int32 = 0


CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY: Final = Message(
    ConsumerGroupTargetAssignmentMetadataKey, api_key=6, versions=(0, 0), first_flexible=None
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE: Final = Message(
    ConsumerGroupTargetAssignmentMetadataValue, api_key=6, versions=(0, 0), first_flexible=0
)
