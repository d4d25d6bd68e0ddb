"""ConsumerGroupTargetAssignmentMetadata. Written by lacuna.wire.generator, not by hand."""

from typing import Final, NamedTuple

from lacuna.wire.kernel import INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class ConsumerGroupTargetAssignmentMetadataKey(NamedTuple):
    group_id: str = ""


class ConsumerGroupTargetAssignmentMetadataValue(NamedTuple):
    assignment_epoch: int = 0


_CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY: Final = Struct(
    ConsumerGroupTargetAssignmentMetadataKey,
    group_id=Field(STRING, until=0),
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY: Final[
    Message[ConsumerGroupTargetAssignmentMetadataKey]
] = Message(
    _CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY, api_key=6, versions=(0, 0), first_flexible=None
)
_CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE: Final = Struct(
    ConsumerGroupTargetAssignmentMetadataValue,
    assignment_epoch=Field(INT32),
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE: Final[
    Message[ConsumerGroupTargetAssignmentMetadataValue]
] = Message(
    _CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE, api_key=6, versions=(0, 0), first_flexible=0
)
