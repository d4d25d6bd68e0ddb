"""Every API at every version: any request gets an answer that can be read, and no mistake of ours."""

import asyncio
import dataclasses
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader

from agent.apis.registry import Registry, discover, response_header_version
from agent.apis.schema import kio_versions, request_class, response_class
from agent.settings import AgentSettings
from controlplane.client import ControlPlaneUnavailable
from controlplane.v1.cluster_pb2 import Topic
from tests.agent.harness import (
    TOPIC_ID,
    RawClient,
    ScriptedControl,
    encode_body,
    encode_request,
    make_context,
    nested,
    serving,
    snapshot,
)
from tests.agent.plane import cluster
from tests.agent.requests import requests

# Produce and Fetch have tests of their own, and so have versions that kio lacks (tests/agent/legacy); JoinGroup
# and SyncGroup wait for other members.
ELSEWHERE = {0, 1, 11, 14}
REGISTRY = Registry([api for api in discover().apis() if api.key not in ELSEWHERE])
VERSIONS = [
    (api.key, version)
    for api in REGISTRY.apis()
    for version in range(api.min_version, api.max_version + 1)
    if version in kio_versions(api.key)
]


def away() -> ScriptedControl:
    """A control plane that has been seen and is not there."""
    control = ScriptedControl()
    control.cluster.apply(snapshot(Topic(topic_id=TOPIC_ID, name="t", partition_count=2)))
    control.otherwise = ControlPlaneUnavailable("away")
    return control


def read_answer(frame: bytes, api_key: int, version: int) -> object:
    """kio's answer. Raises where it cannot be read, or something is left."""
    start = 4 + response_header_version(api_key, version)
    response, size = entity_reader(response_class(api_key, version))(frame, start)
    assert start + size == len(frame)
    return response


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_request_is_answered(api_key: int, version: int, data: st.DataObject) -> None:
    """By a real control plane, several requests on one connection."""
    asked = data.draw(st.lists(requests(api_key, version), min_size=1, max_size=4))

    async def run() -> None:
        async with cluster(AgentSettings()) as running:
            client = await RawClient.connect(running.server.port)
            for i, request in enumerate(asked):
                client.send(encode_request(api_key, version, encode_body(request), i))
                async with asyncio.timeout(60):
                    frame = await client.frame()
                assert int.from_bytes(frame[:4], "big") == i
                read_answer(frame, api_key, version)
            await client.close()
            assert running.context.metrics.requests_failed == 0

    asyncio.run(run())


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_without_a_control_plane_the_answer_is_an_error(
    api_key: int, version: int, data: st.DataObject
) -> None:
    """Never a closed connection: clients are told to try again."""
    request = data.draw(requests(api_key, version))

    async def run() -> None:
        context = make_context(away())
        async with serving(context) as server:
            client = await RawClient.connect(server.port)
            client.send(encode_request(api_key, version, encode_body(request)))
            async with asyncio.timeout(60):
                read_answer(await client.frame(), api_key, version)
            await client.close()
        assert context.metrics.requests_failed == 0

    asyncio.run(run())


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_garbage_bodies_close_that_connection_only(api_key: int, version: int) -> None:
    """A body that is cut short, or full of ones, is an answer or a close; never a mistake of ours."""

    async def run() -> None:
        context = make_context(away())
        async with serving(context) as server:
            for body in (b"", b"\xff" * 9, b"\x7f" * 40, b"\0\0\0\x7f"):
                client = await RawClient.connect(server.port)
                client.send(encode_request(api_key, version, body))
                client.writer.write_eof()
                async with asyncio.timeout(60):
                    await client.reader.read()
                await client.close()
        assert context.metrics.requests_failed == 0

    asyncio.run(run())


_LONGEST = "g" * 32_767
_WITH_A_NAME = (
    (11, 9, "group_id"),
    (22, 5, "transactional_id"),
    (26, 5, "transactional_id"),
    (10, 3, "key"),
    (42, 2, "groups_names"),
)


@pytest.mark.parametrize(("api_key", "version", "field"), _WITH_A_NAME)
async def test_a_string_that_older_versions_cannot_say_is_taken_from_nobody(
    api_key: int, version: int, field: str
) -> None:
    """As in Kafka. It was kept, and no list of groups could be written for older clients any more."""
    protocol = nested(11, 9, "JoinGroupRequestProtocol", name="range", metadata=b"")
    fields: dict[str, object] = {
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": timedelta(seconds=10),
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": (protocol,),
        "reason": None,
        "transaction_timeout": timedelta(seconds=10),
        "producer_id": -1,
        "producer_epoch": -1,
        "committed": True,
        "key_type": 0,
    }
    cls = request_class(api_key, version)
    known = {each.name for each in dataclasses.fields(cls)}
    fields = {name: value for name, value in fields.items() if name in known}

    def request(name: str) -> bytes:
        values = fields | {field: (name,) if field == "groups_names" else name}
        return encode_request(api_key, version, encode_body(cls(**values)))

    async with cluster() as running, asyncio.timeout(60):
        client = await RawClient.connect(running.server.port)
        client.send(request(_LONGEST))
        assert await client.frame()
        client.send(request(_LONGEST + "g"))
        assert await client.is_closed()
        await client.close()
        another = await RawClient.connect(running.server.port)
        assert (await another.ask(16, 0)).error_code == 0
        await another.close()
        assert running.context.metrics.connections_closed_malformed == 1
