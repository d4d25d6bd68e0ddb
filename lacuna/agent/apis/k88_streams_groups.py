"""StreamsGroupHeartbeat v0-v1, StreamsGroupDescribe v0-v1 and StreamsGroupTopologyDescriptionUpdate v0: keep members in
streams groups, describe the groups, and store descriptions of their topologies (KIP-1071, KIP-1331).

Epoch 0 joins, -1 leaves, and -2 lets a static member leave temporarily. The control plane configures the topology and
assigns tasks with Kafka's `sticky` assignor. If the topology lacks internal topics, the agent that answers a heartbeat
creates them on behalf of the member and with its rights, and the next heartbeat finds them. While no control plane can
be reached, members stay in their groups (adr/0034).
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from lacuna.agent import mutations
from lacuna.agent.admin import operations
from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.guards.groups import streams_group_describe, streams_group_heartbeat
from lacuna.agent.guards.guard import on_group
from lacuna.agent.limits import MOST_OF_PIECE
from lacuna.agent.topic_names import is_legal
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.group_configs import GROUP_CONFIGS, STREAMS_HEARTBEAT_INTERVAL
from lacuna.controlplane.shared.internal_topics import INTERNAL_BY_NAME
from lacuna.controlplane.v1 import consumer_groups_pb2 as kept
from lacuna.controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.wire.messages import streams_groups as wire

FIRST_TO_KNOW_TAGS: Final = 1
MISSING_INTERNAL_TOPICS: Final = 3
_NOT_STORED, _AVAILABLE = 1, 3
_MOST_ERRORS: Final = 3


async def heartbeat(
    call: Call,
    request: wire.StreamsGroupHeartbeatRequest,
    may_create: Callable[[str], bool] = lambda _: True,
) -> wire.StreamsGroupHeartbeatResponse:
    """Pass the heartbeat to the control plane, and create the internal topics that it reports as missing."""
    if problem := _problem(request):
        return _failed(*problem)
    members, group_id = call.context.members, request.group_id
    member = ("streams", group_id, request.member_id, request.member_epoch)
    reply = await members.ask(
        member if _brings_nothing(request) else None,
        call.command(streams_group_heartbeat=_command(call, request)),
    )
    answered = reply.streams_group_heartbeat_answered
    if answered.error_code:
        members.forget(member)
        return _failed(answered.error_code, answered.error_message)
    if answered.member_epoch > 0:
        member = ("streams", group_id, answered.member_id, answered.member_epoch)
        members.keep(member, _without_tasks(answered))
    reason = await _create_missing(call, answered.missing_topics, may_create)
    for status in answered.statuses:
        if reason and status.code == MISSING_INTERNAL_TOPICS:
            status.detail += f"; {reason}"
    return _response(answered)


async def _create_missing(
    call: Call, missing: Sequence[kept.InternalTopicInfo], may_create: Callable[[str], bool]
) -> str:
    """Create the missing internal topics of a topology. Return why some could not be created, or "" if all were
    created.

    If the client exceeds its quota for changing topics, a later heartbeat creates the topics.
    """
    if not missing:
        return ""
    if denied := [each.name for each in missing if not may_create(each.name)]:
        return f"Unauthorized to CREATE on topics {', '.join(denied)}."
    quotas, now = call.context.quotas, asyncio.get_running_loop().time()
    if quotas.are_any and mutations.owed(quotas, call.peer, now):
        return "The quota for changing topics has been exceeded."
    problems: dict[str, str] = {}
    for start in range(0, len(missing), MOST_OF_PIECE):
        some = missing[start : start + MOST_OF_PIECE]
        problems |= await _create(call, some)
        if quotas.are_any:
            mutations.spend(quotas, call.peer, sum(each.partition_count for each in some), now)
    if not problems:
        return ""
    shown = [f"{name} ({problem})" for name, problem in [*problems.items()][:_MOST_ERRORS]]
    more = len(problems) - len(shown)
    return f"Creation failed: {', '.join(shown)}{f' and {more} more' if more else ''}."


async def _create(call: Call, infos: Iterable[kept.InternalTopicInfo]) -> dict[str, str]:
    """Create topics. For each topic that could not be created, return the reason by topic name."""
    creations = [
        CreateTopic(name=each.name, partition_count=each.partition_count, configs=each.configs)
        for each in infos
    ]
    command = call.command(create_topics=CreateTopics(topics=creations))
    reply = await call.context.control.call(command)
    fine = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    return {
        each.name: each.error_message
        for each in reply.topics_created.topics
        if each.error_code not in fine
    }


def _problem(request: wire.StreamsGroupHeartbeatRequest) -> tuple[int, str] | None:
    """Return the error for a request that no command can express, or None."""
    if request.instance_id == "":
        return ErrorCode.INVALID_REQUEST, "InstanceId can't be empty."
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if None in tasks and any(each is not None for each in tasks):
        return (
            ErrorCode.INVALID_REQUEST,
            "If one task-type is non-null, all must be non-null.",
        )
    subtopologies = request.topology.subtopologies if request.topology is not None else ()
    if any(each.source_topic_regex for each in subtopologies):
        return (
            ErrorCode.INVALID_REQUEST,
            "Regular expressions for source topics are not supported yet.",
        )
    names = list(dict.fromkeys(_topics_of(request)))
    if prohibited := [name for name in names if name in INTERNAL_BY_NAME]:
        return (
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited.",
        )
    if illegal := [name for name in names if not is_legal(name)]:
        return (
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Topic names {','.join(illegal)[:1000]} are not valid topic names.",
        )
    return None


def _topics_of(request: wire.StreamsGroupHeartbeatRequest) -> Iterable[str]:
    for each in request.topology.subtopologies if request.topology is not None else ():
        yield from each.source_topics
        yield from each.repartition_sink_topics
        yield from (info.name for info in each.repartition_source_topics)
        yield from (info.name for info in each.state_changelog_topics)


def _brings_nothing(request: wire.StreamsGroupHeartbeatRequest) -> bool:
    """Whether the request only reports that the member is alive, and may therefore safely be lost."""
    return (
        request.member_epoch > 0
        and request.active_tasks is None
        and not request.shutdown_application
    )


def _without_tasks(answered: kept.StreamsGroupHeartbeatAnswered) -> Reply:
    remembered = kept.StreamsGroupHeartbeatAnswered(
        member_id=answered.member_id,
        member_epoch=answered.member_epoch,
        heartbeat_interval_ms=answered.heartbeat_interval_ms,
        task_offset_interval_ms=answered.task_offset_interval_ms,
        acceptable_recovery_lag=answered.acceptable_recovery_lag,
        endpoint_epoch=answered.endpoint_epoch,
    )
    return Reply(streams_group_heartbeat_answered=remembered)


def _command(call: Call, request: wire.StreamsGroupHeartbeatRequest) -> kept.StreamsGroupHeartbeat:
    endpoint = request.user_endpoint
    return kept.StreamsGroupHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        group_instance_id=request.instance_id or "",
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topology=None if request.topology is None else _topology(request.topology),
        has_owned=request.active_tasks is not None,
        owned=kept.StreamsTasks(
            active=[
                kept.TaskIds(subtopology_id=each.subtopology_id, partitions=each.partitions)
                for each in request.active_tasks or ()
            ],
            standby=_task_ids(request.standby_tasks),
            warmup=_task_ids(request.warmup_tasks),
        ),
        process_id=request.process_id,
        endpoint=(
            None
            if endpoint is None
            else kept.StreamsEndpoint(host=endpoint.host, port=endpoint.port)
        ),
        has_client_tags=request.client_tags is not None,
        client_tags={each.key: each.value for each in request.client_tags or ()},
        task_offsets=_offsets(request.task_offsets),
        task_end_offsets=_offsets(request.task_end_offsets),
        shuts_down=request.shutdown_application,
        endpoint_epoch=request.endpoint_information_epoch,
        client_id=call.peer.client_id,
        client_host=f"/{call.peer.host}",
        knows_tags=call.version >= FIRST_TO_KNOW_TAGS,
    )


def _topology(topology: wire.StreamsGroupHeartbeatRequestTopology) -> kept.StreamsTopology:
    return kept.StreamsTopology(
        epoch=topology.epoch,
        subtopologies=[
            kept.StreamsSubtopology(
                subtopology_id=each.subtopology_id,
                source_topics=each.source_topics,
                repartition_sink_topics=each.repartition_sink_topics,
                changelog_topics=_infos(each.state_changelog_topics),
                repartition_source_topics=_infos(each.repartition_source_topics),
                copartitioned=[
                    kept.CopartitionedTopics(
                        source_topics=group.source_topics,
                        repartition_source_topics=group.repartition_source_topics,
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in sorted(topology.subtopologies, key=lambda each: each.subtopology_id)
        ],
    )


def _infos(infos: Iterable[wire.TopicInfo]) -> list[kept.InternalTopicInfo]:
    return [
        kept.InternalTopicInfo(
            name=each.name,
            partition_count=each.partitions,
            replication_factor=each.replication_factor,
            configs={config.key: config.value for config in each.topic_configs},
        )
        for each in infos
    ]


def _task_ids(tasks: Iterable[wire.TaskIds] | None) -> list[kept.TaskIds]:
    return [
        kept.TaskIds(subtopology_id=each.subtopology_id, partitions=each.partitions)
        for each in tasks or ()
    ]


def _offsets(offsets: Iterable[wire.TaskOffset] | None) -> list[kept.TaskOffset]:
    return [
        kept.TaskOffset(
            subtopology_id=each.subtopology_id, partition=each.partition, offset=each.offset
        )
        for each in offsets or ()
    ]


def _response(
    answered: kept.StreamsGroupHeartbeatAnswered,
) -> wire.StreamsGroupHeartbeatResponse:
    tasks = _assignment(answered.tasks) if answered.has_tasks else None
    return wire.StreamsGroupHeartbeatResponse(
        member_id=answered.member_id,
        member_epoch=answered.member_epoch,
        heartbeat_interval_ms=answered.heartbeat_interval_ms,
        task_offset_interval_ms=answered.task_offset_interval_ms,
        acceptable_recovery_lag=answered.acceptable_recovery_lag,
        status=[wire.Status(each.code, each.detail) for each in answered.statuses],
        active_tasks=None if tasks is None else tasks.active_tasks,
        standby_tasks=None if tasks is None else tasks.standby_tasks,
        warmup_tasks=None if tasks is None else tasks.warmup_tasks,
        topology_description_required=answered.wants_description,
        endpoint_information_epoch=answered.endpoint_epoch,
        partitions_by_user_endpoint=(
            [_endpoint(each) for each in answered.endpoints] if answered.has_endpoints else None
        ),
    )


def _endpoint(partitions: kept.EndpointPartitions) -> wire.EndpointToPartitions:
    return wire.EndpointToPartitions(
        wire.Endpoint(partitions.endpoint.host, partitions.endpoint.port),
        [wire.TopicPartition(each.topic, each.partitions) for each in partitions.active],
        [wire.TopicPartition(each.topic, each.partitions) for each in partitions.standby],
    )


def _assignment(tasks: kept.StreamsTasks) -> wire.Assignment:
    return wire.Assignment(
        *(
            [wire.TaskIds(each.subtopology_id, each.partitions) for each in some]
            for some in (tasks.active, tasks.standby, tasks.warmup)
        )
    )


def _failed(error_code: int, message: str) -> wire.StreamsGroupHeartbeatResponse:
    return wire.StreamsGroupHeartbeatResponse(error_code=error_code, error_message=message or None)


async def describe(
    call: Call, request: wire.StreamsGroupDescribeRequest
) -> wire.StreamsGroupDescribeResponse:
    command = kept.DescribeConsumerGroups(group_ids=request.group_ids)
    reply = await call.context.control.call(Command(describe_streams_groups=command))
    groups = reply.streams_groups_described.groups
    return wire.StreamsGroupDescribeResponse(groups=[_described(request, each) for each in groups])


def _described(
    request: wire.StreamsGroupDescribeRequest, group: kept.DescribedStreamsGroup
) -> wire.DescribedGroup:
    if group.error_code:
        return wire.DescribedGroup(group.error_code, group.error_message or None, group.group_id)
    is_asked = request.include_authorized_operations
    description, status = None, 0
    if request.include_topology_description:
        description = _description(group.description)
        status = _NOT_STORED if description is None else _AVAILABLE
    return wire.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_described_topology(group.topology),
        members=[_member(each) for each in group.members],
        authorized_operations=operations.GROUP if is_asked else operations.NOT_ASKED,
        topology_description=description,
        topology_description_status=status,
        assignor_name=group.assignor,
    )


def _described_topology(topology: kept.StreamsTopology) -> wire.Topology:
    return wire.Topology(
        topology.epoch,
        [
            wire.Subtopology(
                each.subtopology_id,
                sorted(each.source_topics),
                sorted(each.repartition_sink_topics),
                _described_infos(each.changelog_topics),
                _described_infos(each.repartition_source_topics),
            )
            for each in topology.subtopologies
        ],
    )


def _described_infos(infos: Iterable[kept.InternalTopicInfo]) -> list[wire.TopicInfo]:
    return [_topic_info(each) for each in sorted(infos, key=lambda each: each.name)]


def _topic_info(info: kept.InternalTopicInfo) -> wire.TopicInfo:
    configs = [wire.KeyValue(key, value) for key, value in sorted(info.configs.items())]
    return wire.TopicInfo(info.name, info.partition_count, info.replication_factor, configs)


def _member(member: kept.DescribedStreamsMember) -> wire.Member:
    metadata = member.metadata
    endpoint = None
    if metadata.HasField("endpoint"):
        endpoint = wire.Endpoint(metadata.endpoint.host, metadata.endpoint.port)
    return wire.Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=metadata.group_instance_id or None,
        rack_id=metadata.rack_id or None,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=endpoint,
        client_tags=[wire.KeyValue(*each) for each in sorted(metadata.client_tags.items())],
        task_offsets=[_task_offset(each) for each in member.task_offsets],
        task_end_offsets=[_task_offset(each) for each in member.task_end_offsets],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(member.target),
    )


def _task_offset(offset: kept.TaskOffset) -> wire.TaskOffset:
    return wire.TaskOffset(offset.subtopology_id, offset.partition, offset.offset)


def _description(stored: bytes) -> wire.TopologyDescription | None:
    if not stored:
        return None
    request = wire.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE_REQUEST.read(memoryview(stored), 0)
    told = request.topology_description
    return wire.TopologyDescription(
        [
            wire.TopologyDescriptionSubtopology(each.subtopology_id, [*map(_node, each.nodes)])
            for each in told.subtopologies
        ],
        [
            wire.TopologyDescriptionGlobalStore(_node(each.source), _node(each.processor))
            for each in told.global_stores
        ],
    )


def _node(
    node: wire.StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode,
) -> wire.TopologyDescriptionNode:
    return wire.TopologyDescriptionNode(*node)


async def update_description(
    call: Call, request: wire.StreamsGroupTopologyDescriptionUpdateRequest
) -> wire.StreamsGroupTopologyDescriptionUpdateResponse:
    """Store the topology description in the control plane, as bytes that only agents read."""
    if not request.group_id or not request.member_id:
        what = "MemberId" if request.group_id else "GroupId"
        return wire.StreamsGroupTopologyDescriptionUpdateResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message=f"{what} can't be empty."
        )
    stored = wire.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE_REQUEST.write(request, 0)
    command = kept.DescribeTopology(
        group_id=request.group_id,
        member_id=request.member_id,
        topology_epoch=request.topology_epoch,
        description=bytes(stored),
    )
    reply = await call.context.control.call(call.command(describe_topology=command))
    answered = reply.topology_described
    return wire.StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=answered.error_code, error_message=answered.error_message or None
    )


APIS = (
    Api(
        request=wire.STREAMS_GROUP_HEARTBEAT_REQUEST,
        response=wire.STREAMS_GROUP_HEARTBEAT_RESPONSE,
        handle=heartbeat,
        guard=streams_group_heartbeat,
        most_whole=50_000,
        moved=ErrorCode.NOT_COORDINATOR,
        heartbeat_ms=int(GROUP_CONFIGS[STREAMS_HEARTBEAT_INTERVAL].default),
        notes="streams groups (KIP-1071), assignor `sticky`; creates internal topics",
    ),
    Api(
        request=wire.STREAMS_GROUP_DESCRIBE_REQUEST,
        response=wire.STREAMS_GROUP_DESCRIBE_RESPONSE,
        handle=describe,
        refusal=lambda _call, request, code: wire.StreamsGroupDescribeResponse(
            groups=[wire.DescribedGroup(code, group_id=each) for each in request.group_ids]
        ),
        guard=streams_group_describe,
        pieces=(Pieces(("group_ids",), ("groups",)),),
        moved=ErrorCode.NOT_COORDINATOR,
        notes="streams groups (KIP-1071)",
    ),
    Api(
        request=wire.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE_REQUEST,
        response=wire.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE_RESPONSE,
        handle=update_description,
        guard=on_group(Operation.READ),
        most_whole=50_000,
        moved=ErrorCode.NOT_COORDINATOR,
        notes="stores topology descriptions (KIP-1331) without a plugin",
    ),
)
