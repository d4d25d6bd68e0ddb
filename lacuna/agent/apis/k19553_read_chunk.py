"""ReadChunk v0: returns a range of a segment that this agent reads for all agents of its zone (adr/0039).

It is not an API of Kafka: only agents use it, and it is not advertised to clients. The agent rejects it unless the
agents of the zone share their reads and the caller is an agent. On a listener with SASL, the caller must have
authenticated as an agent. On other listeners, it must send the secret that the control plane gives to agents. A request
may only ask for segments of this cluster, and for about one chunk at most.
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
    """Return the range from memory, or read it from the bucket."""
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
    guard=None,  # agents authenticate by a secret of their own
    quota=None,
    waits=True,
    notes=(
        "not an API of Kafka: agents of a zone share the bytes that one of them has read "
        "([ADR 39](adr/0039-agents-of-a-zone-share-their-reads.md))"
    ),
)
