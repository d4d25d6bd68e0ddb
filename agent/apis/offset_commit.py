"""OffsetCommit v2-v10: keep offsets of a group, each with its own error.

A member commits under its generation, anybody while the group is empty. The retention time of v2-v4 is not
honoured, as in Kafka since 2.1 where it is -1 in practice. From v6 on with leader epochs, from v7 on with
static members, v10 names topics by id (KIP-848). Before v9 a group that does not exist is
ILLEGAL_GENERATION, later GROUP_ID_NOT_FOUND.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent.apis.group_offsets import commits_of, merged
from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from controlplane.errors import ErrorCode
from controlplane.v1.control_pb2 import Command
from controlplane.v1.groups_pb2 import OffsetCommit

if TYPE_CHECKING:
    from agent.context import AgentContext

FIRST_GROUP_ID_NOT_FOUND = 9
FIRST_MEMBER_EPOCHS = 9


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command with all partitions that exist."""
    commits, error_codes = await commits_of(context, request.topics)
    if not commits:
        return _answer(request, iter(error_codes))
    command = OffsetCommit(
        group_id=request.group_id,
        generation_id=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None) or "",
        offsets=commits,
        knows_member_epochs=version_of(request) >= FIRST_MEMBER_EPOCHS,
    )
    committed = (await context.control.call(Command(offset_commit=command))).offsets_committed
    if committed.error_code:
        error_code = _known_as(request, committed.error_code)
        return _answer(request, merged(error_codes, [error_code] * len(commits)))
    return _answer(request, merged(error_codes, committed.error_codes))


def refuse(request: Any, error_code: int) -> Any:
    """The error for every partition."""
    return _answer(request, iter(lambda: error_code, None))


def _known_as(request: Any, error_code: int) -> int:
    is_old = version_of(request) < FIRST_GROUP_ID_NOT_FOUND
    if error_code == ErrorCode.GROUP_ID_NOT_FOUND and is_old:
        return int(ErrorCode.ILLEGAL_GENERATION)
    return error_code


def _answer(request: Any, error_codes: Iterator[int]) -> Any:
    topics = tuple(
        build(
            request,
            "OffsetCommitResponseTopic",
            name=getattr(topic, "name", ""),
            topic_id=getattr(topic, "topic_id", None),
            partitions=tuple(
                build(
                    request,
                    "OffsetCommitResponsePartition",
                    partition_index=partition.partition_index,
                    error_code=next(error_codes),
                )
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return build(request, "OffsetCommitResponse", topics=topics)


API = Api(key=8, min_version=2, max_version=10, handle=handle, refuse=refuse)
