"""TxnOffsetCommit v0-v6: stages a group's offsets, which take effect when the transaction commits (S26, KIP-98).

From v3 on, the member names itself, and a fenced member cannot commit (KIP-447). In v5, which belongs to TV2, the
request itself adds the group to the transaction (KIP-890). If the group is not in the transaction, v0-v3 return
INVALID_TXN_STATE and v4 returns TRANSACTION_ABORTABLE. A fenced producer gets INVALID_PRODUCER_EPOCH in all versions.
v6 names topics by id (KIP-1319), and returns STALE_MEMBER_EPOCH and GROUP_ID_NOT_FOUND where earlier versions return
ILLEGAL_GENERATION.
"""

from collections.abc import Iterator
from itertools import repeat

from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.commits import commits_of, merged
from lacuna.agent.fencing import fenced
from lacuna.agent.guards.transactions import txn_offset_commit as guard
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.groups_pb2 import TxnOffsetCommit
from lacuna.wire.messages import offsets as wire

FIRST_ABORTABLE = 4
FIRST_ADDS_GROUP = 5
FIRST_TOPIC_ID = 6
_SINCE_TOPIC_ID = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH)
_NOT_IN_TXN = (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE)


async def handle(call: Call, request: wire.TxnOffsetCommitRequest) -> wire.TxnOffsetCommitResponse:
    has_ids = call.version >= FIRST_TOPIC_ID
    asked = [(each.topic_id if has_ids else each.name, each.partitions) for each in request.topics]
    commits, error_codes = await commits_of(call.context, asked)
    if not commits:
        return _answer(request, iter(error_codes))
    if not request.group_id:  # Kafka checks this before the transaction
        return _answer(request, merged(error_codes, [ErrorCode.INVALID_GROUP_ID] * len(commits)))
    command = TxnOffsetCommit(
        transactional_id=request.transactional_id,
        group_id=request.group_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        generation_id=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id or "",
        offsets=commits,
        adds_group=call.version >= FIRST_ADDS_GROUP,
    )
    reply = await call.context.control.call(call.command(txn_offset_commit=command))
    committed = reply.offsets_committed
    if committed.error_code:
        error_code = _known_as(call.version, committed.error_code)
        return _answer(request, merged(error_codes, [error_code] * len(commits)))
    return _answer(request, merged(error_codes, committed.error_codes))


def _known_as(version: int, error_code: int) -> int:
    if error_code in _NOT_IN_TXN and version < FIRST_ADDS_GROUP:
        return int(_NOT_IN_TXN[version >= FIRST_ABORTABLE])
    if error_code in _SINCE_TOPIC_ID and version < FIRST_TOPIC_ID:
        return int(ErrorCode.ILLEGAL_GENERATION)
    return fenced(error_code, knows_producer_fenced=False)


def _answer(
    request: wire.TxnOffsetCommitRequest, error_codes: Iterator[int]
) -> wire.TxnOffsetCommitResponse:
    return wire.TxnOffsetCommitResponse(
        topics=[
            wire.TxnOffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    wire.TxnOffsetCommitResponsePartition(each.partition_index, next(error_codes))
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(
    request=wire.TXN_OFFSET_COMMIT_REQUEST,
    response=wire.TXN_OFFSET_COMMIT_RESPONSE,
    handle=handle,
    refusal=lambda _call, request, code: _answer(request, repeat(code)),
    guard=guard,
    pieces=(Pieces(("topics", "partitions"), ("topics", "partitions")),),
    moved=ErrorCode.NOT_COORDINATOR,
)
