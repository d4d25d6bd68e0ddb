"""`lacuna topics`: list, describe, create, alter, trim, delete."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated

from lacuna.agent.clock import SystemWallClock
from lacuna.cli.answers import check
from lacuna.cli.command_line import Group, argument, option
from lacuna.cli.console import asynchronous, print_done, print_line, table
from lacuna.cli.errors import fail
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Yes, confirm
from lacuna.cli.queries import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    TOPIC_RESOURCE,
    existing_topic,
    topic_configs,
    topic_offsets,
)
from lacuna.cli.records.finding import find
from lacuna.cli.records.points import parse_from
from lacuna.cli.units import parse_duration, show_count, show_duration, show_size
from lacuna.controlplane.shared.ids import show_id
from lacuna.controlplane.shared.topic_configs import effective
from lacuna.operating.changing import with_unit
from lacuna.operating.exchanges.topics import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
)
from lacuna.operating.kafka import Agents, KafkaConnection
from lacuna.operating.points import Kind, Point
from lacuna.operating.relayed import relayed
from lacuna.operating.sizes import sizes_of_topics
from lacuna.wire.messages import topics as wire
from lacuna.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

#: Kafka's number for the source of a config's value → the source. All other numbers mean the topic itself.
SOURCES = {3: "for all brokers", 5: "default"}
TIMEOUT_MS = 30_000
SET_CONFIG, DELETE_CONFIG = 0, 1

app = Group(help="Lists, describes, creates, alters, trims and deletes topics.")

Name = Annotated[str, argument(help="Name of the topic.")]


@app.adds("list", shows=True)
@asynchronous
async def list_topics(
    rates: Annotated[
        str | None,
        option(
            alone="2s",
            metavar="TIME",
            help="Also show the rate in records per second, measured over this time. Without a value: 2s.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Lists the topics with their partitions, records, bytes, retention and ids.

    The number of records counts all retained offsets, including those of aborted records until they are removed. The
    internal topics __consumer_offsets and __transaction_state, which agents provide for tools, are not listed.
    """
    seconds = parse_duration(rates, "--rates") if rates else 0.0
    async with relayed(bootstrap) as control:
        sizes = await sizes_of_topics(control)
        later = sizes
        if seconds:
            await asyncio.sleep(seconds)
            later = await sizes_of_topics(control)
    table(
        (
            "topic",
            "partitions",
            "records",
            "bytes",
            "rate",
            "retention",
            "cleanup",
            "topic id",
        ),
        [
            (
                topic.name,
                topic.partition_count,
                size.records,
                size.bytes,
                round((later[topic.topic_id].end - size.end) / seconds, 1) if seconds else None,
                _retention(topic.configs),
                effective(topic.configs, "cleanup.policy"),
                show_id(topic.topic_id),
            )
            for topic in sorted(control.cluster.topics_by_id.values(), key=lambda topic: topic.name)
            for size in (sizes[topic.topic_id],)
        ],
    )


def _retention(configs: Mapping[str, str]) -> str:
    """Describe how long, or up to which total size, a topic keeps its records."""
    bounds = []
    if (milliseconds := int(effective(configs, "retention.ms"))) >= 0:
        bounds.append(show_duration(milliseconds / 1000))
    if (size := int(effective(configs, "retention.bytes"))) >= 0:
        bounds.append(f"{show_size(size)} a partition")
    return ", ".join(bounds) or "forever"


