"""ReadChunk v0: returns a range of a segment that this agent reads for all agents in its zone (adr/0039).

This is not a Kafka API. Only agents call it, and it is not advertised to clients. The agents in the zone must share
their reads, and the caller must be an agent: on a listener with SASL, it authenticates as one; on other listeners, it
sends the secret that the control plane gives to agents. A request may ask only for segments of this cluster, and for no
more than about one chunk.
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
    shared = call.context.fetch.shared
    if shared is None:
        return ReadChunkResponse(ErrorCode.INVALID_REQUEST)
    session = call.peer.session
    has_sasl = session.listener.protocol.has_sasl
    if has_sasl and session.principal != PEER:
        return ReadChunkResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await shared.serve(request, is_peer=has_sasl)


API = Api(
    request=READ_CHUNK_REQUEST,
    response=READ_CHUNK_RESPONSE,
    advertised=NOT_ADVERTISED,
    handle=handle,
    guard=None,  # agents authenticate with a separate secret
    quota=None,
    waits=True,
    notes=(
        "not a Kafka API: the agents of a zone share the bytes that one of them has read "
        "([ADR 39](adr/0039-agents-of-a-zone-share-their-reads.md))"
    ),
)
