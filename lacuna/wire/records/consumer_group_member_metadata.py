"""ConsumerGroupMemberMetadata. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BYTES, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class ConsumerGroupMemberMetadataKey(NamedTuple):
    group_id: str = ""
    member_id: str = ""


class ClassicProtocol(NamedTuple):
    name: str = ""
    metadata: bytes = b""


class ClassicMemberMetadata(NamedTuple):
    session_timeout_ms: int = 0
    supported_protocols: Sequence[ClassicProtocol] = ()


class ConsumerGroupMemberMetadataValue(NamedTuple):
    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: Sequence[str] = ()
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = ""
    classic_member_metadata: ClassicMemberMetadata | None = None


_CONSUMER_GROUP_MEMBER_METADATA_KEY: Final = Struct(
    ConsumerGroupMemberMetadataKey,
    group_id=Field(STRING, until=0),
    member_id=Field(STRING, until=0),
)
CONSUMER_GROUP_MEMBER_METADATA_KEY: Final[Message[ConsumerGroupMemberMetadataKey]] = Message(
    _CONSUMER_GROUP_MEMBER_METADATA_KEY, api_key=5, versions=(0, 0), first_flexible=None
)
_CLASSIC_PROTOCOL: Final = Struct(
    ClassicProtocol,
    name=Field(STRING),
    metadata=Field(BYTES),
)
_CLASSIC_MEMBER_METADATA: Final = Struct(
    ClassicMemberMetadata,
    session_timeout_ms=Field(INT32),
    supported_protocols=Field(_CLASSIC_PROTOCOL, is_array=True),
)
_CONSUMER_GROUP_MEMBER_METADATA_VALUE: Final = Struct(
    ConsumerGroupMemberMetadataValue,
    instance_id=Field(STRING, null_since=0),
    rack_id=Field(STRING, null_since=0),
    client_id=Field(STRING),
    client_host=Field(STRING),
    subscribed_topic_names=Field(STRING, is_array=True),
    subscribed_topic_regex=Field(STRING, null_since=0),
    rebalance_timeout_ms=Field(INT32),
    server_assignor=Field(STRING, null_since=0),
    classic_member_metadata=Field(_CLASSIC_MEMBER_METADATA, null_since=0, tag=0),
)
CONSUMER_GROUP_MEMBER_METADATA_VALUE: Final[Message[ConsumerGroupMemberMetadataValue]] = Message(
    _CONSUMER_GROUP_MEMBER_METADATA_VALUE, api_key=5, versions=(0, 0), first_flexible=0
)
