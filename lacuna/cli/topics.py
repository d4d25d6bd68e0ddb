"""`lacuna topics`: list, describe, create, alter, delete."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import click

from lacuna.cli.answers import check
from lacuna.cli.command_line import Group, argument, option
from lacuna.cli.console import asynchronous, print_line, table
from lacuna.cli.errors import fail
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from lacuna.cli.units import show_count
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.ids import show_id
from lacuna.controlplane.shared.log.behind import LAG
from lacuna.operating.kafka import Agents, KafkaConnection
from lacuna.wire.messages.create_partitions import (
    CREATE_PARTITIONS_REQUEST,
    CREATE_PARTITIONS_RESPONSE,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from lacuna.wire.messages.create_topics import (
    CREATE_TOPICS_REQUEST,
    CREATE_TOPICS_RESPONSE,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from lacuna.wire.messages.delete_topics import (
    DELETE_TOPICS_REQUEST,
    DELETE_TOPICS_RESPONSE,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from lacuna.wire.messages.describe_configs import (
    DESCRIBE_CONFIGS_REQUEST,
    DESCRIBE_CONFIGS_RESPONSE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from lacuna.wire.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS_REQUEST,
    INCREMENTAL_ALTER_CONFIGS_RESPONSE,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from lacuna.wire.messages.list_offsets import (
    LIST_OFFSETS_REQUEST,
    LIST_OFFSETS_RESPONSE,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from lacuna.wire.messages.metadata import (
    METADATA_REQUEST,
    METADATA_RESPONSE,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)

LATEST, EARLIEST = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
TOPIC_RESOURCE = 2
#: Kafka's number → the source of a config's value. All other numbers mean the topic itself.
SOURCES = {3: "for all brokers", 5: "default"}
DELETE_TIMEOUT_MS = 30_000
CREATE_TIMEOUT_MS = 30_000
SET_CONFIG, DELETE_CONFIG = 0, 1

app = Group(help="Lists, describes, creates, alters and deletes topics.")

Name = Annotated[str, argument(help="Name of the topic.", show_default=False)]


@app.adds("list", shows=True)
@asynchronous
async def list_topics(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Lists the topics, with ids and numbers of partitions.

    The list does not include __consumer_offsets and __transaction_state, which agents make for tools that read them.
    """
    async with KafkaConnection(bootstrap) as connection:
        topics = await topic_metadata(connection, None)
    rows = (
        (topic.name, len(topic.partitions), show_id(topic.topic_id))
        for topic in topics
        if not topic.is_internal
    )
    table(("topic", "partitions", "topic id"), sorted(rows))


