"""The page that lists all groups with their lags, and the page for one group."""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from lacuna.console import limits
from lacuna.console.rights import Rights
from lacuna.console.site import NotThere, Paging, Site, rights_of
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.group_configs import DEAD_LETTER_TOPIC
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    DescribeConsumerGroups,
    DescribedConsumerGroup,
    DescribeGroupConfigs,
    TopicIdPartitions,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset, DescribeGroups, ListedGroup
from lacuna.controlplane.v1.share_pb2 import DescribeShareOffsets, ShareOffset
from lacuna.operating import questions
from lacuna.operating.groups import SHARE
from lacuna.operating.lag import PartitionLag, lag_of_offsets


class GroupRow(NamedTuple):
    """A group in the list. `lag` is None if the group has no positions or its lag was not computed."""

    group: ListedGroup
    partitions: int
    lag: int | None
    seconds: float
    waiting: int


class Member(NamedTuple):
    """A group member and its partitions, formatted like `topic 0-3, 7`."""

    member_id: str
    client: str
    host: str
    epoch: int | None
    assigned: Sequence[str]
    coming: Sequence[str]


async def page(site: Site, request: Request) -> Response:
    control = site.sources.control
    await questions.current(control)
    listed = await questions.groups(control)
    query = request.query_params
    wanted = query.get("q", "").strip()
    state = query.get("state", "")
    rights = rights_of(request)
    allowed = (each for each in listed if rights.group(each.group_id))
    every = sorted(allowed, key=lambda group: group.group_id)
    groups = [
        group
        for group in every
        if wanted.lower() in group.group_id.lower() and state in ("", group.state)
    ]
    paging = Paging.of(query, len(groups))
    shown = groups[paging.first : paging.stop]
    return site.render(
        request,
        "groups.html",
        rows=await _rows(site, shown, rights),
        paging=paging,
        q=wanted,
        state=state,
        states=sorted({group.state for group in every}),
        most_lags=limits.LAGS,
    )


async def _rows(site: Site, groups: Sequence[ListedGroup], rights: Rights) -> list[GroupRow]:
    control, now_ms = site.sources.control, site.sources.now_ms()
    left = limits.LAGS
    rows: list[GroupRow] = []
    for group, committed in await _committed(control, groups):
        if group.group_type == SHARE:
            shared = await _shared(control, group.group_id, rights) if left > 0 else ()
            left -= len(shared)
            lag = sum(max(each.lag, 0) for _, each in shared)
            rows.append(GroupRow(group, len(shared), lag if shared else None, 0.0, 0))
            continue
        offsets = _shown(control, committed, rights)
        count = len(offsets)
        if not 0 < count <= left:
            rows.append(GroupRow(group, count, None, 0.0, 0))
            continue
        left -= count
        lags = await lag_of_offsets(control, offsets)
        rows.append(
            GroupRow(
                group,
                count,
                sum(lag.left.offsets for lag in lags),
                max((lag.left.seconds(now_ms) for lag in lags), default=0.0),
                sum(lag.high_watermark - lag.last_stable_offset for lag in lags),
            )
        )
    return rows


async def _committed(
    control: ControlClient, groups: Sequence[ListedGroup]
) -> list[tuple[ListedGroup, Sequence[CommittedOffset]]]:
    """Return each group with its committed offsets. Groups beyond a limit are returned without offsets."""
    committed: list[tuple[ListedGroup, Sequence[CommittedOffset]]] = []
    left = limits.OFFSETS
    for first in range(0, len(groups), limits.GROUPS_AT_ONCE):
        chunk = groups[first : first + limits.GROUPS_AT_ONCE]
        if left <= 0:
            committed += [(group, ()) for group in chunk]
            continue
        offsets = await questions.offsets_of(control, [group.group_id for group in chunk])
        for group, fetched in zip(chunk, offsets, strict=True):
            committed.append((group, fetched.offsets))
            left -= len(fetched.offsets)
    return committed


async def share_offsets(control: ControlClient, group_id: str) -> Sequence[ShareOffset]:
    """Return the start offset and in-flight records in each of a share group's partitions."""
    command = DescribeShareOffsets(group_id=group_id, all_partitions=True)
    reply = await control.call(Command(describe_share_offsets=command))
    return reply.share_offsets_described.offsets


async def _shared(
    control: ControlClient, group_id: str, rights: Rights
) -> Sequence[tuple[str, ShareOffset]]:
    """Return a share group's offsets, with topic names, in the topics that the user may describe."""
    topics = control.cluster.topics_by_id
    return [
        (topic.name, each)
        for each in await share_offsets(control, group_id)
        if (topic := topics.get(each.partition.topic_id)) is not None and rights.topic(topic.name)
    ]


