"""AddPartitionsToTxn v0-v3: a producer's, one transaction.

On the way of every transaction below TV2, so it is read and written by hand. If one partition does not
exist, none is added: it gets UNKNOWN_TOPIC_OR_PARTITION and the others OPERATION_NOT_ATTEMPTED. An error of
the transaction is every partition's. A producer that is fenced hears PRODUCER_FENCED from v2 on,
INVALID_PRODUCER_EPOCH below (KIP-588).
"""

import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from agent.apis.registry import Api, Peer
from agent.apis.transactions import fenced, find_partitions
from agent.wire import (
    INT32,
    MalformedRequest,
    read_count,
    read_name,
    skip_tags,
    write_count,
    write_string,
)
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.control_pb2 import Command
from controlplane.v1.transactions_pb2 import AddPartitionsToTxn

if TYPE_CHECKING:
    from agent.context import AgentContext

FIRST_PRODUCER_FENCED = 2
FIRST_FLEXIBLE = 3

_PRODUCER = struct.Struct(">qh")
_RESULT = struct.Struct(">ih")
_NO_THROTTLE = INT32.pack(0)


class AddRequest(NamedTuple):
    """`topics` has (name, partitions) as asked."""

    version: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    topics: list[tuple[str, list[int]]]


class AddResponse(NamedTuple):
    """Error codes of all partitions, in the order of the request."""

    topics: list[tuple[str, list[int]]]
    error_codes: Sequence[int]


async def handle(context: "AgentContext", request: AddRequest, peer: Peer) -> AddResponse:  # noqa: ARG001
    """One command."""
    pairs = [(name, partition) for name, partitions in request.topics for partition in partitions]
    codes = await add(
        context,
        pairs,
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        verify_only=False,
    )
    knows = request.version >= FIRST_PRODUCER_FENCED
    return AddResponse(request.topics, [code and fenced(code, knows) for code in codes])


async def add(
    context: "AgentContext",
    pairs: Iterable[tuple[str, int]],
    *,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    verify_only: bool,
) -> Sequence[int]:
    """Add (topic name, partition) pairs to one transaction, or verify them; error codes, one a pair."""
    found = await find_partitions(context, pairs)
    partitions: list[TopicPartition] = [each for each in found if each is not None]
    if len(partitions) < len(found):
        unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        others = int(ErrorCode.OPERATION_NOT_ATTEMPTED)
        return [unknown if each is None else others for each in found]
    command = AddPartitionsToTxn(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partitions=partitions,
        verify_only=verify_only,
    )
    reply = await context.control.call(Command(add_partitions_to_txn=command))
    added = reply.partitions_added_to_txn
    if added.error_code:
        return [added.error_code] * len(found)
    return added.error_codes or [0] * len(found)


def refuse(request: AddRequest, error_code: int) -> AddResponse:
    """The error for every partition."""
    code = fenced(error_code, request.version >= FIRST_PRODUCER_FENCED)
    count = sum(len(partitions) for _, partitions in request.topics)
    return AddResponse(request.topics, [code] * count)


def decode(body: memoryview, version: int) -> AddRequest:
    """A request of v0-v3. Raises MalformedRequest."""
    flexible = version >= FIRST_FLEXIBLE
    try:
        transactional_id, at = read_name(body, 0, flexible)
        producer_id, producer_epoch = _PRODUCER.unpack_from(body, at)
        count, at = read_count(body, at + _PRODUCER.size, flexible)
        topics = []
        for _ in range(count):
            name, at = read_name(body, at, flexible)
            partition_count, at = read_count(body, at, flexible)
            partitions = list(struct.unpack_from(f">{partition_count}i", body, at))
            at += 4 * partition_count
            if flexible:
                at = skip_tags(body, at)
            topics.append((name, partitions))
        if flexible:
            skip_tags(body, at)
    except struct.error as error:
        raise MalformedRequest(f"AddPartitionsToTxn v{version} ends early: {error}") from None
    return AddRequest(version, transactional_id, producer_id, producer_epoch, topics)


def encode(response: AddResponse, version: int) -> list[bytes]:
    """The body of the answer."""
    flexible = version >= FIRST_FLEXIBLE
    tags = b"\x00" if flexible else b""
    codes = iter(response.error_codes)
    out = bytearray(_NO_THROTTLE)
    out += write_count(len(response.topics), flexible)
    for name, partitions in response.topics:
        out += write_string(name, flexible)
        out += write_count(len(partitions), flexible)
        for partition in partitions:
            out += _RESULT.pack(partition, next(codes))
            out += tags
        out += tags
    out += tags
    return [bytes(out)]


API = Api(
    key=24, min_version=0, max_version=3, handle=handle, refuse=refuse, decode=decode, encode=encode
)
