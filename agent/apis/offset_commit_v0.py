"""OffsetCommit v0-v1: of clients before 0.9.

v1 has a time with each partition, which is not looked at, as no retention time is. v0 knows no members: it
commits from outside the group, as a consumer that assigns its partitions itself. With ZooKeeper, Kafka kept such
offsets there, and without it answers UNSUPPORTED_VERSION; here they are the group's.
"""

from datetime import timedelta
from typing import Final

from kio.schema.offset_commit.v2.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_commit.v2.response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

from agent.apis import offset_commit
from agent.apis.registry import Api
from agent.apis.tables import (
    ERROR_CODE,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    Array,
    Entity,
    reader,
    writer,
)

_NO_GENERATION: Final = -1
_NO_RETENTION: Final = timedelta(milliseconds=-1)

_PARTITION_V0: Final = Entity(
    OffsetCommitRequestPartition,
    ("partition_index", INT32),
    ("committed_offset", INT64),
    ("committed_metadata", NULLABLE_STRING),
)
_PARTITION_V1: Final = Entity(
    OffsetCommitRequestPartition,
    ("partition_index", INT32),
    ("committed_offset", INT64),
    (None, INT64),  # the time of the commit
    ("committed_metadata", NULLABLE_STRING),
)


def _topics(partition: Entity) -> Array:
    return Array(
        Entity(OffsetCommitRequestTopic, ("name", STRING), ("partitions", Array(partition)))
    )


_REQUESTS: Final = {
    0: Entity(
        OffsetCommitRequest,
        ("group_id", STRING),
        ("topics", _topics(_PARTITION_V0)),
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id="",
        retention_time=_NO_RETENTION,
    ),
    1: Entity(
        OffsetCommitRequest,
        ("group_id", STRING),
        ("generation_id_or_member_epoch", INT32),
        ("member_id", STRING),
        ("topics", _topics(_PARTITION_V1)),
        retention_time=_NO_RETENTION,
    ),
}
_PARTITION_ANSWER: Final = Entity(
    OffsetCommitResponsePartition, ("partition_index", INT32), ("error_code", ERROR_CODE)
)
_TOPIC_ANSWER: Final = Entity(
    OffsetCommitResponseTopic, ("name", STRING), ("partitions", Array(_PARTITION_ANSWER))
)
_RESPONSE: Final = Entity(OffsetCommitResponse, ("topics", Array(_TOPIC_ANSWER)))

API = Api(
    key=8,
    min_version=0,
    max_version=1,
    handle=offset_commit.handle,
    refuse=offset_commit.refuse,
    decode=reader(_REQUESTS),
    encode=writer(dict.fromkeys(_REQUESTS, _RESPONSE)),
    notes="v0 commits to the group as v1 from outside it; Kafka kept such offsets in ZooKeeper",
)
