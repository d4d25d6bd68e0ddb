"""GroupMetadata. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from lacuna.wire.layout import Bytes, In, Int32, Int64, Message, String


class GroupMetadataKey(NamedTuple):
    group: Annotated[String, In(until=0)] = ""


class MemberMetadata(NamedTuple):
    member_id: String = ""
    group_instance_id: Annotated[String | None, In(since=3)] = None
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Annotated[Int32, In(since=1)] = -1
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


class GroupMetadataValue(NamedTuple):
    protocol_type: String = ""
    generation: Int32 = 0
    protocol: String | None = ""
    leader: String | None = ""
    current_state_timestamp: Annotated[Int64, In(since=2)] = -1
    members: Sequence[MemberMetadata] = ()


GROUP_METADATA_KEY: Final = Message(
    GroupMetadataKey, api_key=2, versions=(0, 0), first_flexible=None
)

GROUP_METADATA_VALUE: Final = Message(
    GroupMetadataValue, api_key=2, versions=(0, 4), first_flexible=4
)
