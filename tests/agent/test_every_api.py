"""Every API at every version: each request gets a readable answer, and none triggers a bug."""

import ast
import asyncio
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lacuna.agent.api import Call
from lacuna.agent.apis import discover
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.wire.messages import groups, transactions
from lacuna.wire.messages.produce import PRODUCE_REQUEST
from tests.agent.harness import (
    TOPIC_ID,
    RawClient,
    ScriptedControl,
    encode_request,
    make_context,
    read_answer,
    serving,
    snapshot,
)
from tests.agent.plane import cluster
from tests.agent.requests import requests
from tests.messages import encode_body

# Produce and Fetch have tests of their own; JoinGroup and SyncGroup wait for other members.
ELSEWHERE = {0, 1}
WAITING = {11, 14}
VERSIONS = {
    api.key: range(api.min_version, api.max_version + 1)
    for api in discover().apis()
    if api.key not in ELSEWHERE
}
APIS = {key: versions for key, versions in VERSIONS.items() if key not in WAITING}


def away() -> ScriptedControl:
    """A control plane that was available before and is now unavailable."""
    control = ScriptedControl()
    control.cluster.apply(snapshot(Topic(topic_id=TOPIC_ID, name="t", partition_count=2)))
    control.otherwise = ControlPlaneUnavailable("away")
    return control


def test_handlers_name_the_messages_that_they_take_and_give() -> None:
    """With these annotations, mypy knows every field that handlers read."""
    for api in discover().apis():
        took, gave = api.request.body.make, api.response.body.make
        # A Produce with acks=0 is not answered.
        answer = gave | None if api.key == PRODUCE_REQUEST.api_key else gave
        # A guard may pass the client's permissions to a handler as its third argument.
        call, request, *_, answered = get_type_hints(api.handle).values()
        assert (call, request, answered) == (Call, took, answer), api.key
        if api.refusal is not None and (hints := get_type_hints(api.refusal)):
            assert [*hints.values()] == [Call, took, int, gave], api.key
        else:  # a lambda has no annotations
            nobody: Any = None
            any_call = Call(nobody, nobody, api.max_version)
            assert type(api.refuse(any_call, took(), 1)) is gave, api.key


def test_every_api_has_tests() -> None:
    """The docstring of a module in apis/ names each API."""
    modules = (Path(__file__).parent / "apis").glob("test_*.py")
    named = {word for path in modules for word in _docstring(path).split()}
    assert {api.name for api in discover().apis()} <= named


def _docstring(path: Path) -> str:
    return re.sub(r"\W", " ", ast.get_docstring(ast.parse(path.read_text())) or "")


async def ask(client: RawClient, api_key: int, version: int, asked: Any, number: int = 1) -> None:
    """Send a request, and require a valid answer."""
    body = encode_body(api_key, version, asked)
    client.send(encode_request(api_key, version, body, number))
    async with asyncio.timeout(60):
        frame = await client.frame()
    assert int.from_bytes(frame[:4], "big") == number
    read_answer(frame, api_key, version)


@pytest.mark.parametrize("api_key", APIS)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_request_is_answered(api_key: int, data: st.DataObject) -> None:
    """With a real control plane, several requests are sent over one connection at each version."""
    asked = [
        (version, data.draw(st.lists(requests(api_key, version), min_size=1, max_size=4)))
        for version in APIS[api_key]
    ]

    async def run() -> None:
        async with cluster(AgentSettings()) as running:
            for version, bodies in asked:
                async with RawClient.connected(running.server.port) as client:
                    for number, request in enumerate(bodies):
                        await ask(client, api_key, version, request, number)
            assert running.context.metrics.requests_failed == 0

    asyncio.run(run())


@pytest.mark.parametrize("api_key", APIS)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_without_a_control_plane_the_answer_is_an_error(api_key: int, data: st.DataObject) -> None:
    """The connection stays open, and clients are told to retry."""
    ask_undecided(api_key, away, data)


@pytest.mark.parametrize("api_key", WAITING)
@pytest.mark.parametrize("control", [away, ScriptedControl])
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_waits_for_members_is_answered_with_an_error(
    api_key: int, control: Callable[[], ScriptedControl], data: st.DataObject
) -> None:
    """The connection stays open, and clients are told to retry or to find the coordinator again."""
    ask_undecided(api_key, control, data)


def ask_undecided(
    api_key: int, control: Callable[[], ScriptedControl], data: st.DataObject
) -> None:
    """Send a request of each version while nothing is decided."""
    asked = [(version, data.draw(requests(api_key, version))) for version in VERSIONS[api_key]]

    async def run() -> None:
        context = make_context(control())
        async with serving(context) as server:
            for version, request in asked:
                async with RawClient.connected(server.port) as client:
                    await ask(client, api_key, version, request)
        assert context.metrics.requests_failed == 0

    asyncio.run(run())


@pytest.mark.parametrize("api_key", APIS)
async def test_garbage_bodies_close_that_connection_only(api_key: int) -> None:
    """A body that is cut short or full of ones gives an answer or closes the connection, but never triggers a bug."""
    context = make_context(away())
    async with serving(context) as server:
        for version, body in product(
            APIS[api_key], (b"", b"\xff" * 9, b"\x7f" * 40, b"\0\0\0\x7f")
        ):
            client = await RawClient.connect(server.port)
            client.send(encode_request(api_key, version, body))
            client.writer.write_eof()
            async with asyncio.timeout(60):
                await client.reader.read()
            await client.close()
    assert context.metrics.requests_failed == 0


_LONGEST = "g" * 32_767
_PROTOCOL = groups.JoinGroupRequestProtocol("range")
_WITH_A_NAME = (
    (11, 9, groups.JoinGroupRequest(_LONGEST, 10_000, 10_000, "", None, "consumer", [_PROTOCOL])),
    (22, 5, transactions.InitProducerIdRequest(_LONGEST, 10_000)),
    (26, 5, transactions.EndTxnRequest(_LONGEST, -1, -1, True)),
    (10, 3, groups.FindCoordinatorRequest(_LONGEST)),
    (42, 2, groups.DeleteGroupsRequest((_LONGEST,))),
)


@pytest.mark.parametrize(("api_key", "version", "asked"), _WITH_A_NAME)
async def test_a_string_that_older_versions_cannot_say_is_taken_from_nobody(
    api_key: int, version: int, asked: Any
) -> None:
    """As in Kafka. Such a string used to be stored, and lists of groups could then not be encoded for older clients."""
    body = encode_body(api_key, version, asked)
    said = b"\x80\x80\x02" + _LONGEST.encode()
    assert body.count(said) == 1
    longer = body.replace(said, b"\x81\x80\x02" + _LONGEST.encode() + b"g")

    async with cluster() as running, asyncio.timeout(60):
        client = await RawClient.connect(running.server.port)
        client.send(encode_request(api_key, version, body))
        assert await client.frame()
        client.send(encode_request(api_key, version, longer))
        assert await client.is_closed()
        await client.close()
        async with RawClient.connected(running.server.port) as another:
            assert (await another.ask(16, 0)).error_code == 0
        assert running.context.metrics.connections_closed_malformed == 1
