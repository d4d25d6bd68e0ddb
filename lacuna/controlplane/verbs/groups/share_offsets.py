"""Start offsets of share partitions: DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets.

Offsets can be altered and deleted only while the group has no members. Altering them creates an unknown group.
"""

from collections.abc import Mapping
from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey, key_of, named
from lacuna.controlplane.shared.parts import MOST_AT_ONCE
from lacuna.controlplane.shared.rights import QUESTIONS
from lacuna.controlplane.state.groups.share import NO_OFFSET, ShareGroup, SharePartition
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.share_pb2 import (
    AlterShareOffsets,
    DeleteShareOffsets,
    DescribeShareOffsets,
    ShareOffset,
    ShareOffsetsChanged,
    ShareOffsetsDescribed,
    SharePartitionStep,
)
from lacuna.controlplane.verbs.groups.share_members import find_share_group, make_share_group
from lacuna.controlplane.verbs.groups.share_records import journal_partitions
from lacuna.controlplane.verbs.refusals import Refused
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb


def describe_share_offsets(turn: Turn, command: DescribeShareOffsets) -> Reply:
    """Return start offsets and lags (-1 where the group has none), and counts of records in flight."""
    partitions: Mapping[PartitionKey, SharePartition] = {}
    try:
        if turn.groups.exists(command.group_id):
            partitions = _found(turn, command.group_id).partitions
    except Refused as refused:
        failed = ShareOffsetsDescribed(error_code=refused.code, error_message=refused.message)
        return Reply(share_offsets_described=failed)
    keys = [key_of(each) for each in command.partitions]
    if command.all_partitions:
        keys = sorted(partitions)[:MOST_AT_ONCE]
    offsets = [_described(turn, key, partitions.get(key)) for key in keys]
    return Reply(share_offsets_described=ShareOffsetsDescribed(offsets=offsets))


def _described(turn: Turn, key: PartitionKey, found: SharePartition | None) -> ShareOffset:
    partition = turn.state.partitions.get(key)
    offset = ShareOffset(partition=named(key), start_offset=NO_OFFSET, lag=NO_OFFSET)
    if partition is not None and found is not None and found.start_offset != NO_OFFSET:
        finished = sum(r.end_offset - r.first_offset for r in found.runs if r.is_final)
        offset.start_offset = found.start_offset
        offset.lag = max(partition.high_watermark - found.start_offset - finished, 0)
        for run in found.runs:
            if not run.is_final:
                name = run.state.name.lower()
                count = getattr(offset, name) + run.end_offset - run.first_offset
                setattr(offset, name, count)
                offset.delivery_count = max(offset.delivery_count, run.delivery_count)
    return offset


def alter_share_offsets(turn: Turn, command: AlterShareOffsets) -> Reply:
    """Move the starts of share partitions, and forget their records in flight."""
    try:
        if turn.groups.exists(command.group_id):
            _found_empty(turn, command.group_id)
        else:
            make_share_group(turn, command.group_id)
    except Refused as refused:
        failed = ShareOffsetsChanged(error_code=refused.code, error_message=refused.message)
        return Reply(share_offsets_altered=failed)
    steps, codes = [], []
    for offset in command.offsets:
        if key_of(offset.partition) not in turn.state.partitions:
            codes.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            continue
        codes.append(ErrorCode.NONE)
        steps.append(
            SharePartitionStep(
                partition=offset.partition,
                start_offset=offset.start_offset,
                end_offset=offset.start_offset,
                is_reset=True,
            )
        )
    journal_partitions(turn, command.group_id, steps)
    return Reply(share_offsets_altered=ShareOffsetsChanged(error_codes=codes))


def delete_share_offsets(turn: Turn, command: DeleteShareOffsets) -> Reply:
    """Drop the group's share partitions in these topics."""
    try:
        share = _found_empty(turn, command.group_id)
    except Refused as refused:
        failed = ShareOffsetsChanged(error_code=refused.code, error_message=refused.message)
        return Reply(share_offsets_deleted=failed)
    topic_ids = set(command.topic_ids)
    steps = [
        SharePartitionStep(partition=named(key), is_dropped=True)
        for key in share.partitions
        if key[0] in topic_ids
    ]
    journal_partitions(turn, command.group_id, steps)
    return Reply(
        share_offsets_deleted=ShareOffsetsChanged(
            error_codes=[ErrorCode.NONE for _ in command.topic_ids]
        )
    )


def _found(turn: Turn, group_id: str) -> ShareGroup:
    find_share_group(turn, group_id)
    return turn.groups.shares[group_id]


def _found_empty(turn: Turn, group_id: str) -> ShareGroup:
    share = _found(turn, group_id)
    if share.group.members:
        raise Refused(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    return share


VERBS: Final = (
    Verb(describe_share_offsets, looks=True, needs=QUESTIONS["describe_share_offsets"]),
    Verb(alter_share_offsets),
    Verb(delete_share_offsets),
)
