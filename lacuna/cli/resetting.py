"""`lacuna groups reset` and `delete-offsets`: change or delete the offsets of a group."""

from collections.abc import AsyncIterator, Mapping
from typing import Annotated

from lacuna.agent.clock import SystemWallClock
from lacuna.cli.answers import check
from lacuna.cli.command_line import argument, option
from lacuna.cli.console import asynchronous, print_line, table
from lacuna.cli.errors import fail
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from lacuna.cli.records.finding import find
from lacuna.cli.records.points import parse_from
from lacuna.cli.units import show_count
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.operating.exchanges.groups import (
    DESCRIBE_SHARE_GROUP_OFFSETS,
    LIST_GROUPS,
    OFFSET_FETCH,
)
from lacuna.operating.groups import SHARE, WITHOUT_MEMBERS, delete_offsets, move_offsets
from lacuna.operating.kafka import Agents, KafkaConnection, ask_every_agent
from lacuna.operating.points import Kind, Point
from lacuna.wire.messages import share_groups as wire
from lacuna.wire.messages.groups import ListedGroup, ListGroupsRequest
from lacuna.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup


@asynchronous
async def reset(
    group: Annotated[str, argument(help="ID of the group.")],
    to: Annotated[
        str,
        option(
            help="Where the group continues: earliest, end, end-100, an offset, a time such as 2026-11-26T13:00, or "
            "10m for ten minutes ago."
        ),
    ],
    topic: Annotated[
        list[str] | None,
        option(
            "--topic",
            "-t",
            help="Only this topic. May be repeated. Default: all topics that the group has read.",
        ),
    ] = None,
    execute: Annotated[
        bool, option(help="Commit the offsets. Without this option, the command only shows them.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Shows the offsets to which a group would be reset; with --execute, resets the group.

    `--to end` means the last stable offset, so no record of an open transaction is skipped. A group with members is
    rejected, because its members would continue from their positions and overwrite the offsets. A share group begins at
    the new offsets, and forgets its deliveries from those offsets on.
    """
    point = parse_from(to, SystemWallClock().now_ms(), "--to")
    shares = await _check_empty(bootstrap, group) == SHARE
    async with KafkaConnection(bootstrap) as connection:
        read = _first_unfinished if shares else committed_offsets
        committed = await read(connection, group)
    topics = topic or sorted({name for name, _ in committed})
    if not topics:
        fail(f"group {group} has not committed any offsets: specify topics with --topic")
    moves: dict[str, dict[int, int]] = {}
    for name in topics:
        end = Point(Kind.END)
        wanted = await find(bootstrap, name, (), point, end, committed=True, what="--to")
        moves[name] = {each.partition: each.start for each in wanted}
    table(
        ("topic", "partition", "first unfinished" if shares else "committed", "reset to"),
        (
            (name, partition, committed.get((name, partition), ""), offset)
            for name, offsets in moves.items()
            for partition, offset in offsets.items()
        ),
    )
    count = sum(map(len, moves.values()))
    if not execute:
        print_line(f"nothing was changed: add --execute to reset {show_count(count, 'partition')}")
        return
    async with KafkaConnection(bootstrap) as connection:
        for refused in await move_offsets(connection.ask, group, moves, shares=shares):
            check(refused.error_code, refused.subject, refused.message)
    print_line(f"reset {group} in {show_count(count, 'partition')}")


@asynchronous
async def delete(
    group: Annotated[str, argument(help="ID of the group.")],
    topic: Annotated[
        list[str],
        option("--topic", "-t", help="Delete the offsets in this topic. May be repeated."),
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Deletes a group's offsets in topics, and shows the deleted offsets.

    The group then starts in these topics as a new group would. A share group must have no members. A consumer group may
    have members, but they must not read these topics.
    """
    found = await _listed(bootstrap, group)
    if found is None:
        check(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group}")
    shares = found is not None and found.group_type == SHARE
    async with KafkaConnection(bootstrap) as connection:
        read = _first_unfinished if shares else committed_offsets
        offsets = {
            place: at
            for place, at in (await read(connection, group)).items()
            if place[0] in topic and at >= 0
        }
        partitions = {
            name: [index for of, index in offsets if of == name] for name in dict.fromkeys(topic)
        }
        for name, indexes in partitions.items():
            if not indexes:
                fail(
                    f"group {group} has no offsets in {name}; `lacuna groups describe {group}` shows the offsets that "
                    "it has"
                )
        for refused in await delete_offsets(connection.ask, group, partitions, shares=shares):
            check(refused.error_code, refused.subject, refused.message)
    table(
        ("topic", "partition", "deleted"), ((*place, offsets[place]) for place in sorted(offsets))
    )


async def _check_empty(bootstrap: Agents, group: str) -> str:
    """Return the type of the group, or "" if it does not exist. Raises UserError if it has members."""
    listed = await _listed(bootstrap, group)
    if listed is None:
        return ""
    if listed.group_state not in WITHOUT_MEMBERS:
        fail(
            f"group {group} is {listed.group_state}: its members would overwrite the offsets. "
            f"Stop its consumers first; `lacuna groups describe {group}` shows them"
        )
    return listed.group_type


async def _listed(bootstrap: Agents, group: str) -> ListedGroup | None:
    """Find the group by querying every agent, since each lists only its own. Return None if there is none."""
    async for each in listed_groups(bootstrap):
        if each.group_id == group:
            return each
    return None


async def listed_groups(bootstrap: Agents) -> AsyncIterator[ListedGroup]:
    """Yield the groups of one agent after another. Raises UserError if an agent fails to list its groups."""
    for response in await ask_every_agent(bootstrap, *LIST_GROUPS, ListGroupsRequest()):
        check(response.error_code, "groups")
        for each in response.groups:
            yield each


async def committed_offsets(
    connection: KafkaConnection, group: str
) -> Mapping[tuple[str, int], int]:
    """Return a group's committed offsets by topic and partition."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
    response = await connection.ask(*OFFSET_FETCH, request)
    (fetched,) = response.groups
    check(fetched.error_code, f"group {group}")
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in fetched.topics
        for partition in topic.partitions
    }


async def _first_unfinished(
    connection: KafkaConnection, group: str
) -> Mapping[tuple[str, int], int]:
    """Return a share group's start offsets by topic and partition."""
    response = await share_offsets(connection, group)
    return {
        (topic.topic_name, each.partition_index): each.start_offset
        for topic in response.topics
        for each in topic.partitions
    }


async def share_offsets(
    connection: KafkaConnection, group: str
) -> wire.DescribeShareGroupOffsetsResponseGroup:
    """Return a share group's offsets in all its partitions. Raises UserError."""
    response = await connection.ask(
        *DESCRIBE_SHARE_GROUP_OFFSETS,
        wire.DescribeShareGroupOffsetsRequest(
            [wire.DescribeShareGroupOffsetsRequestGroup(group, None)]
        ),
    )
    (described,) = response.groups
    check(described.error_code, f"group {group}", described.error_message)
    return described
