"""Requests about topics that several commands send to agents: metadata, offsets, configs."""

from collections.abc import Mapping, Sequence

from lacuna.base.errors import did_you_mean
from lacuna.cli.answers import check
from lacuna.cli.errors import fail
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.log.behind import LAG
from lacuna.operating.exchanges.topics import DESCRIBE_CONFIGS, LIST_OFFSETS, METADATA
from lacuna.operating.kafka import KafkaConnection
from lacuna.wire.messages import fetch as wire
from lacuna.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from lacuna.wire.messages.topics import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic

LATEST, EARLIEST = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
TOPIC_RESOURCE = 2


async def existing_topic(connection: KafkaConnection, name: str) -> MetadataResponseTopic:
    """Return a topic's metadata. Raises UserError, with the most similar name, if the topic does not exist."""
    (topic,) = await topic_metadata(connection, name)
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        known = [each.name or "" for each in await topic_metadata(connection, None)]
        if hint := did_you_mean(name, known):
            fail(f"topic {name}: the topic does not exist; {hint}")
    check(topic.error_code, f"topic {name}")
    return topic


async def topic_metadata(
    connection: KafkaConnection, name: str | None, *, creates: bool = False
) -> Sequence[MetadataResponseTopic]:
    """Return the metadata of one topic, or of all. With `creates`, the cluster may create a missing topic."""
    topics = None if name is None else [MetadataRequestTopic(name=name)]
    request = MetadataRequest(topics, allow_auto_topic_creation=creates)
    return (await connection.ask(*METADATA, request)).topics


async def topic_offsets(
    connection: KafkaConnection, name: str, partitions: list[int], timestamp: int, isolation: int
) -> dict[int, int]:
    timestamps = dict.fromkeys(partitions, timestamp)
    return _offsets_in(name, await list_offsets(connection, name, timestamps, isolation))


async def topic_lags(
    connection: KafkaConnection, name: str, positions: Mapping[int, int]
) -> dict[int, int]:
    """Return, by partition, how many records a read_committed consumer at the given position has yet to read."""
    timestamps = {partition: LAG - position for partition, position in positions.items()}
    return _offsets_in(name, await list_offsets(connection, name, timestamps, READ_COMMITTED))


def _offsets_in(name: str, answers: Sequence[wire.ListOffsetsPartitionResponse]) -> dict[int, int]:
    for each in answers:
        check(each.error_code, f"partition {each.partition_index} of {name}")
    return {each.partition_index: each.offset for each in answers}


async def list_offsets(
    connection: KafkaConnection, name: str, timestamps: Mapping[int, int], isolation: int
) -> Sequence[wire.ListOffsetsPartitionResponse]:
    queries = [
        wire.ListOffsetsPartition(each, timestamp=timestamp)
        for each, timestamp in timestamps.items()
    ]
    request = wire.ListOffsetsRequest(-1, isolation, [wire.ListOffsetsTopic(name, queries)])
    response = await connection.ask(*LIST_OFFSETS, request)
    return response.topics[0].partitions


async def topic_configs(
    connection: KafkaConnection, name: str
) -> Sequence[DescribeConfigsResourceResult] | None:
    """Return a topic's configs, or None if the user has no right to see them, which producers do not need."""
    request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC_RESOURCE, name, None)])
    response = await connection.ask(*DESCRIBE_CONFIGS, request)
    (result,) = response.results
    if result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return None
    check(result.error_code, f"configs of {name}", result.error_message)
    return result.configs
