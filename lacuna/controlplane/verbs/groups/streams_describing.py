"""Describes streams groups for operators, and stores descriptions of their topologies (KIP-1071, KIP-1331).

Kafka's brokers store such descriptions only with a plugin. Here, the control plane stores what a member sends, as
encoded by the agent.
"""

from typing import Final

from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.rights import of_groups
from lacuna.controlplane.state.groups.streams import (
    LiveStreamsGroup,
    StreamsDraft,
    StreamsGroup,
    Task,
)
from lacuna.controlplane.v1.cluster_pb2 import Outcome
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    DescribeConsumerGroups,
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribeTopology,
    StreamsGroupsDescribed,
    StreamsTopology,
    TaskOffset,
)
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.verbs.groups.consumer.finding import find_dynamic
from lacuna.controlplane.verbs.groups.streams_members import (
    count_of,
    find_streams_group,
    keep,
    open_streams,
)
from lacuna.controlplane.verbs.groups.streams_tasks import STICKY
from lacuna.controlplane.verbs.groups.streams_topology import configure
from lacuna.controlplane.verbs.parts import until_full
from lacuna.controlplane.verbs.refusals import Refused
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

LARGEST_DESCRIPTION: Final = 1 << 20


def describe_streams_groups(turn: Turn, command: DescribeConsumerGroups) -> Reply:
    """Describe streams groups and their members. Other groups fail with GROUP_ID_NOT_FOUND."""
    groups = until_full(command.group_ids, lambda group_id: _describe(turn, group_id))
    return Reply(streams_groups_described=StreamsGroupsDescribed(groups=groups))


def _describe(turn: Turn, group_id: str) -> DescribedStreamsGroup:
    if not group_id:
        return DescribedStreamsGroup(error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        group = find_streams_group(turn, group_id)
    except Refused as refused:
        return DescribedStreamsGroup(
            group_id=group_id, error_code=refused.code, error_message=refused.message
        )
    live = turn.groups.live_streams.get(group_id) or LiveStreamsGroup()
    is_described = group.described_epoch == group.topology_epoch
    return DescribedStreamsGroup(
        group_id=group_id,
        state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(turn, group),
        assignor=STICKY,
        description=group.description if is_described else b"",
        members=[_describe_member(group, live, member_id) for member_id in sorted(group.members)],
    )


def _topology(turn: Turn, group: StreamsGroup) -> StreamsTopology | None:
    """Return the topology, with the partition counts of its internal topics if the cluster's topics fit it."""
    if group.topology is None:
        return None
    try:
        configured = configure(group.topology, lambda name: count_of(turn, name))
    except Refused:
        return group.topology
    return group.topology if configured.problem is not None else configured.topology


def _describe_member(
    group: StreamsGroup, live: LiveStreamsGroup, member_id: str
) -> DescribedStreamsMember:
    member = group.members[member_id]
    offsets, ends = live.offsets.get(member_id, ({}, {}))
    return DescribedStreamsMember(
        member_id=member_id,
        metadata=member.metadata.to_record(),
        member_epoch=member.current.member_epoch,
        assigned=member.current.assigned.to_record(),
        target=member.target.to_record(),
        task_offsets=_offsets(offsets),
        task_end_offsets=_offsets(ends),
    )


def _offsets(offsets: dict[Task, int]) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=subtopology_id, partition=partition, offset=offset)
        for (subtopology_id, partition), offset in sorted(offsets.items())
    ]


def describe_topology(turn: Turn, command: DescribeTopology) -> Reply:
    """Store a member's description of the group's topology."""
    try:
        _take_description(turn, command)
    except Refused as refused:
        answered = Outcome(error_code=refused.code, error_message=refused.message)
        return Reply(topology_described=answered)
    return Reply(topology_described=Outcome())


def _take_description(turn: Turn, command: DescribeTopology) -> None:
    group = find_streams_group(turn, command.group_id)
    draft = StreamsDraft(command.group_id, group)
    find_dynamic(draft, command.member_id)
    if command.topology_epoch != group.topology_epoch:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Topology epoch {command.topology_epoch} does not match the group's current topology epoch"
            f" {group.topology_epoch}.",
        )
    size, more = len(command.description), len(command.description) - len(group.description)
    has_room = turn.groups.has_room(command.group_id, more, turn.principal)
    if size > LARGEST_DESCRIPTION or not has_room:
        raise Refused(
            ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED,
            f"The description is {size} bytes long, but it may be at most {LARGEST_DESCRIPTION} bytes, or less if"
            " groups take up much of groups.max.bytes (principal.max.percent).",
        )
    draft.step.described.topology_epoch = command.topology_epoch
    draft.step.described.description = command.description
    keep(turn, draft, open_streams(turn, draft))


VERBS: Final = (
    Verb(describe_streams_groups, looks=True, needs=of_groups(Operation.DESCRIBE)),
    Verb(describe_topology),
)
