"""ReadChunk v0: gives another agent of the zone a range of a segment that this one reads for all of them (adr/0039).

It is no API of Kafka's: agents ask one another, and no client is told of it. It is refused unless the agents of the
zone share their reads, and to whoever is no agent: on a listener with SASL it must have authenticated as one, on others
it must name the secret that the control plane tells agents. Only segments of this cluster are given, about a chunk of
them at most.
"""

from lacuna.agent.api import NOT_ADVERTISED, Api, Call
from lacuna.agent.security.peers import PEER
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.peers import (
    READ_CHUNK_REQUEST,
    READ_CHUNK_RESPONSE,
    ReadChunkRequest,
    ReadChunkResponse,
)


async def handle(call: Call, request: ReadChunkRequest) -> ReadChunkResponse:
    """Give the range, from memory or by reading the bucket."""
    shared = call.context.fetch.shared
    if shared is None:
        return refuse(call, request, ErrorCode.INVALID_REQUEST)
    session = call.peer.session
    has_sasl = session.listener.protocol.has_sasl
    if has_sasl and session.principal != PEER:
        return refuse(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await shared.serve(request, is_peer=has_sasl)


def refuse(_call: Call, _request: ReadChunkRequest, error_code: int) -> ReadChunkResponse:
    """Answer with the error and no bytes."""
    return ReadChunkResponse(error_code)


API = Api(
    request=READ_CHUNK_REQUEST,
    response=READ_CHUNK_RESPONSE,
    max_version=0,
    advertised=NOT_ADVERTISED,
    handle=handle,
    refuse=refuse,
    guard=None,  # agents authenticate by a secret of their own
    quota=None,
    waits=True,
    notes=(
        "not an API of Kafka: agents of a zone share the bytes that one of them has read "
        "([ADR 39](adr/0039-agents-of-a-zone-share-their-reads.md))"
    ),
)
