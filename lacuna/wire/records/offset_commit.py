"""OffsetCommit. Written by lacuna.wire.generator, not by hand."""

from typing import Final, NamedTuple

from lacuna.wire.kernel import INT32, INT64, STRING, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Message, Struct


class OffsetCommitKey(NamedTuple):
    group: str = ""
    topic: str = ""
    partition: int = 0


class OffsetCommitValue(NamedTuple):
    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1
    topic_id: bytes = ZERO_UUID


_OFFSET_COMMIT_KEY: Final = Struct(
    OffsetCommitKey,
    group=Field(STRING, until=0),
    topic=Field(STRING, until=0),
    partition=Field(INT32, until=0),
)
OFFSET_COMMIT_KEY: Final[Message[OffsetCommitKey]] = Message(
    _OFFSET_COMMIT_KEY, api_key=1, versions=(0, 0), first_flexible=None
)
_OFFSET_COMMIT_VALUE: Final = Struct(
    OffsetCommitValue,
    offset=Field(INT64),
    leader_epoch=Field(INT32, since=3),
    metadata=Field(STRING),
    commit_timestamp=Field(INT64),
    expire_timestamp=Field(INT64, since=1, until=1),
    topic_id=Field(UUID, since=4, tag=0),
)
OFFSET_COMMIT_VALUE: Final[Message[OffsetCommitValue]] = Message(
    _OFFSET_COMMIT_VALUE, api_key=1, versions=(0, 4), first_flexible=4
)
