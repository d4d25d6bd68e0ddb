"""OffsetCommit v0-v10: commits a group's offsets. The response contains an error code for each of them.

A member commits offsets under its generation. While the group is empty, any client may commit offsets. v6 adds leader
epochs, v7 static members, and v10 topic ids (KIP-848). A group that does not exist returns ILLEGAL_GENERATION before v9
and GROUP_ID_NOT_FOUND from then on.

In v2-v4, a client may set how long unused offsets are kept. v1's timestamp for each partition is ignored, as in Kafka
since 2.1. v0 requests name no member. They commit offsets from outside the group, like a consumer that assigns its own
partitions. Kafka kept such offsets in ZooKeeper; without ZooKeeper, it returns UNSUPPORTED_VERSION. Lacuna stores them
as the group's offsets.
"""

from collections.abc import Iterator
from itertools import repeat

from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.commits import commits_of, merged
from lacuna.agent.guards.groups import offset_commit as guard
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.groups_pb2 import OffsetCommit
from lacuna.wire.messages.offsets import (
    OFFSET_COMMIT_REQUEST,
    OFFSET_COMMIT_RESPONSE,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

FIRST_GROUP_ID_NOT_FOUND = 9
FIRST_MEMBER_EPOCHS = 9
FIRST_TOPIC_ID = 10
CLUSTERS_RETENTION = -1


async def handle(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    has_ids = call.version >= FIRST_TOPIC_ID
    asked = [(each.topic_id if has_ids else each.name, each.partitions) for each in request.topics]
    commits, error_codes = await commits_of(call.context, asked)
    if not commits:
        return _answer(request, iter(error_codes))
    if request.retention_time_ms != CLUSTERS_RETENTION:
        for commit in commits:
            commit.retention_ms = request.retention_time_ms
    command = OffsetCommit(
        group_id=request.group_id,
        generation_id=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id or "",
        offsets=commits,
        knows_member_epochs=call.version >= FIRST_MEMBER_EPOCHS,
    )
    reply = await call.context.control.call(call.command(offset_commit=command))
    committed = reply.offsets_committed
    if committed.error_code:
        error_code = _known_as(call.version, committed.error_code)
        return _answer(request, merged(error_codes, [error_code] * len(commits)))
    return _answer(request, merged(error_codes, committed.error_codes))


def _known_as(version: int, error_code: int) -> int:
    if error_code == ErrorCode.GROUP_ID_NOT_FOUND and version < FIRST_GROUP_ID_NOT_FOUND:
        return int(ErrorCode.ILLEGAL_GENERATION)
    return error_code


def _answer(request: OffsetCommitRequest, error_codes: Iterator[int]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    OffsetCommitResponsePartition(each.partition_index, next(error_codes))
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(
    request=OFFSET_COMMIT_REQUEST,
    response=OFFSET_COMMIT_RESPONSE,
    handle=handle,
    refusal=lambda _call, request, code: _answer(request, repeat(code)),
    guard=guard,
    pieces=(Pieces(("topics", "partitions"), ("topics", "partitions")),),
    moved=ErrorCode.NOT_COORDINATOR,
    notes="v0 commits the group's offsets, like v1 without a member; in Kafka, v0 uses ZooKeeper",
)
