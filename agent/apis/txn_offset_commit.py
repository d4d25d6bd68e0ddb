"""TxnOffsetCommit v0-v5: offsets of a group that count when the transaction commits (S26, KIP-98).

From v3 on the member names itself, and a fenced one cannot commit (KIP-447). v5 is TV2: the group becomes part
of the transaction by this request (KIP-890). To a producer whose transaction does not have the group v0-v3
say INVALID_TXN_STATE, v4 TRANSACTION_ABORTABLE. One that is fenced hears INVALID_PRODUCER_EPOCH in all versions.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent.apis.group_offsets import commits_of, merged
from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from agent.apis.transactions import fenced
from controlplane.errors import ErrorCode
from controlplane.v1.control_pb2 import Command
from controlplane.v1.groups_pb2 import TxnOffsetCommit

if TYPE_CHECKING:
    from agent.context import AgentContext

FIRST_ABORTABLE = 4
FIRST_ADDS_GROUP = 5
_NOT_IN_TXN = (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE)


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command with all partitions that exist."""
    commits, error_codes = await commits_of(context, request.topics)
    if not commits:
        return _answer(request, iter(error_codes))
    if not request.group_id:  # Kafka says so before it looks at the transaction
        return _answer(request, merged(error_codes, [ErrorCode.INVALID_GROUP_ID] * len(commits)))
    command = TxnOffsetCommit(
        transactional_id=request.transactional_id,
        group_id=request.group_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        generation_id=getattr(request, "generation_id", -1),
        member_id=getattr(request, "member_id", ""),
        group_instance_id=getattr(request, "group_instance_id", None) or "",
        offsets=commits,
        adds_group=version_of(request) >= FIRST_ADDS_GROUP,
    )
    committed = (await context.control.call(Command(txn_offset_commit=command))).offsets_committed
    if committed.error_code:
        error_code = _known_as(version_of(request), committed.error_code)
        return _answer(request, merged(error_codes, [error_code] * len(commits)))
    return _answer(request, merged(error_codes, committed.error_codes))


def refuse(request: Any, error_code: int) -> Any:
    """The error for every partition."""
    return _answer(request, iter(lambda: error_code, None))


def _known_as(version: int, error_code: int) -> int:
    if error_code in _NOT_IN_TXN and version < FIRST_ADDS_GROUP:
        return int(_NOT_IN_TXN[version >= FIRST_ABORTABLE])
    return fenced(error_code, knows_producer_fenced=False)


def _answer(request: Any, error_codes: Iterator[int]) -> Any:
    topics = tuple(
        build(
            request,
            "TxnOffsetCommitResponseTopic",
            name=topic.name,
            partitions=tuple(
                build(
                    request,
                    "TxnOffsetCommitResponsePartition",
                    partition_index=partition.partition_index,
                    error_code=next(error_codes),
                )
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return build(request, "TxnOffsetCommitResponse", topics=topics)


API = Api(key=28, min_version=0, max_version=5, handle=handle, refuse=refuse)