@app.adds("describe", shows=True)
@asynchronous
async def describe_topic(name: Name, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Shows a topic's partitions with their offsets, and its configs."""
    async with KafkaConnection(bootstrap) as connection:
        topic = await existing_topic(connection, name)
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


@app.adds("create", shows=True)
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
        option(
            "--config",
            "-c",
            help="Topic config NAME=VALUE, as in Kafka, or with a unit: retention=7d. May be repeated.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Creates a topic."""
    configs = [wire.CreatableTopicConfig(key, value) for key, value in _configs_given(config or [])]
    topic = wire.CreatableTopic(name, partitions, replication_factor=-1, configs=configs)
    async with KafkaConnection(bootstrap) as connection:
        response = await connection.ask(*CREATE_TOPICS, wire.CreateTopicsRequest([topic]))
    (result,) = response.topics
    check(result.error_code, f"topic {name}", result.error_message)
    topic_id = show_id(result.topic_id)
    print_done(
        f"created {name}: {show_count(result.num_partitions, 'partition')}, id {topic_id}",
        topic=name,
        partitions=result.num_partitions,
        topic_id=topic_id,
    )


@app.adds("alter", shows=True)
@asynchronous
async def alter_topic(
    name: Name,
    config: Annotated[
        list[str] | None,
        option(
            "--config",
            "-c",
            help="Set a topic config, NAME=VALUE, such as retention=7d or segment.bytes=64MiB. May be repeated.",
        ),
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
    """Changes a topic's configs, or raises its number of partitions."""
    changes = [
        AlterableConfig(key, SET_CONFIG, value) for key, value in _configs_given(config or [])
    ]
    changes += [AlterableConfig(key, DELETE_CONFIG, None) for key in unset or []]
    if not changes and partitions is None:
        fail("nothing to change: add --config, --unset or --partitions")
    async with KafkaConnection(bootstrap) as connection:
        await existing_topic(connection, name)
        if changes:
            resource = AlterConfigsResource(TOPIC_RESOURCE, name, changes)
            altered = await connection.ask(
                *INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest([resource])
            )
            (result,) = altered.responses
            check(result.error_code, f"configs of {name}", result.error_message)
        if partitions is not None:
            raised = await connection.ask(
                *CREATE_PARTITIONS,
                wire.CreatePartitionsRequest(
                    [wire.CreatePartitionsTopic(name, partitions, None)], TIMEOUT_MS
                ),
            )
            (outcome,) = raised.results
            check(outcome.error_code, f"partitions of {name}", outcome.error_message)
    changed = [f"{each.name}={each.value}" for each in changes if each.value is not None]
    changed += [f"{each.name} reset to its default" for each in changes if each.value is None]
    changed += [] if partitions is None else [show_count(partitions, "partition")]
    print_done(f"altered {name}: {', '.join(changed)}", topic=name, changed=", ".join(changed))


@app.adds("delete", shows=True)
def delete_topic(
    name: Name,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Deletes a topic with all its records."""
    confirm(f"Delete {name} and all its records?", yes)
    _delete(name, bootstrap)


@asynchronous
async def _delete(name: str, bootstrap: Agents) -> None:
    request = wire.DeleteTopicsRequest([wire.DeleteTopicState(name)], timeout_ms=TIMEOUT_MS)
    async with KafkaConnection(bootstrap) as connection:
        await existing_topic(connection, name)
        response = await connection.ask(*DELETE_TOPICS, request)
    (result,) = response.responses
    check(result.error_code, f"topic {name}", result.error_message)
    print_done(f"deleted {name}", topic=name)


@app.adds("trim", shows=True)
def trim_topic(
    name: Name,
    before: Annotated[
        str,
        option(
            metavar="WHERE",
            help="Where the log begins afterwards: end, end-100, an offset, a time such as 2026-11-26T13:00, or 7d for "
            "seven days ago.",
        ),
    ],
    partition: Annotated[
        list[int] | None,
        option("--partition", "-p", min=0, help="Only this partition. May be repeated."),
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Deletes the records of a topic before an offset or a time, in all partitions.

    `--before end` means the last stable offset, so records of open transactions are kept. The objects are deleted
    later, once nothing reads them.
    """
    point = parse_from(before, SystemWallClock().now_ms(), "--before")
    wanted = asyncio.run(
        find(
            bootstrap,
            name,
            partition or (),
            point,
            Point(Kind.END),
            committed=True,
            what="--before",
        )
    )
    confirm(f"Delete the records of {name} before {before}?", yes)
    _trim(name, {each.partition: each.start for each in wanted}, bootstrap)


@asynchronous
async def _trim(name: str, offsets: Mapping[int, int], bootstrap: Agents) -> None:
    partitions = [wire.DeleteRecordsPartition(index, offset) for index, offset in offsets.items()]
    request = wire.DeleteRecordsRequest([wire.DeleteRecordsTopic(name, partitions)], TIMEOUT_MS)
    async with KafkaConnection(bootstrap) as connection:
        response = await connection.ask(*DELETE_RECORDS, request)
    results = response.topics[0].partitions
    for each in results:
        check(each.error_code, f"partition {each.partition_index} of {name}")
    table(
        ("topic", "partition", "log start"),
        ((name, each.partition_index, each.low_watermark) for each in results),
    )


def _configs_given(entries: Sequence[str]) -> list[tuple[str, str]]:
    """Parse the values of --config. Raises UserError."""
    pairs = [entry.partition("=") for entry in entries]
    for key, equals, value in pairs:
        if not key:
            fail(f"--config {equals}{value}: the name is empty; use NAME=VALUE")
        if not equals:
            fail(f"--config {key}: use NAME=VALUE, for example max.message.bytes=2000000")
    return [with_unit(key, value) for key, _, value in pairs]
