"""Produce v0-v2: message sets of magic 0 and 1, not converted yet: every partition is UNSUPPORTED_VERSION (S24).

Kafka 4 closes the connection; an answer lets a client say what is wrong. acks=0 wants none, so there the
connection is closed.
"""

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Api, Peer
from agent.wire import INT32, Buffer, MalformedRequest, read_bytes, read_string

if TYPE_CHECKING:
    from agent.context import AgentContext

_ACKS_TIMEOUT = struct.Struct(">hi")
_PARTITION_SIZE = struct.Struct(">ii")  # partition index, bytes of its message set
_PARTITION_ANSWER = struct.Struct(">ihq")  # partition index, error code, base offset
_LOG_APPEND_TIME = struct.Struct(">q")
_NO_OFFSET = -1
_NO_TIMESTAMP = -1
_FIRST_THROTTLE = 1
_FIRST_LOG_APPEND_TIME = 2


class OldProduce(NamedTuple):
    """What an answer needs: acks, and the partitions by topic. Message sets are passed over."""

    acks: int
    topics: list[tuple[str, list[int]]]


class OldProduceAnswer(NamedTuple):
    """The same error for every partition."""

    error_code: int
    topics: list[tuple[str, list[int]]]


def decode(body: memoryview, version: int) -> OldProduce:
    """A request of v0-v2; they look alike. Raises MalformedRequest."""
    try:
        acks, _ = _ACKS_TIMEOUT.unpack_from(body)
        (topic_count,) = INT32.unpack_from(body, _ACKS_TIMEOUT.size)
        at = _ACKS_TIMEOUT.size + INT32.size
        topics = []
        for _ in range(topic_count):
            name, at = read_string(body, at, flexible=False)
            (partition_count,) = INT32.unpack_from(body, at)
            at += INT32.size
            partitions = []
            for _ in range(partition_count):
                partition, size = _PARTITION_SIZE.unpack_from(body, at)
                _, at = read_bytes(body, at + _PARTITION_SIZE.size, size)
                partitions.append(partition)
            topics.append((name or "", partitions))
    except struct.error as error:
        raise MalformedRequest(f"Produce v{version} ends early: {error}") from None
    return OldProduce(acks, topics)


def encode(answer: OldProduceAnswer, version: int) -> Sequence[Buffer]:
    """The body of an answer."""
    parts = [INT32.pack(len(answer.topics))]
    for name, partitions in answer.topics:
        raw = name.encode()
        parts.append(struct.pack(">h", len(raw)) + raw + INT32.pack(len(partitions)))
        for partition in partitions:
            parts.append(_PARTITION_ANSWER.pack(partition, answer.error_code, _NO_OFFSET))
            if version >= _FIRST_LOG_APPEND_TIME:
                parts.append(_LOG_APPEND_TIME.pack(_NO_TIMESTAMP))
    if version >= _FIRST_THROTTLE:
        parts.append(INT32.pack(0))
    return (b"".join(parts),)


async def handle(
    context: "AgentContext",  # noqa: ARG001 - every handler has both
    request: OldProduce,
    peer: Peer,  # noqa: ARG001
) -> OldProduceAnswer:
    """Nothing is stored."""
    return refuse(request, KafkaError.unsupported_version)


def refuse(request: OldProduce, error_code: int) -> OldProduceAnswer:
    """The error for every partition. Raises MalformedRequest where nobody waits for an answer."""
    if not request.acks:
        raise MalformedRequest("Produce v0-v2 with acks=0: message sets are not served")
    return OldProduceAnswer(error_code, request.topics)


API = Api(
    key=0,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse,
    decode=decode,
    encode=encode,
)
