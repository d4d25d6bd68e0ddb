"""`lacuna topics`: list, describe, create, delete."""

import sys
from datetime import timedelta
from typing import Annotated, Any

import typer
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

from lacuna.cli.answers import check
from lacuna.cli.console import asynchronous, table, tell
from lacuna.cli.errors import fail
from lacuna.cli.lazy import MARKUP
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from lacuna.kafka import KafkaConnection

LIST_OFFSETS, METADATA, CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CONFIGS = 2, 3, 19, 20, 32
LATEST, EARLIEST = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
TOPIC_RESOURCE = 2
SOURCE_DEFAULT = 5

app = typer.Typer(
    help="List, describe, create and delete topics.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=MARKUP,
)

Name = Annotated[str, typer.Argument(help="The topic's name.", show_default=False)]


@app.command("list")
@asynchronous
async def list_topics(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Lists the topics, with ids and numbers of partitions."""
    async with KafkaConnection(bootstrap) as connection:
        topics = await _metadata(connection, None)
    rows = ((topic.name, len(topic.partitions), topic.topic_id) for topic in topics)
    table(("topic", "partitions", "topic id"), sorted(rows))


@app.command("describe")
@asynchronous
async def describe_topic(name: Name, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Shows a topic's partitions with their offsets, and its configs."""
    async with KafkaConnection(bootstrap) as connection:
        (topic,) = await _metadata(connection, name)
        check(topic.error_code, f"topic {name}")
        partitions = sorted(topic.partitions, key=lambda partition: int(partition.partition_index))
        indexes = [int(partition.partition_index) for partition in partitions]
        start = await topic_offsets(connection, name, indexes, EARLIEST, READ_UNCOMMITTED)
        stable = await topic_offsets(connection, name, indexes, LATEST, READ_COMMITTED)
        end = await topic_offsets(connection, name, indexes, LATEST, READ_UNCOMMITTED)
        configs = await _configs(connection, name)
    tell(f"{name}  {topic.topic_id}")
    table(
        ("partition", "agent", "log start", "last stable", "high watermark"),
        (
            (index, int(partition.leader_id), start[index], stable[index], end[index])
            for index, partition in zip(indexes, partitions, strict=True)
        ),
    )
    table(
        ("config", "value", "set"),
        (
            (
                config.name,
                config.value,
                "default" if config.config_source == SOURCE_DEFAULT else "here",
            )
            for config in configs
        ),
    )


@app.command("create")
@asynchronous
async def create_topic(
    name: Name,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            max=(1 << 31) - 1,
            help="How many; it can only grow later.",
        ),
    ] = 1,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", help="NAME=VALUE, as in Kafka; as often as you like."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Creates a topic."""
    pairs = [entry.partition("=") for entry in config or []]
    for entry, equals, _ in pairs:
        if not equals:
            fail(f"--config {entry}: write NAME=VALUE, for example max.message.bytes=2000000")

    def build(request: Any) -> Any:
        module = schema_module(request)
        return request(
            topics=(
                module.CreatableTopic(
                    name=name,
                    num_partitions=i32(partitions),
                    replication_factor=i16(-1),
                    assignments=(),
                    configs=tuple(
                        module.CreatableTopicConfig(name=key, value=value)
                        for key, _, value in pairs
                    ),
                ),
            )
        )

    async with KafkaConnection(bootstrap) as connection:
        response = await connection.request(CREATE_TOPICS, 7, build)
    (result,) = response.topics
    check(result.error_code, f"topic {name}", result.error_message)
    tell(f"created {name}: {int(result.num_partitions)} partitions, id {result.topic_id}")


@app.command("delete")
@asynchronous
async def delete_topic(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Deletes a topic with all its records."""
    if not yes and not sys.stdin.isatty():
        fail(f"deleting {name} deletes all its records: say --yes to do it without being asked")
    if not yes:
        typer.confirm(f"Delete {name} and all its records?", abort=True)

    def build(request: Any) -> Any:
        state = schema_module(request).DeleteTopicState(name=name, topic_id=None)
        return request(topics=(state,), timeout=i32Timedelta.parse(timedelta(seconds=30)))

    async with KafkaConnection(bootstrap) as connection:
        response = await connection.request(DELETE_TOPICS, 6, build)
    (result,) = response.responses
    check(result.error_code, f"topic {name}", result.error_message)
    tell(f"deleted {name}")


async def _metadata(connection: KafkaConnection, name: str | None) -> Any:
    def build(request: Any) -> Any:
        topics = None
        if name is not None:
            topics = (schema_module(request).MetadataRequestTopic(name=name, topic_id=None),)
        return request(
            topics=topics,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )

    return (await connection.request(METADATA, 12, build)).topics


async def topic_offsets(
    connection: KafkaConnection, name: str, partitions: list[int], timestamp: int, isolation: int
) -> dict[int, int]:
    def build(request: Any) -> Any:
        module = schema_module(request)
        asked = tuple(
            module.ListOffsetsPartition(
                partition_index=i32(index), current_leader_epoch=i32(-1), timestamp=i64(timestamp)
            )
            for index in partitions
        )
        topics = (module.ListOffsetsTopic(name=name, partitions=asked),)
        return request(replica_id=i32(-1), isolation_level=i8(isolation), topics=topics)

    response = await connection.request(LIST_OFFSETS, 9, build)
    found = {}
    for partition in response.topics[0].partitions:
        check(partition.error_code, f"partition {int(partition.partition_index)} of {name}")
        found[int(partition.partition_index)] = int(partition.offset)
    return found


async def _configs(connection: KafkaConnection, name: str) -> Any:
    def build(request: Any) -> Any:
        resource = schema_module(request).DescribeConfigsResource(
            resource_type=i8(TOPIC_RESOURCE), resource_name=name, configuration_keys=None
        )
        return request(resources=(resource,), include_synonyms=False, include_documentation=False)

    (result,) = (await connection.request(DESCRIBE_CONFIGS, 4, build)).results
    check(result.error_code, f"configs of {name}", result.error_message)
    return result.configs


def schema_module(request: Any) -> Any:
    """The schema module of a request's class, where its nested classes are."""
    return sys.modules[request.__module__]
