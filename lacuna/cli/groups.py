"""`lacuna groups`: list, describe, lag, reset, delete, delete-offsets."""

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Annotated, NoReturn, TypeAlias

from lacuna.agent.clock import SystemWallClock
from lacuna.base.errors import UserError, did_you_mean
from lacuna.cli import resetting
from lacuna.cli.answers import check
from lacuna.cli.command_line import Group, argument
from lacuna.cli.console import asynchronous, print_done, print_line, table
from lacuna.cli.errors import fail
from lacuna.cli.options import DEFAULT_BOOTSTRAP, AskedPlace, Bootstrap
from lacuna.cli.queries import LATEST, READ_COMMITTED, topic_lags, topic_offsets
from lacuna.cli.resetting import committed_offsets, listed_groups, share_offsets
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.share_pb2 import DescribeShareOffsets, ShareOffset
from lacuna.operating import questions
from lacuna.operating.control import open_control
from lacuna.operating.exchanges.groups import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    SHARE_GROUP_DESCRIBE,
    STREAMS_GROUP_DESCRIBE,
)
from lacuna.operating.groups import SHARE
from lacuna.operating.kafka import BootstrapUnavailable, KafkaConnection
from lacuna.operating.lag import lag_of_group
from lacuna.operating.relayed import RelayedClient
from lacuna.wire.messages import share_groups, streams_groups
from lacuna.wire.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    DescribedGroup,
)
from lacuna.wire.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
)
from lacuna.wire.messages.share_groups import ShareGroupDescribeRequest

_Described: TypeAlias = (
    ConsumerGroupDescribeResponse
    | DescribeGroupsResponse
    | share_groups.ShareGroupDescribeResponse
    | streams_groups.StreamsGroupDescribeResponse
)

CLASSIC_MEMBER = 0
CONSUMER = "consumer"
STREAMS = "streams"
_GROUPS_AT_ONCE = 500

app = Group(
    help="Lists, describes, resets and deletes consumer groups, and shows how far they are behind."
)

GroupId = Annotated[str, argument(help="ID of the group.")]


