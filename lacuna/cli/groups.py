"""`lacuna groups`: list, describe with lag, delete."""

from typing import Annotated, Any

import typer
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32

from lacuna.cli.answers import check
from lacuna.cli.console import asynchronous, table, tell
from lacuna.cli.errors import fail
from lacuna.cli.lazy import MARKUP
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from lacuna.cli.topics import LATEST, READ_COMMITTED, schema_module, topic_offsets
from lacuna.kafka import KafkaConnection, ask_every_agent

OFFSET_FETCH, DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS, DESCRIBE_CONSUMERS = 9, 15, 16, 42, 69
CLASSIC_MEMBER = 0

app = typer.Typer(
    help="List, describe and delete consumer groups.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=MARKUP,
)

Group = Annotated[str, typer.Argument(help="The group's id.", show_default=False)]


@app.command("list")
@asynchronous
async def list_groups(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Lists the groups and their states."""
    responses = await ask_every_agent(bootstrap, LIST_GROUPS, 5, lambda request: request())
    for response in responses:
        check(response.error_code, "groups")
    rows = (
        (group.group_id, group.group_state, group.protocol_type, group.group_type)
        for response in responses
        for group in response.groups
    )
    table(("group", "state", "protocol", "type"), sorted(rows))


@app.command("describe")
@asynchronous
async def describe_group(group: Group, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Shows a group's members, its committed offsets, and its lag to the last stable offset."""
    async with KafkaConnection(bootstrap) as connection:
        response = await connection.request(
            DESCRIBE_CONSUMERS,
            1,
            lambda request: request(group_ids=(group,), include_authorized_operations=False),
        )
        (consumers,) = response.groups
        if consumers.error_code == ErrorCode.group_id_not_found:
            await _describe_classic(connection, group)
        else:
            check(consumers.error_code, f"group {group}", consumers.error_message)
            _show_consumers(consumers)
        lags = await _lags(connection, group)
    table(("topic", "partition", "committed", "last stable", "lag"), lags)


async def _describe_classic(connection: KafkaConnection, group: str) -> None:
    response = await connection.request(
        DESCRIBE_GROUPS,
        6,
        lambda request: request(groups=(group,), include_authorized_operations=False),
    )
    (described,) = response.groups
    check(described.error_code, f"group {group}", described.error_message)
    if described.group_state == "Dead":
        fail(f"group {group}: there is no such group; `lacuna groups list` shows them")
    tell(f"{group}: {described.group_state}")
    table(
        ("member", "client", "host"),
        ((member.member_id, member.client_id, member.client_host) for member in described.members),
    )


def _show_consumers(group: Any) -> None:
    """A consumer group: epochs, and how far each member is on its way to its target."""
    tell(
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
    )


def _shown(assignment: Any) -> str:
    """`topic: 0,1  other: 2`."""
    return "  ".join(
        f"{topic.topic_name}: {','.join(str(each) for each in sorted(topic.partitions))}"
        for topic in assignment.topic_partitions
    )


@app.command("delete")
@asynchronous
async def delete_group(group: Group, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Deletes a group that has no members, with its committed offsets."""
    async with KafkaConnection(bootstrap) as connection:
        response = await connection.request(
            DELETE_GROUPS, 2, lambda request: request(groups_names=(group,))
        )
    (result,) = response.results
    check(result.error_code, f"group {group}")
    tell(f"deleted {group}")


async def _lags(connection: KafkaConnection, group: str) -> list[tuple[str, int, int, int, int]]:
    def build(request: Any) -> Any:
        asked = schema_module(request).OffsetFetchRequestGroup(
            group_id=group, member_id=None, member_epoch=i32(-1), topics=None
        )
        return request(groups=(asked,), require_stable=False)

    (fetched,) = (await connection.request(OFFSET_FETCH, 9, build)).groups
    check(fetched.error_code, f"group {group}")
    rows = []
    for topic in fetched.topics:
        committed = {int(p.partition_index): int(p.committed_offset) for p in topic.partitions}
        stable = await topic_offsets(
            connection, topic.name, sorted(committed), LATEST, READ_COMMITTED
        )
        for index, offset in sorted(committed.items()):
            rows.append((topic.name, index, offset, stable[index], stable[index] - offset))
    return rows
