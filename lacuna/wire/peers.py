"""Messages that agents send to one another, over the protocol of Kafka's messages. No client knows them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BUFFERS, BYTES, INT16, INT32, INT64, STRING
from lacuna.wire.layout import Buffer, Field, Message, Struct

#: Far from the keys that Kafka gives: the letters "La".
READ_CHUNK_KEY: Final = 0x4C61


class ReadChunkRequest(NamedTuple):
    """`size` bytes from `position` on of the segment `sequence` of a lease, in the bucket of the cluster.

    `peer_secret` is what the control plane has told its agents.
    """

    peer_secret: bytes = b""
    cluster_id: str = ""
    lease_id: int = 0
    sequence: int = 0
    position: int = 0
    size: int = 0

    def __repr__(self) -> str:
        """Leave the secret out, so that no log has it."""
        return f"ReadChunkRequest({self[1:]})"


class ReadChunkResponse(NamedTuple):
    """The bytes, or an error and none."""

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
