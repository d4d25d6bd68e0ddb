"""Fetch v0-v18.

A read_committed client receives no aborted records and an empty list of aborted transactions (S14). A read_uncommitted
client receives everything up to the high watermark. Fillers move clients past holes (S16, S17). Fetch sessions
(KIP-227), topic ids (KIP-516) and size limits that always let the first batch through (KIP-74) are supported. The only
leader epoch is 0 (S6), and a request with a higher one returns UNKNOWN_LEADER_EPOCH. An answer never names a diverging
epoch or a preferred replica, since every agent serves every partition. The service is in agent/fetch/service.py.

Other agents may have acknowledged records that this agent does not know yet. To include them, the first fetch of a
connection or session waits for a confirming read (S7). While no control plane can be reached, fetches still return the
records known before the outage, and KAFKA_STORAGE_ERROR at the end of those records (adr/0034).

v0-v3, used by clients before 0.11 (S24), are read_uncommitted and return message sets of magic 0 (v0-v1) or 1 (v2-v3).
The conversion drops headers and the producer's id, epoch and sequence, as in Kafka. zstd batches are recompressed with
gzip, whereas Kafka returns an error. agent/fetch/message_sets.py describes how such a client sees holes and limits.
"""

import asyncio
from typing import Final

from lacuna.agent.api import Api, Call
from lacuna.agent.fetch.answers import failed
from lacuna.agent.fetch.message_sets import fetch_message_sets
from lacuna.agent.fetch.sessions import INITIAL_EPOCH, NO_SESSION, Permission
from lacuna.agent.guards.records import fetch as guard
from lacuna.agent.quotas.limits import CONSUMED
from lacuna.agent.trust import READ_ON_SECONDS
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages import fetch as wire

# Clients before KIP-98 support only message sets, not batches.
_FIRST_BATCHES: Final = 4
# Clients before KIP-112 do not recognize KAFKA_STORAGE_ERROR as a retriable error.
_FIRST_STORAGE_ERROR: Final = 6


async def handle(
    call: Call, request: wire.FetchRequest, permission: Permission | None = None
) -> wire.FetchResponse:
    """Answer with the records that the client may read. If `permission` is None, it may read all records."""
    await _catch_up(call, request)
    service = call.context.fetch
    if call.context.quotas.are_any:
        request = _within_quota(call, request)
    if call.version < _FIRST_BATCHES:
        rotation = call.context.randomness.random()
        response = await fetch_message_sets(service, request, call.version, rotation, permission)
    else:
        response = await service.fetch(request, call.version, permission)
    return _known(response) if call.version < _FIRST_STORAGE_ERROR else response


def _within_quota(call: Call, request: wire.FetchRequest) -> wire.FetchRequest:
    """Limit the answer to one second's worth of the client's quota, so that the client is never throttled for long."""
    user, client_id = call.peer.session.principal.name, call.peer.client_id
    most = call.context.quotas.most(CONSUMED, user, client_id)
    if most is None or most >= request.max_bytes:
        return request
    return request._replace(max_bytes=max(1, int(most)))


async def _catch_up(call: Call, request: wire.FetchRequest) -> None:
    """On a consumer's first fetch, wait until the views include everything acknowledged by any agent.

    Without a control plane, the consumer starts anyway, but is never told that it has reached the end of a log.
    """
    first_fetch, trust = call.peer.first_fetch, call.context.lease.trust
    if not (first_fetch.is_due or request.session_epoch == INITIAL_EPOCH):
        return
    try:
        await trust.restore(asyncio.get_running_loop().time())
    except ControlPlaneUnavailable:
        if not trust.is_alone(READ_ON_SECONDS):
            raise
    else:
        first_fetch.done()


def refuse(call: Call, request: wire.FetchRequest, error_code: int) -> wire.FetchResponse:
    """Return the error for every requested partition, since v0-v6 have no top-level error.

    An incremental fetch may name no partitions, and the client would immediately repeat it after an empty answer. The
    answer therefore reports that the session does not exist, so that the client backs off and sends a full request.
    """
    if request.session_id != NO_SESSION and request.session_epoch > 0:
        return wire.FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    topics = [
        wire.FetchableTopicResponse(
            topic.topic,
            topic.topic_id,
            [
                failed(asked.partition, error_code, request.isolation_level)
                for asked in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    response = wire.FetchResponse(responses=topics)
    return _known(response) if call.version < _FIRST_STORAGE_ERROR else response


def _known(response: wire.FetchResponse) -> wire.FetchResponse:
    topics = [
        topic._replace(partitions=[_as_known(answer) for answer in topic.partitions])
        for topic in response.responses
    ]
    return response._replace(responses=topics)


def _as_known(answer: wire.PartitionData) -> wire.PartitionData:
    if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
        return answer._replace(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return answer


API = Api(
    request=wire.FETCH_REQUEST,
    response=wire.FETCH_RESPONSE,
    waits=True,
    handle=handle,
    refusal=refuse,
    guard=guard,
    quota=CONSUMED,
    # A cluster has at most 200,000 partitions, each possibly in its own topic.
    most_whole=400_000,
    moved=ErrorCode.NOT_LEADER_OR_FOLLOWER,
    unavailable=ErrorCode.KAFKA_STORAGE_ERROR,
    notes=(
        "serves sessions (KIP-227) and topic ids; `aborted_transactions` is always empty; v0 to v3 read uncommitted "
        "records, return message sets, use gzip instead of zstd, and wait at a hole at the end of a partition"
    ),
)
