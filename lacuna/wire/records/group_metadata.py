"""GroupMetadata. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BYTES, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class GroupMetadataKey(NamedTuple):
    group: str = ""


class MemberMetadata(NamedTuple):
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    session_timeout: int = 0
    subscription: bytes = b""
    assignment: bytes = b""


class GroupMetadataValue(NamedTuple):
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: int = -1
    members: Sequence[MemberMetadata] = ()


_GROUP_METADATA_KEY: Final = Struct(
    GroupMetadataKey,
    group=Field(STRING, until=0),
)
GROUP_METADATA_KEY: Final[Message[GroupMetadataKey]] = Message(
    _GROUP_METADATA_KEY, api_key=2, versions=(0, 0), first_flexible=None
)
_MEMBER_METADATA: Final = Struct(
    MemberMetadata,
    member_id=Field(STRING),
    group_instance_id=Field(STRING, since=3, null_since=3),
    client_id=Field(STRING),
    client_host=Field(STRING),
    rebalance_timeout=Field(INT32, since=1),
    session_timeout=Field(INT32),
    subscription=Field(BYTES),
    assignment=Field(BYTES),
)
_GROUP_METADATA_VALUE: Final = Struct(
    GroupMetadataValue,
    protocol_type=Field(STRING),
    generation=Field(INT32),
    protocol=Field(STRING, null_since=0),
    leader=Field(STRING, null_since=0),
    current_state_timestamp=Field(INT64, since=2),
    members=Field(_MEMBER_METADATA, is_array=True),
)
GROUP_METADATA_VALUE: Final[Message[GroupMetadataValue]] = Message(
    _GROUP_METADATA_VALUE, api_key=2, versions=(0, 4), first_flexible=4
)
