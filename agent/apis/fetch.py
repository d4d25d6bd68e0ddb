"""Fetch v4-v18.

read_committed gets no aborted record and no aborted transactions (S14), read_uncommitted everything
up to the high watermark; holes are closed by fillers (S16, S17). Fetch sessions (KIP-227), topic ids
(KIP-516), size limits that let one batch through (KIP-74). There is one leader epoch, 0 (S6): a higher
one is UNKNOWN_LEADER_EPOCH. Nothing is ever said to diverge, and no other replica is preferred, since
every agent serves every partition. The service is agent/fetch/service.py.
"""

from typing import TYPE_CHECKING

from agent.apis.registry import Api, Peer
from agent.fetch import codec
from agent.fetch.codec import (
    KAFKA_STORAGE_ERROR,
    FetchRequest,
    FetchResponse,
    PartitionAnswer,
    TopicAnswer,
)
from agent.fetch.sessions import FETCH_SESSION_ID_NOT_FOUND

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(context: "AgentContext", request: FetchRequest, peer: Peer) -> FetchResponse:  # noqa: ARG001
    """Answer from the views and the cache."""
    return await context.fetch.fetch(request)


def refuse(request: FetchRequest, error_code: int) -> FetchResponse:
    """Every partition that was asked for fails: v4-v6 have no error of the whole answer.

    A fetch that leaves its partitions to a session names none, and an empty answer would be asked for
    again at once: the session is said to be gone, so that the client asks in full, and backs off.
    """
    if request.session_id != codec.NO_SESSION and request.session_epoch > 0:
        return FetchResponse(FETCH_SESSION_ID_NOT_FOUND, codec.NO_SESSION, [], False)
    topics = [
        TopicAnswer(
            topic.name,
            topic.topic_id,
            [PartitionAnswer(asked.partition, error_code) for asked in topic.partitions],
        )
        for topic in request.topics
    ]
    is_committed = request.isolation_level == codec.READ_COMMITTED
    return FetchResponse(0, codec.NO_SESSION, topics, is_committed)


API = Api(
    key=1,
    min_version=codec.MIN_VERSION,
    max_version=codec.MAX_VERSION,
    waits=True,
    handle=handle,
    refuse=refuse,
    decode=codec.decode,
    encode=codec.encode,
    unavailable=KAFKA_STORAGE_ERROR,
    notes="sessions (KIP-227), topic ids; `aborted_transactions` is always empty",
)
