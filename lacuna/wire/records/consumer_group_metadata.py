"""ConsumerGroupMetadata. Written by lacuna.wire.generator, not by hand."""

from typing import Annotated, Final, NamedTuple

from lacuna.wire.layout import In, Int32, Int64, Message, String


class ConsumerGroupMetadataKey(NamedTuple):
    group_id: Annotated[String, In(until=0)] = ""


class ConsumerGroupMetadataValue(NamedTuple):
    epoch: Int32 = 0
    metadata_hash: Annotated[Int64, In(tag=0)] = 0


CONSUMER_GROUP_METADATA_KEY: Final = Message(
    ConsumerGroupMetadataKey, api_key=3, versions=(0, 0), first_flexible=None
)

CONSUMER_GROUP_METADATA_VALUE: Final = Message(
    ConsumerGroupMetadataValue, api_key=3, versions=(0, 0), first_flexible=0
)