@app.adds("list", shows=True)
@asynchronous
async def list_groups(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Lists groups of all kinds with their states, members and lags.

    The lag is the number of records that a group can read but has not read yet, in all its topics. The column is empty
    for groups whose offsets the user is not allowed to see.
    """
    groups = sorted([each async for each in listed_groups(bootstrap)])
    async with KafkaConnection(bootstrap) as connection:
        members = await _members(connection, groups)
        lags = {each.group_id: await _lag_of(connection, each) for each in groups}
    table(
        ("group", "state", "members", "lag", "protocol", "type"),
        (
            (
                each.group_id,
                each.group_state,
                members.get(each.group_id),
                lags[each.group_id],
                each.protocol_type,
                each.group_type,
            )
            for each in groups
        ),
    )


async def _members(connection: KafkaConnection, groups: Sequence[ListedGroup]) -> dict[str, int]:
    def described(kind: str, some: Sequence[str]) -> Awaitable[_Described]:
        if kind == SHARE:
            return connection.ask(*SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest(some))
        if kind == STREAMS:
            request = streams_groups.StreamsGroupDescribeRequest(some)
            return connection.ask(*STREAMS_GROUP_DESCRIBE, request)
        if kind == CONSUMER:
            return connection.ask(*CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest(some))
        return connection.ask(*DESCRIBE_GROUPS, DescribeGroupsRequest(some))

    counts: dict[str, int] = {}
    for kind in {each.group_type for each in groups}:
        for some in _in_parts([each.group_id for each in groups if each.group_type == kind]):
            for each in (await described(kind, some)).groups:
                if not each.error_code:
                    counts[each.group_id] = len(each.members)
    return counts


def _in_parts(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _GROUPS_AT_ONCE):
        yield ids[start : start + _GROUPS_AT_ONCE]


async def _lag_of(connection: KafkaConnection, group: ListedGroup) -> int | None:
    try:
        if group.group_type == SHARE:
            shared = await share_offsets(connection, group.group_id)
            return sum(max(each.lag, 0) for topic in shared.topics for each in topic.partitions)
        return sum(row[-1] for row in await _lags(connection, group.group_id))
    except BootstrapUnavailable:
        raise
    except UserError:
        return None


@app.adds("describe", shows=True)
@asynchronous
async def describe_group(group: GroupId, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Shows a group's members, its committed offsets, and the number of records that it has not read yet.

    The lag is the same as in `lacuna groups lag`: 0 once the group has read everything, even if aborted records remain.
    """
    async with KafkaConnection(bootstrap) as connection:
        response = await connection.ask(
            *CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest([group])
        )
        (consumers,) = response.groups
        if await _describe_share(connection, group):
            return
        if await _describe_streams(connection, group):
            pass
        elif consumers.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            await _describe_classic(connection, group)
        else:
            check(consumers.error_code, f"group {group}", consumers.error_message)
            _show_consumers(consumers)
        lags = await _lags(connection, group)
    table(("topic", "partition", "committed", "last stable", "lag"), lags, name="offsets")


async def _describe_share(connection: KafkaConnection, group: str) -> bool:
    """Show a share group. Return False if the group is of another type."""
    response = await connection.ask(*SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest([group]))
    (shares,) = response.groups
    if shares.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return False
    check(shares.error_code, f"group {group}", shares.error_message)
    print_line(f"{group}: {shares.group_state}, epoch {shares.group_epoch}, share group")
    table(
        ("member", "client", "host", "epoch", "partitions"),
        (
            (
                member.member_id,
                member.client_id,
                member.client_host,
                member.member_epoch,
                _shown(member.assignment),
            )
            for member in shares.members
        ),
        name="members",
    )
    described = await share_offsets(connection, group)
    flying = await _in_flight(connection, group)
    table(
        (
            "topic",
            "partition",
            "first unfinished",
            "acquired",
            "available",
            "to the dead-letter queue",
            "deliveries",
            "lag",
        ),
        (
            (
                topic.topic_name,
                each.partition_index,
                each.start_offset,
                *_counts(flying.get((topic.topic_id, each.partition_index))),
                each.lag,
            )
            for topic in described.topics
            for each in topic.partitions
        ),
        name="offsets",
    )
    return True


async def _describe_streams(connection: KafkaConnection, group: str) -> bool:
    """Show a streams group's members and tasks. Return False if the group is of another type."""
    response = await connection.ask(
        *STREAMS_GROUP_DESCRIBE, streams_groups.StreamsGroupDescribeRequest([group])
    )
    (streams,) = response.groups
    if streams.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return False
    check(streams.error_code, f"group {group}", streams.error_message)
    print_line(
        f"{group}: {streams.group_state}, epoch {streams.group_epoch},"
        f" assigned by {streams.assignor_name} in epoch {streams.assignment_epoch}"
    )
    table(
        ("member", "client", "host", "process", "epoch", "active tasks", "standby tasks", "target"),
        (
            (
                member.member_id,
                member.client_id,
                member.client_host,
                member.process_id,
                member.member_epoch,
                _tasks(member.assignment.active_tasks),
                _tasks(member.assignment.standby_tasks),
                _tasks(member.target_assignment.active_tasks),
            )
            for member in streams.members
        ),
        name="members",
    )
    return True


def _tasks(tasks: Sequence[streams_groups.TaskIds]) -> str:
    """Format tasks like `0: 0,1  1: 2`."""
    return "  ".join(
        f"{each.subtopology_id}: {','.join(map(str, each.partitions))}" for each in tasks
    )


def _counts(flying: ShareOffset | None) -> tuple[int | None, ...]:
    """Return the number of records in each state, and the highest delivery count of any record."""
    if flying is None:
        return (None,) * 4
    return flying.acquired, flying.available, flying.archiving, flying.delivery_count


async def _in_flight(
    connection: KafkaConnection, group: str
) -> Mapping[tuple[bytes, int], ShareOffset]:
    """Return a share group's in-flight records by topic id and partition, or nothing if the user may not see them."""
    command = DescribeShareOffsets(group_id=group, all_partitions=True)
    try:
        reply = await RelayedClient(connection).call(Command(describe_share_offsets=command))
    except BootstrapUnavailable:
        raise
    except UserError:
        return {}
    return {
        (each.partition.topic_id, each.partition.partition): each
        for each in reply.share_offsets_described.offsets
    }


async def _describe_classic(connection: KafkaConnection, group: str) -> None:
    response = await connection.ask(*DESCRIBE_GROUPS, DescribeGroupsRequest([group]))
    (described,) = response.groups
    if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND or described.group_state == "Dead":
        await _fail_without(connection, group)
    check(described.error_code, f"group {group}", described.error_message)
    print_line(f"{group}: {described.group_state}")
    table(
        ("member", "client", "host"),
        ((member.member_id, member.client_id, member.client_host) for member in described.members),
        name="members",
    )


def _show_consumers(group: DescribedGroup) -> None:
    """Show a consumer group's epochs, and each member's current and target partitions."""
    print_line(
        f"{group.group_id}: {group.group_state}, epoch {group.group_epoch},"
        f" assigned by {group.assignor_name} in epoch {group.assignment_epoch}"
    )
    table(
        ("member", "client", "host", "protocol", "epoch", "partitions", "target"),
        (
            (
                member.member_id,
                member.client_id,
                member.client_host,
                "classic" if member.member_type == CLASSIC_MEMBER else "consumer",
                member.member_epoch,
                _shown(member.assignment),
                _shown(member.target_assignment),
            )
            for member in group.members
        ),
        name="members",
    )


def _shown(assignment: ConsumerGroupDescribeResponseAssignment | share_groups.Assignment) -> str:
    """Format an assignment like `topic: 0,1  other: 2`."""
    return "  ".join(
        f"{topic.topic_name}: {','.join(str(each) for each in sorted(topic.partitions))}"
        for topic in assignment.topic_partitions
    )


@app.adds("lag", shows=True)
@asynchronous
async def lag(group: GroupId, place: AskedPlace) -> None:
    """Shows how far a group is behind, in records and in seconds.

    Aborted records, holes and transaction markers are not counted, so a group that has read everything has a lag of 0.
    Records that an open transaction holds back are shown as waiting, because the group cannot read them yet. The lag in
    seconds is the time since the newest record in the first unread extent. The command queries the control plane
    through an agent.
    """
    async with open_control(place.control, place.data, place.bootstrap) as client:
        lags = await lag_of_group(client, group)
    now_ms = SystemWallClock().now_ms()
    table(
        ("topic", "partition", "committed", "lag", "lag s", "last stable", "waiting"),
        (
            (
                each.topic,
                each.partition,
                each.committed,
                each.left.offsets,
                round(each.left.seconds(now_ms), 1),
                each.last_stable_offset,
                each.high_watermark - each.last_stable_offset,
            )
            for each in lags
        ),
    )


app.adds("reset", shows=True)(resetting.reset)
app.adds("delete-offsets", shows=True)(resetting.delete)


@app.adds("delete", shows=True)
@asynchronous
async def delete_group(group: GroupId, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Deletes a group that has no members, along with its committed offsets."""
    async with KafkaConnection(bootstrap) as connection:
        response = await connection.ask(*DELETE_GROUPS, DeleteGroupsRequest([group]))
        (result,) = response.results
        if result.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            await _fail_without(connection, group)
    check(result.error_code, f"group {group}")
    print_done(f"deleted {group}", group=group)


async def _fail_without(connection: KafkaConnection, group: str) -> NoReturn:
    """Raises UserError for a group that does not exist, and suggests the most similar name."""
    known = await questions.groups(RelayedClient(connection))
    hint = did_you_mean(group, [each.group_id for each in known])
    hint = hint or "`lacuna groups list` lists the groups"
    fail(f"group {group}: the group does not exist; {hint}")


async def _lags(connection: KafkaConnection, group: str) -> list[tuple[str, int, int, int, int]]:
    topics: dict[str, dict[int, int]] = {}
    for (name, index), offset in sorted((await committed_offsets(connection, group)).items()):
        topics.setdefault(name, {})[index] = offset
    rows = []
    for name, committed in topics.items():
        stable = await topic_offsets(connection, name, list(committed), LATEST, READ_COMMITTED)
        left = await topic_lags(connection, name, committed)
        rows += [(name, each, at, stable[each], left[each]) for each, at in committed.items()]
    return rows