@app.adds("describe", shows=True)
@asynchronous
async def describe_topic(name: Name, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Shows a topic's partitions with their offsets, and its configs."""
    async with KafkaConnection(bootstrap) as connection:
        (topic,) = await topic_metadata(connection, name)
        check(topic.error_code, f"topic {name}")
        partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
        indexes = [partition.partition_index for partition in partitions]
        start = await topic_offsets(connection, name, indexes, EARLIEST, READ_UNCOMMITTED)
        stable = await topic_offsets(connection, name, indexes, LATEST, READ_COMMITTED)
        end = await topic_offsets(connection, name, indexes, LATEST, READ_UNCOMMITTED)
        configs = await topic_configs(connection, name)
    print_line(f"{name}  {show_id(topic.topic_id)}")
    table(
        ("partition", "agent", "log start", "last stable", "high watermark"),
        (
            (index, partition.leader_id, start[index], stable[index], end[index])
            for index, partition in zip(indexes, partitions, strict=True)
        ),
        name="partitions",
    )
    if configs is None:
        print_line(
            f"the configs are not shown, because ACLs do not allow DescribeConfigs on topic {name}"
        )
        return
    table(
        ("config", "value", "set"),
        (
            (config.name, config.value, SOURCES.get(config.config_source, "here"))
            for config in configs
        ),
        name="configs",
    )


@app.adds("create")
@asynchronous
async def create_topic(
    name: Name,
    partitions: Annotated[
        int,
        option(
            "--partitions",
            "-p",
            min=1,
            max=(1 << 31) - 1,
            help="Number of partitions. You can raise it later, but not lower it.",
        ),
    ] = 1,
    config: Annotated[
        list[str] | None,
        option("--config", "-c", help="Topic config NAME=VALUE, as in Kafka. May be repeated."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Creates a topic."""
    configs = [CreatableTopicConfig(key, value) for key, value in _configs_given(config or [])]
    topic = CreatableTopic(name, partitions, replication_factor=-1, configs=configs)
    async with KafkaConnection(bootstrap) as connection:
        response = await connection.ask(
            CREATE_TOPICS_REQUEST, CREATE_TOPICS_RESPONSE, 7, CreateTopicsRequest([topic])
        )
    (result,) = response.topics
    check(result.error_code, f"topic {name}", result.error_message)
    print_line(
        f"created {name}: {show_count(result.num_partitions, 'partition')}, id {show_id(result.topic_id)}"
    )


@app.adds("alter")
@asynchronous
async def alter_topic(
    name: Name,
    config: Annotated[
        list[str] | None,
        option("--config", "-c", help="Set a topic config, NAME=VALUE. May be repeated."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        option("--unset", "-u", help="Reset a topic config to its default. May be repeated."),
    ] = None,
    partitions: Annotated[
        int | None,
        option(
            "--partitions", "-p", min=1, max=(1 << 31) - 1, help="Raise the number of partitions."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Changes configs of a topic, or raises its number of partitions."""
    changes = [
        AlterableConfig(key, SET_CONFIG, value) for key, value in _configs_given(config or [])
    ]
    changes += [AlterableConfig(key, DELETE_CONFIG, None) for key in unset or []]
    if not changes and partitions is None:
        fail("nothing to change: add --config, --unset or --partitions")
    async with KafkaConnection(bootstrap) as connection:
        (topic,) = await topic_metadata(connection, name)
        check(topic.error_code, f"topic {name}")
        if changes:
            resource = AlterConfigsResource(TOPIC_RESOURCE, name, changes)
            altered = await connection.ask(
                INCREMENTAL_ALTER_CONFIGS_REQUEST,
                INCREMENTAL_ALTER_CONFIGS_RESPONSE,
                1,
                IncrementalAlterConfigsRequest([resource]),
            )
            (result,) = altered.responses
            check(result.error_code, f"configs of {name}", result.error_message)
        if partitions is not None:
            raised = await connection.ask(
                CREATE_PARTITIONS_REQUEST,
                CREATE_PARTITIONS_RESPONSE,
                3,
                CreatePartitionsRequest(
                    [CreatePartitionsTopic(name, partitions, None)], CREATE_TIMEOUT_MS
                ),
            )
            (outcome,) = raised.results
            check(outcome.error_code, f"partitions of {name}", outcome.error_message)
    changed = [f"{each.name}={each.value}" for each in changes if each.value is not None]
    changed += [f"{each.name} as by default" for each in changes if each.value is None]
    changed += [] if partitions is None else [show_count(partitions, "partition")]
    print_line(f"altered {name}: {', '.join(changed)}")


@app.adds("delete")
def delete_topic(
    name: Name,
    yes: Annotated[bool, option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Deletes a topic with all its records."""
    if not yes and not sys.stdin.isatty():
        fail(f"this deletes {name} with all its records: add --yes to confirm")
    if not yes:
        # In an event loop, the first Ctrl-C would cancel a task, and the prompt would keep waiting.
        click.confirm(f"Delete {name} and all its records?", abort=True)
    _delete(name, bootstrap)


@asynchronous
async def _delete(name: str, bootstrap: Agents) -> None:
    request = DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=DELETE_TIMEOUT_MS)
    async with KafkaConnection(bootstrap) as connection:
        response = await connection.ask(DELETE_TOPICS_REQUEST, DELETE_TOPICS_RESPONSE, 6, request)
    (result,) = response.responses
    check(result.error_code, f"topic {name}", result.error_message)
    print_line(f"deleted {name}")


def _configs_given(entries: Sequence[str]) -> list[tuple[str, str]]:
    """Return the names and values of --config. Raises UserError."""
    pairs = [entry.partition("=") for entry in entries]
    for key, equals, value in pairs:
        if not key:
            fail(f"--config {equals}{value}: the name is empty; write NAME=VALUE")
        if not equals:
            fail(f"--config {key}: write NAME=VALUE, for example max.message.bytes=2000000")
    return [(key, value) for key, _, value in pairs]


async def topic_metadata(
    connection: KafkaConnection, name: str | None, *, creates: bool = False
) -> Sequence[MetadataResponseTopic]:
    """Return the metadata of a topic, or of all. With `creates`, the cluster may create a missing topic."""
    topics = None if name is None else [MetadataRequestTopic(name=name)]
    request = MetadataRequest(topics, allow_auto_topic_creation=creates)
    return (await connection.ask(METADATA_REQUEST, METADATA_RESPONSE, 12, request)).topics


async def topic_offsets(
    connection: KafkaConnection, name: str, partitions: list[int], timestamp: int, isolation: int
) -> dict[int, int]:
    offsets = {}
    for partition in await list_offsets(connection, name, partitions, timestamp, isolation):
        check(partition.error_code, f"partition {partition.partition_index} of {name}")
        offsets[partition.partition_index] = partition.offset
    return offsets


async def topic_lags(
    connection: KafkaConnection, name: str, positions: Mapping[int, int]
) -> dict[int, int]:
    """Return the number of records left for a read_committed consumer after its position in each partition."""
    timestamps = {partition: LAG - position for partition, position in positions.items()}
    lags = {}
    for partition in await _list_offsets(connection, name, timestamps, READ_COMMITTED):
        check(partition.error_code, f"partition {partition.partition_index} of {name}")
        lags[partition.partition_index] = partition.offset
    return lags


async def list_offsets(
    connection: KafkaConnection, name: str, partitions: list[int], timestamp: int, isolation: int
) -> Sequence[ListOffsetsPartitionResponse]:
    """Return an agent's answer for each partition."""
    return await _list_offsets(connection, name, dict.fromkeys(partitions, timestamp), isolation)


async def _list_offsets(
    connection: KafkaConnection, name: str, timestamps: Mapping[int, int], isolation: int
) -> Sequence[ListOffsetsPartitionResponse]:
    queries = [
        ListOffsetsPartition(each, timestamp=timestamp) for each, timestamp in timestamps.items()
    ]
    request = ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(name, queries)])
    response = await connection.ask(LIST_OFFSETS_REQUEST, LIST_OFFSETS_RESPONSE, 9, request)
    return response.topics[0].partitions


async def topic_configs(
    connection: KafkaConnection, name: str
) -> Sequence[DescribeConfigsResourceResult] | None:
    """Return the configs of a topic, or None if the user may not see them, as a producer need not."""
    request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC_RESOURCE, name, None)])
    response = await connection.ask(DESCRIBE_CONFIGS_REQUEST, DESCRIBE_CONFIGS_RESPONSE, 4, request)
    (result,) = response.results
    if result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return None
    check(result.error_code, f"configs of {name}", result.error_message)
    return result.configs