async def group_page(site: Site, request: Request) -> Response:
    control = site.sources.control
    await questions.current(control)
    group_id = request.query_params.get("id", "")
    listed = await questions.groups(control)
    rights = rights_of(request)
    chosen = next((each for each in listed if each.group_id == group_id), None)
    if chosen is None or not rights.group(group_id):
        raise NotThere(f"The group {group_id[:250]!r} does not exist.")
    (fetched,) = await questions.offsets_of(control, [group_id])
    offsets = _shown(control, fetched.offsets, rights)
    lags: Sequence[PartitionLag] = await lag_of_offsets(control, offsets[: limits.LAGS])
    shared = await _shared(control, group_id, rights) if chosen.group_type == SHARE else ()
    members, details = await _members(control, chosen, rights)
    return site.render(
        request,
        "group.html",
        group=chosen,
        lags=lags,
        shared=shared[: limits.LAGS],
        queue=await _queue_of(control, group_id) if chosen.group_type == SHARE else "",
        not_counted=max(0, len(shared or offsets) - limits.LAGS),
        members=members[: limits.ROWS],
        member_count=len(members),
        details=details,
        actions=site.actions_on("group", request, group=group_id),
    )


def _shown(
    control: ControlClient, offsets: Iterable[CommittedOffset], rights: Rights
) -> Sequence[CommittedOffset]:
    """Keep the offsets in topics that the user may describe."""
    topics = control.cluster.topics_by_id
    return [
        each
        for each in offsets
        if (topic := topics.get(each.partition.topic_id)) is not None and rights.topic(topic.name)
    ]


async def _queue_of(control: ControlClient, group_id: str) -> str:
    """Return the name of the share group's dead-letter queue, or "" if it has none."""
    command = DescribeGroupConfigs(group_ids=[group_id])
    reply = await control.call(Command(describe_group_configs=command))
    return next(
        (
            each.configs.get(DEAD_LETTER_TOPIC, "")
            for each in reply.group_configs_described.groups
            if each.group_id == group_id
        ),
        "",
    )


async def _members(
    control: ControlClient, group: ListedGroup, rights: Rights
) -> tuple[list[Member], list[tuple[str, str]]]:
    """Return the members of a group of any type, and further facts about the group."""
    group_id = group.group_id
    if group.group_type == SHARE:
        asked = DescribeConsumerGroups(group_ids=[group_id])
        answered = await control.call(Command(describe_share_groups=asked))
        return _consumers(control, answered.share_groups_described.groups[0], rights)
    described = await control.call(
        Command(describe_consumer_groups=DescribeConsumerGroups(group_ids=[group_id]))
    )
    (consumers,) = described.consumer_groups_described.groups
    if consumers.error_code == ErrorCode.NONE:
        return _consumers(control, consumers, rights)
    answer = await control.call(Command(describe_groups=DescribeGroups(group_ids=[group_id])))
    (classic,) = answer.groups_described.groups
    members = [
        Member(
            each.member_id,
            each.client_id,
            each.client_host,
            None,
            _classic(each.assignment, rights),
            (),
        )
        for each in classic.members
    ]
    return members, [("assignor", classic.protocol_name)] if classic.protocol_name else []


def _consumers(
    control: ControlClient, group: DescribedConsumerGroup, rights: Rights
) -> tuple[list[Member], list[tuple[str, str]]]:
    def named(partitions: Iterable[TopicIdPartitions]) -> list[str]:
        topics = control.cluster.topics_by_id
        return [
            f"{topics[each.topic_id].name} {spans(each.partitions)}"
            for each in partitions
            if each.topic_id in topics and rights.topic(topics[each.topic_id].name)
        ]

    members = []
    for each in group.members:
        assigned, target = named(each.assignment), named(each.target)
        coming = target if target not in (assigned, []) else []
        members.append(
            Member(
                each.member_id,
                each.client_id,
                each.client_host,
                each.member_epoch,
                assigned,
                coming,
            )
        )
    details = [
        ("epoch", str(group.group_epoch)),
        ("assigned in epoch", str(group.assignment_epoch)),
        ("assignor", group.assignor),
    ]
    return members, details


def _classic(assignment: bytes, rights: Rights) -> list[str]:
    """Decode the partitions in the assignment of a Kafka consumer; describe any other assignment by its size.

    Omits topics that the user may not describe.
    """
    try:
        _, count = struct.unpack_from(">hi", assignment)
        at, parts = 6, []
        for _ in range(count):
            (length,) = struct.unpack_from(">h", assignment, at)
            name = assignment[at + 2 : at + 2 + length].decode()
            at += 2 + length
            (size,) = struct.unpack_from(">i", assignment, at)
            if rights.topic(name):
                parts.append(f"{name} {spans(struct.unpack_from(f'>{size}i', assignment, at + 4))}")
            at += 4 + 4 * size
    except (struct.error, UnicodeDecodeError):
        return [f"{len(assignment)} bytes"] if assignment else []
    return parts


def spans(numbers: Iterable[int]) -> str:
    """Format numbers as ranges: 0-3, 7."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
