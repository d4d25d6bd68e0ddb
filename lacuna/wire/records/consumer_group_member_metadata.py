"""ConsumerGroupMemberMetadata. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from lacuna.wire.layout import Bytes, In, Int32, Message, String


class ConsumerGroupMemberMetadataKey(NamedTuple):
    group_id: Annotated[String, In(until=0)] = ""
    member_id: Annotated[String, In(until=0)] = ""


class ClassicProtocol(NamedTuple):
    name: String = ""
    metadata: Bytes = b""


class ClassicMemberMetadata(NamedTuple):
    session_timeout_ms: Int32 = 0
    supported_protocols: Sequence[ClassicProtocol] = ()


class ConsumerGroupMemberMetadataValue(NamedTuple):
    instance_id: String | None = ""
    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Sequence[String] = ()
    subscribed_topic_regex: String | None = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None = ""
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, In(tag=0)] = None


CONSUMER_GROUP_MEMBER_METADATA_KEY: Final = Message(
    ConsumerGroupMemberMetadataKey, api_key=5, versions=(0, 0), first_flexible=None
)

CONSUMER_GROUP_MEMBER_METADATA_VALUE: Final = Message(
    ConsumerGroupMemberMetadataValue, api_key=5, versions=(0, 0), first_flexible=0
)
