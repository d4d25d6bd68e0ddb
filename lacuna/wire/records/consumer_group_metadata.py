"""ConsumerGroupMetadata. Written by lacuna.wire.generator, not by hand."""

from typing import Final, NamedTuple

from lacuna.wire.kernel import INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class ConsumerGroupMetadataKey(NamedTuple):
    group_id: str = ""


class ConsumerGroupMetadataValue(NamedTuple):
    epoch: int = 0
    metadata_hash: int = 0


_CONSUMER_GROUP_METADATA_KEY: Final = Struct(
    ConsumerGroupMetadataKey,
    group_id=Field(STRING, until=0),
)
CONSUMER_GROUP_METADATA_KEY: Final[Message[ConsumerGroupMetadataKey]] = Message(
    _CONSUMER_GROUP_METADATA_KEY, api_key=3, versions=(0, 0), first_flexible=None
)
_CONSUMER_GROUP_METADATA_VALUE: Final = Struct(
    ConsumerGroupMetadataValue,
    epoch=Field(INT32),
    metadata_hash=Field(INT64, tag=0),
)
CONSUMER_GROUP_METADATA_VALUE: Final[Message[ConsumerGroupMetadataValue]] = Message(
    _CONSUMER_GROUP_METADATA_VALUE, api_key=3, versions=(0, 0), first_flexible=0
)
