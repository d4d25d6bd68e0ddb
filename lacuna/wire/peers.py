"""Messages that agents send to each other, in the protocol of Kafka's messages. Clients do not know them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BUFFERS, BYTES, INT16, INT32, INT64, STRING
from lacuna.wire.layout import Buffer, Field, Message, Struct

#: Far from Kafka's keys: the letters "La".
READ_CHUNK_KEY: Final = 0x4C61


class ReadChunkRequest(NamedTuple):
    """`size` bytes from `position` on of the segment `sequence` of a lease, in the cluster's bucket.

    `peer_secret` is the secret that the control plane has sent to its agents.
    """

    peer_secret: bytes = b""
    cluster_id: str = ""
    lease_id: int = 0
    sequence: int = 0
    position: int = 0
    size: int = 0

    def __repr__(self) -> str:
        """Return a representation without the secret, so that no log contains it."""
        return f"ReadChunkRequest({self[1:]})"


class ReadChunkResponse(NamedTuple):
    """The bytes, or an error and no bytes."""

    error_code: int = 0
    data: Sequence[Buffer] | None = None


READ_CHUNK_REQUEST: Final[Message[ReadChunkRequest]] = Message(
    Struct(
        ReadChunkRequest,
        peer_secret=Field(BYTES),
        cluster_id=Field(STRING),
        lease_id=Field(INT64),
        sequence=Field(INT64),
        position=Field(INT64),
        size=Field(INT32),
    ),
    api_key=READ_CHUNK_KEY,
    versions=(0, 0),
    first_flexible=None,
)
READ_CHUNK_RESPONSE: Final[Message[ReadChunkResponse]] = Message(
    Struct(
        ReadChunkResponse,
        error_code=Field(INT16),
        data=Field(BUFFERS, null_since=0),
    ),
    api_key=READ_CHUNK_KEY,
    versions=(0, 0),
    first_flexible=None,
)
