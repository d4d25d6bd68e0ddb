"""Lacuna's own messages in Kafka's format: those between agents, and those that Lacuna's tools send."""

from typing import Final, NamedTuple

from lacuna.wire.layout import Buffers, Bytes, Int16, Int32, Int64, String, messages

#: The letters "La" and "Lb" as numbers, which are far from Kafka's API keys.
READ_CHUNK_KEY: Final = 0x4C61
ASK_CONTROL_KEY: Final = 0x4C62
OWN_KEYS: Final = frozenset({READ_CHUNK_KEY, ASK_CONTROL_KEY})


class ReadChunkRequest(NamedTuple):
    """A request for `size` bytes at `position` of the segment `sequence` of a lease, in the cluster's bucket.

    `peer_secret` is the secret that the agents have received from the control plane.
    """

    peer_secret: Bytes = b""
    cluster_id: String = ""
    lease_id: Int64 = 0
    sequence: Int64 = 0
    position: Int64 = 0
    size: Int32 = 0

    def __repr__(self) -> str:
        """Return a representation without the secret, which must not appear in any log."""
        return f"ReadChunkRequest({self[1:]})"


class ReadChunkResponse(NamedTuple):
    """The requested bytes, or an error and no bytes."""

    error_code: Int16 = 0
    data: Buffers | None = None


READ_CHUNK_REQUEST, READ_CHUNK_RESPONSE = messages(
    ReadChunkRequest,
    ReadChunkResponse,
    api_key=READ_CHUNK_KEY,
    versions=(0, 0),
    first_flexible=None,
)


class AskControlRequest(NamedTuple):
    """An AgentQuestion from `control.proto`."""

    question: Bytes = b""


class AskControlResponse(NamedTuple):
    """An AgentAnswer from `control.proto`, or an error with a message for the user."""

    error_code: Int16 = 0
    error_message: String = ""
    answer: Bytes = b""


ASK_CONTROL_REQUEST, ASK_CONTROL_RESPONSE = messages(
    AskControlRequest,
    AskControlResponse,
    api_key=ASK_CONTROL_KEY,
    versions=(0, 0),
    first_flexible=None,
)
