"""Behaviour common to several APIs: skipped fields, views that lag behind, and data that is not kept.

GetTelemetrySubscriptions requests no metrics, and PushTelemetry stores none (KIP-714).
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from lacuna.agent.api import MalformedRequest
from lacuna.agent.apis import discover
from lacuna.agent.registry import request_header_version, response_header_version
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import PartitionsRead
from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages import cluster as wire
from lacuna.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from lacuna.wire.messages.telemetry import PushTelemetryRequest
from lacuna.wire.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from lacuna.wire.messages.transactions import AddOffsetsToTxnRequest, EndTxnRequest
from tests.agent.apis.clusters import INVALID_REQUEST, SECOND, UNKNOWN_TOPIC, Setup
from tests.agent.harness import TOPIC_ID, ScriptedControl, client_of, make_context, snapshot
from tests.golden import messages as golden
from tests.messages import encode_body


@pytest.mark.parametrize(
    ("version", "asked", "found_in"),
    [
        (
            2,
            wire.ElectLeadersRequest(0, [wire.TopicPartitions("t", (0,))], SECOND),
            lambda answer: answer.replica_election_results[0].partition_result[0],
        ),
        (
            0,
            wire.AlterPartitionReassignmentsRequest(
                SECOND, topics=[wire.ReassignableTopic("t", [wire.ReassignablePartition(0, (1,))])]
            ),
            lambda answer: answer.responses[0].partitions[0],
        ),
        (
            4,
            DescribeConfigsRequest([DescribeConfigsResource(2, "t", None)]),
            lambda answer: answer.results[0],
        ),
    ],
)
async def test_what_another_agent_has_just_made_is_there(
    version: int, asked: Any, found_in: Callable[[Any], Any]
) -> None:
    """A tool creates a topic through one agent and then uses another, whose view does not have it yet."""
    control = ScriptedControl()
    control.cluster.apply(snapshot())

    def come(_: Command) -> Reply:
        control.cluster.apply(snapshot(Topic(topic_id=TOPIC_ID, name="t", partition_count=1)))
        return Reply(partitions_read=PartitionsRead())

    control.answers["read_partitions"] = come
    async with client_of(make_context(control)) as client:
        found = found_in(await client.call(version, asked))
    assert found.error_code != UNKNOWN_TOPIC


def test_headers_have_tagged_fields_where_kafkas_have() -> None:
    for key in discover().advertised():
        for each in golden.requests(key):
            assert request_header_version(key, each.version) == each.header_version
        for each in golden.responses(key):
            assert response_header_version(key, each.version) == each.header_version


@pytest.mark.parametrize("tags", [b"\x01\x7f\x03abc", b"\x02\x05\x00\x7f\x01x"])
def test_unknown_tagged_fields_are_skipped(tags: bytes) -> None:
    """KIP-482: at the end of the request and of its nested structs."""
    for key, version, asked in (
        (26, 4, EndTxnRequest("x", 5, 3, True)),
        (25, 3, AddOffsetsToTxnRequest("x", 5, 3, "g")),
    ):
        api = discover().get(key, version)
        assert api is not None
        body = encode_body(key, version, asked)
        assert api.read(memoryview(body[:-1] + tags), version) == api.read(
            memoryview(body), version
        )
    growth = [CreatePartitionsTopic("t", 7, None)]
    body = encode_body(37, 2, CreatePartitionsRequest(growth, 1000, True))
    assert body.startswith(b"\2\2t\0\0\0\7\0\0")
    longer = body[:8] + tags + body[9:-1] + tags
    api = discover().get(37, 2)
    assert api is not None
    assert api.read(memoryview(longer), 2) == api.read(memoryview(body), 2)
    with pytest.raises(MalformedRequest):
        api.read(memoryview(longer[:-1]), 2)


async def test_telemetry_asks_for_nothing_and_keeps_nothing(setup: Setup) -> None:
    """KIP-714, docs/adr/0017: a client keeps its id; pushed metrics are bounded and dropped."""
    first = await setup.ask(71, 0, client_instance_id=ZERO_UUID)
    other = await setup.ask(71, 0, client_instance_id=ZERO_UUID)
    mine = first.client_instance_id
    assert UUID(bytes=mine).version == 4
    assert mine != other.client_instance_id
    again = await setup.ask(71, 0, client_instance_id=mine)
    assert again.client_instance_id == mine
    assert first.requested_metrics == ()
    assert first.push_interval_ms == 300_000

    usual = PushTelemetryRequest(mine, first.subscription_id, True, 4, b"no zstd")

    async def push(**over: Any) -> int:
        answer = await setup.client.call(0, usual._replace(**over))
        return int(answer.error_code)

    assert await push() == 0
    assert await push(metrics=b"x" * (1 << 20)) == 0
    assert await push(metrics=b"x" * ((1 << 20) + 1)) == 118
    assert await push(subscription_id=99) == 117
    assert await push(compression_type=7) == 76
    assert await push(client_instance_id=ZERO_UUID) == INVALID_REQUEST
    assert not {71, 72} & set(setup.running.context.advertised)
