"""OffsetForLeaderEpoch v0-v1: of clients before 2.1, which do not say which leader epoch they know."""

from typing import Final

from kio.schema.offset_for_leader_epoch.v2.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kio.schema.offset_for_leader_epoch.v2.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

from agent.apis import offset_for_leader_epoch
from agent.apis.registry import Api
from agent.apis.tables import (
    ERROR_CODE,
    INT32,
    INT64,
    STRING,
    Array,
    Entity,
    reader,
    writer,
)

_NO_LEADER_EPOCH: Final = -1

_PARTITION: Final = Entity(
    OffsetForLeaderPartition,
    ("partition", INT32),
    ("leader_epoch", INT32),
    current_leader_epoch=_NO_LEADER_EPOCH,
)
_TOPIC: Final = Entity(OffsetForLeaderTopic, ("topic", STRING), ("partitions", Array(_PARTITION)))
_REQUEST: Final = Entity(OffsetForLeaderEpochRequest, ("topics", Array(_TOPIC)))


def _response(end_offset: Entity) -> Entity:
    topic = Entity(OffsetForLeaderTopicResult, ("topic", STRING), ("partitions", Array(end_offset)))
    return Entity(OffsetForLeaderEpochResponse, ("topics", Array(topic)))


_RESPONSES: Final = {
    0: _response(
        Entity(
            EpochEndOffset,
            ("error_code", ERROR_CODE),
            ("partition", INT32),
            ("end_offset", INT64),
        )
    ),
    1: _response(
        Entity(
            EpochEndOffset,
            ("error_code", ERROR_CODE),
            ("partition", INT32),
            ("leader_epoch", INT32),
            ("end_offset", INT64),
        )
    ),
}

API = Api(
    key=23,
    min_version=0,
    max_version=1,
    handle=offset_for_leader_epoch.handle,
    refuse=offset_for_leader_epoch.refuse,
    decode=reader(dict.fromkeys(_RESPONSES, _REQUEST)),
    encode=writer(_RESPONSES),
    unavailable=offset_for_leader_epoch.API.unavailable,
)
