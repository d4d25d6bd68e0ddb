"""Behaviour common to several APIs: skipped fields, views that lag behind, and data that is not kept.

GetTelemetrySubscriptions and PushTelemetry request no metrics and store none (KIP-714).
"""

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
from tests.agent.apis.clusters import INVALID_REQUEST, SECOND, UNKNOWN_TOPIC, Setup
from tests.agent.apis.scripted import TRANSACTION
from tests.agent.harness import (
    TOPIC_ID,
    ScriptedControl,
    client_of,
    make_context,
    snapshot,
)
from tests.golden import messages as golden
from tests.messages import encode_body, nested, request


@pytest.mark.parametrize("api_key", [43, 45, 32])
async def test_what_another_agent_has_just_made_is_there(api_key: int) -> None:
    """A tool creates a topic through one agent and asks another, whose view does not have it yet."""
    control = ScriptedControl()
    control.cluster.apply(snapshot())

    def come(_: Command) -> Reply:
        control.cluster.apply(snapshot(Topic(topic_id=TOPIC_ID, name="t", partition_count=1)))
        return Reply(partitions_read=PartitionsRead())

    control.answers["read_partitions"] = come
    async with client_of(make_context(control)) as client:
        if api_key == 43:
            named = nested(43, 2, "TopicPartitions", topic="t", partitions=(0,))
            fields = {"election_type": 0, "topic_partitions": (named,), "timeout_ms": SECOND}
            answer = await client.ask(43, 2, **fields)
            found = answer.replica_election_results[0].partition_result[0].error_code
        elif api_key == 45:
            one = nested(45, 0, "ReassignablePartition", partition_index=0, replicas=(1,))
            named = nested(45, 0, "ReassignableTopic", name="t", partitions=(one,))
            answer = await client.ask(45, 0, timeout_ms=SECOND, topics=(named,))
            found = answer.responses[0].partitions[0].error_code
        else:
            named = nested(
                32,
                4,
                "DescribeConfigsResource",
                resource_type=2,
                resource_name="t",
                configuration_keys=None,
            )
            answer = await client.ask(
                32, 4, resources=(named,), include_synonyms=False, include_documentation=False
            )
            found = answer.results[0].error_code
    assert found != UNKNOWN_TOPIC


def test_headers_have_tagged_fields_where_kafkas_have() -> None:
    for key in discover().advertised():
        for each in golden.requests(key):
            assert request_header_version(key, each.version) == each.header_version
        for each in golden.responses(key):
            assert response_header_version(key, each.version) == each.header_version


@pytest.mark.parametrize("tags", [b"\x01\x7f\x03abc", b"\x02\x05\x00\x7f\x01x"])
def test_unknown_tagged_fields_are_skipped(tags: bytes) -> None:
    """KIP-482: at the end of the request and of its nested structs."""
    for key, version, fields in ((26, 4, {"committed": True}), (25, 3, {"group_id": "g"})):
        api = discover().get(key, version)
        assert api is not None
        body = encode_body(key, version, request(key, version, **TRANSACTION, **fields))
        assert api.read(memoryview(body[:-1] + tags), version) == api.read(
            memoryview(body), version
        )
    topic = nested(37, 2, "CreatePartitionsTopic", name="t", count_=7, assignments=None)
    growth = request(37, 2, topics=(topic,), timeout_ms=1000, validate_only=True)
    body = encode_body(37, 2, growth)
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

    async def push(**over: Any) -> int:
        fields = {
            "client_instance_id": mine,
            "subscription_id": first.subscription_id,
            "terminating": True,
            "compression_type": 4,
            "metrics": b"no zstd",
        }
        return int((await setup.ask(72, 0, **(fields | over))).error_code)

    assert await push() == 0
    assert await push(metrics=b"x" * (1 << 20)) == 0
    assert await push(metrics=b"x" * ((1 << 20) + 1)) == 118
    assert await push(subscription_id=99) == 117
    assert await push(compression_type=7) == 76
    assert await push(client_instance_id=ZERO_UUID) == INVALID_REQUEST
    assert not {71, 72} & set(setup.running.context.advertised)
