"""Fetch v0-v3: read_uncommitted, as message sets of magic 0 (v0-v1) or 1 (v2-v3), of clients before 0.11 (S24).

Headers and what the producer was are lost, as when Kafka converts; batches of zstd become gzip, where Kafka
has an error. v1 answers a throttle time, v3 has a limit for the whole answer (KIP-74). How holes and
limits look to such a client: agent/fetch/message_sets.py.
"""

from typing import TYPE_CHECKING, Final

from agent.apis import fetch
from agent.apis.registry import Api, Peer
from agent.apis.tables import (
    ERROR_CODE,
    INT32,
    INT64,
    RECORDS,
    STRING,
    THROTTLE,
    Array,
    Entity,
    reader,
    writer,
)
from agent.fetch.codec import (
    FINAL_EPOCH,
    NO_LEADER_EPOCH,
    NO_SESSION,
    NOT_LEADER_OR_FOLLOWER,
    READ_UNCOMMITTED,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionAnswer,
    TopicAnswer,
)
from agent.fetch.message_sets import fetch_message_sets

if TYPE_CHECKING:
    from agent.context import AgentContext

_NO_LIMIT: Final = 2**31 - 1


async def handle(context: "AgentContext", request: FetchRequest, peer: Peer) -> FetchResponse:  # noqa: ARG001
    """From the views and the cache, converted."""
    return await fetch_message_sets(context.fetch, request, context.randomness.random())


_PARTITION: Final = Entity(
    FetchPartition,
    ("partition", INT32),
    ("fetch_offset", INT64),
    ("partition_max_bytes", INT32),
    current_leader_epoch=NO_LEADER_EPOCH,
)
_TOPIC: Final = Entity(
    FetchTopic, ("name", STRING), ("partitions", Array(_PARTITION)), topic_id=b""
)
_TIMES: Final = (
    (None, INT32),  # the replica, -1
    ("max_wait_ms", INT32),
    ("min_bytes", INT32),
)
_TOPICS: Final = ("topics", Array(_TOPIC))
_ABSENT: Final = {
    "isolation_level": READ_UNCOMMITTED,
    "session_id": NO_SESSION,
    "session_epoch": FINAL_EPOCH,
    "forgotten": (),
    "rack_id": "",
}


def _request(version: int) -> Entity:
    return Entity(FetchRequest, *_TIMES, _TOPICS, version=version, max_bytes=_NO_LIMIT, **_ABSENT)


_REQUESTS: Final = {
    0: _request(0),
    1: _request(1),
    2: _request(2),
    3: Entity(FetchRequest, *_TIMES, ("max_bytes", INT32), _TOPICS, version=3, **_ABSENT),
}
_PARTITION_ANSWER: Final = Entity(
    PartitionAnswer,
    ("partition", INT32),
    ("error_code", ERROR_CODE),
    ("high_watermark", INT64),
    ("records", RECORDS),
)
_TOPIC_ANSWER: Final = Entity(
    TopicAnswer, ("name", STRING), ("partitions", Array(_PARTITION_ANSWER))
)
_RESPONSE_V0: Final = Entity(FetchResponse, ("topics", Array(_TOPIC_ANSWER)))
_RESPONSE: Final = Entity(FetchResponse, (None, THROTTLE), ("topics", Array(_TOPIC_ANSWER)))

API = Api(
    key=1,
    min_version=0,
    max_version=3,
    waits=True,
    handle=handle,
    refuse=fetch.refuse,
    decode=reader(_REQUESTS, is_exact=True),
    encode=writer({0: _RESPONSE_V0, 1: _RESPONSE, 2: _RESPONSE, 3: _RESPONSE}),
    notes="v0 to v3: read_uncommitted, as message sets, zstd as gzip; a hole at the end is waited out",
    unavailable=NOT_LEADER_OR_FOLLOWER,
)
