"""OffsetCommit. Written by lacuna.wire.generator, not by hand."""

from typing import Annotated, Final, NamedTuple

from lacuna.wire.layout import ZERO_UUID, In, Int32, Int64, Message, String, Uuid


class OffsetCommitKey(NamedTuple):
    group: Annotated[String, In(until=0)] = ""
    topic: Annotated[String, In(until=0)] = ""
    partition: Annotated[Int32, In(until=0)] = 0


class OffsetCommitValue(NamedTuple):
    offset: Int64 = 0
    leader_epoch: Annotated[Int32, In(since=3)] = -1
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Annotated[Int64, In(since=1, until=1)] = -1
    topic_id: Annotated[Uuid, In(since=4, tag=0)] = ZERO_UUID


OFFSET_COMMIT_KEY: Final = Message(OffsetCommitKey, api_key=1, versions=(0, 0), first_flexible=None)

OFFSET_COMMIT_VALUE: Final = Message(
    OffsetCommitValue, api_key=1, versions=(0, 4), first_flexible=4
)
