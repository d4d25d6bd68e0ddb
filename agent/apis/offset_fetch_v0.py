"""OffsetFetch v0: of clients before 0.9.

With ZooKeeper, Kafka answered from there, and UNKNOWN_TOPIC_OR_PARTITION where nothing was committed; without it
UNSUPPORTED_VERSION. Here the offsets are the group's, and nothing is answered as Kafka did.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.offset_fetch.v1.request import OffsetFetchRequest, OffsetFetchRequestTopic
from kio.schema.offset_fetch.v1.response import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

from agent.apis import offset_fetch
from agent.apis.registry import Api, Peer
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

if TYPE_CHECKING:
    from agent.context import AgentContext

_NO_OFFSET: Final = -1

_TOPIC: Final = Entity(
    OffsetFetchRequestTopic, ("name", STRING), ("partition_indexes", Array(INT32))
)
_REQUEST: Final = Entity(OffsetFetchRequest, ("group_id", STRING), ("topics", Array(_TOPIC)))
_PARTITION_ANSWER: Final = Entity(
    OffsetFetchResponsePartition,
    ("partition_index", INT32),
    ("committed_offset", INT64),
    ("metadata", NULLABLE_STRING),
    ("error_code", ERROR_CODE),
)
_TOPIC_ANSWER: Final = Entity(
    OffsetFetchResponseTopic, ("name", STRING), ("partitions", Array(_PARTITION_ANSWER))
)
_RESPONSE: Final = Entity(OffsetFetchResponse, ("topics", Array(_TOPIC_ANSWER)))


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:
    """As v1, but for what was never committed."""
    answer = await offset_fetch.handle(context, request, peer)
    topics = tuple(
        replace(topic, partitions=tuple(map(_as_v0, topic.partitions))) for topic in answer.topics
    )
    return replace(answer, topics=topics)


def _as_v0(partition: OffsetFetchResponsePartition) -> OffsetFetchResponsePartition:
    if partition.committed_offset == _NO_OFFSET and not partition.error_code:
        return replace(partition, error_code=KafkaError.unknown_topic_or_partition)
    return partition


API = Api(
    key=9,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=offset_fetch.refuse,
    decode=reader({0: _REQUEST}),
    encode=writer({0: _RESPONSE}),
    notes="v0 reads the group's offsets as v1; Kafka kept those of v0 in ZooKeeper",
)
